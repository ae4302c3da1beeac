/* Decides about the memory that goes out: each rule that concerns the data is one
 * function, which either refuses or writes its decision into the record or into
 * dls_resolved.  Makes the host copy that an export needs.  Called by export.c.  Tests:
 * tests/core/test_readonly_and_copies.py, test_bad_input.py, test_options.py,
 * tests/device/test_copies.py. */
#include "export/resolve.h"

#include <assert.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "exchange/objects.h"
#include "gpu/device_copy.h"
#include "protocols/protocols.h"
#include "python/errors.h"
#include "sync/sycl.h"
#include "sync/sync_exchange.h"
#include "sync/transfer.h"
#include "types/library.h"

/* --- the copy on the host ------------------------------------------------- */

/* May dlshim make the copy?  Not if copy=False was asked for, nor on a device where
 * dlshim makes no memory, nor of elements that are no whole bytes. */
static int
check_copy(const dls_exchange *x, const dls_resolved *resolved)
{
    const dls_delivery *what = &resolved->delivery;
    const char *why_not;
    if (x->request.want.copy == 0) {
        return dls_refuse_copy(x->state, x->source, resolved->reason->word,
                               ", but copy=False was asked for\n"
                               "  allow it with copy=None, or drop the option",
                               "a copy is needed (%s)", resolved->reason->text);
    }
    if (!resolved->fetch && !resolved->send
        && !dls_device_is_host(what->tensor.device.device_type)
        && !dls_transfer_can_allocate(what->tensor.device.device_type)) {
        why_not = "and dlshim makes no copies on such a device\n"
                  "  pass its .copy() or .contiguous()";
    }
    else if (dls_dtype_bits(what->tensor.dtype) % 8 != 0
             && !(what->flags & DL_FLAG_SUBBYTE_PADDED)) {
        why_not = "but its elements are no whole number of bytes\n"
                  "  copy it with its own library";
    }
    else {
        return 0;
    }
    return dls_refuse(x->state, DLS_EBUFFER, x->source, "a copy is needed (%s), %s",
                      resolved->reason->text, why_not);
}

/* Fill the copy.  The copy stream waits already for the work on device memory. */
static int
fill_copy(const dls_exchange *x, void *to, const dls_resolved *resolved, dls_error *err)
{
    const dl_tensor *tensor = &resolved->delivery.tensor;
    int64_t itemsize = resolved->scan.itemsize;
    if (resolved->scan.count == 0) {
        return DLS_OK;
    }
    return resolved->fetch ? dls_copy_to_host(to, tensor, itemsize, &x->acquired.memory,
                                              x->acquired.copy.stream, err)
                           : dls_host_copy(to, tensor, itemsize);
}

/* Fill the copy with oneAPI memory.  The host has waited for the work on it. */
static int
fill_from_oneapi(const dls_exchange *x, void *to, const dls_resolved *resolved)
{
    return resolved->scan.count == 0
               ? 0
               : dls_sycl_copy_to_host(
                     x->state, x->source, to, &resolved->delivery.tensor,
                     resolved->scan.itemsize, dls_syclobj_find(&x->acquired.hold));
}

/* Fill the copy, without the GIL where that is worth it.  0, or -1. */
static int
fill_from(const dls_exchange *x, void *to, const dls_resolved *resolved, int64_t bytes)
{
    dls_error err; /* its text is filled where it is read */
    err.code = DLS_ENOMEM;
    if (resolved->fetch
        && resolved->delivery.tensor.device.device_type == dl_kDLOneAPI) {
        return fill_from_oneapi(x, to, resolved);
    }
    /* Without the GIL, another holder of the capsule could free host memory meanwhile.
     */
    bool alone = resolved->fetch ? bytes != 0
                                 : bytes >= DLS_COPY_WITHOUT_GIL && !x->acquired.shared;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    int code = fill_copy(x, to, resolved, &err);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    return code == DLS_OK ? 0 : dls_refuse_error(x->state, x->source, &err);
}

static int
make_copy(const dls_exchange *x, dls_resolved *resolved)
{
    int64_t bytes = resolved->scan.count * resolved->scan.itemsize; /* scanned */
    void *start;
    void *block = dls_alloc_aligned(bytes, x->request.want.copy_align, &start);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (fill_from(x, start, resolved, bytes) < 0) {
        dls_free(block);
        return -1;
    }
    DLS_COUNT(copied);
    resolved->made = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    resolved->copied = true;
    resolved->delivery.tensor.data = start;
    resolved->delivery.tensor.byte_offset = 0;
    resolved->delivery.canonical = true;
    if (resolved->fetch) {
        resolved->delivery.tensor.device = (dl_device){dl_kDLCPU, 0};
    }
    return 0;
}

/* Send row-major host memory to the oneAPI device that is wanted. */
static int
send_to_oneapi(const dls_exchange *x, dls_resolved *resolved, int64_t bytes)
{
    dls_delivery *what = &resolved->delivery;
    dls_hold gathered = {0};
    dls_sycl_block block = {.bytes = bytes,
                            .alignment = x->request.want.copy_align,
                            .device_id = x->request.want.device.device_id};
    dls_hold_move(&resolved->made, &gathered);
    block.src = (const char *)what->tensor.data + what->tensor.byte_offset;
    int code = dls_sycl_copy_from_host(x->state, x->source, &block);
    if (!dls_hold_is_empty(&gathered)) {
        dls_hold_drop(&gathered, DLS_ATTACHED);
    }
    if (code < 0) {
        return -1;
    }
    resolved->made = (dls_hold){.py = block.hold, .flags = x->state->import_number};
    resolved->copied = true;
    what->tensor.data = block.data;
    what->tensor.byte_offset = 0;
    what->tensor.device = x->request.want.device;
    what->canonical = true;
    return 0;
}

/* Strided memory is gathered on the host first. */
static int
copy_to_oneapi(const dls_exchange *x, dls_resolved *resolved)
{
    int64_t bytes = resolved->scan.count * resolved->scan.itemsize;
    if (!resolved->scan.contiguous) {
        return make_copy(x, resolved) < 0 ? -1 : send_to_oneapi(x, resolved, bytes);
    }
    if (send_to_oneapi(x, resolved, bytes) < 0) {
        return -1;
    }
    DLS_COUNT(copied);
    return 0;
}

/* Make a row-major copy of the memory that resolved->delivery describes, for
 * resolved->reason, and from the device if resolved->fetch; the shape was scanned.  The
 * copy is private, so it is writable unless the user says otherwise (T8).  0:
 * resolved->delivery describes the copy, and resolved->made holds it.  -1: an exception
 * is set, and resolved->made is empty: a copy is needed that was forbidden, or that
 * dlshim cannot make. */
static int
resolve_copy(dls_exchange *x, dls_resolved *resolved)
{
    int32_t have = resolved->delivery.tensor.device.device_type;
    bool on_host = resolved->fetch || (!resolved->send && dls_device_is_host(have));
    bool to_oneapi = resolved->send
                     && x->request.want.device.device_type == dl_kDLOneAPI;
    bool host_reads = dls_device_is_host(have) || have == dl_kDLCUDAManaged;
    if (check_copy(x, resolved) < 0 || (host_reads && dls_copy_wait(x) < 0)
        || (to_oneapi ? copy_to_oneapi(x, resolved)
            : on_host ? make_copy(x, resolved)
                      : dls_resolve_device_copy(x, resolved))
               < 0) {
        return -1;
    }
    resolved->needs_keeping = x->keeps;
    resolved->delivery.flags |= DL_FLAG_IS_COPIED;
    if (x->request.want.readonly == DLS_READONLY_TRUE) {
        resolved->delivery.flags |= DL_FLAG_READ_ONLY;
    }
    return 0;
}

/* --- dtype (T7) ------------------------------------------------------------- */

/* How the source is written where an array of NumPy is needed; NULL: it cannot be. */
static const char *
array_of(const dls_exchange *x)
{
    bool on_host = x->acquired.tensor.device.device_type == dl_kDLCPU;
    return dls_cure_array(x->state, x->source, on_host);
}

/* How elements without a code are converted.  NumPy does not read long doubles from a
 * buffer's format. */
static const char *
conversion_of(const dls_exchange *x)
{
    uint8_t code = x->acquired.tensor.dtype.code;
    bool buffer = x->acquired.hold.kind == DLS_HOLD_BUFFER;
    if (buffer && code == DLS_DTYPE_COMPLEX) {
        return "numpy.frombuffer(x, 'clongdouble')";
    }
    return buffer && code == DLS_DTYPE_FLOAT ? "numpy.frombuffer(x, 'longdouble')"
                                             : array_of(x);
}

/* The dtype to convert to, if the elements are numbers. */
static const char *
nearest_dtype(uint8_t code)
{
    return code == DLS_DTYPE_TIME      ? "int64"
           : code == DLS_DTYPE_COMPLEX ? "complex128"
                                       : "float64";
}

/* The cure that ends the refusal below, for elements of so many bytes: without a sign,
 * and with one.  numpy.save and HDF5 keep the width of a registered dtype, not its
 * name. */
#define SAME_WIDTH(name) \
    ", or name a dtype of the same width, such as reinterpret=\"" name "\""
#define SAVED(name) ", or reinterpret=\"" name "\" if that is what they are"
static const char *const same_width[2][9] = {
    {[1] = SAME_WIDTH("uint8") SAVED("float8_e4m3fn"),
     [2] = SAME_WIDTH("uint16") SAVED("bfloat16"),
     [4] = SAME_WIDTH("uint32"),
     [8] = SAME_WIDTH("uint64")},
    {[1] = SAME_WIDTH("int8"),
     [2] = SAME_WIDTH("int16"),
     [4] = SAME_WIDTH("int32"),
     [8] = SAME_WIDTH("int64")}};
#undef SAVED
#undef SAME_WIDTH

/* DLPack has no code for the elements, and reinterpret= named none.  The error of
 * __dlpack__ is the cause. */
static int
check_code(dls_exchange *x)
{
    dl_dtype dtype = x->acquired.tensor.dtype;
    int bytes = dtype.lanes; /* see DLS_DTYPE_UNKNOWN; 0: no dtype is as wide */
    if (dtype.code < DLS_DTYPE_COMPLEX || x->acquired.generation != DLS_DESCRIBED) {
        return 0;
    }
    bool has_sign = dtype.code == DLS_DTYPE_TIME;
    const char *cure = bytes <= 8 ? same_width[has_sign][bytes] : NULL;
    int code = cure != NULL ? DLS_EOPTION : DLS_EBUFFER;
    cure = cure != NULL ? cure : "";
    if (array_of(x) == NULL) {
        dls_refuse(x->state, code, x->source,
                   "its elements are of a kind that DLPack has no code for\n"
                   "  convert them with its own library first%s",
                   cure);
    }
    else if (dtype.code == DLS_DTYPE_UNKNOWN) {
        dls_refuse(x->state, code, x->source,
                   "its elements are of a kind that DLPack has no code for\n"
                   "  pass their bytes with numpy.frombuffer(%s.tobytes(), 'uint8')%s",
                   array_of(x), cure);
    }
    else {
        dls_refuse(x->state, code, x->source,
                   "its elements are of a kind that DLPack has no code for\n"
                   "  convert them with %s.astype('%s')%s%s",
                   conversion_of(x), nearest_dtype(dtype.code),
                   has_sign ? "" : ", which rounds to 53 bits", cure);
    }
    if (x->first_error != NULL) {
        dls_refuse_with_cause(x->first_error);
        x->first_error = NULL;
    }
    return -1;
}

/* Padded elements take one byte each, and so does MXNet's bool, a legacy element of one
 * bit.  Others are packed: JAX puts two float4 in a byte of a legacy capsule. */
static int64_t
width_in_memory(const dls_acquired *acquired)
{
    int64_t bits = dls_dtype_bits(acquired->tensor.dtype);
    bool bytewise = (acquired->generation == DLS_LEGACY && bits == 1)
                    || (acquired->flags & DL_FLAG_SUBBYTE_PADDED);
    return bits < 8 && bytewise ? 8 : bits;
}

/* reinterpret= names a dtype of the same width. */
static int
apply_reinterpret(dls_exchange *x, dls_resolved *resolved)
{
    if (!x->request.want.has_dtype) {
        return 0;
    }
    char have_text[48], want_text[48];
    const dl_dtype wanted = x->request.want.dtype;
    dl_dtype *have = &x->acquired.tensor.dtype;
    int width = (int)width_in_memory(&x->acquired);
    if (dls_dtype_bits(wanted) != width) {
        return dls_refuse(
            x->state, DLS_EOPTION, x->source,
            "reinterpret=\"%s\" needs elements of %d bits, these (%s) take %d\n"
            "  name a dtype of that width",
            dls_dtype_name(wanted, want_text, sizeof want_text),
            (int)dls_dtype_bits(wanted),
            dls_dtype_name(*have, have_text, sizeof have_text), width);
    }
    if (have->code != wanted.code || have->bits != wanted.bits
        || have->lanes != wanted.lanes) {
        resolved->is_named_bool = wanted.code == dl_kDLBool && wanted.bits == 8;
        *have = wanted;
        x->acquired.flags &= ~DL_FLAG_SUBBYTE_PADDED;
        x->acquired.altered = true;
    }
    return 0;
}

/* The packing of elements below 8 bits cannot be said across the generations. */
static int
check_packing(const dls_exchange *x)
{
    dl_dtype dtype = x->acquired.tensor.dtype;
    bool to_versioned = x->request.want.versioned || x->request.who.supports_anything;
    bool known = to_versioned ? x->acquired.generation != DLS_LEGACY
                              : x->acquired.generation == DLS_LEGACY;
    if (known || dls_dtype_bits(dtype) >= 8) {
        return 0;
    }
    char text[48];
    bool bytewise = width_in_memory(&x->acquired) == 8;
    return dls_refuse(
        x->state, bytewise ? DLS_EOPTION : DLS_EBUFFER, x->source,
        "elements of %s are below 8 bits, and how they are packed cannot be said from "
        "a %s capsule to a %s one\n"
        "  %s",
        dls_dtype_name(dtype, text, sizeof text), to_versioned ? "legacy" : "versioned",
        to_versioned ? "versioned" : "legacy",
        bytewise ? "name a dtype of one byte with reinterpret= (\"bool\" or \"uint8\")"
                 : "convert them with their own library to a dtype of whole bytes "
                   "(float32, int8)");
}

/* --- device --------------------------------------------------------------- */

/* The memory is wanted where it is, or under another label, or on the host. */
static int
resolve_device(dls_exchange *x, dls_resolved *resolved)
{
    if (x->request.want.has_assumed) {
        x->acquired.tensor.device = x->request.want.assumed;
    }
    dl_device have = x->acquired.tensor.device, want = x->request.want.device;
    switch (dls_transfer_of(x->state, &x->request, have)) {
    case DLS_TRANSFER_HERE:
        return 0;
    case DLS_TRANSFER_TO_ONEAPI:
        resolved->send = true;
        return 0;
    case DLS_TRANSFER_AS_HOST: /* waited for already; every host id is 0 */
        x->acquired.tensor.device = (dl_device){dl_kDLCPU, 0};
        return 0;
    case DLS_TRANSFER_AS_CUDA:
        x->acquired.tensor.device = want;
        return 0;
    case DLS_TRANSFER_TO_HOST:
    case DLS_TRANSFER_PEER:
        if (x->acquired.copy.kind != DLS_COPY_NONE) {
            resolved->fetch = want.device_type == dl_kDLCPU;
            resolved->send = !resolved->fetch;
            return 0;
        }
        break;
    case DLS_TRANSFER_TO_DEVICE:
        resolved->send = true;
        return dls_transfer_check(x->state, x->source, &x->request, have);
    default:
        break;
    }
    return dls_transfer_raise(x->state, x->source, &x->request, have, NULL);
}

/* Never believe that the producer has copied device memory (N7): its flag says so, or
 * the library is known to obey. */
static bool
must_copy(const dls_exchange *x, int32_t device_type)
{
    bool told = (x->acquired.flags & DL_FLAG_IS_COPIED)
                || (x->acquired.copy_asked
                    && dls_plan_has(x->plan, DLS_LIB_COPIES_UNFLAGGED));
    /* Our own copy: the chunks of a column, joined (C9).  One that may not be written
     * is a library's. */
    bool ours = (x->acquired.flags & DL_FLAG_IS_COPIED)
                && !(x->acquired.flags & DL_FLAG_READ_ONLY)
                && x->acquired.generation == DLS_DESCRIBED;
    return x->request.want.copy == 1 && !ours
           && (dls_device_is_host(device_type) || !told);
}

/* Consumers that can copy the memory to their device themselves are left to do it: they
 * know the queue that it is for, and the copy of ours is for the default one (N7). They
 * have no way for empty arrays, for those of no dimensions, and for rows whose elements
 * do not lie together. */
static int
check_sent(const dls_exchange *x, const dls_resolved *resolved)
{
    const dl_tensor *tensor = &x->acquired.tensor;
    int32_t last = tensor->ndim - 1;
    bool in_rows = last >= 0
                   && (tensor->strides == NULL || tensor->shape[last] == 1
                       || tensor->strides[last] == 1);
    bool easy = resolved->scan.count != 0 && !resolved->scan.negative && in_rows;
    return resolved->send && easy && dls_request_moves_itself(&x->request)
               ? dls_transfer_raise(x->state, x->source, &x->request, tensor->device,
                                    NULL)
               : 0;
}

/* --- the copy (T2, T8) ------------------------------------------------------ */

#define REASON(name, word, text) static const dls_copy_reason name = {word, text};
REASON(to_host, "device", "device memory is wanted on the host")
REASON(to_device, "device", "it is wanted on another device")
REASON(asked_for, "copy", "copy=True")
REASON(private_copy, "readonly", "it is read-only, and readonly=\"copy\"")
REASON(row_major, "order", "order=\"C\" for strides that are not row-major")
REASON(not_taken, "order", "order=\"auto\" for strides that the consumer does not take")
REASON(aligned, "align", "align= for memory that is not so aligned")
#undef REASON

static bool
is_misaligned(const dls_request *request, const dls_resolved *resolved)
{
    const dl_tensor *tensor = &resolved->delivery.tensor;
    if (request->want.align == 0 || resolved->scan.count == 0) {
        return false;
    }
    uintptr_t address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
    return (address & (uintptr_t)(request->want.align - 1)) != 0;
}

/* Is the consumer known not to take memory of this layout (N9)?  *layout: the one that
 * it takes; *package as of dls_request_layout. */
static bool
is_known_to_refuse(const dls_exchange *x, const dls_resolved *resolved,
                   dls_layout *layout, const char **package)
{
    const dls_scan *scan = &resolved->scan;
    if (scan->contiguous) {
        return false;
    }
    *layout = dls_request_layout(x->state, &x->request, scan->negative, package);
    return !dls_tensor_has_layout(&resolved->delivery.tensor, scan, *layout);
}

/* Why a copy is needed, or NULL.  Of several reasons the first counts. */
static const dls_copy_reason *
reason_to_copy(const dls_exchange *x, const dls_resolved *resolved)
{
    dls_layout layout;
    const char *package;
    if (resolved->fetch) {
        return &to_host;
    }
    if (resolved->send) {
        return &to_device;
    }
    if (must_copy(x, resolved->delivery.tensor.device.device_type)) {
        return &asked_for;
    }
    if (resolved->reason != NULL) {
        return resolved->reason; /* it is read-only */
    }
    if (x->request.want.order == DLS_ORDER_C && !resolved->scan.contiguous) {
        return &row_major;
    }
    if (x->request.want.order == DLS_ORDER_AUTO
        && is_known_to_refuse(x, resolved, &layout, &package)) {
        return &not_taken;
    }
    return is_misaligned(&x->request, resolved) ? &aligned : NULL;
}

/* --- read-only (T8) ------------------------------------------------------- */

dls_readonly
dls_resolve_readonly_word(const dls_exchange *x)
{
    dls_readonly said = x->request.want.readonly;
    bool remembers = said == DLS_READONLY_UNSAID
                     && Py_IS_TYPE(x->source, x->state->tensor_type);
    return remembers                   ? dls_tensor_data(x->source)->readonly
           : said < DLS_READONLY_FALSE ? said
                                       : DLS_READONLY_UNSAID;
}

/* Refuse to give this consumer the memory as it is. */
static int
refuse_readonly(const dls_exchange *x, const char *why)
{
    return dls_refuse(x->state, DLS_EOPTION, x->source,
                      "it is read-only, and the consumer %s\n"
                      "  pass readonly=\"share\" if the consumer does not write, or "
                      "readonly=\"copy\" to give it a private copy",
                      why);
}

/* A consumer of DLPack 0.x, or one that borrows, is not told.  JAX alone gets the
 * memory all the same, for it never writes. */
static int
resolve_untold(const dls_exchange *x, dls_readonly word)
{
    bool kernel = x->request.who.kernel_asks;
    if (word == DLS_READONLY_UNSAID && !kernel
        && dls_library_asked_by(x->state, DLS_ASKER_NEVER_WRITES) != NULL) {
        return 0;
    }
    return refuse_readonly(
        x, kernel ? "borrows it through the C table, which cannot say so"
                  : "asked for a legacy capsule, which cannot say so");
}

/* A consumer that is told of the flag gets the memory.  If it is known not to heed the
 * flag, the user is warned.  Code in C that takes a struct by our C table is never
 * known. */
static int
resolve_told(const dls_exchange *x, dls_readonly word)
{
    bool strict = word == DLS_READONLY_ERROR;
    if (x->request.who.kernel_asks) {
        return strict
                   ? refuse_readonly(
                         x, "takes it through the C table, where few look at the flag")
                   : 0;
    }
    const char *module = x->request.who.device_question
                             ? dls_library_asked_by(x->state, DLS_ASKER_HEEDS_NOT)
                             : NULL;
    if (module == NULL) {
        return 0;
    }
    if (strict) {
        return refuse_readonly(x, "is known to write to read-only memory");
    }
    return dls_warn(x->state, x->state->readonly_warning, x->source,
                    "it is read-only, and %s does not heed that: what is written there "
                    "changes this memory, or ends the process; pass readonly=\"copy\" "
                    "for a private copy, readonly=\"share\" if nothing writes, or "
                    "readonly=\"error\" to be refused",
                    module);
}

/* Read-only memory goes out as it is to consumers that heed the flag.  For all others
 * readonly= decides; without it, the source's own word counts, and the knowledge of its
 * type does not.  A copy that is made anyway is the consumer's own.  A Tensor keeps the
 * word for its own exports. */
static int
resolve_readonly(dls_exchange *x, dls_resolved *resolved)
{
    dls_readonly said = x->request.want.readonly;
    bool sets = said >= DLS_READONLY_FALSE;
    resolved->readonly = sets ? said == DLS_READONLY_TRUE
                              : (x->acquired.flags & DL_FLAG_READ_ONLY) != 0;
    x->acquired.readonly_stated |= sets; /* a Tensor made now remembers it */
    if (!resolved->readonly || x->request.who.keeps_word) {
        return 0;
    }
    dls_readonly word = dls_resolve_readonly_word(x);
    if (word == DLS_READONLY_COPY) {
        resolved->reason = &private_copy;
    }
    bool counts = word == DLS_READONLY_ERROR || x->acquired.readonly_stated;
    bool copies = x->request.want.copy != 0 && reason_to_copy(x, resolved) != NULL;
    if (word == DLS_READONLY_COPY || word == DLS_READONLY_SHARE || !counts
        || x->request.want.copy == 1 || copies) {
        return 0;
    }
    return x->request.want.versioned ? resolve_told(x, word) : resolve_untold(x, word);
}

/* --- layout and flags ------------------------------------------------------- */

/* The options that copy what the consumer does not take; copy=False has to go first. */
static const char *
orders_that_copy(const dls_exchange *x)
{
    bool hidden = x->request.who.hidden;
    if (x->request.want.copy == 0) {
        return hidden ? "copy=None and order=\"C\""
                      : "copy=None and order=\"auto\" or order=\"C\"";
    }
    return hidden ? "order=\"C\"" : "order=\"auto\" or order=\"C\"";
}

/* The refusal says what the consumer does with such memory.  package: as of
 * dls_request_layout.  Always -1. */
static int
refuse_layout(const dls_exchange *x, dls_layout layout, const char *package)
{
    const char *cures = orders_that_copy(x);
    switch (layout) {
    case DLS_LAYOUT_ROW_MAJOR:
        return dls_refuse(
            x->state, DLS_EOPTION, x->source,
            "its strides are not row-major, and %s ignores strides: it would read "
            "other elements\n"
            "  pass %s to copy it, or order=\"K\" if the consumer looks at them",
            package, cures);
    case DLS_LAYOUT_COMPACT:
        return dls_refuse(x->state, DLS_EOPTION, x->source,
                          "its strides leave gaps, repeat elements or are negative, "
                          "and %s takes no such memory\n"
                          "  pass %s to copy it",
                          package, cures);
    default:
        return dls_refuse(
            x->state, DLS_EOPTION, x->source,
            "it has negative strides, and this consumer may not support them (torch up "
            "to 2.13 aborts the process)\n"
            "  pass %s to get a contiguous copy, or order=\"K\" if it does",
            cures);
    }
}

/* A scalar on the host goes out only to a consumer that knows it has one element (N9).
 * The others take the buffer of a Tensor, which tells them. */
static int
check_scalar(const dls_exchange *x)
{
    unsigned with = x->request.who.asked_with & (DLS_KW_MASKS - 1);
    const dl_tensor *tensor = &x->acquired.tensor;
    uint8_t code = tensor->dtype.code;
    bool has_buffer = tensor->device.device_type == dl_kDLCPU
                      && (code <= dl_kDLFloat || code == dl_kDLBool);
    if (tensor->ndim != 0 || !has_buffer || with != DLS_ASK_STREAM
        || x->request.who.device_question) {
        return 0;
    }
    const char *package = dls_library_asked_within(x->state, DLS_ASKER_LOSES_SCALARS);
    return package == NULL
               ? 0
               : dls_refuse(
                     x->state, DLS_EBUFFER, x->source,
                     "it has no dimensions, and %s takes a scalar for an empty array\n"
                     "  pass dlshim.from_dlpack(x) instead, whose buffer it takes",
                     package);
}

/* Memory goes out as it is, if no order= was said, only to a consumer that is not known
 * to refuse or to misread it (N9). */
static int
check_layout(const dls_exchange *x, const dls_resolved *resolved)
{
    dls_layout layout;
    const char *package;
    if (x->request.want.order != DLS_ORDER_UNSAID
        || !is_known_to_refuse(x, resolved, &layout, &package)) {
        return 0;
    }
    return refuse_layout(x, layout, package);
}

/* Flag bits that dlshim does not know change the meaning of the data (T7). */
static int
check_flags(const dls_exchange *x)
{
    if ((x->acquired.flags & ~DL_FLAGS_KNOWN) == 0) {
        return 0;
    }
    return dls_refuse(x->state, DLS_EBUFFER, x->source,
                      "its capsule has flag bits that dlshim does not know (0x%x)\n"
                      "  update dlshim, or ask the producer for max_version=(1, 0)",
                      (unsigned)x->acquired.flags);
}

/* The struct lies, or has no memory: then the object may wrap others that have. */
static int
refuse_scan(const dls_exchange *x, const dls_error *err)
{
    bool empty = x->acquired.tensor.data == NULL;
    PyObject *cure = empty ? dls_cure_find_wrapped(x->state, x->source) : NULL;
    if (cure == NULL) {
        return dls_refuse_error(x->state, x->source, err);
    }
    dls_refuse(x->state, DLS_EBUFFER, x->source,
               "its data are NULL though it has elements: the memory is that of what "
               "it wraps%U",
               cure);
    Py_DECREF(cure);
    return -1;
}

static int
scan_acquired(const dls_exchange *x, dls_resolved *resolved)
{
    dls_error err;
    if (dls_tensor_scan(&x->acquired.tensor, &resolved->scan, &err) < 0) {
        return refuse_scan(x, &err);
    }
    resolved->delivery.tensor = x->acquired.tensor;
    resolved->delivery.canonical = resolved->scan.contiguous;
    dls_tensor_fold_data(&resolved->delivery.tensor, &resolved->scan);
    return 0;
}

/* Do no option, no request and no flag say anything, so that only the layout is left to
 * look at? */
static bool
only_layout_counts(const dls_exchange *x)
{
    return x->request.options == NULL && x->request.want.copy < 0
           && !x->request.want.has_device && x->acquired.flags == 0
           && x->acquired.generation != DLS_DESCRIBED
           && x->acquired.tensor.dtype.bits >= 8;
}

int
dls_resolve_checks(const dls_exchange *x, dls_resolved *resolved)
{
    resolved->delivery.versioned = true;
    if (check_flags(x) < 0 || scan_acquired(x, resolved) < 0) {
        return -1;
    }
    resolved->delivery.flags = x->acquired.flags;
    return 0;
}

/* order="K" keeps each stride, also beside an extent of 0 or 1, where it has no effect.
 */
static bool
keeps_strides(const dls_exchange *x)
{
    return x->request.want.order == DLS_ORDER_K && x->acquired.tensor.strides != NULL;
}

/* Bytes that reinterpret= calls booleans are 0 or 1 (T7).  They are looked at where
 * that waits for nothing: in memory of the host, a copy of device memory among it. */
static int
check_bools(const dls_exchange *x, const dls_resolved *resolved)
{
    uint8_t found = 0;
    dl_tensor tensor = resolved->delivery.tensor;
    if (!resolved->is_named_bool || tensor.device.device_type != dl_kDLCPU
        || resolved->scan.count == 0) {
        return 0;
    }
    if (resolved->copied) {
        tensor.strides = NULL; /* of the copy */
    }
    bool alone = resolved->scan.count >= DLS_COPY_WITHOUT_GIL && !x->acquired.shared;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    int code = dls_host_find_above_one(&tensor, resolved->scan.itemsize, &found);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    if (code != DLS_OK) {
        PyErr_NoMemory();
        return -1;
    }
    if (found == 0) {
        return 0;
    }
    bool compares = strcmp(dls_cure_array(x->state, x->source, true), "x") == 0;
    bool is_tensor = Py_IS_TYPE(x->source, x->state->tensor_type);
    return dls_refuse(
        x->state, DLS_EBUFFER, x->source,
        "reinterpret=\"bool\" needs bytes that are 0 or 1, and one is %d\n"
        "  pass %s instead%s",
        (int)found,
        compares ? "(x != 0)"
                 : "numpy.asarray(dlshim.from_dlpack(x, reinterpret=\"uint8\")) != 0",
        is_tensor ? " (if x is a capsule, make it anew)" : "");
}

/* Options, flags or a request say more than the layout. */
static int
resolve_with_care(dls_exchange *x, dls_resolved *resolved)
{
    dl_device came = x->acquired.tensor.device;
    if (check_flags(x) < 0 || apply_reinterpret(x, resolved) < 0 || check_code(x) < 0
        || check_packing(x) < 0 || resolve_device(x, resolved) < 0
        || scan_acquired(x, resolved) < 0 || check_sent(x, resolved) < 0
        || resolve_readonly(x, resolved) < 0) {
        return -1;
    }
    if (keeps_strides(x)) {
        resolved->delivery.canonical = false;
    }
    dl_device device = x->acquired.tensor.device;
    x->acquired.altered |= came.device_type != device.device_type
                           || came.device_id != device.device_id;
    resolved->delivery.flags = x->acquired.flags & ~DL_FLAG_READ_ONLY;
    resolved->needs_keeping = x->keeps && (x->acquired.flags & DL_FLAG_IS_COPIED);
    resolved->reason = reason_to_copy(x, resolved);
    if (resolved->reason != NULL) {
        return resolve_copy(x, resolved) < 0 ? -1 : check_bools(x, resolved);
    }
    if (resolved->readonly) {
        resolved->delivery.flags |= DL_FLAG_READ_ONLY;
    }
    return check_layout(x, resolved) < 0 ? -1 : check_bools(x, resolved);
}

int
dls_resolve(dls_exchange *x, dls_resolved *resolved)
{
    assert(dls_exchange_check(x) && !dls_acquired_is_empty(&x->acquired));
    resolved->delivery.versioned = x->request.want.versioned;
    if (check_scalar(x) < 0) {
        return -1;
    }
    if (!only_layout_counts(x)) {
        return resolve_with_care(x, resolved);
    }
    return scan_acquired(x, resolved) < 0 ? -1 : check_layout(x, resolved);
}
