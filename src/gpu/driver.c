/* The calls that CUDA and HIP have in common, and the errors of both.  Called by
 * sync_run, pool, device_copy and the two drivers, without the GIL; keeps nothing.
 * Tests: tests/device/test_fake_driver.py, test_fake_hip.py, test_fake_capture.py and
 * test_failures.py.
 */
#include "gpu/driver.h"

#include "gpu/sync_rules.h"

/* --- captures (S14) ------------------------------------------------------- */

int
dls_gpu_set_capture_mode(const dls_gpu_calls *api, int mode)
{
    if (api->exchange_capture_mode != NULL) {
        api->exchange_capture_mode(&mode);
    }
    return mode;
}

/* What a question leaves as the thread's last error is not the program's. */
static int
heard(const dls_place *place, int result)
{
    if (result != GPU_OK && place->driver->forget_error != NULL) {
        place->driver->forget_error(place->api);
    }
    return result;
}

/* L answers 906 while a stream that waits for it captures, without harm to the
 * capture. */
bool
dls_gpu_captures(const dls_place *place, uint64_t stream)
{
    int status = 0;
    if (place->api->stream_is_capturing == NULL) {
        return false;
    }
    int result = heard(
        place, place->api->stream_is_capturing(dls_gpu_stream(stream), &status));
    /* mutant: capture */
    return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);
}

static bool
find_capture(const dls_place *place, uint64_t stream, unsigned long long *id)
{
    int status;
    return place->api->stream_capture_info != NULL
           && heard(place, place->api->stream_capture_info(dls_gpu_stream(stream),
                                                           &status, id))
                  == GPU_OK;
}

bool
dls_gpu_one_capture(const dls_place *place, uint64_t a, uint64_t b)
{
    unsigned long long of_a = 0, of_b = 0;
    /* mutant: same capture */
    return find_capture(place, a, &of_a) && find_capture(place, b, &of_b)
           && of_a == of_b;
}

bool
dls_gpu_is_capture_error(int result)
{
    return result >= GPU_CAPTURE_FIRST && result <= GPU_CAPTURE_LAST;
}

/* --- events and streams --------------------------------------------------- */

int
dls_gpu_event_new(const dls_place *place, void **event)
{
    *event = NULL;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = place->api->event_create(event, GPU_DISABLE_TIMING);
    dls_gpu_set_capture_mode(place->api, mode);
    return result;
}

void
dls_gpu_event_end(const dls_place *place, void *event)
{
    heard(place, place->api->event_destroy(event));
}

int
dls_gpu_stream_new(const dls_place *place, uint64_t *stream)
{
    void *made = NULL;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    /* mutant: stream of copies */
    int result = place->api->stream_create(&made, GPU_NON_BLOCKING);
    dls_gpu_set_capture_mode(place->api, mode);
    *stream = (uint64_t)(uintptr_t)made;
    return result;
}

/* --- errors (S24) --------------------------------------------------------- */

/* What a code means to one vendor only; DLS_OK: nothing. */
static int
fail_of_vendor(const dls_place *place, int result, const char *call, const char *name,
               int device_id, dls_error *err)
{
    bool cuda = !place->driver->is_hip;
    if (cuda && result == GPU_INVALID_CONTEXT) {
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: %s: device %d has no live context (%s, %d); was the "
                        "data's library used in this process?",
                        call, device_id, name, result);
    }
    if (!cuda && (result == GPU_NO_DEVICE || result == GPU_INVALID_DEVICE)) {
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: the runtime finds no device %d (%s, %d)" DLS_ADVICE_READY, device_id,
            name, result);
    }
    if (!cuda && result == GPU_CONTEXT_DESTROYED) {
        return dls_fail(
            err, DLS_ERUNTIME,
            "ROCm: %s failed: %s (%d): is a second HIP runtime in this process?", call,
            name, result);
    }
    return DLS_OK;
}

int
dls_gpu_check(const dls_place *place, int result, dls_call call, int device_id,
              dls_error *err)
{
    static const char calls[][2][32] = {
#define CALL(name, cuda, hip) {cuda, hip},
        DLS_GPU_FAILURE_LIST(CALL)
#undef CALL
    };
    /* mutant: error of the driver */
    if (result == GPU_OK) {
        return DLS_OK;
    }
    const char *vendor = place->driver->name;
    const char *what = calls[call][place->driver->is_hip];
    const char *name = place->driver->error_name(place->api, result);
    name = name != NULL ? name : "unknown error";
    int code = fail_of_vendor(place, result, what, name, device_id, err);
    if (code != DLS_OK) {
        return code;
    }
    if (dls_gpu_is_capture_error(result)) {
        return dls_fail(err, DLS_EBUFFER, "%s: %s (%s, %d): " DLS_CAPTURE_REFUSAL,
                        vendor, what, name, result);
    }
    if (result == GPU_INVALID_HANDLE) {
        return dls_fail(
            err, DLS_EBUFFER,
            "%s: %s: the stream belongs to another device or was destroyed (%s, %d)",
            vendor, what, name, result);
    }
    /* Lasting errors of the program itself (700 ...) must not pass for a refusal. */
    return dls_fail(err, DLS_ERUNTIME, "%s: %s failed: %s (%d)", vendor, what, name,
                    result);
}
