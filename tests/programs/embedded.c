/* A program that starts CPython, runs a script, ends CPython, and does that again.
 *
 * embedded SCRIPT ROUNDS WHEN
 *
 * The script leaves capsules of DLPack 1.x in the list `kept` of __main__; those whose
 * first element is to be read after the end are in `readable` too.  They are taken, and
 * their deleters are called WHEN: "ended", after Py_FinalizeEx; "again", in the next
 * round once the script has run; "never".
 * Built and run by tests/core/test_interpreters.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    void *data;
    int32_t device[2];
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} tensor;

typedef struct managed {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct managed *);
    uint64_t flags;
    tensor tensor;
} managed;

#define ROOM 64

static managed *taken[ROOM];
static int readable[ROOM];
static int count;

static PyObject *
list_of_main(const char *name)
{
    return PyObject_GetAttrString(PyImport_AddModule("__main__"), name);
}

/* 0, or -1 with an exception. */
static int
take(const char *name, int is_readable)
{
    PyObject *list = list_of_main(name);
    for (Py_ssize_t i = 0; list != NULL && i < PyList_Size(list) && count < ROOM; i++) {
        PyObject *capsule = PyList_GetItem(list, i);
        managed *found = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (found == NULL || PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) {
            break;
        }
        readable[count] = is_readable;
        taken[count++] = found;
    }
    Py_XDECREF(list);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* Read what may be read, and give everything back. */
static int
give_back(int until)
{
    int wrong = 0;
    for (int i = 0; i < until; i++) {
        if (readable[i]) {
            const int *data = (const int *)((char *)taken[i]->tensor.data
                                            + taken[i]->tensor.byte_offset);
            for (int k = 0; k < 6; k++) {
                wrong += data[k] != k;
            }
        }
        taken[i]->deleter(taken[i]);
    }
    memmove(taken, taken + until, (size_t)(count - until) * sizeof *taken);
    memmove(readable, readable + until, (size_t)(count - until) * sizeof *readable);
    count -= until;
    return wrong;
}

static int
run_once(const char *script, const char *when)
{
    int old = count, wrong = 0;
    Py_Initialize();
    if (PyRun_SimpleString(script) != 0 || take("readable", 1) < 0 || take("kept", 0) < 0) {
        PyErr_Print();
        return 1;
    }
    if (strcmp(when, "again") == 0) {
        wrong += give_back(old);
        if (PyRun_SimpleString(script) != 0) {
            return 1;
        }
    }
    if (Py_FinalizeEx() != 0) {
        return 1;
    }
    if (strcmp(when, "ended") == 0) {
        wrong += give_back(count);
    }
    return wrong;
}

int
main(int argc, char **argv)
{
    int rounds = argc == 4 ? atoi(argv[2]) : 0, done = 0;
    while (done < rounds && run_once(argv[1], argv[3]) == 0) {
        printf("round %d, %d kept\n", ++done, count);
        fflush(stdout);
    }
    return rounds > 0 && done == rounds ? 0 : 1;
}
