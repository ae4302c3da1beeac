/* Makes, keeps and reports exceptions.  Called by everything that uses Python; the GIL
 * is held.  Tests: tests/core/test_bad_input.py, tests/core/test_negotiation.py. */
#include "python/errors.h"

#include <assert.h>
#include <stdarg.h>

static PyObject *
class_of(dls_state *state, int code)
{
    PyObject *const classes[] = {[-DLS_EBUFFER] = PyExc_BufferError,
                                 [-DLS_EVALUE] = PyExc_ValueError,
                                 [-DLS_ETYPE] = PyExc_TypeError,
                                 [-DLS_ENOMEM] = PyExc_MemoryError,
                                 [-DLS_ECOPY] = state->copy_required_error,
                                 [-DLS_ERUNTIME] = PyExc_RuntimeError,
                                 [-DLS_EOPTION] = PyExc_BufferError,
                                 [-DLS_ENODRIVER] = PyExc_BufferError,
                                 [-DLS_ECAPTURE] = PyExc_BufferError};
    assert(code <= DLS_EBUFFER && code >= DLS_ECAPTURE);
    return classes[code < DLS_OK ? -code : -DLS_EBUFFER]; /* 0: no code was set */
}

static PyObject *
make_type_name(const dls_state *state, PyObject *type)
{
    PyObject *module = PyObject_GetAttr(type, state->names.module);
    PyErr_Clear(); /* a metaclass may answer the next question (T9) */
    PyObject *name = PyObject_GetAttr(type, state->names.qualname);
    PyObject *result;
    if (name == NULL || !PyUnicode_Check(name)) {
        PyErr_Clear();
        result = PyUnicode_FromString("?");
    }
    else if (module == NULL || !PyUnicode_Check(module)
             || PyUnicode_CompareWithASCIIString(module, "builtins") == 0) {
        result = Py_NewRef(name);
    }
    else {
        result = PyUnicode_FromFormat("%U.%U", module, name);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    return result;
}

/* The name of a static type never changes, nor does the type end: it is made once. */
PyObject *
dls_type_name(const dls_state *state, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!Py_IS_TYPE(type, &PyType_Type)
        || PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) {
        return make_type_name(state, (PyObject *)type);
    }
    PyObject *known = dls_dict_borrow(state->type_names, (PyObject *)type);
    if (known != NULL) {
        PyObject *name = Py_NewRef(known);
        dls_let_go(known);
        return name;
    }
    PyObject *name = make_type_name(state, (PyObject *)type);
    if (name != NULL && PyDict_SetItem(state->type_names, (PyObject *)type, name) < 0) {
        PyErr_Clear();
    }
    return name;
}

/* All of a text in one line; NULL with an exception. */
static PyObject *
flattened(PyObject *text)
{
    PyObject *words = PyObject_CallMethod(text, "split", NULL);
    PyObject *space = words != NULL ? PyUnicode_FromString(" ") : NULL;
    PyObject *line = space != NULL ? PyUnicode_Join(space, words) : NULL;
    Py_XDECREF(space);
    Py_XDECREF(words);
    return line;
}

/* Where the cure's line begins, behind the line end; the length n if there is none. */
static Py_ssize_t
find_cure(PyObject *text, Py_ssize_t n)
{
    Py_ssize_t at = PyUnicode_FindChar(text, '\n', 0, n, -1) + 1;
    return at > 0 && at + 2 < n && PyUnicode_ReadChar(text, at) == ' '
                   && PyUnicode_ReadChar(text, at + 1) == ' '
                   && PyUnicode_ReadChar(text, at + 2) != ' '
               ? at
               : n;
}

/* A value or a foreign message in the text (stolen) may bring lines: the reason is one
 * line all the same.  NULL with an exception, also for a text that is NULL. */
static PyObject *
in_lines(PyObject *text)
{
    Py_ssize_t n = text != NULL ? PyUnicode_GetLength(text) : 0;
    Py_ssize_t end = text != NULL ? PyUnicode_FindChar(text, '\n', 0, n, 1) : -1;
    if (end < 0) {
        return text;
    }
    Py_ssize_t cure = find_cure(text, n);
    if (cure == end + 1) {
        return text;
    }
    PyObject *reason = PyUnicode_Substring(text, 0, cure);
    PyObject *line = reason != NULL ? flattened(reason) : NULL;
    PyObject *rest = line != NULL ? PyUnicode_Substring(text, cure, n) : NULL;
    PyObject *made = rest != NULL ? PyUnicode_FromFormat("%U%s%U", line,
                                                         cure < n ? "\n" : "", rest)
                                  : NULL;
    Py_XDECREF(rest);
    Py_XDECREF(line);
    Py_XDECREF(reason);
    Py_DECREF(text);
    return made;
}

/* "'pkg.Type' object: <text>", the text alone for obj NULL; NULL with MemoryError.
 * *name: a new reference to the type's name, or NULL. */
static PyObject *
message_of(const dls_state *state, PyObject *obj, PyObject **name, const char *format,
           va_list args)
{
    PyObject *text = in_lines(PyUnicode_FromFormatV(format, args));
    *name = NULL;
    if (text == NULL || obj == NULL) {
        return text;
    }
    *name = dls_type_name(state, obj);
    PyObject *message = *name != NULL
                            ? PyUnicode_FromFormat("'%U' object: %U", *name, text)
                            : NULL;
    Py_DECREF(text);
    return message;
}

/* Give the pending exception two attributes, if it is a BufferError.  value NULL: that
 * one is left out.  Without memory for them it stays as it is. */
static void
set_attributes(PyObject *name, PyObject *value, PyObject *other, PyObject *other_value)
{
    PyObject *error = dls_error_take();
    if (PyErr_GivenExceptionMatches(error, PyExc_BufferError)
        && ((value != NULL && PyObject_SetAttr(error, name, value) < 0)
            || (other_value != NULL
                && PyObject_SetAttr(error, other, other_value) < 0))) {
        PyErr_Clear();
    }
    dls_error_restore(error);
}

int
dls_refuse(dls_state *state, int code, PyObject *obj, const char *format, ...)
{
    PyObject *name;
    va_list args;
    va_start(args, format);
    PyObject *message = message_of(state, obj, &name, format, args);
    va_end(args);
    if (message != NULL) {
        PyErr_SetObject(class_of(state, code), message);
        Py_DECREF(message);
        bool option_helps = code == DLS_EOPTION;
        if (name != NULL || option_helps) {
            set_attributes(state->names.about, name, state->names.option_helps,
                           option_helps ? Py_True : NULL);
        }
    }
    Py_XDECREF(name);
    return -1;
}

int
dls_refuse_copy(dls_state *state, PyObject *obj, const char *reason, const char *rest,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *why = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *word = why != NULL ? PyUnicode_FromString(reason) : NULL;
    if (word != NULL) {
        dls_refuse(state, DLS_ECOPY, obj, "%U%s", why, rest);
        set_attributes(state->names.reason, word, state->names.why, why);
    }
    Py_XDECREF(why);
    Py_XDECREF(word);
    return -1;
}

int
dls_warn(dls_state *state, PyObject *category, PyObject *obj, const char *format, ...)
{
    PyObject *name;
    va_list args;
    va_start(args, format);
    PyObject *message = message_of(state, obj, &name, format, args);
    va_end(args);
    int code = message != NULL ? PyErr_WarnFormat(category, 2, "%U", message) : -1;
    Py_XDECREF(name);
    Py_XDECREF(message);
    return code;
}

int
dls_refuse_error(dls_state *state, PyObject *obj, const dls_error *err)
{
    if (err->code == DLS_ENOMEM) {
        PyErr_NoMemory();
        return -1;
    }
    return dls_refuse(state, err->code, obj, "%s", err->text);
}

void
dls_drop_foreign(PyObject *obj)
{
    PyObject *type, *value, *trace;
    bool pending = PyErr_Occurred() != NULL;
    if (pending) {
        PyErr_Fetch(&type, &value, &trace);
    }
    Py_DECREF(obj);
    dls_error_report();
    if (pending) {
        PyErr_Restore(type, value, trace);
    }
}

void
dls_error_report_pending(void)
{
    PyObject *exception = dls_error_take();
    /* Without it the report is a bare traceback, which looks like an error that ended
     * the program. */
    PyObject *where = PyUnicode_FromString("code that dlshim called");
    if (where == NULL) {
        PyErr_Clear();
    }
    dls_error_restore(exception);
    PyErr_WriteUnraisable(where);
    Py_XDECREF(where);
}

PyObject *
dls_error_take(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL && value != NULL) {
        PyException_SetTraceback(value, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

void
dls_error_restore(PyObject *exception)
{
    if (exception == NULL) {
        PyErr_NoMemory();
        return;
    }
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                  PyException_GetTraceback(exception));
}

bool
dls_error_is_fatal(void)
{
    return PyErr_Occurred() != NULL
           && (!PyErr_ExceptionMatches(PyExc_Exception)
               || PyErr_ExceptionMatches(PyExc_MemoryError)
               || PyErr_ExceptionMatches(PyExc_RecursionError));
}

int
dls_error_forget(void)
{
    if (dls_error_is_fatal()) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

int
dls_error_forget_warning(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Warning)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

int
dls_refuse_with_cause(PyObject *cause)
{
    PyObject *error = dls_error_take();
    if (error == NULL) {
        dls_error_restore(cause);
        return -1;
    }
    if (error == cause) {
        Py_DECREF(cause); /* a producer that raises the same object twice */
    }
    else {
        PyException_SetCause(error, cause); /* steals cause */
    }
    dls_error_restore(error);
    return -1;
}

bool
dls_error_names(const dls_state *state, PyObject *error, PyObject *obj)
{
    if (!PyErr_GivenExceptionMatches(error, PyExc_BufferError)) {
        return false;
    }
    PyObject *about = PyObject_GetAttr(error, state->names.about);
    PyErr_Clear();
    PyObject *name = about != NULL ? dls_type_name(state, obj) : NULL;
    bool same = name != NULL && PyUnicode_Check(about)
                && PyUnicode_Compare(about, name) == 0;
    Py_XDECREF(about);
    Py_XDECREF(name);
    PyErr_Clear();
    return same;
}

/* The first line of a text, the line end and the rest; NULL with an exception. */
static PyObject *
first_line(PyObject *text)
{
    PyObject *end = PyUnicode_FromString("\n");
    PyObject *parts = end != NULL ? PyUnicode_Partition(text, end) : NULL;
    Py_XDECREF(end);
    return parts;
}

/* "<text>: <kind>: <message>".  A cure that ends the text stays the last line; of the
 * message there is the first line then. */
static void
refuse_with_words(dls_state *state, PyObject *obj, PyObject *text, PyObject *kind,
                  PyObject *message)
{
    PyObject *parts = first_line(text);
    PyObject *lines = parts != NULL ? first_line(message) : NULL;
    if (lines != NULL) {
        bool cured = PyUnicode_GetLength(PyTuple_GetItem(parts, 1)) > 0;
        PyObject *said = cured ? PyTuple_GetItem(lines, 0) : message;
        dls_refuse(state, DLS_EBUFFER, obj, "%U: %U%s%U%U%U", PyTuple_GetItem(parts, 0),
                   kind, PyUnicode_GetLength(said) > 0 ? ": " : "", said,
                   PyTuple_GetItem(parts, 1), PyTuple_GetItem(parts, 2));
    }
    Py_XDECREF(lines);
    Py_XDECREF(parts);
}

/* The message of an exception, without white space around it; NULL with MemoryError. */
static PyObject *
message_of_cause(PyObject *cause)
{
    PyObject *message = PyObject_Str(cause);
    if (message == NULL) {
        PyErr_Clear();
        return PyUnicode_FromString("(no message)");
    }
    PyObject *stripped = PyObject_CallMethod(message, "strip", NULL);
    Py_DECREF(message);
    return stripped;
}

int
dls_refuse_from_pending(dls_state *state, PyObject *obj, const char *format, ...)
{
    PyObject *cause = dls_error_is_fatal() ? NULL : dls_error_take();
    if (cause == NULL) {
        return -1;
    }
    if (dls_error_names(state, cause, obj)) {
        dls_error_restore(cause);
        return -1;
    }
    PyObject *message = message_of_cause(cause);
    va_list args;
    va_start(args, format);
    PyObject *text = message != NULL ? PyUnicode_FromFormatV(format, args) : NULL;
    va_end(args);
    PyObject *kind = text != NULL ? dls_type_name(state, cause) : NULL;
    if (kind != NULL) {
        refuse_with_words(state, obj, text, kind, message);
        Py_DECREF(kind);
    }
    Py_XDECREF(text);
    Py_XDECREF(message);
    return dls_refuse_with_cause(cause);
}

/* --- a text that is made when it is read ---------------------------------- */

/* Until its text is made, the error's arguments are (object, authored, its class). */
void
dls_refuse_unsupported(dls_state *state, PyObject *obj, bool authored)
{
    PyObject *error = state->unsupported_object_error;
    PyObject *args = PyTuple_Pack(3, obj, authored ? Py_True : Py_False, error);
    if (args != NULL) {
        PyErr_SetObject(error, args);
        Py_DECREF(args);
    }
}

/* error.name() as the bases of its class do it. */
static PyObject *
in_base(PyObject *error, const char *name)
{
    return PyObject_CallMethod(PyExc_AttributeError, name, "O", error);
}

/* The arguments as they are, a new reference. */
static PyObject *
args_of(PyObject *error)
{
    PyObject *reduced = in_base(error, "__reduce__");
    PyObject *args = reduced != NULL ? PySequence_GetItem(reduced, 1) : NULL;
    Py_XDECREF(reduced);
    return args;
}

static int
set_args(PyObject *error, PyObject *value, void *Py_UNUSED(closure))
{
    PyObject *attribute = PyObject_GetAttrString(PyExc_BaseException, "args");
    PyObject *done = NULL;
    if (attribute != NULL && value != NULL) {
        done = PyObject_CallMethod(attribute, "__set__", "OO", error, value);
    }
    else if (attribute != NULL) {
        done = PyObject_CallMethod(attribute, "__delete__", "O", error);
    }
    Py_XDECREF(attribute);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* The text for these arguments, in a tuple; a short one where the module is gone. */
static PyObject *
text_of(PyObject *args)
{
    PyObject *module = dls_module_here(), *text = NULL, *obj = PyTuple_GetItem(args, 0);
    if (module != NULL) {
        dls_state *state = dls_state_of(module);
        text = dls_in_python_with(state, DLS_IN_CURES, "unsupported", "(ONO)", obj,
                                  dls_type_name(state, obj), PyTuple_GetItem(args, 1));
        Py_DECREF(module);
    }
    if (text == NULL && dls_error_forget() == 0) {
        text = PyUnicode_FromString("the object offers no protocol that dlshim knows\n"
                                    "  pass an array instead");
    }
    PyObject *made = text != NULL ? PyTuple_Pack(1, text) : NULL;
    Py_XDECREF(text);
    return made;
}

/* The arguments, once the text is made. */
static PyObject *
get_args(PyObject *error, void *Py_UNUSED(closure))
{
    PyObject *args = args_of(error);
    bool is_made = args == NULL || !PyTuple_Check(args) || PyTuple_Size(args) != 3
                   || PyTuple_GetItem(args, 2) != (PyObject *)Py_TYPE(error);
    if (is_made) {
        return args;
    }
    PyObject *made = text_of(args);
    if (made != NULL && set_args(error, made, NULL) < 0) {
        Py_CLEAR(made);
    }
    Py_DECREF(args);
    return made;
}

/* The base's method, once the text is made. */
static PyObject *
with_text(PyObject *error, const char *name)
{
    PyObject *args = get_args(error, NULL);
    Py_XDECREF(args);
    return args != NULL ? in_base(error, name) : NULL;
}

static PyObject *
error_str(PyObject *error)
{
    return with_text(error, "__str__");
}

static PyObject *
error_repr(PyObject *error)
{
    return with_text(error, "__repr__");
}

static PyObject *
error_reduce(PyObject *error, PyObject *Py_UNUSED(ignored))
{
    return with_text(error, "__reduce__");
}

static PyMethodDef error_methods[] = {
    {"__reduce__", error_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef error_attributes[] = {
    {"args", get_args, set_args, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot error_slots[] = {
    {Py_tp_doc, "The object offers no way to its memory that dlshim knows."},
    {Py_tp_str, (void *)(uintptr_t)error_str},
    {Py_tp_repr, (void *)(uintptr_t)error_repr},
    {Py_tp_methods, error_methods},
    {Py_tp_getset, error_attributes},
    {0, NULL},
};
static PyType_Spec error_spec = {.name = "dlshim.UnsupportedObjectError",
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 .slots = error_slots};

PyObject *
dls_unsupported_error_new(void)
{
    PyObject *bases = PyTuple_Pack(2, PyExc_TypeError, PyExc_AttributeError);
    PyObject *error = bases != NULL ? PyType_FromSpecWithBases(&error_spec, bases)
                                    : NULL;
    Py_XDECREF(bases);
    return error;
}

PyObject *
dls_refuse_pickle(PyObject *DLS_UNUSED(self), PyObject *DLS_UNUSED(ignored))
{
    return PyErr_Format(PyExc_TypeError, "cannot pickle 'dlshim.Producer' object: it "
                                         "asks its source whenever it is exported\n"
                                         "  pickle dlshim.from_dlpack(x)");
}
