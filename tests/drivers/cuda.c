/* Coming in and going out of a fake libcuda: rules that hold for every call, and handles. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

static bool initialised;
options the_options = {FAKE_VERSION, 0, 1, 0, FAKE_VERSION >= 11020};

/* ---- a call ---- */

void call_open(call *made, const char *name, unsigned rules)
{
    bool held = fm_gil_held();
    fm_check_process(name);
    fm_lock();
    fm_count(name, held);
    if (held && (rules & BLOCKS))
        fm_log("GIL %s", name);
    *made = (call){.name = name, .quiet = rules & QUIET};
    if (current_context())
        made->context = current_context()->number;
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

void call_note(call *made, const char *format, ...)
{
    size_t length = strlen(made->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made->text + length, sizeof made->text - length, format, arguments);
    va_end(arguments);
}

CUresult call_leave(call *made, int rc)
{
    const char *space = *made->text ? " " : "";
    char failed[24] = "";
    if (rc != OK)
        snprintf(failed, sizeof failed, " -> %d", rc);
    if (!made->quiet)
        fm_log("%s%s%s ctx=%u%s", made->name, space, made->text, made->context, failed);
    fm_unlock();
    return (CUresult)rc;
}

int front_error(fm_status status)
{
    static const int errors[] = {
        [FM_OK] = OK,
        [FM_INVALID] = INVALID_VALUE,
        [FM_OTHER_DOMAIN] = INVALID_HANDLE,
        [FM_NOT_READY] = NOT_READY,
        [FM_CAPTURE_UNSUPPORTED] = 900,
        [FM_CAPTURE_INVALIDATED] = 901,
        [FM_CAPTURE_MERGE] = 902,
        [FM_CAPTURE_UNMATCHED] = 903,
        [FM_CAPTURE_UNJOINED] = 904,
        [FM_CAPTURE_ISOLATION] = 905,
        [FM_CAPTURE_IMPLICIT] = 906,
        [FM_CAPTURED_EVENT] = 907,
        [FM_CAPTURE_WRONG_THREAD] = 908,
    };
    return errors[status];
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
                       EVENTS = 0x7c3000000000, SPAN = 0x1000000000;

static uintptr_t cookie(uintptr_t family, unsigned number)
{
    return family + 16 * (uintptr_t)number;
}

static unsigned number_of(uintptr_t family, uintptr_t handle)
{
    if (handle < family || handle - family >= SPAN || handle % 16)
        return 0;
    return (unsigned)((handle - family) / 16);
}

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
    label made;
    uintptr_t value = (uintptr_t)handle;
    const fm_stream *stream = fm_stream_at(number_of(STREAMS, value));
    if (value <= 2)
        snprintf(made.text, sizeof made.text, "%s", reserved[value]);
    else if (stream)
        snprintf(made.text, sizeof made.text, "%s", stream->name);
    else
        snprintf(made.text, sizeof made.text, "%#lx?", (unsigned long)value);
    return made;
}

label event_label(CUevent handle)
{
    label made;
    unsigned number = number_of(EVENTS, (uintptr_t)handle);
    if (fm_event_at(number))
        snprintf(made.text, sizeof made.text, "%u", number);
    else
        snprintf(made.text, sizeof made.text, "%p?", (void *)handle);
    return made;
}

label context_label(CUcontext handle)
{
    label made;
    unsigned number = number_of(CONTEXTS, (uintptr_t)handle);
    if (!handle || fm_domain_at(number))
        snprintf(made.text, sizeof made.text, "%u", number);
    else
        snprintf(made.text, sizeof made.text, "%p?", (void *)handle);
    return made;
}

label memory_label(uintptr_t address)
{
    label made;
    const fm_memory *memory = fm_memory_at(address);
    if (!memory)
        snprintf(made.text, sizeof made.text, "host");
    else if (address == memory->base)
        snprintf(made.text, sizeof made.text, "m%u", memory->number);
    else
        snprintf(made.text, sizeof made.text, "m%u+%zu", memory->number, address - memory->base);
    return made;
}
