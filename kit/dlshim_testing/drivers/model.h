/* Which work comes after which on a device, told by vector clocks.
 *
 * Nothing here knows a vendor.  A domain is what events and streams belong to: a context of
 * CUDA, a device of HIP.  Operations run at once on host memory; whether they were synced is
 * judged by clocks alone, so a race shows on the first try, without threads and without sleeps.
 *
 * begin(s): what an operation issued now on `s` comes after: the host, all that `s` did; for a
 * legacy stream all that the blocking streams of its domain did until now, for a blocking
 * stream all that the legacy stream did.  An operation adds one entry of its own.  A record
 * copies begin(s), a wait joins the copy, a synchronisation joins into the host's clock.
 *
 * Everything wants the journal's lock to be held.  Dead objects stay allocated, so that their
 * use after the end is seen.
 */
#ifndef FM_MODEL_H
#define FM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FM_OK,
    FM_INVALID,
    FM_OTHER_DOMAIN, /* event and stream belong to different domains */
    FM_NOT_READY,
    FM_CAPTURE_UNSUPPORTED,
    FM_CAPTURE_INVALIDATED,
    FM_CAPTURE_MERGE,
    FM_CAPTURE_UNMATCHED,
    FM_CAPTURE_UNJOINED,
    FM_CAPTURE_ISOLATION,
    FM_CAPTURE_IMPLICIT,
    FM_CAPTURED_EVENT,
    FM_CAPTURE_WRONG_THREAD,
} fm_status;

typedef struct {
    uint64_t *seq; /* by slot; slot 0 is the host */
    unsigned length;
} fm_clock;

void fm_clock_join(fm_clock *into, const fm_clock *from);
void fm_clock_set(fm_clock *clock, unsigned slot, uint64_t seq);
uint64_t fm_clock_get(const fm_clock *clock, unsigned slot);
void fm_clock_clear(fm_clock *clock);

typedef struct fm_stream fm_stream;

typedef struct {
    unsigned number; /* from 1; never used again */
    int device;
    bool alive;
    bool of_test; /* ends at the next reset */
    fm_stream *legacy;
    fm_clock floor; /* what all work of the domain comes after */
    uint64_t last_wait; /* the same, as an operation of queue.c */
} fm_domain;

typedef enum { FM_GLOBAL, FM_THREAD_LOCAL, FM_RELAXED } fm_mode;

typedef struct {
    unsigned long long id;
    fm_mode mode;
    unsigned thread;
    fm_stream *origin;
    bool dead;  /* invalidated, not yet ended */
    bool ended;
    void *graph; /* what was captured (queue.c) */
} fm_capture;

struct fm_stream {
    unsigned number;
    char name[24]; /* L, PT<thread>, or as it was named */
    fm_domain *domain;
    bool alive;
    bool of_test;
    bool blocking;
    unsigned thread; /* of a per-thread default stream, else 0 */
    unsigned slot;
    fm_clock clock;
    fm_capture *capture;
    uint64_t last, last_node; /* its last operation, and the last one in a graph (queue.c) */
};

typedef struct {
    unsigned number;
    fm_domain *domain;
    bool alive;
    bool recorded;
    unsigned flags;
    unsigned long long capture; /* in which it was recorded, or 0 */
    fm_clock clock;
    uint64_t last; /* the operation that it stands for (queue.c) */
} fm_event;

/* Making and finding.  The fm_*_at functions give NULL for a number that never was. */
fm_domain *fm_domain_new(int device, bool of_test);
void fm_domain_end(fm_domain *domain);
fm_domain *fm_domain_at(unsigned number);
fm_stream *fm_stream_new(fm_domain *domain, bool blocking, const char *name, bool of_test);
fm_stream *fm_stream_per_thread(fm_domain *domain); /* the calling thread's, made at need */
void fm_stream_end(fm_stream *stream);
fm_stream *fm_stream_at(unsigned number);
/* All that were alive at the last reset, or are newer. */
unsigned fm_stream_count(void);
fm_stream *fm_stream_alive(unsigned index);
fm_event *fm_event_new(fm_domain *domain, unsigned flags);
void fm_event_end(fm_event *event);
fm_event *fm_event_at(unsigned number);
unsigned fm_live_events(void);
void fm_log_leaks(void); /* a line LEAK for every live event */

/* Syncs. */
fm_status fm_begin(fm_stream *stream);
fm_status fm_operation(fm_stream *stream, uint64_t *seq);
fm_status fm_record(fm_event *event, fm_stream *stream);
fm_status fm_wait(fm_stream *stream, const fm_event *event);
fm_status fm_stream_sync(fm_stream *stream);
fm_status fm_event_sync(const fm_event *event);
fm_status fm_domain_sync(fm_domain *domain);
/* The host waits for all of the domain, as freeing memory makes it: no capture is harmed. */
void fm_domain_drain(const fm_domain *domain);
fm_status fm_domain_record(fm_domain *domain, fm_event *event);
fm_status fm_domain_wait(fm_domain *domain, const fm_event *event);
bool fm_in_host(unsigned slot, uint64_t seq); /* whether the host waited for it */
uint64_t fm_host_operation(void);
const fm_clock *fm_host_clock(void);
const char *fm_slot_name(unsigned slot);

/* Queries are answered "not ready" so many times before they are answered truly. */
void fm_set_not_ready(unsigned times);
bool fm_take_not_ready(void);

/* Capture.  Breaking its rules invalidates the captures concerned (a line DIED in the log). */
fm_status fm_capture_begin(fm_stream *stream, fm_mode mode);
/* *graph: its number where the fake is asynchronous (queue.h), else 0. */
fm_status fm_capture_end(fm_stream *stream, unsigned *graph);
fm_status fm_capture_state(const fm_stream *stream, int *state, unsigned long long *id);
fm_status fm_unsafe_call(void); /* calls that a capture does not see, such as allocation */
fm_mode fm_exchange_mode(fm_mode mode);

/* A new case: clocks at zero, captures gone, streams and domains of tests ended.
 * `hard`: everything ended. */
void fm_model_reset(bool hard);

#endif
