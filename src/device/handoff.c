#include "device/handoff.h"

#include "device/driver.h"
#include "device/pool.h"
#include "device/stream.h"

/* One ordering in progress.  home: the place of the memory, or of P when it says so. */
typedef struct {
    const dls_driver *driver;
    const dls_ordering *what;
    uint64_t p;
    dls_place home;
    bool home_of_memory;
    dls_error *err;
} handoff;

static int
refuse(dls_action action, dls_error *err)
{
    switch (action) {
    case DLS_ACTION_REFUSE_CAPTURE:
        return dls_fail(err, DLS_EBUFFER,
                        "a graph capture is running, and ordering the export would break "
                        "it; export outside the capture, or say producer_stream= the "
                        "capturing stream, or pass stream=-1");
    case DLS_ACTION_REFUSE_UNKNOWN:
        return dls_fail(err, DLS_EBUFFER,
                        "the stream with the producer's pending work is not known, and "
                        "unknown_stream=\"error\" was asked for; give producer_stream=, or "
                        "pass stream=-1");
    default:
        return dls_fail(err, DLS_EBUFFER,
                        "its producer takes no stream, so its pending work cannot be "
                        "ordered on this device; synchronise it and pass stream=-1");
    }
}

static bool
captures(const handoff *h, uint64_t stream)
{
    return h->driver->captures(&h->home, stream);
}

/* Handles up to 2 mean "of the current context", or device. */
static bool
is_special(uint64_t stream)
{
    return stream <= 2;
}

/* h->home is current. */
static void
ask_facts(const handoff *h, dls_action action, dls_order_facts *facts)
{
    bool of_device = action == DLS_ACTION_DEVICE_EDGE || action == DLS_ACTION_SYNC_DEVICE;
    bool to_s = action != DLS_ACTION_SYNC_STREAM && h->what->has_s;
    facts->can_record_device = h->driver->can_record_device(&h->home);
    facts->s_captures = to_s && captures(h, h->what->s);
    facts->p_captures = !of_device && captures(h, h->p);
    facts->device_captures = of_device && captures(h, h->driver->legacy);
    facts->one_capture = facts->s_captures && facts->p_captures
                         && h->driver->one_capture(&h->home, h->p, h->what->s);
    if (h->what->duty == DLS_DUTY_WAIT || h->what->duty == DLS_DUTY_WAIT_L) {
        facts->host_must_be_alone = h->driver->host_must_be_alone(&h->home, h->what->device.device_id);
    }
}

static int
fail(const handoff *h, int result, dls_call call)
{
    return result == 0 ? DLS_OK
                       : h->driver->fail(&h->home, h->err, result, call,
                                         h->what->device.device_id);
}

/* S waits for the event. */
static int
wait_event(const handoff *h, void *event)
{
    dls_place place = h->home;
    uint64_t s = h->what->s;
    int before = 0;
    if (is_special(s) && !h->home_of_memory) {
        int found = h->driver->find(s, h->what->device.device_id, h->what->address, &place,
                                    h->err);
        if (found != DLS_OK) {
            return found;
        }
    }
    bool other = place.context != h->home.context;
    if (other && h->driver->enter(&place, &before, h->err) != DLS_OK) {
        return h->err->code;
    }
    int result = h->driver->wait(&place, s, event);
    if (other) {
        h->driver->leave(&place, before);
    }
    return fail(h, result, DLS_CALL_WAIT);
}

/* Event after P, or after all of the place, and S waits.  h->home is current. */
static int
make_edge(const handoff *h, bool whole_device)
{
    void *event;
    int code = dls_pool_get_event(h->driver, &h->home, &event, h->err);
    if (code != DLS_OK) {
        return code;
    }
    if (whole_device) {
        code = fail(h, h->driver->record_device(&h->home, event), DLS_CALL_RECORD_DEVICE);
    }
    else {
        code = fail(h, h->driver->record(&h->home, event, h->p), DLS_CALL_RECORD);
    }
    if (code == DLS_OK) {
        code = wait_event(h, event);
    }
    dls_pool_put_event(h->driver, &h->home, event, code == DLS_OK);
    return code;
}

static int
carry_out(const handoff *h, dls_action action)
{
    switch (action) {
    case DLS_ACTION_NOTHING:
        return DLS_OK;
    case DLS_ACTION_EDGE:
        return make_edge(h, false);
    case DLS_ACTION_DEVICE_EDGE:
        return make_edge(h, true);
    case DLS_ACTION_SYNC_STREAM:
        return fail(h, h->driver->sync(&h->home, h->p), DLS_CALL_SYNC);
    case DLS_ACTION_SYNC_DEVICE:
        return fail(h, h->driver->sync_device(&h->home), DLS_CALL_SYNC_DEVICE);
    default:
        return refuse(action, h->err);
    }
}

static dls_action
without_driver(const dls_ordering *ordering)
{
    const dls_order_facts none = {0};
    return dls_order_settle(ordering, &none);
}

bool
dls_handoff_needs_driver(const dls_ordering *ordering)
{
    dls_action action = without_driver(ordering);
    return action >= DLS_ACTION_EDGE && action <= DLS_ACTION_SYNC_DEVICE;
}

DLS_COLD int
dls_handoff(const dls_ordering *ordering, dls_error *err)
{
    dls_action action = without_driver(ordering);
    if (!dls_handoff_needs_driver(ordering)) {
        return action == DLS_ACTION_NOTHING ? DLS_OK : refuse(action, err);
    }
    dls_pending p = dls_order_pending(ordering);
    handoff h = {.driver = dls_driver_of(ordering->device.device_type),
                 .what = ordering,
                 .p = p.handle,
                 .err = err};
    /* Of the unknown stream no more is known than where the memory lies. */
    uint64_t at = p.known == DLS_P_KNOWN ? p.handle : h.driver->legacy;
    h.home_of_memory = is_special(at);
    int before;
    int code = h.driver->find(at, ordering->device.device_id, ordering->address, &h.home, err);
    if (code != DLS_OK || (code = h.driver->enter(&h.home, &before, err)) != DLS_OK) {
        return code;
    }
    dls_order_facts facts = {0};
    ask_facts(&h, action, &facts);
    code = carry_out(&h, dls_order_settle(ordering, &facts));
    h.driver->leave(&h.home, before);
    return code;
}

/* --- release (reference 8) --------------------------------------------------------------- */

int
dls_handoff_can_guard(const dls_ordering *what, dls_error *err)
{
    const dls_driver *driver = dls_driver_of(what->device.device_type);
    dls_place place;
    int code = driver->find(driver->legacy, what->device.device_id, what->address, &place, err);
    if (code == DLS_OK && !driver->can_record_device(&place)) {
        code = dls_fail(err, DLS_EBUFFER,
                        "on_release=\"guard\" needs a CUDA driver of 12.5 or later; keep the "
                        "array until its streams have passed, and drop the option");
    }
    return code;
}

bool
dls_handoff_guard(const dls_ordering *what)
{
    const dls_driver *driver = dls_driver_of(what->device.device_type);
    dls_place place;
    void *event;
    dls_error err;
    int before;
    if (driver->find(driver->legacy, what->device.device_id, what->address, &place, &err) != DLS_OK
        || driver->enter(&place, &before, &err) != DLS_OK) {
        return true;
    }
    bool captured = driver->captures(&place, driver->legacy);
    if (!captured && dls_pool_get_event(driver, &place, &event, &err) == DLS_OK) {
        int result = driver->record_device(&place, event);
        if (result == 0) {
            result = driver->wait_device(&place, event);
        }
        captured = driver->is_capture_error(result);
        dls_pool_put_event(driver, &place, event, result == 0);
    }
    driver->leave(&place, before);
    return !captured;
}
