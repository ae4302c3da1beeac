/* Marks for callgrind: counting begins after the imports, and each loop has a
 * dump of its own.  Outside valgrind they do nothing. */
#include "floor.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define MARKS 1
#else
#define MARKS 0
#define RUNNING_ON_VALGRIND 0
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(text) (void)(text)
#endif

static PyObject *marks_start(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    CALLGRIND_START_INSTRUMENTATION;
    return PyBool_FromLong(MARKS && RUNNING_ON_VALGRIND);
}

static PyObject *marks_zero(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    CALLGRIND_ZERO_STATS;
    Py_RETURN_NONE;
}

static PyObject *marks_dump(PyObject *module, PyObject *args)
{
    const char *text;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &text)) {
        return NULL;
    }
    CALLGRIND_DUMP_STATS_AT(text);
    Py_RETURN_NONE;
}

static PyMethodDef mark_methods[] = {
    {"callgrind_start", marks_start, METH_NOARGS, "Begin to count; False when nothing counts."},
    {"callgrind_zero", marks_zero, METH_NOARGS, "Forget what was counted."},
    {"callgrind_dump", marks_dump, METH_VARARGS, "callgrind_dump(text): write the counts."},
    {NULL, NULL, 0, NULL},
};

int floor_add_marks(PyObject *module)
{
    return PyModule_AddFunctions(module, mark_methods);
}
