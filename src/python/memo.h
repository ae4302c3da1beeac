/* What one interpreter remembers of the objects that consumers and producers pass, so
 * that the next one is recognised by its address.  The state owns the one memo;
 * request/ and exchange/device_question read its members and store through the
 * functions below, which are the only writers of objects.  GIL held throughout.  Any
 * object here may be NULL at any time: nothing was remembered yet, or dls_memo_clear
 * was called. */
#pragma once

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

/* Where the keywords of __dlpack__ stand in a kwnames tuple: consumers pass the same
 * constant tuple each time.  at[dls_keyword] is the position, -1: not passed (bits:
 * DLS_ASK_*).
 */
typedef struct {
    PyObject *kwnames; /* strong, exactly a tuple; NULL: free */
    int8_t at[DLS_KW_COUNT];
    uint8_t mask;
    uint8_t count;
} dls_seen_keywords;
#define DLS_SEEN_KEYWORDS 8

typedef struct {
    PyObject *version; /* the last max_version tuple: consumers pass a constant */
    bool versioned;    /* what that tuple asked for */
    PyObject *host;    /* a producer's own constant (1, 0): most give the same one */
    dls_seen_keywords keywords[DLS_SEEN_KEYWORDS];
    unsigned new_keywords; /* how many kwnames tuples were not in the memo */
    unsigned new_versions; /* how many max_version tuples were not */
} dls_memo;

/* Is this unknown tuple one to remember?  Most consumers pass the same constant tuple
 * of names, and the same constant max_version, each time.  Some build a new one each
 * time, as f(**dict) does; to keep them from evicting the constant ones, only every 8th
 * unknown tuple is stored. */
static inline bool
dls_memo_wants_version(dls_memo *memo)
{
    return ++memo->new_versions % 8 == 0;
}

static inline bool
dls_memo_wants_keywords(dls_memo *memo)
{
    return ++memo->new_keywords % 8 == 0;
}

/* Remember a max_version tuple that no code can change, and what it asks for. */
void dls_memo_set_version(dls_memo *memo, PyObject *value, bool versioned);
/* Remember the pair (1, 0) of a producer. */
void dls_memo_set_host(dls_memo *memo, PyObject *pair);
/* Remember seen->kwnames (borrowed), and where the keywords stand in it, at `place`. */
void dls_memo_set_keywords(dls_memo *memo, size_t place, const dls_seen_keywords *seen);

int dls_memo_visit(const dls_memo *memo, visitproc visit, void *arg);
void dls_memo_clear(dls_memo *memo);
