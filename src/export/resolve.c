#include "export/resolve.h"

#include <stdio.h>

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/base.h"
#include "core/copy.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "gpu/device_copy.h"
#include "python/errors.h"
#include "sync/transfer.h"

/* From this size on a copy lets other threads run. */
#define COPY_WITHOUT_GIL 65536

/* --- dtype -------------------------------------------------------------------- */

static int
refuse_dtype(dls_state *state, PyObject *source, dl_dtype dtype)
{
    int bytes = dtype.lanes; /* exchange/acquired.h; 0: no dtype is as wide */
    bool has_name = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    char cure[96] = "";
    if (bytes != 0) {
        snprintf(
            cure, sizeof cure,
            has_name
                ? ", or name a dtype of the same width, such as reinterpret=\"uint%d\""
                : ", or pass them as bytes with reinterpret=(1, 8, %d)",
            has_name ? 8 * bytes : bytes);
    }
    dls_raise(
        state, DLS_EBUFFER, source,
        "its elements are of a kind that DLPack has no code for; convert them with "
        ".astype()%s",
        cure);
    return -1;
}

/* A legacy sub-byte element and a padded one take one byte each. */
static int64_t
width_in_memory(const dls_loan *loan)
{
    int64_t bits = dls_dtype_bits(loan->tensor.dtype);
    bool bytewise = loan->flavour == DLS_LEGACY
                    || (loan->flags & DL_FLAG_SUBBYTE_PADDED);
    return bits < 8 && bytewise ? 8 : bits;
}

static int
apply_reinterpret(dls_state *state, PyObject *source, dl_dtype wanted, dls_loan *loan)
{
    char have_text[48], want_text[48];
    if (dls_dtype_bits(wanted) != width_in_memory(loan)) {
        dls_raise(
            state, DLS_EBUFFER, source,
            "reinterpret=\"%s\" needs elements of %d bits, these (%s) take %d; name a "
            "dtype of that width",
            dls_dtype_name(wanted, want_text, sizeof want_text),
            (int)dls_dtype_bits(wanted),
            dls_dtype_name(loan->tensor.dtype, have_text, sizeof have_text),
            (int)width_in_memory(loan));
        return -1;
    }
    dl_dtype have = loan->tensor.dtype;
    if (have.code != wanted.code || have.bits != wanted.bits
        || have.lanes != wanted.lanes) {
        loan->tensor.dtype = wanted;
        loan->flags &= ~DL_FLAG_SUBBYTE_PADDED;
        loan->altered = true;
    }
    return 0;
}

/* T7: the packing of elements below 8 bits cannot be said across the flavours. */
static int
check_subbyte(dls_state *state, PyObject *source, const dls_request *request,
              const dls_loan *loan)
{
    dl_dtype dtype = loan->tensor.dtype;
    bool to_versioned = request->want.versioned || request->bears_anything;
    bool known = to_versioned ? loan->flavour != DLS_LEGACY
                              : loan->flavour == DLS_LEGACY;
    if (known || dls_dtype_bits(dtype) >= 8) {
        return 0;
    }
    char text[48];
    dls_raise(
        state, DLS_EBUFFER, source,
        "elements of %s are below 8 bits, and a %s capsule cannot say how they are "
        "packed; ask for the other flavour, or name a byte-wide dtype with "
        "reinterpret= (for example \"bool\" or \"uint8\")",
        dls_dtype_name(dtype, text, sizeof text),
        to_versioned ? "versioned" : "legacy");
    return -1;
}

static int
settle_dtype(dls_state *state, PyObject *source, const dls_request *request,
             dls_loan *loan)
{
    if (dls_option_given(request->options, DLS_OPTION_reinterpret)
        && apply_reinterpret(state, source, request->options->reinterpret, loan) < 0) {
        return -1;
    }
    if (loan->tensor.dtype.code == DLS_DTYPE_UNKNOWN && loan->flavour == DLS_OLDER) {
        return refuse_dtype(state, source, loan->tensor.dtype);
    }
    return dls_dtype_bits(loan->tensor.dtype) < 8
               ? check_subbyte(state, source, request, loan)
               : 0;
}

/* --- device ------------------------------------------------------------------- */

static bool
same_device(dl_device a, dl_device b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* *fetch: the memory is to be copied from its device to the host. */
static int
settle_device(dls_state *state, PyObject *source, const dls_request *request,
              dls_loan *loan, bool *fetch)
{
    *fetch = false;
    if (dls_option_given(request->options, DLS_OPTION_assume_device)) {
        loan->tensor.device = request->options->assume_device;
    }
    dl_device have = loan->tensor.device, want = request->want.device;
    switch (dls_route_of(&request->want, have)) {
    case DLS_ROUTE_HERE:
        return 0;
    case DLS_ROUTE_AS_HOST: /* what was to be waited for is done; every host id is 0 */
        loan->tensor.device = (dl_device){dl_kDLCPU, 0};
        return 0;
    case DLS_ROUTE_AS_CUDA:
        loan->tensor.device = want;
        return 0;
    case DLS_ROUTE_TO_HOST:
        if (loan->copy_stream != 0) {
            *fetch = true;
            return 0;
        }
        break;
    default:
        break;
    }
    return dls_raise_move(state, source, &request->want, have, NULL);
}

/* --- read-only (T8) -------------------------------------------------------------- */

typedef enum { READONLY_NO, READONLY_YES, READONLY_COPY } readonly_verdict;

static int
settle_readonly(dls_state *state, PyObject *source, const dls_request *request,
                const dls_loan *loan, readonly_verdict *verdict)
{
    const dls_options *o = request->options;
    bool readonly = loan->flags & DL_FLAG_READ_ONLY;
    bool stated = loan->readonly_stated;
    if (dls_option_given(o, DLS_OPTION_readonly)) {
        readonly = o->readonly;
        stated = true;
    }
    *verdict = readonly ? READONLY_YES : READONLY_NO;
    if (!readonly || !stated || request->want.versioned) {
        return 0;
    }
    int policy = dls_option_given(o, DLS_OPTION_legacy_readonly)
                     ? o->legacy_readonly
                     : DLS_LEGACY_READONLY_ERROR;
    if (policy == DLS_LEGACY_READONLY_COPY) {
        *verdict = READONLY_COPY;
    }
    if (policy != DLS_LEGACY_READONLY_ERROR || request->want.copy == 1) {
        return 0;
    }
    dls_raise(state, DLS_EBUFFER, source,
              "it is read-only, and the consumer %s, which cannot say so; pass "
              "legacy_readonly=\"strip\" if the consumer does not write, or "
              "legacy_readonly=\"copy\" to give it a private copy",
              request->want.kernel_asks ? "borrows it through the exchange table"
                                        : "asked for a legacy capsule");
    return -1;
}

/* --- is a copy needed, and may it be made? ------------------------------------------
 */

static bool
is_misaligned(const dls_options *options, const dls_delivery *what)
{
    if (!dls_option_given(options, DLS_OPTION_align)) {
        return false;
    }
    uintptr_t address = (uintptr_t)what->tensor.data
                        + (uintptr_t)what->tensor.byte_offset;
    return (address & (uintptr_t)(options->align - 1)) != 0;
}

/* Off the host only the producer can copy.  Never believe that it did (N7): the flag
 * says so, or the library is known to obey. */
static int
check_device_copy(dls_state *state, PyObject *source, const dls_plan *plan,
                  const dls_request *request, const dls_loan *loan, bool fetch)
{
    bool told = (loan->flags & DL_FLAG_IS_COPIED)
                || (plan != NULL && dls_plan_has(plan, DLS_LIB_COPIES_UNFLAGGED));
    if (request->want.copy != 1 || fetch || told
        || dls_device_is_host(loan->tensor.device.device_type)) {
        return 0;
    }
    dls_raise(state, DLS_EBUFFER, source,
              "copy=True was asked for, and its producer does not say that it made "
              "one; dlshim "
              "allocates no device memory: pass a .copy() or .clone()");
    return -1;
}

/* NULL: no copy is needed; else why. */
static const char *
reason_to_copy(const dls_request *request, readonly_verdict readonly, bool fetch,
               const dls_settled *s)
{
    if (fetch) {
        return "device memory is wanted on the host";
    }
    const dls_options *o = request->options;
    bool host = dls_device_is_host(s->delivery.tensor.device.device_type);
    if (request->want.copy == 1 && host) {
        return "copy=True";
    }
    if (readonly == READONLY_COPY) {
        return "read-only memory towards a legacy consumer (legacy_readonly=\"copy\")";
    }
    if (dls_option_given(o, DLS_OPTION_order) && o->order == DLS_ORDER_C
        && !s->scan.contiguous) {
        return "order=\"C\" for strides that are not row-major";
    }
    if (is_misaligned(o, &s->delivery)) {
        return "align= for memory that is not so aligned";
    }
    return NULL;
}

static int
may_copy(dls_state *state, PyObject *source, const dls_request *request,
         const char *reason, bool fetch, const dls_settled *s)
{
    if (request->want.copy == 0) {
        dls_raise(state, DLS_ECOPY, source,
                  "a copy is needed (%s), but copy=False was asked for; allow it with "
                  "copy=None, or drop the option",
                  reason);
        return -1;
    }
    if (!fetch && !dls_device_is_host(s->delivery.tensor.device.device_type)) {
        dls_raise(
            state, DLS_EBUFFER, source,
            "a copy is needed (%s), and dlshim allocates no device memory; pass its "
            ".copy() or .contiguous()",
            reason);
        return -1;
    }
    if (dls_dtype_bits(s->delivery.tensor.dtype) % 8 != 0
        && !(s->delivery.flags & DL_FLAG_SUBBYTE_PADDED)) {
        dls_raise(
            state, DLS_EBUFFER, source,
            "a copy is needed (%s), but its elements are no whole number of bytes; "
            "copy it with its own library",
            reason);
        return -1;
    }
    return 0;
}

/* Room for a copy, aligned in the block; NULL with MemoryError. */
static void *
copy_block(const dls_request *request, int64_t bytes, void **start)
{
    int64_t alignment = DLS_ALIGNMENT;
    if (dls_option_given(request->options, DLS_OPTION_align)
        && request->options->align > alignment) {
        alignment = request->options->align;
    }
    void *block = dls_alloc_aligned(bytes, alignment, start);
    if (block == NULL) {
        PyErr_NoMemory();
    }
    return block;
}

static void
copy_from_host(void *to, const dls_loan *loan, const dls_settled *s)
{
    const dl_tensor *tensor = &s->delivery.tensor;
    const char *from = (const char *)tensor->data + tensor->byte_offset;
    /* While the GIL is away another holder of the capsule could free the memory. */
    if (s->scan.count * s->scan.itemsize < COPY_WITHOUT_GIL || loan->shared) {
        dls_host_copy(to, from, tensor->ndim, tensor->shape, tensor->strides,
                      s->scan.itemsize);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    dls_host_copy(to, from, tensor->ndim, tensor->shape, tensor->strides,
                  s->scan.itemsize);
    Py_END_ALLOW_THREADS
}

/* What pends in the memory was ordered before the copy stream. */
static int
copy_from_device(dls_state *state, PyObject *source, void *to, const dls_loan *loan,
                 const dls_settled *s)
{
    const dl_tensor *tensor = &s->delivery.tensor;
    const char *from = (const char *)tensor->data + tensor->byte_offset;
    int code = DLS_OK;
    dls_error err;
    if (s->scan.count != 0) {
        Py_BEGIN_ALLOW_THREADS
        code = dls_copy_to_host(tensor->device.device_type, to, from, tensor->ndim,
                                tensor->shape, tensor->strides, s->scan.itemsize,
                                loan->copy_stream, &err);
        Py_END_ALLOW_THREADS
    }
    return code == DLS_OK ? 0 : dls_raise_error(state, source, &err);
}

/* A contiguous copy of what s describes; on success s describes the copy. */
DLS_COLD static int
make_copy(dls_state *state, PyObject *source, const dls_request *request,
          const dls_loan *loan, bool fetch, dls_settled *s)
{
    dl_tensor *tensor = &s->delivery.tensor;
    void *start;
    void *block = copy_block(request, s->scan.count * s->scan.itemsize,
                             &start); /* scanned */
    if (block == NULL) {
        return -1;
    }
    if (!fetch) {
        copy_from_host(start, loan, s);
    }
    else if (copy_from_device(state, source, start, loan, s) < 0) {
        dls_free(block);
        return -1;
    }
    DLS_COUNT(copied);
    s->made = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    if (fetch) {
        tensor->device = (dl_device){dl_kDLCPU, 0};
    }
    tensor->data = start;
    tensor->byte_offset = 0;
    s->delivery.canonical = true;
    s->copied = true;
    return 0;
}

/* The Producer keeps the memory too: mpi4py 3.1 to 4.0 drops the capsule at once and
 * reads on (T8). */
static int
share_copy(const dls_request *request, dls_settled *s)
{
    if (request->kept == NULL) {
        return 0;
    }
    dls_shared *shared = dls_shared_new(&s->made);
    if (shared == NULL) {
        dls_hold_drop_attached(&s->made);
        PyErr_NoMemory();
        return -1;
    }
    dls_shared *before = *request->kept;
    *request->kept = dls_shared_add(shared);
    s->made = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    dls_shared_drop_attached(before);
    return 0;
}

/* --- all of it -------------------------------------------------------------------- */

DLS_COLD static int
check_negative(dls_state *state, PyObject *source, const dls_request *request,
               const dls_settled *s)
{
    const dls_options *o = request->options;
    if (!s->scan.negative || s->copied || dls_option_given(o, DLS_OPTION_order)
        || dls_request_bears_negative(request)) {
        return 0;
    }
    dls_raise(
        state, DLS_EBUFFER, source,
        "it has negative strides, which the consumer is not known to bear (torch "
        "aborts the process); pass order=\"C\" to copy them away, or order=\"K\" if "
        "the consumer takes them");
    return -1;
}

int
dls_check_flags(dls_state *state, PyObject *source, const dls_loan *loan)
{
    if ((loan->flags & ~DL_FLAGS_KNOWN) == 0) {
        return 0;
    }
    dls_raise(
        state, DLS_EBUFFER, source,
        "its capsule has flag bits that dlshim does not know (0x%x); update dlshim, or "
        "ask the producer for max_version=(1, 0)",
        (unsigned)loan->flags);
    return -1;
}

static int
scan_loan(dls_state *state, PyObject *source, const dls_loan *loan, dls_settled *out)
{
    dls_error err;
    if (dls_tensor_scan(&loan->tensor, &out->scan, &err) < 0) {
        return dls_raise_error(state, source, &err);
    }
    out->delivery.tensor = loan->tensor;
    out->delivery.canonical = out->scan.contiguous;
    dls_tensor_settle_data(&out->delivery.tensor, &out->scan);
    return 0;
}

/* No option, no request, no flag: only the layout is left to look at. */
static bool
is_plain(const dls_request *request, const dls_loan *loan)
{
    return request->options == NULL && request->want.copy < 0
           && !request->want.has_device && loan->flags == 0
           && loan->flavour != DLS_OLDER && loan->tensor.dtype.bits >= 8;
}

/* Options, flags or a request say more than the layout. */
DLS_COLD static int
settle_with_care(dls_state *state, PyObject *source, const dls_plan *plan,
                 const dls_request *request, dls_loan *loan, dls_settled *out)
{
    readonly_verdict readonly;
    bool fetch;
    dl_device lent = loan->tensor.device;
    if (dls_check_flags(state, source, loan) < 0
        || settle_dtype(state, source, request, loan) < 0
        || settle_device(state, source, request, loan, &fetch) < 0
        || check_device_copy(state, source, plan, request, loan, fetch) < 0
        || scan_loan(state, source, loan, out) < 0
        || settle_readonly(state, source, request, loan, &readonly) < 0) {
        return -1;
    }
    loan->altered |= !same_device(lent, loan->tensor.device);
    out->delivery.flags = loan->flags & ~DL_FLAG_READ_ONLY;
    out->needs_keeping = request->kept != NULL && (loan->flags & DL_FLAG_IS_COPIED);
    const char *reason = reason_to_copy(request, readonly, fetch, out);
    if (reason != NULL) {
        if (may_copy(state, source, request, reason, fetch, out) < 0
            || make_copy(state, source, request, loan, fetch, out) < 0
            || share_copy(request, out) < 0) {
            return -1;
        }
        out->delivery.flags |= DL_FLAG_IS_COPIED;
        out->needs_keeping = false;
        bool mark = dls_option_given(request->options, DLS_OPTION_readonly)
                    && request->options->readonly;
        readonly = mark ? READONLY_YES : READONLY_NO;
    }
    if (readonly == READONLY_YES) {
        out->delivery.flags |= DL_FLAG_READ_ONLY;
    }
    return check_negative(state, source, request, out);
}

int
dls_settle(dls_state *state, PyObject *source, const dls_plan *plan,
           const dls_request *request, dls_loan *loan, dls_settled *out)
{
    out->copied = false;
    out->needs_keeping = false;
    out->made = (dls_hold){0};
    out->delivery.versioned = request->want.versioned;
    out->delivery.flags = 0;
    if (!is_plain(request, loan)) {
        return settle_with_care(state, source, plan, request, loan, out);
    }
    return scan_loan(state, source, loan, out) < 0 ? -1
           : out->scan.negative ? check_negative(state, source, request, out)
                                : 0;
}
