/* The importers of this interpreter: a list in the interpreter's own dict, whose places
 * are the slots.  The list ends with the interpreter and outlives every import.  The
 * GIL is held.  Tests: tests/core/test_homes.py. */
#include "ctable/homes.h"

#include "exchange/objects.h"
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

/* *name becomes the name of a function of shim/importers.py, a new reference, which the
 * next import makes anew; else NULL.  0, or -1 with an exception. */
static int
name_of_ours(PyObject *importer, PyObject **name)
{
    PyObject *module = PyObject_GetAttrString(importer, "__module__");
    bool is = module != NULL && PyUnicode_Check(module)
              && PyUnicode_CompareWithASCIIString(module, "dlshim.importers") == 0;
    Py_XDECREF(module);
    *name = is ? PyObject_GetAttrString(importer, "__name__") : NULL;
    return PyErr_Occurred() != NULL ? dls_error_forget() : 0;
}

/* What the list keeps of an importer, a new reference.  Nothing is kept alive that
 * somebody else keeps: of a function of ours the name, of the classmethod of a class a
 * weak reference to the class, of another importer a weak reference, unless only the
 * caller has it or it allows none. */
static PyObject *
entry_of(PyObject *importer)
{
    PyObject *cls, *name;
    if (name_of_ours(importer, &name) < 0 || name != NULL) {
        return name;
    }
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

/* An object has one weak reference without callback; names are compared. */
static bool
is_same(PyObject *there, PyObject *entry)
{
    return there == entry
           || (PyUnicode_Check(there) && PyUnicode_Check(entry)
               && PyUnicode_Compare(there, entry) == 0);
}

/* The place of the entry, or -1. */
static int
find_entry(PyObject *list, PyObject *entry)
{
    Py_ssize_t n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n && i < DLS_HOME_SLOTS; i++) {
        PyObject *there = dls_list_borrow(list, i);
        bool found = is_same(there, entry);
        dls_let_go(there);
        if (found) {
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
        slot = find_entry(list, entry);
    }
    if (slot == -1 && entry != NULL && PyList_Size(list) < DLS_HOME_SLOTS) {
        slot = PyList_Append(list, entry) == 0 ? find_entry(list, entry) : -2;
    }
    Py_XDECREF(entry);
    Py_XDECREF(list);
    return slot;
}

/* Return the list's entry for a slot, a new reference; NULL: there is none. */
static PyObject *
entry_in(int slot)
{
    PyObject *list = list_here();
    PyObject *entry = list != NULL && slot < PyList_Size(list)
                          ? dls_list_borrow(list, slot)
                          : NULL;
    Py_XINCREF(entry);
    dls_let_go(entry);
    Py_XDECREF(list);
    return entry;
}

/* The importer of an entry that is no name, a new reference; NULL: it has gone. */
static PyObject *
importer_of(PyObject *entry)
{
    PyObject *found = PyWeakref_Check(entry) ? dls_weakref_get(entry)
                                             : Py_NewRef(entry);
    if (found == NULL || !PyType_Check(found)) {
        return found;
    }
    PyObject *method = PyObject_GetAttrString(found, "from_dlpack");
    Py_DECREF(found);
    return method;
}

/* The entry's array of the Tensor; NULL, perhaps with an exception. */
static PyObject *
run(PyObject *entry, PyObject *tensor)
{
    if (PyUnicode_Check(entry)) {
        const char *name = PyUnicode_AsUTF8AndSize(entry, NULL);
        dls_state *state = dls_tensor_data(tensor)->state;
        return name != NULL
                   ? dls_in_python(state, DLS_IN_IMPORTERS, name, tensor, NULL, 0, NULL)
                   : NULL;
    }
    PyObject *importer = importer_of(entry);
    PyObject *made = importer != NULL
                         ? PyObject_CallFunctionObjArgs(importer, tensor, NULL)
                         : NULL;
    Py_XDECREF(importer);
    return made;
}

/* No exception can be passed on: whoever takes NULL for a failure would free the
 * memory, which is the Tensor's already (H2).  An interrupt comes again. */
PyObject *
dls_importer_run(int slot, PyObject *tensor)
{
    PyObject *entry = entry_in(slot);
    PyObject *made = entry != NULL ? run(entry, tensor) : NULL;
    Py_XDECREF(entry);
    if (made == NULL && PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterrupt();
        }
        PyErr_Clear();
    }
    return made;
}
