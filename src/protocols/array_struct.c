/* Reads __array_struct__: a capsule without a name around NumPy's PyArrayInterface.
 * Called through the table in protocols.c, with the GIL.  The struct lives as
 * long as the capsule; the memory belongs to the object or, if it was made on request
 * (a NumPy scalar), to the capsule: both are held.
 * Tests: tests/core/test_ways_in.py, test_bad_input.py. */
#include "protocols/reading.h"

#include "abi/array_struct_abi.h"

static int
check_struct(const dls_reading *reading, const array_struct *inter)
{
    if (inter->two != ARRAY_STRUCT_TWO) {
        return dls_reading_fail(
            reading,
            "the capsule holds no PyArrayInterface: its first field is %d, must be 2\n"
            "  the producer has to be corrected",
            inter->two);
    }
    if (inter->nd > 0 && inter->shape == NULL) {
        return dls_reading_fail(reading,
                                "its shape is NULL although it has %d dimensions\n"
                                "  the producer has to be corrected",
                                inter->nd);
    }
    return 0;
}

/* A description counts for this kind only.  NumPy clears all flags of a struct array
 * where it means to add HAS_DESCR, so no flag at all says the same. */
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
    dls_acquired *acquired = reading->acquired;
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
        acquired->tensor.shape[i] = inter->shape[i];
    }
    dls_reading_copy_strides(reading, inter->strides);
    if ((inter->flags & ARRAY_STRUCT_WRITEABLE) == 0) {
        acquired->flags |= DL_FLAG_READ_ONLY;
    }
    acquired->tensor.data = inter->data;
    return dls_reading_finish(reading);
}

int
dls_array_struct_read(dls_reading *reading)
{
    if (!PyCapsule_IsValid(reading->given, NULL)) {
        return dls_reading_fail(reading,
                                "a PyCapsule without a name was expected, got %R\n"
                                "  the producer has to be corrected",
                                (PyObject *)Py_TYPE(reading->given));
    }
    const array_struct *inter = PyCapsule_GetPointer(reading->given, NULL);
    return inter != NULL ? read_struct(reading, inter) : -1;
}
