/* Makes, empties and frees the module's state; numbers threads; finds and calls the
 * functions of shim/.  Called by module/module.c, for the numbers by
 * exchange/objects, and for functions of shim/ by all above.  Tests:
 * tests/core/test_hostile_objects.py, tests/core/test_imports.py,
 * tests/core/test_numpy_habits.py, tests/core/test_by_value.py. */
#include "python/state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "python/errors.h"
#include "python/py.h"

DLS_ATOMIC(dls_state *) dls_state_known;

/* The key under which dls_thread_number keeps each thread's number. */
static DLS_ATOMIC(Py_tss_t *) thread_key;

static int
init_names(dls_state *state)
{
#define TEXT(member, text) text,
    static const char *const texts[] = {DLS_NAME_LIST(TEXT)};
#undef TEXT
    for (int i = 0; i < DLS_NAMES; i++) {
        state->all_names[i] = PyUnicode_InternFromString(texts[i]);
        if (state->all_names[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

/* kwnames[mask]: bit 0 stream, 1 max_version, 2 dl_device, 3 copy. */
static int
init_kwnames(dls_state *state)
{
    PyObject *words[4] = {state->names.stream, state->names.max_version,
                          state->names.dl_device, state->names.copy};
    for (int mask = 1; mask < DLS_KW_MASKS; mask++) {
        Py_ssize_t n = (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1);
        PyObject *tuple = PyTuple_New(n);
        if (tuple == NULL) {
            return -1;
        }
        state->kwnames[mask] = tuple;
        Py_ssize_t at = 0;
        for (int bit = 0; bit < 4; bit++) {
            if (mask >> bit & 1) {
                PyTuple_SetItem(tuple, at++, Py_NewRef(words[bit]));
            }
        }
    }
    return 0;
}

/* A class with one or two bases (second may be NULL), which the module shows. */
static PyObject *
new_error(PyObject *module, const char *name, const char *doc, PyObject *first,
          PyObject *second)
{
    /* No class is made while an exception is pending: foreign code may run. */
    const char *format = second != NULL ? "(OO)" : "(O)";
    PyObject *bases = PyErr_Occurred() == NULL ? Py_BuildValue(format, first, second)
                                               : NULL;
    if (bases == NULL) {
        return NULL;
    }
    PyObject *error = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    if (error != NULL && PyModule_AddType(module, (PyTypeObject *)error) < 0) {
        Py_CLEAR(error);
    }
    return error;
}

/* An exception that other code makes has these attributes too.  NULL is passed on. */
static PyObject *
with_no_reason(PyObject *error)
{
    PyObject *nothing = error != NULL ? PyUnicode_FromString("") : NULL;
    if (nothing == NULL || PyObject_SetAttrString(error, "reason", nothing) < 0
        || PyObject_SetAttrString(error, "_why", nothing) < 0) {
        Py_CLEAR(error);
    }
    Py_XDECREF(nothing);
    return error;
}

/* 0, or -1 with an exception. */
static int
init(dls_state *state, PyObject *module)
{
    state->gil_deleters = -1;
    state->interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (dls_key_make(&thread_key) < 0 || init_names(state) < 0
        || init_kwnames(state) < 0) {
        return -1;
    }
    state->asked_version = Py_BuildValue("(ii)", 1, 0);
    state->host_device = Py_BuildValue("(ii)", 1, 0);
    state->minus_one = PyLong_FromLong(-1);
    state->zero = PyLong_FromLong(0);
    state->one = PyLong_FromLong(1);
    state->type_names = PyDict_New();
    state->copy_required_error = with_no_reason(new_error(
        module, "dlshim.CopyRequiredError",
        "copy=False was asked for, and the data cannot be given without a copy.",
        PyExc_BufferError, PyExc_ValueError));
    state->readonly_warning = new_error(module, "dlshim.ReadOnlyWarning",
                                        "Read-only memory goes to a consumer that does "
                                        "not heed the flag and may write.",
                                        PyExc_UserWarning, NULL);
    state->modules = Py_XNewRef(PySys_GetObject("modules"));
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    if (state->modules == NULL || !PyDict_Check(state->modules)) {
        PyErr_Format(PyExc_ImportError, "sys.modules is not a dict");
        return -1;
    }
    dls_make_immortal(state->asked_version);
    dls_make_immortal(state->host_device);
    return 0;
}

dls_state *
dls_state_new(PyObject *module)
{
    dls_state *state = dls_alloc(sizeof *state);
    if (state == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(state, 0, sizeof *state);
    *(dls_state **)PyModule_GetState(module) = state;
    return init(state, module) == 0 ? state : NULL;
}

/* The objects of the identity.  The collector need not clear them: their cycles are
 * broken elsewhere: types let go of the module, and sys.modules lets go of its
 * modules. */
#define IDENTITY(X)             \
    X(producer_type)            \
    X(method_type)              \
    X(kernel_type)              \
    X(tensor_type)              \
    X(device_type)              \
    X(copy_required_error)      \
    X(unsupported_object_error) \
    X(readonly_warning)         \
    X(asked_version)            \
    X(host_device)              \
    X(device_asker)             \
    X(minus_one)                \
    X(zero)                     \
    X(one)                      \
    X(modules)                  \
    X(type_names)

/* Those of shim/habits.py.  The collector does not see them: it would clear the
 * function, which objects that outlive the module still call.  They lead to no import
 * of dlshim. */
#define HABITS(X) \
    X(habits_of)  \
    X(who)        \
    X(periods)    \
    X(sycl_copies)

int
dls_state_visit(dls_state *state, visitproc visit, void *arg)
{
#define VISIT(member) Py_VISIT(state->member);
    IDENTITY(VISIT)
#undef VISIT
    for (dls_home *home = state->homes; home != NULL; home = home->next) {
        Py_VISIT(home->producer_type);
    }
    Py_VISIT(state->module);
    for (int i = 0; i < DLS_PYTHON_MODULES; i++) {
        Py_VISIT(state->in_python[i]);
    }
    Py_VISIT(state->dtypes);
    return dls_memo_visit(&state->memo, visit, arg);
}

/* Keep `made` (stolen; NULL with an exception: it could not be made) in a member that
 * was empty.  Another thread may have been quicker: without the GIL, an object that is
 * there already stays.  Returns the member's object, as dls_state_borrow does, or NULL
 * with the exception. */
static PyObject *
keep_member(PyObject **member, PyObject *made)
{
    if (made == NULL) {
        return NULL;
    }
#ifdef DLS_FREE_THREADED
    PyObject *other = made;
    DLS_LOCK_STATE();
    if (*member == NULL) {
        *member = made;
        other = NULL;
    }
    PyObject *there = Py_XNewRef(*member);
    DLS_UNLOCK();
    Py_XDECREF(other);
    return there;
#else
    PyObject *before = *member; /* making it may have come here */
    *member = made;
    Py_XDECREF(before);
    return made;
#endif
}

/* Clear such a member. */
static void
let_go_member(PyObject **member)
{
    DLS_LOCK_STATE();
    PyObject *there = *member;
    *member = NULL;
    DLS_UNLOCK();
    Py_XDECREF(there);
}

void
dls_state_empty(dls_state *state)
{
    if (dls_state_known
        == state) { /* another may take its place now: then it is slower */
        dls_state_known = NULL;
    }
    let_go_member(&state->module);
    for (int i = 0; i < DLS_PYTHON_MODULES; i++) {
        let_go_member(&state->in_python[i]);
    }
    let_go_member(&state->dtypes);
    dls_memo_clear(&state->memo);
}

static bool
is_shared(PyTypeObject *type)
{
    return type != NULL && !dls_is_unshared((PyObject *)type);
}

bool
dls_state_is_used(const dls_state *state)
{
    bool used = is_shared(state->tensor_type);
    for (dls_home *home = state->homes; home != NULL; home = home->next) {
        used |= is_shared(home->producer_type);
    }
    return used || (state->homes == NULL && is_shared(state->producer_type));
}

bool
dls_state_let_go_of_homes(dls_state *state)
{
    for (dls_home *home = state->homes; home != NULL; home = home->next) {
        Py_CLEAR(home->producer_type);
    }
    return is_shared(state->producer_type);
}

dls_home *
dls_home_of_class(const dls_state *state, const PyTypeObject *type)
{
    dls_home *home = state->homes;
    while (home != NULL && home->producer_type != type) {
        home = home->next;
    }
    return home;
}

void
dls_state_free(dls_state *state)
{
    dls_state_empty(state);
    for (dls_home *home = state->homes, *next; home != NULL; home = next) {
        next = home->next;
        Py_XDECREF(home->producer_type);
        dls_free(home);
    }
    state->homes = NULL;
#define CLEAR(member) Py_CLEAR(state->member);
    IDENTITY(CLEAR)
    HABITS(CLEAR)
#undef CLEAR
    for (int mask = 0; mask < DLS_KW_MASKS; mask++) {
        Py_CLEAR(state->kwnames[mask]);
    }
    for (int i = 0; i < DLS_NAMES; i++) {
        Py_CLEAR(state->all_names[i]);
    }
    dls_free(state);
}

/* --- the module in an interpreter ------------------------------------------------- */

/* The interpreter's dict has a weak reference to the module under this key. */
#define MODULE_KEY "dlshim._core"

int
dls_module_register(dls_state *state, PyObject *module, bool alone)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (dict == NULL) {
        PyErr_Format(PyExc_ImportError, "the interpreter has no dict");
        return -1;
    }
    PyObject *reference = PyWeakref_NewRef(module, NULL);
    int code = reference != NULL ? PyDict_SetItemString(dict, MODULE_KEY, reference)
                                 : -1;
    Py_XDECREF(reference);
    dls_state_known = alone && code == 0 ? state : NULL;
    return code;
}

PyObject *
dls_module_here(void)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *reference = dict != NULL ? dls_dict_borrow_text(dict, MODULE_KEY) : NULL;
    PyObject *module = reference != NULL ? dls_weakref_get(reference) : NULL;
    dls_let_go(reference);
    if (module == NULL) {
        return PyErr_Format(PyExc_RuntimeError,
                            "dlshim is not imported in this interpreter");
    }
    return module;
}

/* --- threads -------------------------------------------------------------- */

int
dls_key_make(DLS_ATOMIC(Py_tss_t *) * key)
{
    Py_tss_t *made = *key == NULL ? PyThread_tss_alloc() : NULL;
    if (made != NULL && PyThread_tss_create(made) == 0) {
        DLS_IMPORT_BEGIN();
        if (*key == NULL) { /* else another thread was quicker */
            *key = made;
            made = NULL;
        }
        DLS_IMPORT_END();
    }
    PyThread_tss_free(made); /* NULL allowed */
    if (*key == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* The last number that was given, in all interpreters. */
static _Atomic uintptr_t threads;

uintptr_t
dls_thread_number(void)
{
    assert(thread_key != NULL);
    uintptr_t number = (uintptr_t)PyThread_tss_get(thread_key);
    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
        if (PyThread_tss_set(thread_key, (void *)number) != 0) {
            return 0;
        }
    }
    return number;
}

/* --- functions of shim/ --------------------------------------------------- */

/* More than any of the functions takes. */
#define ARGUMENTS 8

static const char *const modules[] = {
#define NAME(_, name) "dlshim." name,
    DLS_FOR_EACH_PYTHON_MODULE(NAME)
#undef NAME
};

/* A new reference to the module, which is whole; NULL with an exception.  It is
 * imported where `import dlshim` has not done so: for refusals and other rare work. */
static PyObject *
import_whole(const char *name)
{
    PyObject *locks = PyImport_ImportModule("dlshim.locks");
    PyObject *made = locks != NULL
                         ? PyObject_CallMethod(locks, "import_module", "s", name)
                         : NULL;
    Py_XDECREF(locks);
    return made;
}

/* As dls_state_borrow; NULL with an exception. */
static PyObject *
borrow_module(dls_state *state, dls_python_module module)
{
    PyObject *object = dls_state_borrow(&state->in_python[module]);
    if (object == NULL) {
        PyObject *made = import_whole(modules[module]);
        object = keep_member(&state->in_python[module], made);
    }
    return object;
}

void
dls_in_python_give(dls_state *state, dls_python_module module, PyObject *object)
{
    PyObject *kept = dls_state_borrow(&state->in_python[module]);
    if (kept == NULL) {
        kept = keep_member(&state->in_python[module], Py_NewRef(object));
    }
    dls_let_go(kept);
}

/* A new reference to the module's attribute of that name; NULL with an exception. */
static PyObject *
find_function(dls_state *state, dls_python_module module, const char *name)
{
    PyObject *object = borrow_module(state, module);
    PyObject *dict = object != NULL ? PyModule_GetDict(object) : NULL;
    PyObject *key = dict != NULL ? PyUnicode_FromString(name) : NULL;
    PyObject *there = key != NULL ? dls_dict_borrow(dict, key) : NULL;
    PyObject *found = Py_XNewRef(there);
    if (found == NULL && PyErr_Occurred() == NULL) {
        PyErr_Format(PyExc_RuntimeError, "%s has no %s", modules[module], name);
    }
    dls_let_go(there);
    Py_XDECREF(key);
    dls_let_go(object);
    return found;
}

PyObject *
dls_in_python(dls_state *state, dls_python_module module, const char *name,
              PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *all[ARGUMENTS] = {self};
    Py_ssize_t count = n + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    if (count >= ARGUMENTS) {
        return PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        all[1 + i] = args[i];
    }
    PyObject *function = find_function(state, module, name);
    PyObject *result = NULL;
    if (function != NULL) {
        result = dls_compat.PyObject_Vectorcall(function, all, (size_t)n + 1, kwnames);
        Py_DECREF(function);
    }
    return result;
}

PyObject *
dls_in_python_with(dls_state *state, dls_python_module module, const char *name,
                   const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *function = args != NULL ? find_function(state, module, name) : NULL;
    PyObject *result = function != NULL ? PyObject_Call(function, args, NULL) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(args);
    return result;
}

/* The keyword arguments; NULL with an exception. */
static PyObject *
keywords_of(const dls_member *record, size_t n)
{
    PyObject *keywords = PyErr_Occurred() == NULL ? PyDict_New() : NULL;
    for (size_t i = 0; i < n; i++) {
        if (keywords != NULL
            && PyDict_SetItemString(keywords, record[i].name, record[i].value) < 0) {
            Py_CLEAR(keywords);
        }
        Py_XDECREF(record[i].value);
    }
    return keywords;
}

PyObject *
dls_in_python_record(dls_state *state, dls_python_module module, const char *name,
                     const dls_member *record, size_t n)
{
    PyObject *keywords = keywords_of(record, n);
    PyObject *none = keywords != NULL ? PyTuple_New(0) : NULL;
    PyObject *function = none != NULL ? find_function(state, module, name) : NULL;
    PyObject *result = function != NULL ? PyObject_Call(function, none, keywords)
                                        : NULL;
    Py_XDECREF(function);
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    return result;
}

PyObject *
dls_dtype_object(dls_state *state, dl_dtype dtype)
{
    long long number = dtype.code | (long long)dtype.bits << 8
                       | (long long)dtype.lanes << 16;
    PyObject *dtypes = dls_state_borrow(&state->dtypes);
    if (dtypes == NULL) {
        dtypes = keep_member(&state->dtypes,
                             find_function(state, DLS_IN_DTYPES, "dtypes"));
    }
    PyObject *key = dtypes != NULL ? PyLong_FromLongLong(number) : NULL;
    PyObject *found = key != NULL ? PyObject_GetItem(dtypes, key) : NULL;
    Py_XDECREF(key);
    dls_let_go(dtypes);
    return found;
}
