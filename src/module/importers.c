/* The importers of this interpreter: a list in the interpreter's own dict, whose places
 * are the slots.  The list ends with the interpreter and outlives every import.  The
 * GIL is held.  Tests: tests/core/test_homes.py. */
#include "module/homes.h"

#include "python/errors.h"
#include "python/py.h"

/* The interpreter's dict has the list under this key. */
#define KEY "dlshim.importers"

int
dls_homes_init(void)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (dict == NULL) {
        PyErr_Format(PyExc_ImportError, "the interpreter has no dict");
        return -1;
    }
    if (PyDict_GetItemString(dict, KEY) != NULL) {
        return 0; /* an earlier import has made it */
    }
    PyObject *list = PyErr_Occurred() == NULL ? PyList_New(0) : NULL;
    int code = list != NULL ? PyDict_SetItemString(dict, KEY, list) : -1;
    Py_XDECREF(list);
    return code;
}

/* A new reference; NULL, nothing set. */
static PyObject *
list_here(void)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *list = dict != NULL ? dls_dict_borrow_text(dict, KEY) : NULL;
    Py_XINCREF(list);
    dls_let_go(list);
    return list;
}

/* Is it the bound classmethod from_dlpack of a class?  *cls becomes the class, a new
 * reference, or NULL.  0, or -1 with an exception. */
static int
class_of(PyObject *importer, PyObject **cls)
{
    PyObject *self = PyObject_GetAttrString(importer, "__self__");
    PyObject *name = self != NULL && PyType_Check(self)
                         ? PyObject_GetAttrString(importer, "__name__")
                         : NULL;
    bool is = name != NULL && PyUnicode_Check(name)
              && PyUnicode_CompareWithASCIIString(name, "from_dlpack") == 0;
    Py_XDECREF(name);
    *cls = is ? Py_NewRef(self) : NULL;
    Py_XDECREF(self);
    return PyErr_Occurred() != NULL ? dls_error_forget() : 0;
}

/* What the list keeps of an importer, a new reference.  Nothing is kept alive that
 * somebody else keeps: of the classmethod of a class, a weak reference to the class; of
 * another importer a weak reference, unless only the caller has it or it allows none.
 */
static PyObject *
entry_of(PyObject *importer)
{
    PyObject *cls;
    if (class_of(importer, &cls) < 0) {
        return NULL;
    }
    if (cls == NULL && dls_is_unshared(importer)) {
        return Py_NewRef(importer);
    }
    PyObject *entry = PyWeakref_NewRef(cls != NULL ? cls : importer, NULL);
    Py_XDECREF(cls);
    return entry == NULL && dls_error_forget() == 0 ? Py_NewRef(importer) : entry;
}

/* The place of the entry, or -1.  An object has one weak reference without callback. */
static int
find(PyObject *list, PyObject *entry)
{
    Py_ssize_t n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n && i < DLS_HOME_SLOTS; i++) {
        PyObject *there = dls_list_borrow(list, i);
        dls_let_go(there);
        if (there == entry) { /* only compared with */
            return (int)i;
        }
    }
    return -1;
}

int
dls_importer_slot(PyObject *importer)
{
    PyObject *list = list_here();
    PyObject *entry = list != NULL ? entry_of(importer) : NULL;
    int slot = entry != NULL || list == NULL ? -1 : -2;
    if (entry != NULL) {
        slot = find(list, entry);
    }
    if (slot == -1 && entry != NULL && PyList_Size(list) < DLS_HOME_SLOTS) {
        slot = PyList_Append(list, entry) == 0 ? find(list, entry) : -2;
    }
    Py_XDECREF(entry);
    Py_XDECREF(list);
    return slot;
}

/* The importer in a slot of this interpreter, a new reference; NULL: it has gone, or
 * there is none. */
static PyObject *
importer_in(int slot)
{
    PyObject *list = list_here();
    PyObject *entry = list != NULL && slot < PyList_Size(list)
                          ? dls_list_borrow(list, slot)
                          : NULL;
    PyObject *found = NULL;
    if (entry != NULL) {
        found = PyWeakref_Check(entry) ? dls_weakref_get(entry) : Py_NewRef(entry);
    }
    dls_let_go(entry);
    Py_XDECREF(list);
    if (found == NULL || !PyType_Check(found)) {
        return found;
    }
    PyObject *method = PyObject_GetAttrString(found, "from_dlpack");
    Py_DECREF(found);
    return method;
}

/* No exception can be passed on: whoever takes NULL for a failure would free the
 * memory, which is the Tensor's already (H2).  An interrupt comes again. */
PyObject *
dls_importer_run(int slot, PyObject *tensor)
{
    PyObject *importer = importer_in(slot);
    PyObject *made = importer != NULL
                         ? PyObject_CallFunctionObjArgs(importer, tensor, NULL)
                         : NULL;
    Py_XDECREF(importer);
    if (made == NULL && PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterrupt();
        }
        PyErr_Clear();
    }
    return made;
}
