/* How a call comes in and goes out, and how handles are made and named: the same for both vendors. */
#include "front.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "queue.h"
#include "shadow.h"
#include "turns.h"

void call_open(call *made, const char *name, unsigned rules)
{
    bool held = fm_gil_held();
    fm_check_process(name);
    fm_turn(name);
    fm_lock();
    fm_count(name, held);
    if (held && (rules & BLOCKS))
        fm_log("GIL %s", name);
    *made = (call){.name = name, .home = front_home_now(), .rules = rules};
}

void call_note(call *made, const char *format, ...)
{
    size_t length = strlen(made->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made->text + length, sizeof made->text - length, format, arguments);
    va_end(arguments);
}

int call_leave(call *made, int rc)
{
    const char *space = *made->text ? " " : "";
    char failed[24] = "";
    front_left(made, rc);
    if (rc != OK)
        snprintf(failed, sizeof failed, " -> %d", rc);
    if (!(made->rules & QUIET))
        fm_log("%s%s%s %s=%u%s", made->name, space, made->text, front_home, made->home, failed);
    fm_unlock();
    return rc;
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

/* ---- streams and events ---- */

int front_stream_query(fm_stream *stream)
{
    if (!stream->capture && (fm_take_not_ready() || fm_queue_stream_busy(stream)))
        return NOT_READY;
    return front_error(fm_stream_sync(stream));
}

int front_event_query(fm_event *event)
{
    if (!event->capture && (fm_take_not_ready() || fm_queue_event_busy(event)))
        return NOT_READY;
    return front_error(fm_event_sync(event));
}

int front_event_end(fm_event *event)
{
    if (!event->alive) {
        fm_log("DOUBLE ev=%u", event->number);
        return INVALID_HANDLE;
    }
    fm_event_end(event);
    return OK;
}

unsigned front_stream_flags(const fm_stream *stream)
{
    return stream->blocking || stream == stream->domain->legacy ? 0 : NON_BLOCKING;
}

/* ---- handles ---- */

static const uintptr_t SPAN = 0x1000000000;

uintptr_t cookie(uintptr_t family, unsigned number)
{
    return family + SPACING * (uintptr_t)number;
}

unsigned number_of(uintptr_t family, uintptr_t handle)
{
    if (handle < family || handle - family >= SPAN || handle % SPACING)
        return 0;
    return (unsigned)((handle - family) / SPACING);
}

label label_of_stream(uintptr_t handle, unsigned number, const char *const reserved[3])
{
    label made;
    const fm_stream *stream = fm_stream_at(number);
    if (handle <= 2)
        snprintf(made.text, sizeof made.text, "%s", reserved[handle]);
    else if (stream)
        snprintf(made.text, sizeof made.text, "%s", stream->name);
    else
        snprintf(made.text, sizeof made.text, "%#lx?", (unsigned long)handle);
    return made;
}

label label_of(uintptr_t handle, unsigned number, bool known)
{
    label made;
    if (known)
        snprintf(made.text, sizeof made.text, "%u", number);
    else
        snprintf(made.text, sizeof made.text, "%#lx?", (unsigned long)handle);
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
