/* The memory of one interpreter for objects that consumers and producers pass, so that
 * the next one is recognised by its address.  The state owns the one memo; request/ and
 * exchange/device_question read its members and store through the functions below,
 * which are the only writers of objects.  GIL held throughout; without a GIL any thread
 * may read and write, and takes no lock.  Any object here may be NULL at any time:
 * nothing was remembered yet, or dls_memo_clear was called. */
#pragma once

#include "core/lock.h"
#include "python/py.h"

/* Keywords of __dlpack__.  A set of them is a mask of the bits 1 << dls_keyword
 * (DLS_ASK_*). */
typedef enum {
    DLS_KW_STREAM,
    DLS_KW_VERSION,
    DLS_KW_DEVICE,
    DLS_KW_COPY,
    DLS_KW_COUNT
} dls_keyword;
#define DLS_KW_MASKS (1 << DLS_KW_COUNT)

/* The positions of the keywords of __dlpack__ in a kwnames tuple: consumers pass the
 * same constant tuple each time.  at[dls_keyword] is the position, -1: not passed
 * (bits: DLS_ASK_*). */
typedef struct {
    PyObject *kwnames; /* strong, exactly a tuple; NULL: free */
    int8_t at[DLS_KW_COUNT];
    uint8_t mask;
    uint8_t count;
} dls_seen_keywords;
#define DLS_SEEN_KEYWORDS 8

/* A place of the memo, for one object and the facts about it.  Without the GIL both are
 * written while `writes` is odd, and a reader must see the same even number of writes
 * before and after. */
#ifdef DLS_FREE_THREADED
typedef struct {
    _Atomic(uint32_t) writes;
    _Atomic(PyObject *) object; /* strong; NULL: free */
    _Atomic(uint64_t) known;
} dls_memo_place;
#else
typedef dls_seen_keywords dls_memo_place;
#endif

typedef struct {
#ifdef DLS_FREE_THREADED
    dls_memo_place last_version;
#else
    PyObject *version; /* the last max_version tuple: consumers pass a constant */
    bool versioned;    /* the generation that the tuple asked for */
#endif
    /* A producer's own constant (1, 0): most give the same one. */
    DLS_ATOMIC(PyObject *) host;
    dls_memo_place keywords[DLS_SEEN_KEYWORDS];
} dls_memo;

/* The place in which these names are remembered, or would be. */
static inline size_t
dls_memo_place_of(const PyObject *kwnames)
{
    return (size_t)((uintptr_t)kwnames >> 5) % DLS_SEEN_KEYWORDS;
}

/* Is this the remembered max_version?  *versioned: the generation that it asks for. */
#ifdef DLS_FREE_THREADED
bool dls_memo_is_version(dls_memo *memo, PyObject *value, bool *versioned);
#else
static inline bool
dls_memo_is_version(const dls_memo *memo, PyObject *value, bool *versioned)
{
    if (value != memo->version) {
        return false;
    }
    *versioned = memo->versioned;
    return true;
}
#endif

/* The content of the place of these names, which counts if its kwnames are these.
 * room: for the result. */
#ifdef DLS_FREE_THREADED
const dls_seen_keywords *dls_memo_keywords(dls_memo *memo, PyObject *kwnames,
                                           dls_seen_keywords *room);
#else
static inline const dls_seen_keywords *
dls_memo_keywords(const dls_memo *memo, PyObject *kwnames, dls_seen_keywords *room)
{
    (void)room;
    return &memo->keywords[dls_memo_place_of(kwnames)];
}
#endif

/* Is nothing remembered in the place of these names? */
static inline bool
dls_memo_is_free(const dls_memo *memo, const PyObject *kwnames)
{
    const dls_memo_place *place = &memo->keywords[dls_memo_place_of(kwnames)];
#ifdef DLS_FREE_THREADED
    return place->object == NULL;
#else
    return place->kwnames == NULL;
#endif
}

/* Is this unknown tuple one to remember?  Most consumers pass the same constant tuple
 * of names, and the same constant max_version, each time.  Some build a new one each
 * time, as f(**dict) does; to keep them from evicting the constant ones, only every 8th
 * unknown tuple is stored. */
bool dls_memo_wants_version(void);
bool dls_memo_wants_keywords(void);

/* Remember a max_version tuple that no code can change, and the generation that it asks
 * for. */
void dls_memo_set_version(dls_memo *memo, PyObject *value, bool versioned);
/* Remember the pair (1, 0) of a producer. */
void dls_memo_set_host(dls_memo *memo, PyObject *pair);
/* Remember seen->kwnames (borrowed), and where the keywords stand in it. */
void dls_memo_set_keywords(dls_memo *memo, const dls_seen_keywords *seen);

int dls_memo_visit(const dls_memo *memo, visitproc visit, void *arg);
void dls_memo_clear(dls_memo *memo);
