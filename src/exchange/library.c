/* Matches classes with the rows of libraries.def, and follows the paths in them: to
 * capsule functions, current streams and SYCL classes.  Foreign code runs.  Tests:
 * tests/core/test_ways_in.py, tests/core/test_imports.py, tests/device/test_matrix.py.
 */
#include "exchange/library.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hold.h"
#include "python/errors.h"

#define LIBRARY(name, module, type, traits, functions) \
    {traits, name, module, type, functions},
static const dls_library libraries[] = {
#include "exchange/libraries.def"
};
#undef LIBRARY
#define ROWS (sizeof libraries / sizeof *libraries)

/* The compiler refuses a text that is too long, but not one that leaves no room for its
 * 0. */
#define FITS(text, member) (sizeof(text) <= sizeof((dls_library){0}.member))
#define LIBRARY(name_, module_, type_, traits, functions_)                        \
    static_assert(FITS(name_, name) && FITS(module_, module) && FITS(type_, type) \
                      && FITS(functions_, functions),                             \
                  "dls_library has longer arrays for " name_);
#include "exchange/libraries.def"
#undef LIBRARY
#undef FITS

/* Methods by which libraries gave capsules before __dlpack__, whoever they are. */
static const char generic_functions[] = ".to_dlpack|.toDlpack|.to_dlpack_for_write"
                                        "|.to_dlpack_for_read";

/* An attribute that is a str, as UTF-8.  NULL, and nothing set, when there is none.
 * *owner keeps the text alive. */
static const char *
text_attribute(PyObject *obj, const char *attribute, PyObject **owner)
{
    const char *text = NULL;
    *owner = PyObject_GetAttrString(obj, attribute);
    if (*owner != NULL && PyUnicode_Check(*owner)) {
        text = PyUnicode_AsUTF8AndSize(*owner, NULL);
    }
    if (text == NULL) {
        PyErr_Clear();
    }
    return text;
}

static const dls_library *
match_class(PyObject *class)
{
    PyObject *module_owner = NULL, *type_owner = NULL;
    const dls_library *found = NULL;
    const char *module = text_attribute(class, "__module__", &module_owner);
    const char *type = text_attribute(class, "__qualname__", &type_owner);
    for (size_t i = 0; module != NULL && type != NULL && i < ROWS; i++) {
        size_t length = strlen(libraries[i].module);
        if (strcmp(type, libraries[i].type) == 0
            && strncmp(module, libraries[i].module, length) == 0
            && (module[length] == '\0' || module[length] == '.')) {
            found = &libraries[i];
            break;
        }
    }
    Py_XDECREF(module_owner);
    Py_XDECREF(type_owner);
    return found;
}

const dls_library *
dls_library_match(PyObject *mro, Py_ssize_t *at)
{
    Py_ssize_t n = PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < n; i++) {
        const dls_library *row = match_class(PyTuple_GetItem(mro, i));
        if (row != NULL) {
            *at = i;
            return row;
        }
    }
    return NULL;
}

/* Replace *object by its attribute.  1 = done.  0 = it has none, or -1 with an
 * exception: *object is NULL then. */
static int
step_into(PyObject **object, const char *name, size_t length)
{
    PyObject *next = NULL;
    PyObject *key = PyUnicode_FromStringAndSize(name, (Py_ssize_t)length);
    int got = key != NULL ? dls_get_optional(*object, key, &next) : -1;
    Py_XDECREF(key);
    Py_DECREF(*object);
    *object = next;
    return got;
}

/* Replace *object by what calling it gives.  `argument` stands between parentheses:
 * nothing, "device" for the number, or ".name" for an attribute of the array.  1 =
 * done.  0 = that attribute is missing, or -1 with an exception: *object is NULL then.
 */
static int
step_call(PyObject **object, PyObject *array, const char *argument, int device_id)
{
    PyObject *value = NULL, *result = NULL;
    int got = 1;
    if (argument[0] == '.') {
        value = Py_NewRef(array);
        got = step_into(&value, argument + 1, strcspn(argument + 1, ")"));
    }
    else if (argument[0] != ')') {
        value = PyLong_FromLong(device_id);
        got = value != NULL ? 1 : -1;
    }
    if (got > 0) {
        result = PyObject_CallFunctionObjArgs(*object, value, NULL);
        got = result != NULL ? 1 : -1;
    }
    Py_XDECREF(value);
    Py_DECREF(*object);
    *object = result;
    return got;
}

/* Follow "a.b().c(device)", which ends at "|" or at the end, from `from`.  1 = *result
 * (new reference), 0 = some attribute is missing, -1 = exception. */
static int
follow_path(PyObject *from, PyObject *array, const char *path, int device_id,
            PyObject **result)
{
    int got = 1;
    *result = Py_NewRef(from);
    while (got > 0 && *path != '\0' && *path != '|') {
        path += *path == '.';
        size_t length = strcspn(path, ".(|");
        got = step_into(result, path, length);
        path += length;
        if (got > 0 && *path == '(') {
            got = step_call(result, array, path + 1, device_id);
            path += strcspn(path, ")") + 1;
        }
    }
    return got;
}

/* Find what an entry names: ".path" of obj, or "module:path" of an imported module.
 * The result is as follow_path's. */
static int
find_named(dls_state *state, PyObject *obj, const char *entry, int device_id,
           PyObject **result)
{
    size_t length = strcspn(entry, ":|");
    if (entry[0] == '.') {
        return follow_path(obj, obj, entry, device_id, result);
    }
    PyObject *name = PyUnicode_FromStringAndSize(entry, (Py_ssize_t)length);
    if (name == NULL) {
        return -1;
    }
    PyObject *module = dls_dict_borrow(state->modules, name);
    Py_DECREF(name);
    if (module == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    int got = follow_path(module, obj, entry + length + 1, device_id, result);
    dls_let_go(module);
    return got;
}

/* Does the type have what an entry names?  An attribute that only the object has may be
 * anything: a Mock has every one, a DataFrame its columns.  1, 0 or -1. */
static int
type_has(dls_state *state, PyObject *obj, const char *entry)
{
    PyObject *function = NULL;
    int got = find_named(state, (PyObject *)Py_TYPE(obj), entry, -1, &function);
    Py_XDECREF(function);
    return got;
}

/* The first capsule function that exists; *is_method: it is called without obj. */
static int
find_function(dls_state *state, const dls_library *row, PyObject *obj,
              PyObject **function, bool *is_method)
{
    bool named = row != NULL;
    const char *list = named ? row->functions : generic_functions;
    int got = 0;
    while (got == 0 && *list != '\0') {
        *is_method = list[0] == '.';
        got = named ? 1 : type_has(state, obj, list);
        got = got > 0 ? find_named(state, obj, list, -1, function) : got;
        list += strcspn(list, "|");
        list += *list == '|';
    }
    return got;
}

/* Call what was found (stolen) with one argument, or none (NULL). */
static int
call_found(PyObject *function, PyObject *argument, PyObject **result)
{
    *result = PyObject_CallFunctionObjArgs(function, argument, NULL);
    Py_DECREF(function);
    return *result != NULL ? 1 : -1;
}

int
dls_library_has_capsule(dls_state *state, const dls_library *row, PyObject *obj)
{
    PyObject *function = NULL;
    bool is_method;
    int got = find_function(state, row, obj, &function, &is_method);
    Py_XDECREF(function);
    return got;
}

int
dls_library_capsule(dls_state *state, const dls_library *row, PyObject *obj,
                    PyObject **result)
{
    PyObject *function = NULL;
    bool is_method;
    int got = find_function(state, row, obj, &function, &is_method);
    return got > 0 ? call_found(function, is_method ? NULL : obj, result) : got;
}

/* Places in the libraries, and what each is for. */
typedef enum {
    PATH_CURRENT_STREAM,
    PATH_CURRENT_DEVICE,
    PATH_DEVICE_GUARD,
    PATH_PLAIN_CALLS,
    PATH_WAIT
} path_kind;

static const struct {
    path_kind kind;
    int32_t device_type; /* 0: any */
    char name[16];
    char path[44];
} paths[] = {
#define CURRENT_STREAM(name, device_type, path) \
    {PATH_CURRENT_STREAM, device_type, name, path},
#define DEVICE_GUARD(name, current, guard) \
    {PATH_CURRENT_DEVICE, 0, name, current}, {PATH_DEVICE_GUARD, 0, name, guard},
#define PLAIN_CALLS(name, path) {PATH_PLAIN_CALLS, 0, name, path},
#define DEVICE_WAIT(name, device_type, path) {PATH_WAIT, device_type, name, path},
#include "exchange/libraries.def"
#undef CURRENT_STREAM
#undef DEVICE_GUARD
#undef PLAIN_CALLS
#undef DEVICE_WAIT
};

/* The path of a row (NULL: none) for this; NULL: there is none. */
static const char *
path_of(const dls_library *row, path_kind kind, int32_t device_type)
{
    for (size_t i = 0; row != NULL && i < sizeof paths / sizeof *paths; i++) {
        if (paths[i].kind == kind && paths[i].device_type == device_type
            && strcmp(paths[i].name, row->name) == 0) {
            return paths[i].path;
        }
    }
    return NULL;
}

/* HIP builds go by CUDA's names. */
static const char *
stream_path(const dls_library *row, int32_t device_type)
{
    return path_of(row, PATH_CURRENT_STREAM,
                   device_type == dl_kDLOneAPI ? dl_kDLOneAPI : dl_kDLCUDA);
}

bool
dls_library_has_stream(const dls_library *row, int32_t device_type)
{
    return stream_path(row, device_type) != NULL;
}

int
dls_library_stream(dls_state *state, const dls_library *row, PyObject *obj,
                   dl_device device, PyObject **result)
{
    const char *path = stream_path(row, device.device_type);
    if (path == NULL) {
        return 0;
    }
    if (path[0] == '0') {
        *result = PyLong_FromLong(0);
        return *result != NULL ? 1 : -1;
    }
    return find_named(state, obj, path, device.device_id, result);
}

/* Is this device the library's current one?  1, 0 also where it is not imported, which
 * *known tells, or -1 with an exception. */
static int
is_current(dls_state *state, PyObject *obj, const char *path, int device_id,
           bool *known)
{
    PyObject *number = NULL;
    int got = find_named(state, obj, path, device_id, &number);
    *known = got > 0;
    if (got <= 0) {
        return got;
    }
    long current = PyLong_AsLong(number);
    Py_DECREF(number);
    return current == -1 && PyErr_Occurred() ? -1 : current == device_id;
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
                         int device_id, PyObject **guard)
{
    const char *current = path_of(row, PATH_CURRENT_DEVICE, 0);
    bool known;
    *guard = NULL;
    if (current == NULL) {
        return 0;
    }
    int got = is_current(state, obj, current, device_id, &known);
    if (got != 0 || !known) {
        return got < 0 ? -1 : 0;
    }
    got = find_named(state, obj, path_of(row, PATH_DEVICE_GUARD, 0), device_id, guard);
    if (got > 0) {
        *guard = enter(state, *guard);
    }
    return got > 0 && *guard == NULL ? -1 : got;
}

int
dls_library_plain_calls(dls_state *state, const dls_library *row, PyObject **result)
{
    const char *path = path_of(row, PATH_PLAIN_CALLS, 0);
    return path != NULL ? find_named(state, NULL, path, -1, result) : 0;
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

/* Which of these modules (NULL ends them) has the code that asks?  NULL: none. */
static const char *
asked_by(const char *const *modules)
{
    PyObject *globals = PyEval_GetGlobals(); /* borrowed; NULL: no Python code runs */
    PyObject *name = globals != NULL ? dls_dict_borrow_text(globals, "__name__") : NULL;
    bool known = name != NULL && PyUnicode_Check(name);
    while (*modules != NULL
           && (!known || PyUnicode_CompareWithASCIIString(name, *modules) != 0)) {
        modules++;
    }
    dls_let_go(name);
    return *modules;
}

bool
dls_library_can_wait(const dls_library *row, int32_t device_type)
{
    return path_of(row, PATH_WAIT, device_type) != NULL;
}

int
dls_library_wait(dls_state *state, const dls_library *row, PyObject *obj,
                 dl_device device)
{
    PyObject *result = NULL;
    const char *path = path_of(row, PATH_WAIT, device.device_type);
    int got = path != NULL ? find_named(state, obj, path, device.device_id, &result)
                           : 0;
    Py_XDECREF(result);
    return got;
}

bool
dls_library_never_writes(void)
{
    static const char *const modules[] = {
#define NEVER_WRITES(module) module,
#include "exchange/libraries.def"
#undef NEVER_WRITES
        NULL};
    return asked_by(modules) != NULL;
}

const char *
dls_library_heeds_not(void)
{
    static const char *const modules[] = {
#define HEEDS_NOT(module) module,
#include "exchange/libraries.def"
#undef HEEDS_NOT
        NULL};
    return asked_by(modules);
}

bool
dls_library_drops_stream(void)
{
    static const char *const modules[] = {
#define DROPS_STREAM(module) module,
#include "exchange/libraries.def"
#undef DROPS_STREAM
        NULL};
    return asked_by(modules) != NULL;
}

int
dls_library_copies_sycl(dls_state *state)
{
    PyObject *function = NULL;
#define SYCL_COPIES(path) int got = find_named(state, NULL, path, -1, &function);
#include "exchange/libraries.def"
#undef SYCL_COPIES
    Py_XDECREF(function);
    return got;
}

/* Is a module older than major.minor?  1 = yes, 0 = no, -1 = it is not imported. */
static int
module_is_older(dls_state *state, const char *name, long major, long minor)
{
    PyObject *module = dls_dict_borrow_text(state->modules, name);
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

uint32_t
dls_library_traits(dls_state *state, const dls_library *row)
{
    uint32_t traits = row->traits;
#define IGNORES_BEFORE(row_name, module, major, minor)         \
    if (strcmp(row->name, row_name) == 0                       \
        && module_is_older(state, module, major, minor) > 0) { \
        traits |= DLS_LIB_IGNORES_STREAM;                      \
    }
#include "exchange/libraries.def"
#undef IGNORES_BEFORE
    return traits;
}

bool
dls_library_gil_deleters(dls_state *state)
{
    if (state->gil_deleters < 0) {
        int older = -1;
#define GIL_DELETER(module, major, minor) \
    older = older > 0 ? older : module_is_older(state, module, major, minor);
#include "exchange/libraries.def"
#undef GIL_DELETER
        state->legacy_hold = older == 1 ? DLS_HOLD_WANTS_GIL : 0;
        state->legacy_flags = state->home | state->legacy_hold;
        state->gil_deleters = older;
    }
    return state->gil_deleters == 1;
}
