/* The wrapper's own C table, and the loops that time any type's table
 * from C, as a C++ consumer would call it. */
#include "floor.h"

static int wrapper_owned(void *object, dl_managed_tensor_versioned **out)
{
    floor_wrapper *self = object;
    if (self->form == FLOOR_TABLE) { /* kernels take parameters: no question about grad */
        return self->plan->table->managed_tensor_from_py_object_no_sync(self->source, out);
    }
    *out = floor_own(self->state, self->plan, self->form, self->source);
    return *out != NULL ? 0 : -1;
}

static int wrapper_borrow(void *object, dl_tensor *out)
{
    floor_wrapper *self = object;
    if (self->form == FLOOR_TABLE && self->plan->table->dltensor_from_py_object_no_sync != NULL) {
        return self->plan->table->dltensor_from_py_object_no_sync(self->source, out);
    }
    if (self->kept == NULL) {
        self->kept = floor_own(self->state, self->plan, self->form, self->source);
        if (self->kept == NULL) {
            return -1;
        }
    }
    *out = self->kept->dl_tensor;
    return 0;
}

static int wrapper_stream(int32_t device_type, int32_t device_id, void **out)
{
    (void)device_type;
    (void)device_id;
    *out = NULL;
    return 0;
}

static int wrapper_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                            void *context, void (*set_error)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    set_error(context, "BufferError", "the floor allocates nothing");
    return -1;
}

static int wrapper_object(dl_managed_tensor_versioned *tensor, void **out)
{
    (void)tensor;
    (void)out;
    PyErr_SetString(PyExc_BufferError, "the floor's wrappers take nothing");
    return -1;
}

static dl_exchange_api wrapper_table = {
    .header = {{1, 3}, NULL},
    .managed_tensor_allocator = wrapper_allocate,
    .managed_tensor_from_py_object_no_sync = wrapper_owned,
    .managed_tensor_to_py_object_no_sync = wrapper_object,
    .dltensor_from_py_object_no_sync = wrapper_borrow,
    .current_work_stream = wrapper_stream,
};

int floor_add_table(PyTypeObject *type)
{
    PyObject *capsule = PyCapsule_New(&wrapper_table, DL_NAME_EXCHANGE_API, NULL);
    if (capsule == NULL) {
        return -1;
    }
    int result =
        PyObject_SetAttrString((PyObject *)type, "__dlpack_c_exchange_api__", capsule);
    Py_DECREF(capsule);
    return result;
}
