/* Lifetime: what keeps exported memory alive, and how it is let go (T8-T10).
 *
 * A dls_hold is what one owner must give back: a foreign managed tensor, a block
 * of ours, a held Py_buffer, a share of a dls_shared, and a Python reference.
 * It may be dropped on any thread, with or without the GIL, while the
 * interpreter ends, after it has ended, and in a forked child.
 */
#ifndef DLS_CORE_OWNER_H
#define DLS_CORE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"
#include "core/sync_words.h"

typedef struct dls_shared dls_shared;

typedef enum {
    DLS_HOLD_NONE = 0,  /* only `py`, if anything */
    DLS_HOLD_LEGACY,    /* base is a dl_managed_tensor* */
    DLS_HOLD_VERSIONED, /* base is a dl_managed_tensor_versioned* */
    DLS_HOLD_BLOCK,     /* base is a dls_alloc block: a copy made by dlshim */
    DLS_HOLD_BUFFER,    /* base is a dls_alloc'ed Py_buffer that is held */
    DLS_HOLD_SHARED,    /* base is one share of a dls_shared */
    DLS_HOLD_GUARDED    /* base is a dls_guarded */
} dls_hold_kind;

/* The foreign deleter runs Python code without taking the GIL (NumPy < 1.24). */
#define DLS_HOLD_WANTS_GIL 1u

typedef struct {
    void *base;
    void *py; /* strong PyObject*, NULL when none */
    uint32_t kind;
    uint32_t flags;
} dls_hold;

static inline bool
dls_hold_is_empty(const dls_hold *hold)
{
    return hold->kind == DLS_HOLD_NONE && hold->py == NULL;
}

/* A hold with a reference count: for memory that several exports and the object
 * they came from keep alive together. */
struct dls_shared {
    _Atomic intptr_t shares;
    dls_hold hold;
};

/* A hold that is let go only after what the consumer may still run on the device was
 * ordered before the memory's next use (on_release="guard", reference streams.md 8). */
typedef struct dls_guarded {
    struct dls_guarded *next; /* of those that could not be let go yet */
    dls_hold hold;
    int64_t
        home; /* the interpreter that made it: only there it is dropped after waiting */
    dls_ordering what;
    bool (*order)(const dls_ordering *what); /* may block; false: not now */
} dls_guarded;

/* A guard that holds nothing yet (its hold is filled as the last step); NULL when out
 * of memory.  Attached.  dls_hold_drop of a hold of kind GUARDED frees it. */
dls_guarded *dls_guarded_new(const dls_ordering *what,
                             bool (*order)(const dls_ordering *));

/* Let go what had to wait, as far as its devices now allow, and it is of the
 * interpreter that this thread is attached to. */
void dls_guarded_flush(void);

/* How this thread stands to Python. */
typedef enum {
    DLS_PYTHON_QUIET, /* attached, and no exception is pending: most are */
    DLS_PYTHON_HELD,  /* attached, an exception is pending */
    DLS_PYTHON_ALIVE, /* not attached, but may attach */
    DLS_PYTHON_GONE   /* ended or ending elsewhere: Python must not be called */
} dls_python_where;

/* The Python half, written once by python/attach.c at import.  The only way from
 * core to Python: core itself knows no object. */
typedef struct {
    dls_python_where (*where)(void);
    void (*settle)(void *py); /* QUIET before: drop it (NULL allowed), and report what
                               * is pending now */
    void (*drop_from_afar)(void *py); /* ALIVE: attach, drop it, detach */
    int (*attach)(void);              /* only when ALIVE; returns a token */
    void (*detach)(int token);
    void *(*let_go)(void);              /* attached: let other threads run until ... */
    void (*take_back)(void *token);     /* ... this */
    bool (*save_error)(void *saved[3]); /* attached; true: one was pending, taken */
    void (*restore_error)(void *saved[3], bool pending); /* reports a newer one */
    int64_t (*interpreter)(void);  /* attached: a number of its own, the main one's 0 */
    void (*drop_object)(void *py); /* attached */
    void (*drop_buffer)(void *buffer); /* attached: release; not freed */
} dls_python_ops;

void dls_owner_set_python(const dls_python_ops *ops);

/* Drop all that *hold holds and clear it.  Any thread.  Where the interpreter is gone,
 * only what is known to be free of Python goes: our own blocks.  The rest is leaked,
 * for a foreign deleter may be a Python callback that exists no more (T10). */
void dls_hold_drop(dls_hold *hold);
/* The same where nobody comes back to *hold, which is not cleared: its block goes next.
 */
void dls_hold_drop_last(dls_hold *hold);

/* The same for callers that are attached by contract (deallocs, error paths). */
void dls_hold_drop_attached(dls_hold *hold);
/* And for those who also have the pending exception saved, report what is pending
 * afterwards, and can be sure that nobody comes back to *hold: it is not cleared. */
void dls_hold_drop_saved(dls_hold *hold);

/* Move *hold into a new dls_shared with one share.  NULL when out of memory: *hold is
 * untouched then. */
dls_shared *dls_shared_new(dls_hold *hold);
dls_shared *dls_shared_add(dls_shared *shared); /* +1, returns shared */
void dls_shared_drop_attached(
    dls_shared *shared); /* -1, attached by contract; NULL allowed */

#endif
