/* The table of the protocols that describe memory, and the one entry to their readers.
 * Called by acquire/, with the GIL.
 * Tests: tests/core/test_ways_in.py. */
#include "protocols/protocols.h"

#include <assert.h>

#include "core/alloc.h"
#include "protocols/arrow.h"
#include "protocols/reading.h"
#include "python/errors.h"

static const dls_described_protocol rows[DLS_PROTOCOL_COUNT] = {
    [DLS_PROTOCOL_CUDA] = {.read = dls_cuda_interface_read,
                           .oldest = 0,
                           .newest = 3,
                           .lacks = 1 << DLS_ENTRY_offset | 1 << DLS_ENTRY_syclobj,
                           .strict = true,
                           .any_sequence = true,
                           .off_host = true,
                           .version = "be an int from 0 to 3",
                           .data = "be a pair (address, read-only)"},
    [DLS_PROTOCOL_SYCL] = {.read = dls_sycl_interface_read,
                           .oldest = 1,
                           .newest = 1,
                           .lacks = 1 << DLS_ENTRY_mask | 1 << DLS_ENTRY_stream,
                           .strict = true,
                           .in_elements = true,
                           .off_host = true,
                           .version = "be the int 1",
                           .offset = "be an int, 0 or above, that counts elements",
                           .data = "be a pair (USM pointer, read-only)"},
    [DLS_PROTOCOL_STRUCT] = {.read = dls_array_struct_read},
    /* Version 3 is the only one there has been since 2007; NumPy does not look at it,
     * so it may be missing. */
    [DLS_PROTOCOL_INTERFACE] = {.read = dls_array_interface_read,
                                .oldest = 3,
                                .newest = 3,
                                .lacks = 1 << DLS_ENTRY_stream | 1 << DLS_ENTRY_syclobj,
                                .version = "be the int 3",
                                .offset = "be an int, 0 or above",
                                .data = "be a tuple (address, read-only)"},
    [DLS_PROTOCOL_ARROW_DEVICE_ARRAY] = {.read = dls_arrow_array_read},
    [DLS_PROTOCOL_ARROW_ARRAY] = {.read = dls_arrow_array_read},
    [DLS_PROTOCOL_ARROW_DEVICE_STREAM] = {.read = dls_arrow_stream_read},
    [DLS_PROTOCOL_ARROW_STREAM] = {.read = dls_arrow_stream_read},
    [DLS_PROTOCOL_BUFFER] = {.read = dls_buffer_read},
};

/* Unless the reader holds more, the object and its answer keep the memory alive: an
 * object that was made on request (a NumPy scalar's array) is held by its capsule or
 * its dict only. */
static int
hold_source(const dls_reading *reading)
{
    dls_hold *hold = &reading->acquired->hold;
    bool has_array = reading->array != NULL && reading->array->release != NULL;
    if (has_array || hold->kind == DLS_HOLD_BLOCK) {
        return 0;
    }
    if (hold->py == NULL) {
        hold->py = reading->given == NULL
                       ? Py_NewRef(reading->obj)
                       : Py_BuildValue("(OO)", reading->obj, reading->given);
    }
    return hold->py != NULL ? 0 : -1;
}

DLS_INLINE int
fill_acquired(dls_reading *reading)
{
    dls_acquired *acquired = reading->acquired;
    assert(dls_acquired_is_empty(acquired));
    acquired->tensor.device = (dl_device){dl_kDLCPU, 0};
    acquired->generation = DLS_DESCRIBED;
    acquired->readonly_stated = true;
    acquired->hold.flags = reading->state->import_number;
    *reading->p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    if (reading->row->read(reading) < 0
        || (reading->mends && dls_reading_mend(reading) < 0)
        || hold_source(reading) < 0) {
        dls_acquired_drop(acquired);
        return -1;
    }
    assert(acquired->tensor.dtype.bits != 0 && PyErr_Occurred() == NULL);
    return 1;
}

int
dls_read_hold_array(const dls_state *state, arrow_array *array, dls_acquired *acquired)
{
    assert(array->release != NULL && dls_hold_is_empty(&acquired->hold));
    /* The release of cuDF's columns drops a reference without taking the GIL (T10). */
    bool on_device = acquired->tensor.device.device_type != dl_kDLCPU;
    dls_hold hold = {.base = array,
                     .kind = DLS_HOLD_ARROW_NEAR,
                     .flags = state->import_number
                              | (on_device ? DLS_HOLD_WANTS_GIL : 0)};
    arrow_array *moved = dls_alloc(sizeof *moved);
    if (moved == NULL) {
        PyErr_NoMemory();
        dls_hold_drop(&hold, DLS_ATTACHED);
        return -1;
    }
    *moved = *array;
    hold.base = moved;
    hold.kind = DLS_HOLD_ARROW;
    dls_hold_move(&hold, &acquired->hold);
    return 0;
}

/* As fill_acquired, for a method of Arrow: the hold gets the array. */
static int
fill_from_arrow(dls_reading *reading)
{
    arrow_array array = {.release = NULL};
    reading->array = &array;
    int came = fill_acquired(reading);
    if (came > 0 && array.release != NULL
        && dls_read_hold_array(reading->state, &array, reading->acquired) < 0) {
        dls_acquired_drop(reading->acquired);
        return -1;
    }
    return came;
}

/* Destructors may run; a pending exception is kept. */
DLS_INLINE void
drop_given(dls_reading *reading)
{
    PyObject *error = PyErr_Occurred() != NULL ? dls_error_take() : NULL;
    for (int i = 0; reading->row->version != NULL && i < DLS_ENTRY_COUNT; i++) {
        Py_XDECREF(reading->entries[i]);
    }
    Py_XDECREF(reading->given);
    dls_error_report();
    if (error != NULL) {
        dls_error_restore(error);
    }
}

/* A reading by name has failed: because there is no such method (AttributeError), or
 * None in its place (TypeError)?  The attribute is looked up a second time for that.
 * Then the exception, which says only that, is cleared. */
static bool
is_missing(const dls_reading *reading)
{
    PyObject *method = NULL;
    bool absent = PyErr_ExceptionMatches(PyExc_AttributeError) != 0;
    if (!absent && !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return false;
    }
    PyObject *error = dls_error_take();
    int found = dls_get_optional(reading->obj, dls_reading_attribute(reading), &method);
    bool missing = absent ? found == 0 : method == Py_None;
    Py_XDECREF(method);
    if (found < 0 || missing) {
        Py_XDECREF(error);
    }
    else {
        dls_error_restore(error);
    }
    return missing;
}

/* The object is not asked.  Always -1. */
static int
refuse_table(dls_reading *reading, const char *text)
{
    dls_arrow_column column = {.reading = reading};
    dls_arrow_refuse(&column, text, "fields", NULL, 0);
    return dls_arrow_end(&column, -1);
}

int
dls_read_object(dls_state *state, PyObject *obj, const dls_plan *plan,
                dls_protocol protocol, const dls_request *request,
                dls_acquired *acquired, dls_producer_stream *p)
{
    dls_reading reading = {.state = state,
                           .obj = obj,
                           .protocol = protocol,
                           .row = &rows[protocol],
                           .request = request,
                           .in_memory = plan != NULL
                                        && dls_plan_has(plan, DLS_LIB_IN_MEMORY),
                           .tells_elements = plan != NULL && plan->tells_elements,
                           .is_known = plan == NULL || plan->library != NULL,
                           .acquired = acquired,
                           .p = p};
    assert(reading.row->read != NULL);
    if (dls_protocol_is_arrow(protocol)) {
        if (plan != NULL && plan->no_column != NULL) {
            return refuse_table(&reading, plan->no_column);
        }
        int came = fill_from_arrow(&reading);
        return came < 0 && is_missing(&reading) ? 0 : came;
    }
    int got = dls_protocol_attributes[protocol] == DLS_NAME_INDEX_NONE
                  ? dls_compat.PyObject_CheckBuffer(obj)
                  : dls_get_optional(obj, dls_reading_attribute(&reading),
                                     &reading.given);
    /* A class says None if it does not offer a protocol of its base. */
    if (got > 0) {
        got = reading.given != Py_None ? fill_acquired(&reading) : 0;
    }
    drop_given(&reading);
    return got;
}

int
dls_read_given(dls_state *state, PyObject *obj, PyObject *given, dls_protocol protocol,
               const dls_request *request, dls_acquired *acquired,
               dls_producer_stream *p)
{
    dls_reading reading = {.state = state,
                           .obj = obj,
                           .protocol = protocol,
                           .row = &rows[protocol],
                           .request = request,
                           .acquired = acquired,
                           .p = p,
                           .given = given};
    int got = dls_protocol_is_arrow(protocol) ? fill_from_arrow(&reading)
                                              : fill_acquired(&reading);
    drop_given(&reading);
    return got;
}

int
dls_read_column(dls_state *state, PyObject *obj, const dls_plan *plan,
                const dls_request *request, dls_column *column)
{
    dls_reading reading = {.state = state,
                           .obj = obj,
                           .protocol = column->protocol,
                           .row = &rows[column->protocol],
                           .request = request,
                           .in_memory = dls_plan_has(plan, DLS_LIB_IN_MEMORY),
                           .acquired = &column->acquired,
                           .p = &column->p,
                           .array = &column->array};
    dls_acquired_init(&column->acquired);
    column->array.release = NULL;
    int came = fill_acquired(&reading);
    return came < 0 && is_missing(&reading) ? 0 : came;
}
