#include "abi/array_struct_abi.h"

#include "older_protocols/reading.h"
#include "python/errors.h"

static int
check_struct(const dls_reading *reading, const array_struct *inter)
{
    if (inter->two != ARRAY_STRUCT_TWO) {
        return dls_reading_fail(
            reading,
            "the capsule holds no PyArrayInterface: its first field "
            "is %d, must be 2; the producer has to be corrected",
            inter->two);
    }
    if (inter->nd > 0 && inter->shape == NULL) {
        return dls_reading_fail(reading,
                                "its shape is NULL although it has %d dimensions; the "
                                "producer has to be corrected",
                                inter->nd);
    }
    return 0;
}

/* A description counts for this kind only.  NumPy clears all flags of a struct array
 * where it means to add HAS_DESCR. */
static bool
is_structured(const array_struct *inter)
{
    if (inter->typekind != 'V') {
        return false;
    }
    return inter->flags == 0
           || ((inter->flags & ARRAY_STRUCT_HAS_DESCR) != 0 && inter->descr != NULL
               && dls_reading_has_fields(inter->descr));
}

static int
read_struct(dls_reading *reading, const array_struct *inter)
{
    dls_loan *loan = reading->loan;
    if (check_struct(reading, inter) < 0
        || dls_reading_set_ndim(reading, inter->nd) < 0) {
        return -1;
    }
    if (is_structured(inter)) {
        return dls_reading_fail_structured(reading);
    }
    if (dls_reading_set_kind(reading, inter->typekind, inter->itemsize,
                             (inter->flags & ARRAY_STRUCT_NOTSWAPPED) == 0)
        < 0) {
        return -1;
    }
    for (int i = 0; i < inter->nd; i++) {
        loan->tensor.shape[i] = inter->shape[i];
    }
    if (inter->strides != NULL) {
        int64_t *strides = dls_reading_byte_strides(reading);
        for (int i = 0; i < inter->nd; i++) {
            strides[i] = inter->strides[i];
        }
    }
    if ((inter->flags & ARRAY_STRUCT_WRITEABLE) == 0) {
        loan->flags |= DL_FLAG_READ_ONLY;
    }
    loan->tensor.data = inter->data;
    return dls_reading_finish(reading, NULL, NULL);
}

/* The struct lives as long as the capsule.  The memory belongs to the object or, for
 * what was made on request (a NumPy scalar), to the capsule: both are held. */
static int
read_capsule(dls_reading *reading, PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, NULL)) {
        return dls_reading_fail(reading,
                                "a PyCapsule without a name was expected, got %R; the "
                                "producer has to be corrected",
                                (PyObject *)Py_TYPE(capsule));
    }
    const array_struct *inter = PyCapsule_GetPointer(capsule, NULL);
    if (inter == NULL || read_struct(reading, inter) < 0) {
        return -1;
    }
    reading->loan->hold.py = PyTuple_Pack(2, reading->obj, capsule);
    return reading->loan->hold.py != NULL ? 0 : -1;
}

int
dls_read_array_struct(dls_state *state, PyObject *obj, dls_loan *loan)
{
    PyObject *capsule = NULL;
    int got = dls_get_optional(obj, state->names.array_struct, &capsule);
    if (got > 0 && capsule == Py_None) {
        got = 0; /* how a class says that it does not offer what its base does */
    }
    if (got > 0) {
        dls_reading reading = dls_reading_begin(state, obj, "__array_struct__", loan);
        got = dls_reading_end(&reading, read_capsule(&reading, capsule));
    }
    if (capsule != NULL) {
        dls_drop_foreign(capsule);
    }
    return got;
}
