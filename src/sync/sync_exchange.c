#include "sync/sync_exchange.h"

#include "gpu/driver.h"
#include "gpu/pool.h"
#include "gpu/sync_rules.h"

/* One ordering in progress.  home: the place of P, or of the memory where P has no
 * handle of its own; there: that of S. */
typedef struct {
    const dls_driver *driver;
    const dls_ordering *what;
    uint64_t p;
    dls_place home;
    dls_place there;
    dls_error *err;
} handoff;

static int
refuse(dls_action action, dls_error *err)
{
    switch (action) {
    case DLS_ACTION_REFUSE_CAPTURE:
        return dls_fail(
            err, DLS_EBUFFER,
            "a graph capture is running, and ordering the export would break "
            "it; export outside the capture, or say producer_stream= the "
            "capturing stream, or pass stream=-1");
    case DLS_ACTION_REFUSE_UNKNOWN:
        return dls_fail(
            err, DLS_EBUFFER,
            "the stream with the producer's pending work is not known, and "
            "unknown_stream=\"error\" was asked for; give producer_stream=, or "
            "pass stream=-1");
    default:
        return dls_fail(err, DLS_EBUFFER,
                        "its producer takes no stream, so its pending work cannot be "
                        "ordered on this device; synchronise it and pass stream=-1");
    }
}

/* Handles up to 2 mean "of the current context", or device. */
static bool
is_special(uint64_t stream)
{
    return stream <= 2;
}

static bool
elsewhere(const handoff *h)
{
    return h->there.context != h->home.context;
}

/* S is asked where it lives.  DLS_OK, or a code. */
static int
ask_s(const handoff *h, dls_order_facts *facts)
{
    int before = 0;
    bool other = elsewhere(h);
    if (other && h->driver->enter(&h->there, &before, h->err) != DLS_OK) {
        return h->err->code;
    }
    facts->s_captures = h->driver->captures(&h->there, h->what->s);
    if (other) {
        h->driver->leave(&h->there, before);
    }
    return DLS_OK;
}

/* h->home is current.  The facts may turn one action into another: all that the last
 * one needs are asked. */
static int
ask_facts(const handoff *h, dls_order_facts *facts)
{
    bool waits = h->what->duty == DLS_DUTY_WAIT || h->what->duty == DLS_DUTY_WAIT_L;
    facts->can_record_device = h->driver->can_record_device(&h->home);
    if (waits) {
        facts->host_must_be_alone =
            h->driver->host_must_be_alone(&h->home, h->what->device.device_id);
    }
    dls_action action = dls_order_settle(h->what, facts);
    bool of_device = action == DLS_ACTION_DEVICE_EDGE
                     || action == DLS_ACTION_SYNC_DEVICE;
    bool of_p = action == DLS_ACTION_EDGE || action == DLS_ACTION_SYNC_STREAM;
    bool to_s = h->what->has_s && action != DLS_ACTION_SYNC_STREAM;
    if (to_s && ask_s(h, facts) != DLS_OK) {
        return h->err->code;
    }
    facts->p_captures = of_p && h->driver->captures(&h->home, h->p);
    facts->device_captures = of_device
                             && h->driver->captures(&h->home, h->driver->legacy);
    facts->one_capture = facts->s_captures && facts->p_captures
                         && h->driver->one_capture(&h->home, h->p, h->what->s);
    return DLS_OK;
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
    int before = 0;
    bool other = elsewhere(h);
    if (other && h->driver->enter(&h->there, &before, h->err) != DLS_OK) {
        return h->err->code;
    }
    int result = h->driver->wait(&h->there, h->what->s, event);
    if (other) {
        h->driver->leave(&h->there, before);
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
        code = fail(h, h->driver->record_device(&h->home, event),
                    DLS_CALL_RECORD_DEVICE);
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
do_whole_device(const handoff *h, dls_action action)
{
    return action == DLS_ACTION_DEVICE_EDGE
               ? make_edge(h, true)
               : fail(h, h->driver->sync_device(&h->home), DLS_CALL_SYNC_DEVICE);
}

/* The same in a second place, where the memory's owner is not known. */
static int
do_other_place(const handoff *h, dls_action action)
{
    handoff other = *h;
    int before;
    if (!h->driver->find_other(&h->home, h->what->device.device_id, h->what->address,
                               &other.home)) {
        return DLS_OK;
    }
    if (h->driver->enter(&other.home, &before, h->err) != DLS_OK) {
        return h->err->code;
    }
    int code = h->driver->captures(&other.home, h->driver->legacy)
                   ? refuse(DLS_ACTION_REFUSE_CAPTURE, h->err)
                   : do_whole_device(&other, action);
    h->driver->leave(&other.home, before);
    return code;
}

static int
carry_out(const handoff *h, dls_action action)
{
    int code;
    switch (action) {
    case DLS_ACTION_NOTHING:
        return DLS_OK;
    case DLS_ACTION_EDGE:
        return make_edge(h, false);
    case DLS_ACTION_SYNC_STREAM:
        return fail(h, h->driver->sync(&h->home, h->p), DLS_CALL_SYNC);
    case DLS_ACTION_DEVICE_EDGE:
    case DLS_ACTION_SYNC_DEVICE:
        code = do_whole_device(h, action);
        return code == DLS_OK ? do_other_place(h, action) : code;
    default:
        return refuse(action, h->err);
    }
}

/* Both places; a stream with a handle is asked and made to wait anywhere. */
static int
find_places(handoff *h, uint64_t at)
{
    const dls_ordering *o = h->what;
    int code = h->driver->find(at, o->device.device_id, o->address, &h->home, h->err);
    h->there = h->home;
    bool own = o->has_s && is_special(o->s) && !is_special(at);
    if (code == DLS_OK && own) {
        code = h->driver->find(o->s, o->device.device_id, o->address, &h->there,
                               h->err);
    }
    return code;
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
    int before;
    int code = find_places(&h, at);
    if (code != DLS_OK || (code = h.driver->enter(&h.home, &before, err)) != DLS_OK) {
        return code;
    }
    dls_order_facts facts = {0};
    code = ask_facts(&h, &facts);
    if (code == DLS_OK) {
        code = carry_out(&h, dls_order_settle(ordering, &facts));
    }
    h.driver->leave(&h.home, before);
    return code;
}

bool
dls_handoff_captures(dl_device device, dls_pending p)
{
    const dls_driver *driver = dls_driver_of(device.device_type);
    dls_place place;
    dls_error err;
    int before;
    if (!driver->in_use()
        || driver->find(driver->legacy, device.device_id, NULL, &place, &err) != DLS_OK
        || driver->enter(&place, &before, &err) != DLS_OK) {
        return false;
    }
    bool captured = driver->captures(&place, driver->legacy)
                    || (p.known == DLS_P_KNOWN && driver->captures(&place, p.handle));
    driver->leave(&place, before);
    return captured;
}

/* --- release (reference 8)
 * --------------------------------------------------------------- */

int
dls_handoff_can_guard(dls_ordering *what, dls_error *err)
{
    const dls_driver *driver = dls_driver_of(what->device.device_type);
    dls_place place;
    int code = driver->find(driver->legacy, what->device.device_id, what->address,
                            &place, err);
    if (code == DLS_OK && !driver->can_record_device(&place)) {
        code = dls_fail(
            err, DLS_EBUFFER,
            "on_release=\"guard\" needs a CUDA driver of 12.5 or later; keep the "
            "array until its streams have passed, and drop the option");
    }
    if (code == DLS_OK) {
        what->home_api = place.api;
        what->home = place.context;
        what->home_id = driver->identity(&place);
    }
    return code;
}

/* All that the place has been given comes before all that it will be given.  0, or the
 * driver's code. */
static int
fence(const dls_driver *driver, const dls_place *place)
{
    void *event;
    dls_error err;
    int result = -1;
    if (dls_pool_get_event(driver, place, &event, &err) == DLS_OK) {
        result = driver->record_device(place, event);
        if (result == 0) {
            result = driver->wait_device(place, event);
        }
        dls_pool_put_event(driver, place, event, result == 0);
    }
    if (result != 0 && !driver->is_capture_error(result)) {
        result = driver->sync_device(place); /* slow, but no less sure */
    }
    return result;
}

bool
dls_handoff_guard(const dls_ordering *what)
{
    const dls_driver *driver = dls_driver_of(what->device.device_type);
    const dls_place place = {.api = what->home_api, .context = what->home};
    dls_error err;
    int before;
    if (!driver->in_use() || driver->identity(&place) != what->home_id
        || driver->enter(&place, &before, &err) != DLS_OK) {
        return true;
    }
    bool captured = driver->captures(&place, driver->legacy)
                    || driver->is_capture_error(fence(driver, &place));
    driver->leave(&place, before);
    return !captured;
}
