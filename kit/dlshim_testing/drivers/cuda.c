/* Coming in and going out of a fake libcuda: rules that hold for every call, and handles. */
#include "cuda.h"

#include <string.h>

static bool initialised;
options the_options = {FAKE_VERSION, 0, 1, 0, FAKE_VERSION >= 11020};

/* ---- a call ---- */

const char *const front_home = "ctx";

unsigned front_home_now(void)
{
    return current_context() ? current_context()->number : 0;
}

void front_left(const call *made, int rc)
{
    (void)made;
    (void)rc;
}

int call_refused(const call *made, unsigned rules)
{
    int forced;
    if (fm_forced(made->name, &forced))
        return forced;
#ifdef FAKE_STUB
    (void)rules;
    return STUB_LIBRARY;
#else
    if (!initialised && !(rules & EARLY))
        return NOT_INITIALIZED;
    if ((rules & CONTEXT) && !current_context())
        return INVALID_CONTEXT;
    if ((rules & CONTEXT) && !current_context()->alive)
        return CONTEXT_IS_DESTROYED;
    if (rules & UNSEEN)
        return front_error(fm_unsafe_call());
    return OK;
#endif
}

/* ---- starting ---- */

FM_EXPORT CUresult cuInit(unsigned int flags)
{
    ENTER(EARLY, "flags=%u", flags);
#ifdef FAKE_NODEV
    LEAVE(NO_DEVICE);
#else
    LEAVE_IF(flags, INVALID_VALUE);
    initialised = true;
    fm_claim_process();
    LEAVE(OK);
#endif
}

FM_EXPORT CUresult cuDriverGetVersion(int *version)
{
    ENTER(EARLY, "%s", "");
    *version = the_options.driver_version;
    LEAVE(OK);
}

int front_start(void)
{
#if defined(FAKE_STUB)
    return STUB_LIBRARY;
#elif defined(FAKE_NODEV)
    return NO_DEVICE;
#else
    initialised = true;
    fm_claim_process();
    for (int device = 0; device < DEVICES; device++)
        front_domain_of(device);
    return OK;
#endif
}

void start_again(bool hard); /* cuda_context.c */

void front_reset(bool hard)
{
    the_options = (options){FAKE_VERSION, 0, 1, 0, FAKE_VERSION >= 11020};
    start_again(hard);
    if (hard) {
        initialised = false;
        fm_disclaim_process();
    }
}

int front_option(const char *name, int value)
{
    int *which = NULL;
    if (strcmp(name, "driver_version") == 0)
        which = &the_options.driver_version;
    if (strcmp(name, "pointer_needs_context") == 0)
        which = &the_options.pointer_needs_context;
    if (strcmp(name, "concurrent_managed") == 0)
        which = &the_options.concurrent_managed;
    if (strcmp(name, "pageable_access") == 0)
        which = &the_options.pageable_access;
    if (strcmp(name, "memory_pools") == 0)
        which = &the_options.memory_pools;
    if (strcmp(name, "not_ready") == 0) {
        fm_set_not_ready((unsigned)value);
        return 0;
    }
    if (!which)
        fm_die("no option %s", name);
    int before = *which;
    *which = value;
    return before;
}

/* ---- handles ---- */

static const uintptr_t CONTEXTS = 0x7c1000000000, STREAMS = 0x7c2000000000,
                       EVENTS = 0x7c3000000000;

CUcontext context_handle(const fm_domain *domain)
{
    return domain ? (CUcontext)cookie(CONTEXTS, domain->number) : NULL;
}

CUstream stream_handle(const fm_stream *stream)
{
    return (CUstream)cookie(STREAMS, stream->number);
}

CUevent event_handle(const fm_event *event)
{
    return (CUevent)cookie(EVENTS, event->number);
}

uintptr_t front_domain_handle(const fm_domain *domain)
{
    return (uintptr_t)context_handle(domain);
}

uintptr_t front_stream_handle(const fm_stream *stream)
{
    return (uintptr_t)stream_handle(stream);
}

fm_domain *front_domain(uintptr_t handle)
{
    fm_domain *domain = fm_domain_at(number_of(CONTEXTS, handle));
    if (!domain)
        fm_die("unknown context %#lx", (unsigned long)handle);
    return domain;
}

fm_stream *front_stream(uintptr_t handle, fm_domain *domain)
{
    if (handle <= 2) {
        if (!domain)
            fm_die("the stream %lu needs a context", (unsigned long)handle);
        return handle == 2 ? fm_stream_per_thread(domain) : domain->legacy;
    }
    fm_stream *stream = fm_stream_at(number_of(STREAMS, handle));
    if (!stream || (!stream->alive && stream->domain->alive))
        fm_die("%s stream %#lx", stream ? "destroyed" : "unknown", (unsigned long)handle);
    return stream;
}

int find_context(CUcontext handle, fm_domain **domain)
{
    *domain = handle ? front_domain((uintptr_t)handle) : current_context();
    if (!*domain)
        return INVALID_CONTEXT;
    return (*domain)->alive ? OK : CONTEXT_IS_DESTROYED;
}

int find_stream(CUstream handle, fm_stream **stream)
{
    fm_domain *context = current_context();
    if ((uintptr_t)handle <= 2 && !context)
        return INVALID_CONTEXT;
    *stream = front_stream((uintptr_t)handle, context);
    return (*stream)->domain->alive ? OK : CONTEXT_IS_DESTROYED;
}

int find_event(CUevent handle, fm_event **event)
{
    *event = fm_event_at(number_of(EVENTS, (uintptr_t)handle));
    if (!*event || !(*event)->alive)
        fm_die("%s event %p", *event ? "destroyed" : "unknown", (void *)handle);
    return (*event)->domain->alive ? OK : CONTEXT_IS_DESTROYED;
}

/* Kept apart from find_event: here a second end is no abort. */
fm_event *event_to_end(CUevent handle)
{
    fm_event *event = fm_event_at(number_of(EVENTS, (uintptr_t)handle));
    if (!event)
        fm_die("unknown event %p", (void *)handle);
    return event;
}

label stream_label(CUstream handle)
{
    static const char *const reserved[] = {"0", "L", "PTDS"};
    uintptr_t value = (uintptr_t)handle;
    return label_of_stream(value, number_of(STREAMS, value), reserved);
}

label event_label(CUevent handle)
{
    unsigned number = number_of(EVENTS, (uintptr_t)handle);
    return label_of((uintptr_t)handle, number, fm_event_at(number));
}

label context_label(CUcontext handle)
{
    unsigned number = number_of(CONTEXTS, (uintptr_t)handle);
    return label_of((uintptr_t)handle, number, !handle || fm_domain_at(number));
}
