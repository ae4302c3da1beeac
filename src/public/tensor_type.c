/* The type Tensor: its properties, its life in the collector's eyes, and its methods;
 * the type of its device; and the two functions that shim/arrays.py and shim/dtypes.py
 * build on.  tensor_dlpack and tensor_dealloc are hot.  Tests:
 * tests/core/test_lifetime.py, tests/core/test_properties.py,
 * tests/core/test_ways_out.py, tests/core/test_by_value.py,
 * tests/core/test_numpy_habits.py, tests/core/test_items.py. */
#include "public/tensor_type.h"

#include <assert.h>
#include <stddef.h>
#include <structmember.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "exchange/device_question.h"
#include "exchange/exchange.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "public/producer.h"
#include "python/errors.h"
#include "python/state.h"
#include "request/options.h"
#include "request/request.h"

/* --- the type of Tensor.device -------------------------------------------- */

static PyObject *
device_str(PyObject *self)
{
    char text[48];
    long parts[2];
    for (int i = 0; i < 2; i++) {
        PyObject *item = PyTuple_GetItem(self, i);
        parts[i] = item != NULL ? PyLong_AsLong(item) : -1;
    }
    if (PyErr_Occurred() != NULL) { /* the tuple was built by hand */
        PyErr_Clear();
        return PyUnicode_FromFormat("%R", self);
    }
    const dl_device device = {(int32_t)parts[0], (int32_t)parts[1]};
    return PyUnicode_FromString(dls_device_name(device, text, sizeof text));
}

static PyType_Slot device_slots[] = {
    {Py_tp_doc, "A DLPack device: a tuple (device_type, device_id) of plain ints.\n\n"
                "str() gives the name (\"cpu\", \"cuda:1\"), which device= takes."},
    {Py_tp_str, device_str},
    {0, NULL},
};

PyType_Spec dls_device_spec = {
    .name = "dlshim._core.device",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = device_slots,
};

/* A new device; NULL with an exception. */
static PyObject *
device_new(dls_state *state, dl_device device)
{
    PyObject *pair = dls_device_pair(state, device);
    PyObject *made = NULL;
    if (pair != NULL) {
        made = PyObject_CallFunctionObjArgs((PyObject *)state->device_type, pair, NULL);
        Py_DECREF(pair);
    }
    return made;
}

/* --- properties and repr -------------------------------------------------- */

/* Bytes of all elements. */
static int64_t
bytes_of(const dls_tensor *data)
{
    int64_t itemsize = dls_tensor_itemsize(data);
    int64_t count = dls_tensor_count(data);
    if (itemsize == 0) { /* packed: the formula of dlpack.h, over all elements */
        int64_t bits = dls_dtype_bits(data->tensor.dtype);
        return count / 8 * bits + (count % 8 * bits + 7) / 8;
    }
    return count * itemsize;
}

/* The dtype for NumPy 2.4 and newer, which ask for it if .dtype is not their own. */
static PyObject *
numpy_dtype(const dls_tensor *t)
{
    PyObject *dtype = dls_dtype_object(t->state, t->tensor.dtype);
    PyObject *numpys = NULL;
    if (dtype != NULL) {
        numpys = PyObject_GetAttrString(dtype, "__numpy_dtype__");
        Py_DECREF(dtype);
    }
    return numpys;
}

/* X(name, value for the Tensor `t`, which is the object `self`, docstring) */
#define PROPERTY_LIST(X)                                                               \
    X(shape, dls_dims_tuple(t->tensor.shape, t->tensor.ndim, 1),                       \
      "Extents, a tuple of ints.")                                                     \
    X(strides, dls_dims_tuple(t->tensor.strides, t->tensor.ndim, 1),                   \
      "Strides in elements, a tuple of ints; exactly the row-major ones if the data "  \
      "are C-contiguous.")                                                             \
    X(dtype, dls_dtype_object(t->state, t->tensor.dtype),                              \
      "The dlshim.dtype, which NumPy reads; equals its name and (code, bits, lanes).") \
    X(device, device_new(t->state, t->tensor.device),                                  \
      "(device_type, device_id), plain ints; str() gives \"cpu\" or \"cuda:1\".")      \
    X(ndim, PyLong_FromLong(t->tensor.ndim), "Number of dimensions.")                  \
    X(size, PyLong_FromLongLong(dls_tensor_count(t)), "Number of elements.")           \
    X(itemsize, PyLong_FromLongLong((dls_dtype_bits(t->tensor.dtype) + 7) / 8),        \
      "Bytes of one element, sub-byte ones rounded up.")                               \
    X(nbytes, PyLong_FromLongLong(bytes_of(t)),                                        \
      "Bytes of all elements, gaps not counted.")                                      \
    X(byte_offset, PyLong_FromUnsignedLongLong(t->tensor.byte_offset),                 \
      "Bytes from `data` to element zero: 0 where the device has addresses (folded "   \
      "in).")                                                                          \
    X(readonly, PyBool_FromLong((t->flags & DL_FLAG_READ_ONLY) != 0),                  \
      "True when the memory must not be written (DLPack flag READ_ONLY).")             \
    X(is_copied, PyBool_FromLong((t->flags & DL_FLAG_IS_COPIED) != 0),                 \
      "True when a copy was made for this Tensor (DLPack flag IS_COPIED).")            \
    X(version, Py_BuildValue("(ii)", (int)t->major, (int)t->minor),                    \
      "(major, minor) of the struct that was taken; (0, 8) for a legacy one, which "   \
      "carries none.")                                                                 \
    X(__numpy_dtype__, numpy_dtype(t),                                                 \
      "The dtype as NumPy's; AttributeError where it has none.")                       \
    X(__array_interface__, dls_array_interface(self),                                  \
      "NumPy's array interface v3 of host memory; AttributeError elsewhere.")          \
    X(__cuda_array_interface__, dls_cuda_interface(self),                              \
      "CUDA array interface; AttributeError for memory that is not CUDA's.")           \
    X(__sycl_usm_array_interface__, dls_sycl_interface(self),                          \
      "SYCL USM array interface; AttributeError for memory that is not oneAPI's.")

#define GETTER(name, value, doc)                               \
    static PyObject *get_##name(PyObject *self, void *closure) \
    {                                                          \
        const dls_tensor *t = dls_tensor_data(self);           \
        (void)closure;                                         \
        (void)t;                                               \
        return value;                                          \
    }
PROPERTY_LIST(GETTER)
#undef GETTER

/* The method data_ptr(). */
static PyObject *
tensor_data_ptr(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    return dls_address_object(dls_tensor_address(dls_tensor_data(self)));
}

static PyObject *
tensor_repr(PyObject *self)
{
    char text[48], device[48];
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    PyObject *shape = dls_dims_tuple(t->shape, t->ndim, 1);
    PyObject *strides = dls_dims_tuple(t->strides, t->ndim, 1);
    PyObject *repr = NULL;
    if (shape != NULL && strides != NULL) {
        repr = PyUnicode_FromFormat(
            "<dlshim.Tensor shape=%R strides=%R dtype=%s device=%s%s at %p>", shape,
            strides, dls_dtype_name(t->dtype, text, sizeof text),
            dls_device_name(t->device, device, sizeof device),
            data->flags & DL_FLAG_READ_ONLY ? " readonly" : "",
            dls_tensor_address(data));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return repr;
}

static PyGetSetDef getters[] = {
#define ROW(name, value, doc) {#name, get_##name, NULL, doc, NULL},
    PROPERTY_LIST(ROW)
#undef ROW
        {NULL, NULL, NULL, NULL, NULL},
};

/* --- life ----------------------------------------------------------------- */

/* The hold keeps the source object alive.  If exports share the hold, the source is not
 * this Tensor's alone, and dls_hold_visit does not show it to the collector. */
static int
tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    dls_tensor *data = dls_tensor_data(self);
    Py_VISIT(Py_TYPE(self));
    if (data->ready != NULL) {
        Py_VISIT(data->ready->stream);
    }
    const dls_hold hold = dls_tensor_hold(data);
    return dls_hold_visit(&hold, visit, arg);
}

static int
tensor_clear(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    if (data->ready != NULL) {
        data->ready->p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
        Py_CLEAR(data->ready->stream);
    }
    return 0;
}

static void
tensor_dealloc(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    DLS_COUNT_BY(tensors, -1);
    if (data->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    if (data->ready != NULL) {
        Py_XDECREF(data->ready->stream);
        dls_free(data->ready);
    }
    data->hold = dls_tensor_hold(data);
    if (PyErr_Occurred() != NULL) {
        dls_hold_drop(&data->hold, DLS_ATTACHED);
    }
    else {
        dls_hold_drop(&data->hold, DLS_ATTACHED_QUIET);
        dls_error_report();
    }
    int32_t ndim = data->tensor.ndim;
    assert(ndim >= 0);
    if (ndim <= DLS_FREELIST_NDIM) {
        dls_freelist_put(&dls_freelist_tensors[ndim], self);
    }
    else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* --- items ---------------------------------------------------------------- */
/* NumPy answers for host memory.  These are slots of a mapping and no sq_item:
 * consumers walk a sequence element by element (PySequence_Check of torch and pyarrow).
 */

static Py_ssize_t
tensor_length(PyObject *self)
{
    const dls_tensor *data = dls_tensor_data(self);
    if (data->tensor.ndim == 0) {
        return dls_refuse(data->state, DLS_ETYPE, self,
                          "it has no axes, so it has no length\n"
                          "  t.size counts its elements");
    }
    int64_t length = data->tensor.shape[0];
    if (length > PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "len() of a Tensor with a larger axis");
        return -1;
    }
    return (Py_ssize_t)length;
}

static PyObject *
tensor_subscript(PyObject *self, PyObject *key)
{
    return dls_in_python(dls_tensor_data(self)->state, DLS_IN_ARRAYS, "getitem", self,
                         &key, 1, NULL);
}

static PyObject *
tensor_iter(PyObject *self)
{
    return dls_in_python(dls_tensor_data(self)->state, DLS_IN_ARRAYS, "iterate", self,
                         NULL, 0, NULL);
}

static int
tensor_bool(PyObject *self)
{
    PyObject *answer = dls_in_python(dls_tensor_data(self)->state, DLS_IN_ARRAYS,
                                     "truth", self, NULL, 0, NULL);
    int truth = answer != NULL ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* --- the type ------------------------------------------------------------- */

static PyObject *
export_in_full(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    dls_exchange x;
    PyObject *capsule = NULL;
    dls_exchange_begin(&x, data->state, self, data->state->tensor_plan, NULL, NULL);
    if (dls_request_parse(data->state, args, n, kwnames, &data->asked, &x.request)
        == 0) {
        capsule = dls_exchange_run(&x, DLS_EXPORT_CAPSULE);
    }
    dls_exchange_end(&x);
    return capsule;
}

static PyObject *
tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    dls_usual usual = dls_fast_is_simple(data)
                          ? dls_request_read_usual(data->state, args, n, kwnames)
                          : DLS_READ_IN_FULL;
    bool plain = usual == DLS_WANTS_LEGACY || usual == DLS_WANTS_VERSIONED;
    if (plain && data->asked != 0
        && dls_fast_looks_at_strides(usual == DLS_WANTS_VERSIONED, kwnames)
        && !dls_tensor_is_in_rows(&data->tensor)) {
        plain = false; /* the consumer may not take strided memory (N9) */
    }
    return plain ? dls_fast_capsule_of_tensor(data, usual == DLS_WANTS_VERSIONED)
                 : export_in_full(self, args, n, kwnames);
}

static PyObject *
tensor_dlpack_device(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    dls_tensor *data = dls_tensor_data(self);
    dls_question_note(&data->asked);
    return dls_device_pair(data->state, data->tensor.device);
}

/* Methods that are written in Python. */
#define IN_PYTHON(name)                                                                \
    static PyObject *tensor_##name(PyObject *self, PyObject *const *args,              \
                                   Py_ssize_t n, PyObject *kwnames)                    \
    {                                                                                  \
        return dls_in_python(dls_tensor_data(self)->state, DLS_IN_ARRAYS, #name, self, \
                             args, n, kwnames);                                        \
    }
IN_PYTHON(array)
IN_PYTHON(tolist)
IN_PYTHON(item)
IN_PYTHON(view)
IN_PYTHON(reduce)
#undef IN_PYTHON

/* numpy.from_dlpack, a new reference; NULL, nothing set: NumPy is not imported, or is
 * older than 2.1 (which brought unstack) and would make each array read-only. */
static PyObject *
numpy_from_dlpack(dls_state *state)
{
    PyObject *numpy = dls_dict_borrow(state->modules, state->names.numpy);
    bool there = numpy != NULL && PyModule_Check(numpy);
    PyObject *dict = there ? PyModule_GetDict(numpy) : NULL;
    PyObject *newer = there ? dls_dict_borrow(dict, state->names.unstack) : NULL;
    PyObject *found = newer != NULL ? dls_dict_borrow(dict, state->names.from_dlpack)
                                    : NULL;
    PyObject *function = Py_XNewRef(found);
    dls_let_go(found);
    dls_let_go(newer);
    dls_let_go(numpy);
    PyErr_Clear();
    return function;
}

/* Of plain memory without flags from_dlpack makes what asarray makes, at two thirds of
 * the cost. */
static PyObject *
tensor_numpy(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    dls_tensor *data = dls_tensor_data(self);
    bool plain = dls_fast_is_simple(data)
                 && dls_dtype_format(data->tensor.dtype) != NULL;
    PyObject *function = plain ? numpy_from_dlpack(data->state) : NULL;
    if (function == NULL) {
        return dls_in_python(data->state, DLS_IN_ARRAYS, "array", self, NULL, 0, NULL);
    }
    PyObject *made = dls_compat.PyObject_Vectorcall(function, &self, 1, NULL);
    Py_DECREF(function);
    return made;
}

static PyObject *
tensor_tobytes(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    const dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    int64_t bytes = bytes_of(data);
    bool plain = n == 0 && kwnames == NULL && data->ready == NULL
                 && dls_device_is_host(t->device.device_type)
                 && dls_layout_is_contiguous(t->ndim, t->shape, t->strides)
                 && bytes <= PY_SSIZE_T_MAX;
    return plain ? PyBytes_FromStringAndSize((const char *)dls_tensor_address(data),
                                             (Py_ssize_t)bytes)
                 : dls_in_python(data->state, DLS_IN_ARRAYS, "tobytes", self, args, n,
                                 kwnames);
}

/* __copy__ and __deepcopy__: memory of its own, which may be written. */
static PyObject *
tensor_copy(PyObject *self, PyObject *DLS_UNUSED(memo))
{
    dls_state *state = dls_tensor_data(self)->state;
    return dls_export_tensor(state, state->tensor_plan, self, NULL, NULL, 1);
}

static PyMethodDef methods[] = {
    DLS_DLPACK_METHODS(tensor_dlpack, METH_FASTCALL | METH_KEYWORDS,
                       tensor_dlpack_device, METH_NOARGS, tensor_array,
                       METH_FASTCALL | METH_KEYWORDS),
    {"tobytes", DLS_FASTCALL(tensor_tobytes), METH_FASTCALL | METH_KEYWORDS,
     "tobytes($self, order=\"C\")\n--\n\n"
     "The elements as bytes, in row-major (C) or column-major (F) order, or as they\n"
     "lie (A)."},
    {"tolist", DLS_FASTCALL(tensor_tolist), METH_FASTCALL | METH_KEYWORDS,
     "tolist($self, /)\n--\n\n"
     "The elements as Python's numbers, in nested lists; NumPy's tolist()."},
    {"item", DLS_FASTCALL(tensor_item), METH_FASTCALL | METH_KEYWORDS,
     "item($self, /, *args)\n--\n\n"
     "The only element as a number of Python, or the one at these indices; NumPy's\n"
     "item()."},
    {"view", DLS_FASTCALL(tensor_view), METH_FASTCALL | METH_KEYWORDS,
     "view($self, dtype)\n--\n\n"
     "The same memory with another dtype of the same width, as from_dlpack(t,\n"
     "reinterpret=dtype) gives it."},
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy($self, /)\n--\n\n"
     "The memory as a NumPy array, as numpy.asarray() gives it; host memory only."},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))dls_tensor_arrow,
     METH_VARARGS | METH_KEYWORDS,
     "__arrow_c_array__($self, requested_schema=None)\n--\n\n"
     "The memory as a column of Arrow, without a copy: two capsules (Arrow PyCapsule\n"
     "interface).  C-contiguous host memory of integers and floats; BufferError for\n"
     "any other.  The schema that is requested is not followed.  Do not write to the\n"
     "memory while a column holds it."},
    {"__reduce_ex__", DLS_FASTCALL(tensor_reduce), METH_FASTCALL | METH_KEYWORDS,
     "__reduce_ex__($self, protocol, /)\n--\n\nPickle by value."},
    {"__copy__", tensor_copy, METH_NOARGS,
     "__copy__($self, /)\n--\n\nA copy, which may be written."},
    {"__deepcopy__", tensor_copy, METH_O,
     "__deepcopy__($self, memo, /)\n--\n\nA copy, which may be written."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS,
     "data_ptr($self, /)\n--\n\n"
     "Address of element zero as an int; the handle on devices without addresses."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_tensor, weakrefs),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

bool
dls_tensor_is_type(PyTypeObject *type)
{
    return (uintptr_t)PyType_GetSlot(type, Py_tp_dealloc) == (uintptr_t)tensor_dealloc;
}

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A tensor that was taken: it owns the memory (or a share of it) and describes "
     "it.\n\n"
     "Made by from_dlpack().  It may be exported any number of times, by DLPack in "
     "both\n"
     "generations, the buffer protocol (host memory), __array_interface__ and Arrow's\n"
     "__arrow_c_array__.  NumPy reads its items."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_repr, tensor_repr},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, tensor_subscript},
    {Py_tp_iter, tensor_iter},
    {Py_nb_bool, tensor_bool},
    {DLS_BF_GETBUFFER, dls_tensor_getbuffer},
    {DLS_BF_RELEASEBUFFER, dls_tensor_releasebuffer},
    {0, NULL},
};

PyType_Spec dls_tensor_spec = {
    .name = "dlshim.Tensor",
    .basicsize = DLS_BASICSIZE(dls_tensor),
    .itemsize = sizeof(int64_t),
    /* Not IMMUTABLETYPE: dls_ctable_add adds attributes, then freezes the type. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* --- for shim/arrays.py and shim/dtypes.py -------------------------------- */

/* dtype(value): an int is (lanes << 16 | bits << 8 | code), the key of dtypes. */
static PyObject *
dtype_facts(PyObject *module, PyObject *value)
{
    char name[48], typestr[16];
    dl_dtype dtype;
    if (PyLong_Check(value)) {
        unsigned long long key = PyLong_AsUnsignedLongLong(value);
        dtype = (dl_dtype){(uint8_t)key, (uint8_t)(key >> 8), (uint16_t)(key >> 16)};
    }
    else if (dls_parse_dtype(dls_state_of(module), "dtype", value, &dtype) < 0) {
        return NULL;
    }
    bool has = dls_dtype_typestr(dtype, typestr);
    return PyErr_Occurred() == NULL
               ? Py_BuildValue(
                     "(iiiss)", (int)dtype.code, (int)dtype.bits, (int)dtype.lanes,
                     dls_dtype_name(dtype, name, sizeof name), has ? typestr : "|V1")
               : NULL;
}

/* The flags of a Tensor's struct, as DLPack has them. */
static PyObject *
flags_of(PyObject *module, PyObject *tensor)
{
    return PyObject_TypeCheck(tensor, dls_state_of(module)->tensor_type)
               ? PyLong_FromUnsignedLong(dls_tensor_data(tensor)->flags)
               : PyErr_Format(PyExc_TypeError, "_flags takes a Tensor");
}

/* Fill n dims from a tuple.  0, or -1 with an exception. */
static int
read_dims(PyObject *tuple, Py_ssize_t n, int64_t *dims)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        dims[i] = item != NULL ? PyLong_AsLongLong(item) : -1;
    }
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* A new Tensor that shares the memory of another one, with the caller's description of
 * it: Python has checked that the memory is large enough. */
static PyObject *
view(PyObject *module, PyObject *args)
{
    dls_state *state = dls_state_of(module);
    PyObject *tensor, *shape, *strides;
    dl_dtype dtype;
    unsigned flags;
    if (!PyArg_ParseTuple(args, "O!(bbH)O!O!I:_view", state->tensor_type, &tensor,
                          &dtype.code, &dtype.bits, &dtype.lanes, &PyTuple_Type, &shape,
                          &PyTuple_Type, &strides, &flags)) {
        return NULL;
    }
    dls_tensor *old = dls_tensor_data(tensor);
    Py_ssize_t n = PyTuple_Size(shape);
    dl_tensor as = old->tensor;
    as.dtype = dtype;
    as.ndim = (int32_t)n;
    dls_tensor *made = dls_tensor_new_plain(state, &as);
    if (made == NULL) {
        return NULL;
    }
    made->major = old->major;
    made->minor = old->minor;
    made->generation = old->generation;
    made->flags = flags;
    made->readonly_stated = true;
    dls_shared *shared = NULL;
    if (read_dims(shape, n, made->dims) == 0
        && read_dims(strides, n, made->dims + n) == 0) {
        shared = dls_tensor_share(old);
    }
    if (shared == NULL) {
        Py_DECREF(DLS_OBJECT(made));
        return NULL;
    }
    dls_hold hold = {.base = shared, .kind = DLS_HOLD_SHARED};
    dls_tensor_set_hold(DLS_OBJECT(made), &hold);
    PyObject_GC_Track(DLS_OBJECT(made));
    if (dls_track_wants(made) && dls_track_tensor(state, DLS_OBJECT(made)) < 0) {
        Py_DECREF(DLS_OBJECT(made));
        return NULL;
    }
    return DLS_OBJECT(made);
}

PyMethodDef dls_by_value_methods[] = {
    {"_dtype", dtype_facts, METH_O, NULL},
    {"_flags", flags_of, METH_O, NULL},
    {"_view", view, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
