/* Keeps, for each thread, on which stream its last export through our C table is.
 *
 * Called by export/ when it has made an export, and by ctable/ctable_out.  Touches
 * two thread-local values only.
 * Tests: tests/device/test_work_stream.py.
 */
#include "sync/work_stream.h"

#include "core/dtype.h"
#include "gpu/pointer.h"
#include "python/state.h"

/* The device and the stream of this thread's last export of device memory. */
static DLS_ATOMIC(Py_tss_t *) last_device;
static DLS_ATOMIC(Py_tss_t *) last_stream;
/* The home that shall take them before it asks its library, a
 * dls_work_stream_function, or NULL. */
static DLS_ATOMIC(Py_tss_t *) last_home;
/* The device and the stream of the last answer. */
static DLS_ATOMIC(Py_tss_t *) noted_device;
static DLS_ATOMIC(Py_tss_t *) noted_stream;

int
dls_work_stream_init(void)
{
    bool made = dls_key_make(&last_device) == 0 && dls_key_make(&last_stream) == 0
                && dls_key_make(&last_home) == 0 && dls_key_make(&noted_device) == 0
                && dls_key_make(&noted_stream) == 0;
    return made ? 0 : -1;
}

bool
dls_work_stream_is_synced(int32_t device_type)
{
    return device_type == dl_kDLCUDA || device_type == dl_kDLROCM
           || device_type == dl_kDLCUDAManaged;
}

/* Never NULL, which says that nothing was left. */
static void *
device_word(dl_device device)
{
    uint64_t word = (uint64_t)(uint32_t)device.device_id << 8
                    | (uint8_t)device.device_type;
    return (void *)(uintptr_t)word;
}

/* NULL for the default stream. */
static void *
stream_word(dl_device device, dls_producer_stream p)
{
    bool named = dls_work_stream_is_synced(device.device_type)
                     ? p.known == DLS_P_KNOWN && p.object == NULL
                           && p.handle != dls_driver_of(device.device_type)->legacy
                     : p.object == NULL;
    /* mutant: stream of the table */
    return named ? (void *)(uintptr_t)p.handle : NULL;
}

static void *
home_word(dls_work_stream_function home)
{
    return (void *)(uintptr_t)home;
}

void
dls_work_stream_leave(dl_device device, dls_producer_stream p,
                      dls_work_stream_function home)
{
    if (dls_device_is_host(device.device_type)) {
        return;
    }
    void *stream = stream_word(device, p);
    if (PyThread_tss_set(last_stream, stream) != 0
        || PyThread_tss_set(last_home, home_word(home)) != 0
        || PyThread_tss_set(last_device, device_word(device)) != 0) {
        PyThread_tss_set(last_device, NULL);
    }
}

void *
dls_work_stream_answer(dl_device device)
{
    bool same = PyThread_tss_get(last_device) == device_word(device);
    return same ? PyThread_tss_get(last_stream) : NULL;
}

bool
dls_work_stream_take(dl_device device, dls_work_stream_function home, void **out)
{
    bool left = PyThread_tss_get(last_device) == device_word(device)
                && PyThread_tss_get(last_home) == home_word(home);
    if (left) {
        *out = PyThread_tss_get(last_stream);
        PyThread_tss_set(last_home, NULL);
    }
    return left;
}

void
dls_work_stream_note(dl_device device, void *stream)
{
    if (!dls_work_stream_is_synced(device.device_type)) {
        return;
    }
    if (PyThread_tss_set(noted_stream, stream) != 0
        || PyThread_tss_set(noted_device, device_word(device)) != 0) {
        PyThread_tss_set(noted_device, NULL);
    }
}

bool
dls_work_stream_answered(dl_device device, uint64_t *stream)
{
    bool noted = PyThread_tss_get(noted_device) == device_word(device);
    void *known = noted ? PyThread_tss_get(noted_stream) : NULL;
    if (known != NULL) {
        *stream = (uint64_t)(uintptr_t)known;
    }
    return noted;
}
