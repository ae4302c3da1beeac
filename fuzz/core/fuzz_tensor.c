/* Hostile structs: any bytes as ndim, shape, strides, offset, dtype, device and flags.
 * What core/tensor and core/tensor say of them is compared with plain arithmetic in 128
 * bits, and what they make of them with what went in (T3 to T6, T11). */
#include "input.h"

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"

#define ROOM 80 /* dimensions that an input can fill; more are claimed, never read */

typedef struct {
    dl_tensor tensor;
    uint64_t flags;
    bool versioned;
    bool has_deleter;
    int64_t *shape, *strides; /* blocks of the exact size */
} specimen;

/* --- the input -------------------------------------------------------------- */

static int64_t *
take_dims(input *in, int32_t ndim)
{
    int64_t *dims = malloc((size_t)(ndim > 0 ? ndim : 1) * sizeof *dims);
    INSIST(dims != NULL);
    for (int32_t i = 0; i < ndim; i++) {
        dims[i] = take_int64(in);
    }
    return dims;
}

/* Row-major strides where they do not overflow: random ones are never canonical. */
static void
make_compact(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    uint64_t product = 1;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        strides[i] = (int64_t)product;
        product *= (uint64_t)shape[i];
    }
}

static void
take_layout(input *in, specimen *s)
{
    uint8_t kind = take_byte(in);
    int32_t room = (int32_t)take_below(in, ROOM);
    s->shape = take_dims(in, room);
    s->strides = take_dims(in, kind & 1 ? room : 0);
    if (!(kind & 1)) {
        free(s->strides);
        s->strides = malloc((size_t)(room > 0 ? room : 1) * sizeof *s->strides);
        INSIST(s->strides != NULL);
        make_compact(room, s->shape, s->strides);
    }
    s->tensor.ndim = room;
    s->tensor.shape = s->shape;
    s->tensor.strides = (kind & 6) == 6 ? NULL : s->strides;
    if ((kind & 0xf8) == 0xf8) { /* a lie that must be seen before anything is read */
        static const int32_t lies[] = {-1, INT32_MIN, INT32_MAX, DLS_NDIM_ABSURD + 1};
        s->tensor.ndim = lies[kind & 3];
    }
    if ((kind & 0xf8) == 0xf0) {
        s->tensor.shape = NULL;
    }
}

static specimen
take_specimen(input *in)
{
    specimen s = {0};
    uint8_t kind = take_byte(in), dtype = take_byte(in);
    s.versioned = kind & 1;
    s.has_deleter = !(kind & 2);
    s.flags = kind & 4 ? take_raw(in, 8) : (kind >> 5);
    s.tensor.data = kind & 8 ? (void *)(uintptr_t)take_raw(in, 8) : (void *)0x1000;
    s.tensor.byte_offset = kind & 16 ? (uint64_t)take_int64(in) : 0;
    s.tensor.device.device_type = take_byte(in) % 40 - 4;
    s.tensor.device.device_id = (int32_t)take_int64(in);
    s.tensor.dtype = (dl_dtype){dtype, 32, 1};
    if (dtype & 1) {
        s.tensor.dtype.bits = take_byte(in);
        s.tensor.dtype.lanes = (uint16_t)take_raw(in, 2);
    }
    if ((dtype & 0x0c) == 0x0c) { /* plain, but for what follows */
        s.tensor.device = (dl_device){dl_kDLCPU, 0};
    }
    take_layout(in, &s);
    return s;
}

/* --- the expectation -------------------------------------------------------- */

typedef __int128 wide;
#define HUGE ((wide)1 << 63)

static wide
limited(wide value)
{
    return value > HUGE ? HUGE : value;
}

typedef struct {
    bool accepted, contiguous, canonical, negative, meaningless;
    wide count, low, high;
} expectation;

/* The strides as the rules see them, one dimension after the other from the inside. */
static void
expect_strides(const dl_tensor *t, expectation *e)
{
    wide compact = 1;
    e->contiguous = true;
    e->canonical = t->strides != NULL || t->ndim == 0;
    for (int32_t i = t->ndim - 1; t->strides != NULL && i >= 0; i--) {
        wide want = compact > INT64_MAX ? 0 : compact; /* only beside a zero extent */
        bool steps = t->shape[i] > 1 && e->count != 0, negative = t->strides[i] < 0;
        e->canonical &= t->strides[i] == want;
        e->contiguous &= t->strides[i] == want || !steps;
        e->negative |= negative && steps;
        e->meaningless |= negative && !steps;
        compact = want * t->shape[i];
    }
}

/* The lowest byte and the one past the highest.  What is above 2^63 stays there. */
static void
expect_span(const dl_tensor *t, wide itemsize, expectation *e)
{
    wide below = 0, above = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        wide step = (wide)(t->shape[i] - 1) * t->strides[i];
        below = step < 0 ? limited(below - step) : below;
        above = step < 0 ? above : limited(above + step);
    }
    e->low = -below * itemsize;
    e->high = (above + 1) * itemsize;
    e->accepted &= below <= INT64_MAX && above <= INT64_MAX;
    e->accepted &= -e->low <= INT64_MAX && e->high <= INT64_MAX;
    e->accepted &= e->high - e->low <= INT64_MAX;
}

static bool
is_readable(const dl_tensor *t)
{
    if (t->ndim < 0 || t->ndim > DLS_NDIM_ABSURD || (t->ndim > 0 && !t->shape)) {
        return false;
    }
    return t->dtype.bits != 0 && t->dtype.lanes != 0;
}

static expectation
expect(const dl_tensor *t)
{
    expectation e = {.accepted = is_readable(t), .count = 1};
    bool empty = false;
    for (int32_t i = 0; e.accepted && i < t->ndim; i++) {
        e.accepted = t->shape[i] >= 0;
        empty |= t->shape[i] == 0;
        e.count = limited(e.count * t->shape[i]);
    }
    if (!e.accepted) {
        return e;
    }
    wide itemsize = ((wide)t->dtype.bits * t->dtype.lanes + 7) / 8;
    e.count = empty ? 0 : e.count;
    e.accepted = e.count * itemsize <= INT64_MAX;
    expect_strides(t, &e);
    if (e.accepted && !e.contiguous) {
        expect_span(t, itemsize, &e);
    }
    if (dls_device_has_addresses(t->device.device_type)) {
        wide zero = (wide)(uintptr_t)t->data + t->byte_offset;
        e.accepted &= t->byte_offset <= INT64_MAX && zero <= UINTPTR_MAX;
        e.accepted &= t->data != NULL || empty;
    }
    return e;
}

/* --- the comparison --------------------------------------------------------- */

static void
compare_layout(const dl_tensor *t, const dls_scan *scan)
{
    dls_error err;
    int64_t count, low, high;
    INSIST(dls_layout_count(t->ndim, t->shape, &count, &err) == DLS_OK);
    INSIST(count == scan->count);
    INSIST(dls_layout_is_contiguous(t->ndim, t->shape, t->strides)
           == (scan->contiguous || t->strides == NULL));
    int code = dls_layout_span(t->ndim, t->shape, t->strides, count, scan->itemsize,
                               &low, &high, &err);
    INSIST(code == DLS_OK && low <= 0 && high >= 0 && (count == 0) == (high == 0));
    if (scan->contiguous) {
        INSIST(low == 0 && high == count * scan->itemsize);
    }
    else {
        expectation e = {.accepted = true};
        expect_span(t, scan->itemsize, &e);
        INSIST(count == 0 || (low == e.low && high == e.high));
    }
}

static bool nothing_deleted;

static void
never_called(void *DLS_UNUSED(self))
{
    nothing_deleted = false;
}

/* The producer's struct, in its generation. */
static void
make_managed(const specimen *s, dl_managed_tensor *legacy,
             dl_managed_tensor_versioned *versioned)
{
    *legacy = (dl_managed_tensor){.dl_tensor = s->tensor};
    *versioned = (dl_managed_tensor_versioned){
        .version = {1, 3}, .flags = s->flags, .dl_tensor = s->tensor};
    if (s->has_deleter) {
        legacy->deleter = (void (*)(dl_managed_tensor *))(void *)never_called;
        versioned->deleter = (void (*)(dl_managed_tensor_versioned *))(
            void *)never_called;
    }
}

static bool
same_dims(const dl_tensor *a, const dl_tensor *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;
    return bytes == 0
           || (memcmp(a->shape, b->shape, bytes) == 0
               && memcmp(a->strides, b->strides, bytes) == 0);
}

/* What went out: the same elements at the same place, in canonical form. */
static void
check_export(const specimen *s, const dls_scan *scan, const dls_delivery *what,
             const dl_tensor *out)
{
    const dl_tensor *t = &s->tensor;
    int64_t compact = 1;
    bool empty = scan->count == 0,
         folds = dls_device_has_addresses(t->device.device_type);
    INSIST(out->ndim == t->ndim);
    INSIST(memcmp(&out->dtype, &t->dtype, sizeof t->dtype) == 0);
    INSIST(memcmp(&out->device, &t->device, sizeof t->device) == 0);
    if (!empty || !dls_device_is_host(t->device.device_type)) {
        INSIST((uintptr_t)out->data + out->byte_offset
               == (uintptr_t)t->data + t->byte_offset);
    }
    INSIST(out->data != NULL || !dls_device_is_host(t->device.device_type));
    if (!folds) {
        INSIST(out->data == t->data && out->byte_offset == t->byte_offset);
    }
    else if (out->byte_offset != 0) {
        INSIST(t->data == NULL || t->device.device_type == dl_kDLOneAPI);
    }
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        INSIST(out->shape[i] == t->shape[i]);
        if (what->canonical) {
            INSIST(out->strides[i] == compact);
        }
        else if (out->strides[i] != t->strides[i]) {
            INSIST(t->strides[i] < 0 && t->shape[i] < 2);
        }
        compact = dls_layout_next_stride(compact, t->shape[i]);
    }
}

static void
check_translation(const specimen *s, const dls_scan *scan)
{
    dl_managed_tensor legacy;
    dl_managed_tensor_versioned versioned;
    make_managed(s, &legacy, &versioned);
    void *managed = s->versioned ? (void *)&versioned : (void *)&legacy;
    dls_delivery what = {.tensor = s->tensor,
                         .flags = s->flags,
                         .versioned = s->versioned,
                         .canonical = scan->contiguous};
    dls_tensor_fold_data(&what.tensor, scan);
    bool changes = dls_tensor_needs_change(managed, s->flags, scan, &what);
    dls_alloc_fail(1);
    INSIST(dls_export_new(&what) == NULL);
    void *made = dls_export_new(&what);
    INSIST(made != NULL && dls_export_own_hold(made, s->versioned) != NULL);
    INSIST(dls_export_own_hold(managed, s->versioned) == NULL);
    const dl_tensor *out = dls_managed_tensor(made, s->versioned);
    check_export(s, scan, &what, out);
    if (!changes) { /* T3: then translating changes no byte */
        dl_tensor copy = *out;
        INSIST(s->has_deleter && same_dims(out, &s->tensor));
        copy.shape = s->tensor.shape;
        copy.strides = s->tensor.strides;
        INSIST(memcmp(&copy, &s->tensor, sizeof copy) == 0);
        INSIST(!s->versioned
               || ((dl_managed_tensor_versioned *)made)->flags == s->flags);
    }
    dls_managed_delete(made, s->versioned);
}

static void
check_plain(const specimen *s, const dls_scan *scan)
{
    dls_hold *hold;
    dls_alloc_fail(1);
    INSIST(dls_export_plain(&s->tensor, s->versioned, 0, &hold) == NULL);
    bool has_strides = dls_tensor_has_strides(&s->tensor);
    INSIST(has_strides == dls_tensor_is_plain(&s->tensor));
    INSIST(!has_strides || scan->canonical || !scan->contiguous);
    INSIST(!scan->negative && scan->count > 0);
    INSIST(scan->count < (int64_t)1 << 38 && !scan->meaningless);
    void *made = dls_export_plain(&s->tensor, s->versioned, 0, &hold);
    INSIST(made != NULL && dls_hold_is_empty(hold));
    const dl_tensor *out = dls_managed_tensor(made, s->versioned);
    dls_scan of_out;
    dls_error err;
    INSIST(!has_strides || same_dims(out, &s->tensor));
    INSIST(dls_tensor_scan(out, &of_out, &err) == DLS_OK
           && of_out.canonical == scan->contiguous && of_out.count == scan->count);
    dls_managed_delete(made, s->versioned);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    specimen s = take_specimen(&in);
    dls_scan scan;
    dls_error err = {0};
    int64_t live = dls_counters.live;
    nothing_deleted = true;
    expectation e = expect(&s.tensor);
    int code = dls_tensor_scan(&s.tensor, &scan, &err);
    INSIST(code == (e.accepted ? DLS_OK : DLS_EBUFFER));
    if (code != DLS_OK) {
        INSIST(err.code == code && err.text[0] != '\0');
        INSIST(!is_readable(&s.tensor) || !dls_tensor_is_plain(&s.tensor));
    }
    else {
        INSIST(scan.count == e.count && scan.contiguous == e.contiguous);
        INSIST(scan.canonical == e.canonical && scan.negative == e.negative);
        INSIST(scan.meaningless == e.meaningless);
        compare_layout(&s.tensor, &scan);
        check_translation(&s, &scan);
        if (dls_tensor_is_plain_for(&s.tensor, true)) {
            check_plain(&s, &scan);
        }
    }
    INSIST(nothing_deleted && dls_counters.live == live);
    free(s.shape);
    free(s.strides);
    return 0;
}
