// A module that is above and below dlshim's frames: it looks at the stack from where dlshim calls
// it, and throws through dlshim.  Built and run by tests/project/test_unwinding.py.
#include <Python.h>

#include <dlfcn.h>
#include <dlshim.h>
#include <stdexcept>
#include <unwind.h>
#include <utility>
#include <vector>

static std::vector<std::pair<const char *, uintptr_t>> stack;

// Names are looked up later: a return address may be that of the next function.
static _Unwind_Reason_Code
note(_Unwind_Context *context, void *)
{
    uintptr_t address = _Unwind_GetIP(context) - 1;
    Dl_info info{};
    dladdr(reinterpret_cast<void *>(address), &info);
    stack.emplace_back(info.dli_fname != nullptr ? info.dli_fname : "",
                       address - reinterpret_cast<uintptr_t>(info.dli_fbase));
    return _URC_NO_REASON;
}

static void
look(void *)
{
    stack.clear();
    _Unwind_Backtrace(note, nullptr);
}

static void
throw_it(void *)
{
    throw std::runtime_error("the owner is angry");
}

static PyObject *
array(void (*deleter)(void *))
{
    static float memory[4];
    static int64_t shape[1] = {4};
    dlshim_array array{};
    array.data = memory;
    array.device_type = 1;
    array.ndim = 1;
    array.dtype = {2, 32, 1};
    array.shape = shape;
    return dlshim_export_array(&array, 0, nullptr, deleter, nullptr);
}

static PyObject *
looks(PyObject *, PyObject *)
{
    return array(look);
}

static PyObject *
throws(PyObject *, PyObject *)
{
    return array(throw_it);
}

static PyObject *
look_here(PyObject *, PyObject *)
{
    look(nullptr);
    Py_RETURN_NONE;
}

// Calls a function, and returns what was thrown meanwhile.
static PyObject *
call(PyObject *, PyObject *function)
{
    try {
        PyObject *result = PyObject_CallNoArgs(function);
        if (result == nullptr) {
            return nullptr;
        }
        Py_DECREF(result);
    }
    catch (const std::exception &error) {
        PyErr_Clear();
        return PyUnicode_FromString(error.what());
    }
    Py_RETURN_NONE;
}

// The stack as it was seen last, innermost first: files, and where in them.
static PyObject *
seen(PyObject *, PyObject *)
{
    PyObject *list = PyList_New(0);
    for (auto &[file, offset] : stack) {
        PyObject *row = Py_BuildValue("(sK)", file, (unsigned long long)offset);
        if (row == nullptr || PyList_Append(list, row) < 0) {
            Py_XDECREF(row);
            Py_CLEAR(list);
            break;
        }
        Py_DECREF(row);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"looks", looks, METH_NOARGS, nullptr},         {"throws", throws, METH_NOARGS, nullptr},
    {"look_here", look_here, METH_NOARGS, nullptr}, {"call", call, METH_O, nullptr},
    {"seen", seen, METH_NOARGS, nullptr},           {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "unwinding", nullptr, -1, methods,
                             nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC
PyInit_unwinding()
{
    return PyModule_Create(&module);
}
