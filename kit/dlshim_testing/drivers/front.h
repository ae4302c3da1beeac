/* What the fronts of both vendors have, and what control.c wants of one.  Handles are cookies, not
 * addresses: wider than an int, never to be followed, and checked against tables. */
#ifndef FM_FRONT_H
#define FM_FRONT_H

#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "model.h"

/* The numbers are the same in CUDA and HIP. */
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    STUB_LIBRARY = 34,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709,
    NOT_SUPPORTED = 801,
};

enum { DEVICES = 2 };

/* ---- calls ---- */

typedef struct {
    const char *name;
    char text[160];
    unsigned home; /* the context or device that was current when the call came in */
    unsigned rules;
} call;

enum {
    EARLY = 1,   /* may come before the start, and starts nothing */
    BLOCKS = 2,  /* may wait: Python's lock must not be held */
    QUIET = 4,   /* counted, not logged */
    CONTEXT = 8, /* CUDA: wants a current context */
    UNSEEN = 16, /* CUDA: a capture would not see it, so it is refused while one runs */
    APART = 32,  /* HIP: leaves the thread's last error as it is */
};

/* Take the lock and count.  Only then may handles be looked at, if only to name them. */
void call_open(call *made, const char *name, unsigned rules);
/* More for the line: what was given, what was made. */
void call_note(call *made, const char *format, ...) FM_FORMAT(2, 3);
/* The error with which the rules refuse the call, or OK. */
int call_refused(const call *made, unsigned rules);
/* Write the line and give the lock back; gives `rc`. */
int call_leave(call *made, int rc);

/* RESULT is the vendor's type of an error. */
#define OPEN(rules, ...)                                                                           \
    call this_call;                                                                                \
    do {                                                                                           \
        call_open(&this_call, __func__, rules);                                                    \
        call_note(&this_call, __VA_ARGS__);                                                        \
    } while (0)
#define ENTER(rules, ...)                                                                          \
    OPEN(rules, __VA_ARGS__);                                                                      \
    do {                                                                                           \
        int refused_ = call_refused(&this_call, rules);                                            \
        if (refused_ != OK)                                                                        \
            return (RESULT)call_leave(&this_call, refused_);                                       \
    } while (0)
#define NOTE(...) call_note(&this_call, __VA_ARGS__)
#define LEAVE(rc) return (RESULT)call_leave(&this_call, (int)(rc))
#define LEAVE_IF(condition, rc)                                                                    \
    do {                                                                                           \
        if (condition)                                                                             \
            LEAVE(rc);                                                                             \
    } while (0)

/* ---- handles ---- */

enum { SPACING = 16 };

/* The handle of a number in a family, which begins somewhere; 0 for what is none of it. */
uintptr_t cookie(uintptr_t family, unsigned number);
unsigned number_of(uintptr_t family, uintptr_t handle);

typedef struct {
    char text[32];
} label;
/* `reserved` are the names of the handles 0, 1 and 2. */
label label_of_stream(uintptr_t handle, unsigned number, const char *const reserved[3]);
/* An event or a context: its number, or the handle where there is none. */
label label_of(uintptr_t handle, unsigned number, bool known);
label memory_label(uintptr_t address);
#define M(address) memory_label((uintptr_t)(address)).text

/* ---- a vendor's front ---- */

extern const char *const front_home; /* how the log calls what is current: "ctx", "dev" */
unsigned front_home_now(void);
void front_left(const call *made, int rc); /* a call goes out */

/* Make the driver usable as the library that owns the arrays does: initialised, every device's
 * domain active.  0, or the vendor's error. */
int front_start(void);
/* A new case for the front's own state, after the model's. */
void front_reset(bool hard);

fm_domain *front_domain_of(int device); /* NULL: no such device */
fm_domain *front_domain(uintptr_t handle); /* dies for an unknown one */
uintptr_t front_domain_handle(const fm_domain *domain);

/* The reserved handles mean those of `domain`; dies for an unknown one. */
fm_stream *front_stream(uintptr_t handle, fm_domain *domain);
uintptr_t front_stream_handle(const fm_stream *stream);

/* ---- what is the same in both: front.c ---- */

int front_error(fm_status status);
/* Whether the work is done; tests may have it said once that it is not. */
int front_stream_query(fm_stream *stream);
int front_event_query(fm_event *event);
/* A second end is an error and a line of the log. */
int front_event_end(fm_event *event);
enum { NON_BLOCKING = 1 };
/* The flags that the stream was made with. */
unsigned front_stream_flags(const fm_stream *stream);

/* The option's old value; dies for an unknown name. */
int front_option(const char *name, int value);

#endif
