/* Matches classes with the rows of libraries.def, and calls the functions that they
 * name in shim/library_calls.py: for capsules, current streams and devices; finds the
 * cures for objects that cannot be exported, by shim/cures.py.  Foreign code runs.
 * Tests: tests/core/test_ways_in.py, tests/core/test_imports.py,
 * tests/device/test_matrix.py, tests/core/test_cures.py. */
#include "types/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hold.h"
#include "python/errors.h"
#include "python/state.h"

#define LIBRARY(name, module, type, traits) {traits, name, module, type},
static const dls_library libraries[] = {
#include "types/libraries.def"
};
#undef LIBRARY
#define ROWS (sizeof libraries / sizeof *libraries)

#define HOLDS_ARRAY(module, type) {0, module, module, type},
static const dls_library holders[] = {
#include "types/libraries.def"
};
#undef HOLDS_ARRAY
#define HOLDERS (sizeof holders / sizeof *holders)

/* An attribute that is a str, as UTF-8.  NULL when there is none, and with an exception
 * that is fatal.  *owner keeps the text alive. */
static const char *
text_attribute(PyObject *obj, const char *attribute, PyObject **owner)
{
    const char *text = NULL;
    *owner = PyObject_GetAttrString(obj, attribute);
    if (*owner != NULL && PyUnicode_Check(*owner)) {
        text = PyUnicode_AsUTF8AndSize(*owner, NULL);
    }
    if (text == NULL && PyErr_Occurred() != NULL) {
        dls_error_forget();
    }
    return text;
}

/* The first of n rows that fits a class; NULL: none does. */
static const dls_library *
match_class(PyObject *class, const dls_library *rows, size_t n)
{
    PyObject *module_owner = NULL, *type_owner = NULL;
    const dls_library *found = NULL;
    const char *module = text_attribute(class, "__module__", &module_owner);
    const char *type = module != NULL
                           ? text_attribute(class, "__qualname__", &type_owner)
                           : NULL;
    for (size_t i = 0; module != NULL && type != NULL && i < n; i++) {
        size_t length = strlen(rows[i].module);
        if (strcmp(type, rows[i].type) == 0
            && strncmp(module, rows[i].module, length) == 0
            && (module[length] == '\0' || module[length] == '.')) {
            found = &rows[i];
            break;
        }
    }
    Py_XDECREF(module_owner);
    Py_XDECREF(type_owner);
    return found;
}

/* The same for the first class of an MRO that fits. */
static const dls_library *
match_mro(PyObject *mro, const dls_library *rows, size_t n, Py_ssize_t *at)
{
    Py_ssize_t classes = PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < classes && PyErr_Occurred() == NULL; i++) {
        const dls_library *row = match_class(PyTuple_GetItem(mro, i), rows, n);
        if (row != NULL) {
            *at = i;
            return row;
        }
    }
    return NULL;
}

const dls_library *
dls_library_match(PyObject *mro, Py_ssize_t *at)
{
    return match_mro(mro, libraries, ROWS, at);
}

bool
dls_library_holds_array(PyObject *mro)
{
    Py_ssize_t at;
    return match_mro(mro, holders, HOLDERS, &at) != NULL;
}

/* Does an imported module have this object under the name? */
static bool
has_object(dls_state *state, const char *module_name, const char *name, PyObject *obj)
{
    PyObject *module = dls_dict_borrow_text(state->modules, module_name);
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    dls_let_go(module);
    Py_XDECREF(found);
    if (found == NULL && PyErr_Occurred() != NULL) {
        dls_error_forget();
    }
    return found == obj;
}

bool
dls_library_has_chunks(dls_state *state, PyObject *class)
{
    bool found = false;
#define IN_MEMORY(module, type) \
    found = found               \
            || (PyErr_Occurred() == NULL && has_object(state, module, type, class));
#include "types/libraries.def"
#undef IN_MEMORY
    return found;
}

/* --- functions of shim/library_calls.py ------------------------------------------- */

typedef enum {
    CALL_CAPSULE,
    CALL_CURRENT_STREAM,
    CALL_DEVICE_GUARD,
    CALL_PLAIN_CALLS,
    CALL_READ_ONLY_TABLE,
    CALL_DEVICE_WAIT
} call_kind;

typedef struct {
    call_kind kind;
    const char *name;
    int32_t device_type;  /* 0: any */
    const char *function; /* NULL: the default stream */
} call;

static const call calls[] = {
#define CAPSULE(name, function) {CALL_CAPSULE, name, 0, function},
#define CURRENT_STREAM(name, device_type, function) \
    {CALL_CURRENT_STREAM, name, device_type, function},
#define DEFAULT_STREAM(name) {CALL_CURRENT_STREAM, name, dl_kDLCUDA, NULL},
#define DEVICE_GUARD(name, function) {CALL_DEVICE_GUARD, name, 0, function},
#define PLAIN_CALLS(name, function) {CALL_PLAIN_CALLS, name, 0, function},
#define READ_ONLY_TABLE(name, function) {CALL_READ_ONLY_TABLE, name, 0, function},
#define DEVICE_WAIT(name, device_type, function) \
    {CALL_DEVICE_WAIT, name, device_type, function},
#include "types/libraries.def"
#undef CAPSULE
#undef CURRENT_STREAM
#undef DEFAULT_STREAM
#undef DEVICE_GUARD
#undef PLAIN_CALLS
#undef READ_ONLY_TABLE
#undef DEVICE_WAIT
};

/* Is this the row's name ("" where there is no row)?  Most differ in the first letter.
 */
static bool
is_called(const dls_library *row, const char *name)
{
    const char *own = row != NULL ? row->name : "";
    return own[0] == name[0] && strcmp(own, name) == 0;
}

/* The call of a row (NULL: none); NULL: there is none. */
static const call *
find_call(const dls_library *row, call_kind kind, int32_t device_type)
{
    for (size_t i = 0; row != NULL && i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].kind == kind && calls[i].device_type == device_type
            && is_called(row, calls[i].name)) {
            return &calls[i];
        }
    }
    return NULL;
}

/* HIP builds go by CUDA's names. */
static const call *
find_stream(const dls_library *row, int32_t device_type)
{
    return find_call(row, CALL_CURRENT_STREAM,
                     device_type == dl_kDLOneAPI ? dl_kDLOneAPI : dl_kDLCUDA);
}

/* Call the function with the array, and the number of a device (NULL: none).  1 =
 * *result (new reference), 0 = the library is not imported or lacks it, -1 = exception
 * set. */
static int
ask(dls_state *state, const call *asked, PyObject *array, const int32_t *device_id,
    PyObject **result)
{
    PyObject *number = device_id != NULL ? PyLong_FromLong(*device_id) : NULL;
    if (device_id != NULL && number == NULL) {
        return -1;
    }
    *result = dls_in_python(state, DLS_IN_LIBRARY_CALLS, asked->function, array,
                            &number, number != NULL, NULL);
    Py_XDECREF(number);
    if (*result != NULL) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* --- capsules --------------------------------------------------------------------- */

static const struct {
    const char *name; /* "": of unknown libraries */
    int method;       /* in all_names of dls_state */
} methods[] = {
#define CAPSULE_METHOD(name, method) {name, DLS_NAME_INDEX_##method},
#include "types/libraries.def"
#undef CAPSULE_METHOD
};

/* Has the type this attribute?  One that only the object has may be anything: a Mock
 * has every one, a DataFrame its columns.  1, 0 or -1. */
static int
type_has(PyObject *obj, PyObject *name)
{
    PyObject *value = NULL;
    int got = dls_get_optional((PyObject *)Py_TYPE(obj), name, &value);
    Py_XDECREF(value);
    return got;
}

/* The first of the row's methods that the object has.  1 = *method (new reference), 0,
 * or -1 with an exception. */
static int
find_method(dls_state *state, const dls_library *row, PyObject *obj, PyObject **method)
{
    int got = 0;
    for (size_t i = 0; got == 0 && i < sizeof methods / sizeof *methods; i++) {
        PyObject *name = state->all_names[methods[i].method];
        if (is_called(row, methods[i].name)) {
            got = row == NULL ? type_has(obj, name) : 1;
            got = got > 0 ? dls_get_optional(obj, name, method) : got;
            got = got < 0 ? dls_error_forget_warning() : got;
        }
    }
    return got;
}

int
dls_library_has_method(dls_state *state, PyObject *obj)
{
    int got = 0;
    for (size_t i = 0; got == 0 && i < sizeof methods / sizeof *methods; i++) {
        PyObject *method = NULL;
        if (is_called(NULL, methods[i].name)) {
            got = dls_get_optional(obj, state->all_names[methods[i].method], &method);
            Py_XDECREF(method);
        }
    }
    return got;
}

/* The function that makes a capsule when it is called without arguments.  Result as of
 * find_method. */
static int
find_capsule_function(dls_state *state, const dls_library *row, PyObject *obj,
                      PyObject **function)
{
    int got = find_method(state, row, obj, function);
    const call *asked = got == 0 ? find_call(row, CALL_CAPSULE, 0) : NULL;
    return asked != NULL ? ask(state, asked, obj, NULL, function) : got;
}

/* Call the function that was found (stolen): 1 = *result, -1 = exception set. */
static int
call_found(PyObject *function, PyObject **result)
{
    *result = PyObject_CallFunctionObjArgs(function, NULL);
    Py_DECREF(function);
    return *result != NULL ? 1 : -1;
}

int
dls_library_has_capsule(dls_state *state, const dls_library *row, PyObject *obj)
{
    PyObject *function = NULL;
    int got = find_capsule_function(state, row, obj, &function);
    Py_XDECREF(function);
    return got;
}

int
dls_library_capsule(dls_state *state, const dls_library *row, PyObject *obj,
                    PyObject **result)
{
    PyObject *function = NULL;
    int got = find_capsule_function(state, row, obj, &function);
    return got > 0 ? call_found(function, result) : got;
}

/* --- streams and devices ---------------------------------------------------------- */

bool
dls_library_has_stream(const dls_library *row, int32_t device_type)
{
    return find_stream(row, device_type) != NULL;
}

int
dls_library_stream(dls_state *state, const dls_library *row, PyObject *obj,
                   dl_device device, PyObject **result)
{
    const call *asked = find_stream(row, device.device_type);
    if (asked == NULL) {
        return 0;
    }
    if (asked->function == NULL) {
        *result = PyLong_FromLong(0); /* the default stream */
        return *result != NULL ? 1 : -1;
    }
    return ask(state, asked, obj, &device.device_id, result);
}

/* Enter a guard (stolen), and return it; NULL = exception set. */
static PyObject *
enter(dls_state *state, PyObject *guard)
{
    PyObject *args[2] = {NULL, guard};
    PyObject *result = dls_compat.PyObject_VectorcallMethod(
        state->names.enter, &args[1], 1 | DLS_VECTORCALL_OFFSET, NULL);
    if (result == NULL) {
        Py_CLEAR(guard);
    }
    Py_XDECREF(result);
    return guard;
}

int
dls_library_enter_device(dls_state *state, const dls_library *row, PyObject *obj,
                         int32_t device_id, PyObject **guard)
{
    const call *asked = find_call(row, CALL_DEVICE_GUARD, 0);
    *guard = NULL;
    int got = asked != NULL ? ask(state, asked, obj, &device_id, guard) : 0;
    if (got > 0 && *guard == Py_None) { /* it is current */
        Py_CLEAR(*guard);
        return 0;
    }
    if (got > 0) {
        *guard = enter(state, *guard);
    }
    return got > 0 && *guard == NULL ? -1 : got;
}

int
dls_library_plain_calls(dls_state *state, const dls_library *row, PyObject **result)
{
    const call *asked = find_call(row, CALL_PLAIN_CALLS, 0);
    return asked != NULL ? ask(state, asked, Py_None, NULL, result) : 0;
}

int
dls_library_read_only_table(dls_state *state, const dls_library *row, PyObject **result)
{
    const call *asked = find_call(row, CALL_READ_ONLY_TABLE, 0);
    return asked != NULL ? ask(state, asked, Py_None, NULL, result) : 0;
}

PyObject *
dls_library_enter(dls_state *state, PyObject *make)
{
    PyObject *guard = PyObject_CallFunctionObjArgs(make, NULL);
    return guard != NULL ? enter(state, guard) : NULL;
}

void
dls_library_leave(dls_state *state, PyObject *guard)
{
    PyObject *error = dls_error_take();
    PyObject *args[5] = {NULL, guard, Py_None, Py_None, Py_None};
    Py_XDECREF(dls_compat.PyObject_VectorcallMethod(state->names.exit, &args[1],
                                                    4 | DLS_VECTORCALL_OFFSET, NULL));
    PyErr_Clear();
    Py_DECREF(guard);
    if (error != NULL) {
        dls_error_restore(error);
    }
}

/* The name of the module of the code that asks, to be given to dls_let_go; NULL: no
 * Python code runs, or its name is no str. */
static PyObject *
asking_module(void)
{
    PyObject *globals = PyEval_GetGlobals(); /* borrowed; NULL: no Python code runs */
    PyObject *name = globals != NULL ? dls_dict_borrow_text(globals, "__name__") : NULL;
    if (name == NULL || PyUnicode_Check(name)) {
        return name;
    }
    dls_let_go(name);
    return NULL;
}

/* Find the module, among these (NULL ends them), whose code asks.  NULL: none of
 * them. */
static const char *
asked_by(const char *const *modules)
{
    PyObject *name = asking_module();
    while (*modules != NULL
           && (name == NULL || PyUnicode_CompareWithASCIIString(name, *modules) != 0)) {
        modules++;
    }
    dls_let_go(name);
    return *modules;
}

bool
dls_library_can_wait(const dls_library *row, int32_t device_type)
{
    return find_call(row, CALL_DEVICE_WAIT, device_type) != NULL;
}

int
dls_library_wait(dls_state *state, const dls_library *row, PyObject *obj,
                 dl_device device)
{
    PyObject *function = NULL, *result = NULL;
    const call *asked = find_call(row, CALL_DEVICE_WAIT, device.device_type);
    int got = asked != NULL ? ask(state, asked, obj, NULL, &function) : 0;
    got = got > 0 ? call_found(function, &result) : got;
    Py_XDECREF(result);
    return got;
}

bool
dls_library_never_writes(void)
{
    static const char *const modules[] = {
#define NEVER_WRITES(module) module,
#include "types/libraries.def"
#undef NEVER_WRITES
        NULL};
    return asked_by(modules) != NULL;
}

const char *
dls_library_heeds_not(void)
{
    static const char *const modules[] = {
#define HEEDS_NOT(module) module,
#include "types/libraries.def"
#undef HEEDS_NOT
        NULL};
    return asked_by(modules);
}

/* Is a module within a package? */
static bool
is_within(PyObject *module, const char *package)
{
    const char *name = PyUnicode_AsUTF8AndSize(module, NULL);
    size_t length = strlen(package);
    if (name == NULL) {
        PyErr_Clear();
    }
    return name != NULL && strncmp(name, package, length) == 0 && name[length] == '.';
}

const dls_layout_row *
dls_library_layout(bool keywords)
{
    static const dls_layout_row layouts[] = {
#define LAYOUT(package, keywords, layout) {package, keywords, DLS_LAYOUT_##layout},
#include "types/libraries.def"
#undef LAYOUT
    };
    PyObject *module = asking_module();
    const dls_layout_row *row = NULL;
    for (size_t i = 0; module != NULL && i < sizeof layouts / sizeof *layouts; i++) {
        if ((layouts[i].keywords || !keywords)
            && is_within(module, layouts[i].package)) {
            row = &layouts[i];
        }
    }
    dls_let_go(module);
    return row;
}

const char *
dls_library_loses_scalars(void)
{
    static const char *const packages[] = {
#define LOSES_SCALARS(package) package,
#include "types/libraries.def"
#undef LOSES_SCALARS
        NULL};
    const char *const *package = packages;
    PyObject *module = asking_module();
    while (*package != NULL && (module == NULL || !is_within(module, *package))) {
        package++;
    }
    dls_let_go(module);
    return *package;
}

bool
dls_library_drops_stream(void)
{
    static const char *const modules[] = {
#define DROPS_STREAM(module) module,
#include "types/libraries.def"
#undef DROPS_STREAM
        NULL};
    return asked_by(modules) != NULL;
}

/* Does an imported module have this function?  An error of its __getattr__ says no. */
static bool
is_offered(dls_state *state, const char *module_name, const char *function)
{
    PyObject *module = dls_dict_borrow_text(state->modules, module_name);
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, function) : NULL;
    bool offered = found != NULL;
    dls_let_go(module);
    Py_XDECREF(found);
    PyErr_Clear();
    return offered;
}

bool
dls_library_copies_sycl(dls_state *state)
{
    bool found = false;
#define SYCL_COPIES(module, function) found |= is_offered(state, module, function);
#include "types/libraries.def"
#undef SYCL_COPIES
    return found;
}

/* Is a module older than major.minor?  1 = yes, 0 = no, -1 = it is not imported. */
static int
module_is_older(dls_state *state, const char *name, long major, long minor)
{
    PyObject *module = PyErr_Occurred() == NULL
                           ? dls_dict_borrow_text(state->modules, name)
                           : NULL;
    if (module == NULL) {
        return -1;
    }
    PyObject *owner = NULL;
    int older = 0;
    const char *text = text_attribute(module, "__version__", &owner);
    if (text != NULL) {
        char *end;
        long long have = strtoll(text, &end, 10);
        long long next = *end == '.' ? strtoll(end + 1, NULL, 10) : 0;
        older = have < major || (have == major && next < minor);
    }
    Py_XDECREF(owner);
    dls_let_go(module);
    return older;
}

dls_layout
dls_library_layout_read(dls_state *state, const dls_layout_row *row)
{
    dls_layout layout = row->layout;
#define LAYOUT_BEFORE(row_package, major, minor, older)             \
    if (strcmp(row->package, row_package) == 0                      \
        && module_is_older(state, row_package, major, minor) > 0) { \
        layout = DLS_LAYOUT_##older;                                \
    }
#include "types/libraries.def"
#undef LAYOUT_BEFORE
    return layout;
}

uint32_t
dls_library_traits(dls_state *state, const dls_library *row)
{
    uint32_t traits = row->traits;
#define IGNORES_BEFORE(row_name, module, major, minor)         \
    if (strcmp(row->name, row_name) == 0                       \
        && module_is_older(state, module, major, minor) > 0) { \
        traits |= DLS_LIB_IGNORES_STREAM;                      \
    }
#include "types/libraries.def"
#undef IGNORES_BEFORE
#define STATES_FROM(row_name, module, major, minor)             \
    if (strcmp(row->name, row_name) == 0                        \
        && module_is_older(state, module, major, minor) == 0) { \
        traits |= DLS_LIB_STATES_READ_ONLY;                     \
    }
#include "types/libraries.def"
#undef STATES_FROM
    return traits;
}

bool
dls_library_counts_periods(const char *extension, size_t length)
{
    static const char *const known[] = {
#define PERIODS(extension) extension,
#include "types/libraries.def"
#undef PERIODS
    };
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        found |= length == strlen(known[i]) && memcmp(extension, known[i], length) == 0;
    }
    return found;
}

bool
dls_library_gil_deleters(dls_state *state)
{
    if (state->gil_deleters < 0) {
        int older = -1;
#define GIL_DELETER(module, major, minor) \
    older = older > 0 ? older : module_is_older(state, module, major, minor);
#include "types/libraries.def"
#undef GIL_DELETER
        if (older < 0) {
            return false; /* a library of a row may still be imported: nothing is kept
                           */
        }
        state->legacy_hold = older == 1 ? DLS_HOLD_WANTS_GIL : 0;
        state->legacy_flags = state->import_number | state->legacy_hold;
        state->gil_deleters = older;
    }
    return state->gil_deleters == 1;
}

/* --- cures ---------------------------------------------------------------- */

/* The refusal has its own error.  An interrupt that came meanwhile is raised after it.
 */
static void
forget_error(void)
{
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();
    }
    PyErr_Clear();
}

static PyObject *
find_cure(dls_state *state, PyObject *obj, bool wrapper)
{
    PyObject *text = dls_in_python_with(state, DLS_IN_CURES, "cure", "(ONi)", obj,
                                        dls_type_name(state, obj), wrapper);
    if (text != NULL && !PyUnicode_Check(text)) {
        Py_CLEAR(text);
    }
    forget_error();
    return text;
}

PyObject *
dls_cure_find(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, false);
}

PyObject *
dls_cure_find_wrapped(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, true);
}

const char *
dls_cure_array(const dls_state *state, PyObject *obj)
{
    return PyObject_HasAttr((PyObject *)Py_TYPE(obj), state->names.astype)
               ? "x"
               : "numpy.asarray(x)";
}

/* Has the object's own __dlpack__ asked for this exchange? */
static bool
exports_itself(dls_state *state, PyObject *obj)
{
    PyObject *answer = dls_in_python_with(state, DLS_IN_CURES, "exports_itself", "(O)",
                                          obj);
    Py_XDECREF(answer);
    forget_error();
    return answer == Py_True;
}

int
dls_refuse_export(dls_state *state, PyObject *obj, bool on_host)
{
    bool recursion = PyErr_ExceptionMatches(PyExc_RecursionError);
    if (dls_error_is_fatal() && !recursion) {
        return -1;
    }
    PyObject *error = dls_error_take();
    if (recursion && exports_itself(state, obj)) {
        dls_refuse(
            state, DLS_EBUFFER, obj,
            "its __dlpack__ asks dlshim to export the object itself, which asks "
            "__dlpack__ again, without end; give dlshim the array that the object "
            "holds");
        return dls_refuse_with_cause(error);
    }
    if (dls_error_names(state, error, obj)) {
        dls_error_restore(error); /* it names its own cure */
        return -1;
    }
    PyObject *cure = on_host ? dls_cure_find(state, obj) : NULL;
    dls_error_restore(error);
    dls_refuse_from_pending(state, obj, "it cannot be exported%s%V",
                            cure != NULL ? ", " : "", cure, "");
    Py_XDECREF(cure);
    return -1;
}
