#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "queue.h"
#include "turns.h"

/* ---- tables: number n is entry n - 1 ---- */

typedef struct {
    void **at;
    unsigned length, room;
} table;

static table domains, streams, events, captures;
static table live_streams, live_events; /* those that were alive at the last reset, or are newer */
static fm_clock host;
static uint64_t last_seq;
static unsigned long long last_capture;
static unsigned slots = 1; /* slot 0 is the host */
static unsigned not_ready;

static unsigned add(table *to, void *entry)
{
    if (to->length == to->room) {
        to->room = to->room ? 2 * to->room : 64;
        to->at = fm_resize(to->at, to->room * sizeof *to->at);
    }
    to->at[to->length] = entry;
    return ++to->length;
}

static void *entry(const table *of, unsigned number)
{
    return number && number <= of->length ? of->at[number - 1] : NULL;
}

#define EACH(type, variable, of)                                                                   \
    (unsigned at_##variable = 0; at_##variable < (of).length; at_##variable++)                     \
        for (type *variable = (of).at[at_##variable]; variable; variable = NULL)

fm_domain *fm_domain_at(unsigned number)
{
    return entry(&domains, number);
}

fm_stream *fm_stream_at(unsigned number)
{
    return entry(&streams, number);
}

unsigned fm_stream_count(void)
{
    return live_streams.length;
}

fm_stream *fm_stream_alive(unsigned index)
{
    return live_streams.at[index];
}

fm_event *fm_event_at(unsigned number)
{
    return entry(&events, number);
}

fm_domain *fm_domain_new(int device, bool of_test)
{
    fm_domain *domain = fm_allocate(sizeof *domain);
    domain->number = add(&domains, domain);
    domain->device = device;
    domain->alive = true;
    domain->of_test = of_test;
    domain->legacy = fm_stream_new(domain, false, "L", false);
    return domain;
}

void fm_domain_end(fm_domain *domain)
{
    domain->alive = false;
    for EACH (fm_stream, stream, live_streams)
        if (stream->domain == domain)
            fm_stream_end(stream);
}

fm_stream *fm_stream_new(fm_domain *domain, bool blocking, const char *name, bool of_test)
{
    fm_stream *stream = fm_allocate(sizeof *stream);
    stream->number = add(&streams, stream);
    add(&live_streams, stream);
    stream->domain = domain;
    stream->alive = true;
    stream->of_test = of_test;
    stream->blocking = blocking;
    stream->slot = slots++;
    if (name && *name)
        snprintf(stream->name, sizeof stream->name, "%s", name);
    else
        snprintf(stream->name, sizeof stream->name, "%c%u", blocking ? 'B' : 'N', stream->number);
    return stream;
}

fm_stream *fm_stream_per_thread(fm_domain *domain)
{
    unsigned thread = fm_thread();
    for EACH (fm_stream, stream, live_streams)
        if (stream->alive && stream->thread == thread && stream->domain == domain)
            return stream;
    char name[24];
    snprintf(name, sizeof name, "PT%u", thread);
    fm_stream *stream = fm_stream_new(domain, true, name, false);
    stream->thread = thread;
    return stream;
}

void fm_stream_end(fm_stream *stream)
{
    stream->alive = false;
}

fm_event *fm_event_new(fm_domain *domain, unsigned flags)
{
    fm_event *event = fm_allocate(sizeof *event);
    event->number = add(&events, event);
    add(&live_events, event);
    event->domain = domain;
    event->alive = true;
    event->flags = flags;
    return event;
}

void fm_event_end(fm_event *event)
{
    event->alive = false;
    fm_clock_clear(&event->clock);
}

unsigned fm_live_events(void)
{
    unsigned count = 0;
    for EACH (fm_event, event, live_events)
        count += event->alive;
    return count;
}

void fm_log_leaks(void)
{
    for EACH (fm_event, event, live_events)
        if (event->alive)
            fm_log("LEAK ev=%u", event->number);
}

const char *fm_slot_name(unsigned slot)
{
    for EACH (fm_stream, stream, live_streams)
        if (stream->slot == slot)
            return stream->name;
    return "the host";
}

/* ---- captures ---- */

static _Thread_local fm_mode thread_mode;

fm_mode fm_exchange_mode(fm_mode mode)
{
    fm_mode before = thread_mode;
    thread_mode = mode;
    return before;
}

static void kill(fm_capture *capture)
{
    if (!capture->dead && !capture->ended)
        fm_log("DIED capture=%llu", capture->id);
    capture->dead = true;
}

static bool kill_in(const fm_domain *domain, bool blocking_only)
{
    bool any = false;
    for EACH (fm_stream, stream, live_streams) {
        if (!stream->alive || stream->domain != domain || !stream->capture)
            continue;
        if (blocking_only && !stream->blocking)
            continue;
        kill(stream->capture);
        any = true;
    }
    return any;
}

static fm_capture *capture_with(unsigned long long id)
{
    for EACH (fm_capture, capture, captures)
        if (capture->id == id && !capture->ended)
            return capture;
    return NULL;
}

/* Whether work may be issued on the stream at all. */
static fm_status usable(fm_stream *stream)
{
    if (stream == stream->domain->legacy && kill_in(stream->domain, true))
        return FM_CAPTURE_IMPLICIT;
    if (stream->capture && stream->capture->dead)
        return FM_CAPTURE_INVALIDATED;
    return FM_OK;
}

fm_status fm_capture_begin(fm_stream *stream, fm_mode mode)
{
    if (stream == stream->domain->legacy)
        return FM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return FM_INVALID;
    fm_capture *capture = fm_allocate(sizeof *capture);
    *capture = (fm_capture){
        .id = ++last_capture, .mode = mode, .thread = fm_thread(), .origin = stream};
    add(&captures, capture);
    stream->capture = capture;
    return FM_OK;
}

fm_status fm_capture_end(fm_stream *stream, unsigned *graph)
{
    fm_capture *capture = stream->capture;
    if (!capture)
        return FM_INVALID;
    if (capture->mode != FM_RELAXED && capture->thread != fm_thread())
        return FM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream) {
        kill(capture);
        return FM_CAPTURE_UNMATCHED;
    }
    fm_status status = capture->dead ? FM_CAPTURE_INVALIDATED : FM_OK;
    for EACH (fm_stream, other, live_streams) {
        if (other->capture != capture)
            continue;
        uint64_t own = fm_clock_get(&other->clock, other->slot);
        if (status == FM_OK && fm_clock_get(&stream->clock, other->slot) < own)
            status = FM_CAPTURE_UNJOINED;
        if (other != stream)
            other->capture = NULL;
    }
    stream->capture = NULL;
    capture->ended = true;
    *graph = status == FM_OK ? fm_queue_graph(capture) : 0;
    return status;
}

fm_status fm_capture_state(const fm_stream *stream, int *state, unsigned long long *id)
{
    *state = 0;
    *id = 0;
    if (stream == stream->domain->legacy) /* told without harm to the capture */
        for EACH (fm_stream, other, live_streams)
            if (other->alive && other->blocking && other->capture &&
                other->domain == stream->domain)
                return FM_CAPTURE_IMPLICIT;
    if (stream->capture) {
        *state = stream->capture->dead ? 2 : 1;
        *id = stream->capture->id;
    }
    return FM_OK;
}

fm_status fm_unsafe_call(void)
{
    bool any = false;
    for EACH (fm_capture, capture, captures) {
        if (capture->ended || thread_mode == FM_RELAXED)
            continue;
        bool own = capture->thread == fm_thread() && capture->mode != FM_RELAXED;
        bool others = capture->mode == FM_GLOBAL && thread_mode == FM_GLOBAL;
        if (own || others) {
            kill(capture);
            any = true;
        }
    }
    return any ? FM_CAPTURE_UNSUPPORTED : FM_OK;
}

/* ---- syncs ---- */

static void come_after(fm_stream *stream)
{
    fm_domain *domain = stream->domain;
    fm_clock_join(&stream->clock, &host);
    fm_clock_join(&stream->clock, &domain->floor);
    if (stream->blocking)
        fm_clock_join(&stream->clock, &domain->legacy->clock);
    if (stream != domain->legacy)
        return;
    for EACH (fm_stream, other, live_streams)
        if (other->blocking && other->domain == domain)
            fm_clock_join(&stream->clock, &other->clock);
}

fm_status fm_begin(fm_stream *stream)
{
    fm_status status = usable(stream);
    if (status == FM_OK)
        come_after(stream);
    return status;
}

fm_status fm_operation(fm_stream *stream, uint64_t *seq)
{
    fm_status status = fm_begin(stream);
    if (status == FM_OK) {
        *seq = ++last_seq;
        fm_clock_set(&stream->clock, stream->slot, *seq);
    }
    return status;
}

fm_status fm_record(fm_event *event, fm_stream *stream)
{
    if (event->domain != stream->domain)
        return FM_OTHER_DOMAIN;
    fm_status status = fm_begin(stream);
    if (status != FM_OK)
        return status;
    fm_clock_clear(&event->clock);
    fm_clock_join(&event->clock, &stream->clock);
    event->recorded = true;
    event->capture = stream->capture ? stream->capture->id : 0;
    fm_queue_record(stream, event);
    return FM_OK;
}

/* A stream that does not capture waits for an event that was recorded in a capture. */
static fm_status join_capture(fm_stream *stream, const fm_event *event)
{
    fm_capture *capture = capture_with(event->capture);
    if (!capture)
        return FM_CAPTURED_EVENT;
    if (capture->dead)
        return FM_CAPTURE_INVALIDATED;
    if (stream == stream->domain->legacy) {
        kill(capture);
        return FM_CAPTURE_IMPLICIT;
    }
    uint64_t seq;
    fm_operation(stream, &seq); /* what the capture's end must find joined back */
    stream->capture = capture;
    fm_log("JOIN stream=%s capture=%llu", stream->name, capture->id);
    return FM_OK;
}

static fm_status wait_in_capture(fm_stream *stream, const fm_event *event)
{
    if (event->capture == stream->capture->id)
        return FM_OK;
    kill(stream->capture);
    fm_capture *other = event->capture ? capture_with(event->capture) : NULL;
    if (!other)
        return FM_CAPTURE_ISOLATION;
    kill(other);
    return FM_CAPTURE_MERGE;
}

fm_status fm_wait(fm_stream *stream, const fm_event *event)
{
    fm_status status = fm_begin(stream);
    if (status == FM_OK && stream->capture)
        status = wait_in_capture(stream, event);
    else if (status == FM_OK && event->capture)
        status = join_capture(stream, event);
    if (status == FM_OK) {
        fm_clock_join(&stream->clock, &event->clock);
        fm_queue_wait(stream, event);
    }
    return status;
}

/* The clock that the host joins when a wait which begins now has ended.  It is copied, because other
 * threads may call meanwhile. */
static fm_clock begin_wait(const fm_clock *of)
{
    fm_clock awaited = {0};
    fm_clock_join(&awaited, of);
    return awaited;
}

static void end_wait(fm_clock *awaited)
{
    fm_turn_of_wait();
    fm_clock_join(&host, awaited);
    fm_clock_clear(awaited);
}

fm_status fm_stream_sync(fm_stream *stream)
{
    fm_status status = fm_begin(stream);
    if (status == FM_OK && stream->capture) {
        kill(stream->capture);
        status = FM_CAPTURE_UNSUPPORTED;
    }
    if (status == FM_OK) {
        fm_clock awaited = begin_wait(&stream->clock);
        fm_queue_stream_sync(stream);
        end_wait(&awaited);
    }
    return status;
}

fm_status fm_event_sync(const fm_event *event)
{
    if (event->capture) {
        fm_capture *capture = capture_with(event->capture);
        if (capture)
            kill(capture);
        return FM_CAPTURED_EVENT;
    }
    fm_clock awaited = begin_wait(&event->clock);
    fm_queue_event_sync(event);
    end_wait(&awaited);
    return FM_OK;
}

static void join_all(fm_clock *into, const fm_domain *domain)
{
    for EACH (fm_stream, stream, live_streams)
        if (stream->domain == domain)
            fm_clock_join(into, &stream->clock);
}

fm_status fm_domain_sync(fm_domain *domain)
{
    if (kill_in(domain, false))
        return FM_CAPTURE_UNSUPPORTED;
    fm_domain_drain(domain);
    return FM_OK;
}

void fm_domain_drain(const fm_domain *domain)
{
    fm_clock all = {0};
    join_all(&all, domain);
    fm_queue_domain_sync(domain);
    end_wait(&all);
}

fm_status fm_domain_record(fm_domain *domain, fm_event *event)
{
    if (event->domain != domain)
        return FM_OTHER_DOMAIN;
    if (kill_in(domain, false))
        return FM_CAPTURE_UNSUPPORTED;
    fm_clock_clear(&event->clock);
    fm_clock_join(&event->clock, &host);
    join_all(&event->clock, domain);
    event->recorded = true;
    event->capture = 0;
    fm_queue_domain_record(domain, event);
    return FM_OK;
}

fm_status fm_domain_wait(fm_domain *domain, const fm_event *event)
{
    if (kill_in(domain, false))
        return FM_CAPTURE_UNSUPPORTED;
    if (event->capture)
        return FM_CAPTURED_EVENT;
    fm_clock_join(&domain->floor, &event->clock);
    fm_queue_domain_wait(domain, event);
    return FM_OK;
}

bool fm_in_host(unsigned slot, uint64_t seq)
{
    return fm_clock_get(&host, slot) >= seq;
}

uint64_t fm_host_operation(void)
{
    fm_clock_set(&host, 0, ++last_seq);
    return last_seq;
}

const fm_clock *fm_host_clock(void)
{
    return &host;
}

void fm_set_not_ready(unsigned times)
{
    not_ready = times;
}

bool fm_take_not_ready(void)
{
    if (!not_ready)
        return false;
    not_ready--;
    return true;
}

void fm_model_reset(bool hard)
{
    fm_queue_reset();
    fm_clock_clear(&host);
    last_seq = 0;
    last_capture = 0;
    not_ready = 0;
    slots = 1;
    thread_mode = FM_GLOBAL;
    for EACH (fm_domain, domain, domains) {
        fm_clock_clear(&domain->floor);
        if (hard || domain->of_test)
            fm_domain_end(domain);
    }
    unsigned kept = 0;
    for EACH (fm_stream, stream, live_streams) {
        fm_clock_clear(&stream->clock);
        stream->capture = NULL;
        stream->alive = stream->alive && !hard && !stream->of_test;
        if (stream->alive) {
            stream->slot = slots++;
            live_streams.at[kept++] = stream;
        }
    }
    live_streams.length = kept;
    kept = 0;
    for EACH (fm_event, event, live_events) {
        fm_clock_clear(&event->clock);
        event->recorded = false;
        event->capture = 0;
        event->alive = event->alive && !hard && event->domain->alive;
        if (event->alive)
            live_events.at[kept++] = event;
    }
    live_events.length = kept;
    for EACH (fm_capture, capture, captures)
        free(capture); /* of a graph that was not ended, the nodes stay */
    captures.length = 0;
}
