/* Holds: they keep exported memory alive, and give it back (T8-T10).
 *
 * A dls_hold has all that one owner must give back: a foreign managed tensor, a block
 * of ours, a held Py_buffer, a share of a dls_shared, and a Python reference.  Tensors,
 * exports, shares and guards own one each.  A hold may be dropped on any thread, with
 * or without the GIL, while the interpreter ends, after it has ended, and in a forked
 * child. */
#pragma once

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
    DLS_HOLD_GUARDED,   /* base is a dls_guarded */
    DLS_HOLD_DEVICE,    /* base is a dls_device_memory: a copy made by dlshim */
    DLS_HOLD_ARROW,     /* base is a dls_alloc'ed arrow_array that was moved there */
    DLS_HOLD_ARROW_NEAR /* base is an arrow_array in the block that has the hold */
} dls_hold_kind;

/* Flags of a hold.  The foreign deleter runs Python code without taking the GIL (NumPy
 * < 1.24). */
#define DLS_HOLD_WANTS_GIL 1u
/* From this bit on, the number of the import (dls_state.import_number) whose objects it
 * holds; 0: of none.  Where that import's interpreter has ended, they must not be
 * touched. */
#define DLS_HOLD_IMPORT_BIT 8

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

/* Move the content of *src to *dst, and leave *src empty.  The old content of *dst is
 * overwritten, not dropped: *dst is empty or new memory. */
static inline void
dls_hold_move(dls_hold *src, dls_hold *dst)
{
    *dst = *src;
    *src = (dls_hold){0};
}

/* Call the deleter, if any, of a managed tensor of either generation. */
static inline void
dls_managed_run_deleter(void *managed, bool versioned)
{
    if (versioned) {
        dl_managed_tensor_versioned *self = managed;
        if (self->deleter != NULL) {
            self->deleter(self);
        }
    }
    else {
        dl_managed_tensor *self = managed;
        if (self->deleter != NULL) {
            self->deleter(self);
        }
    }
}

/* How a thread stands to Python. */
typedef enum {
    DLS_ATTACHED_QUIET, /* attached, and no exception is pending */
    DLS_ATTACHED,       /* attached, an exception may be pending */
    /* Attached to an interpreter that has not imported dlshim: none of our objects
     * belongs to it, and it may have an allocator of its own. */
    DLS_ATTACHED_ELSEWHERE,
    DLS_UNATTACHED,  /* not attached, but may attach */
    DLS_PYTHON_GONE, /* Python has ended, or ends elsewhere: it must not be called */
    DLS_ATTACHMENT_UNKNOWN /* one of the above, still to be found out */
} dls_attachment;

/* The three forms of dls_hold_drop, which alone calls them. */
void dls_hold_drop_unknown(dls_hold *hold);
void dls_hold_drop_attached(dls_hold *hold);
void dls_hold_drop_quiet(dls_hold *hold);

/* Give back all that *hold holds.  `attachment` says how the caller stands to Python,
 * and is one of three constants:
 *
 *                      UNKNOWN           ATTACHED            ATTACHED_QUIET
 *  caller              deleters          deallocs, errors    deallocs, capsules
 *  attached?           perhaps           by contract         by contract
 *  exception pending?  perhaps: saved    perhaps: saved      no: the caller saved it
 *  what is raised      reported          reported            left pending: the caller
 *                                                            reports it
 *  *hold afterwards    not cleared       cleared, before     not cleared
 *                                        foreign code runs
 *
 * If *hold is not cleared, the caller must not let anything read it again: its block is
 * freed next.  UNKNOWN on a thread that is attached to an interpreter without dlshim:
 * the hold is queued for the main interpreter.  If Python has gone (UNKNOWN only), only
 * our own blocks are freed.  The rest is leaked, because a foreign deleter may be a
 * Python callback that no longer exists (T10). */
static inline void
dls_hold_drop(dls_hold *hold, dls_attachment attachment)
{
    if (attachment == DLS_ATTACHED_QUIET) {
        dls_hold_drop_quiet(hold);
    }
    else if (attachment == DLS_ATTACHED) {
        dls_hold_drop_attached(hold);
    }
    else {
        dls_hold_drop_unknown(hold);
    }
}

/* A hold with a reference count: for memory that several exports and the object
 * they came from keep alive together. */
struct dls_shared {
    _Atomic intptr_t shares;
    dls_hold hold;
};

/* Move *hold into a new dls_shared with one share.  NULL when out of memory: *hold is
 * untouched then. */
dls_shared *dls_shared_new(dls_hold *hold);
/* Add a share.  Returns `shared`. */
dls_shared *dls_shared_add(dls_shared *shared);
/* Give a share back (NULL allowed); with the last share, the hold is dropped.
 * `attachment` is DLS_ATTACHED or DLS_ATTACHMENT_UNKNOWN. */
void dls_shared_drop(dls_shared *shared, dls_attachment attachment);

/* A hold that is dropped only after a sync: the next work on the memory on the device
 * then comes after the work that the consumer may still run there
 * (on_release="guard"). */
typedef struct dls_guarded {
    struct dls_guarded *next; /* in the list of those that have to wait */
    dls_hold hold;
    /* The interpreter that made it.  A guard that had to wait is dropped only there. */
    int64_t interpreter;
    dls_sync_job what;
    bool (*sync)(const dls_sync_job *what); /* may block; false: not now */
} dls_guarded;

/* A guard that holds nothing yet (its hold is filled as the last step); NULL when out
 * of memory.  Attached.  dls_hold_drop of a hold of kind GUARDED frees it. */
dls_guarded *dls_guarded_new(const dls_sync_job *what,
                             bool (*sync)(const dls_sync_job *));

/* Memory of a device, which its driver gave.  The rest of the struct belongs to
 * gpu/device_copy, which makes it. */
typedef struct dls_device_memory {
    /* Give the memory back, and this struct.  May block; needs no Python, and is called
     * with other threads running.  Once. */
    void (*end)(struct dls_device_memory *self);
} dls_device_memory;

/* Drop the guards that had to wait, if their devices now allow it and if they belong
 * to the interpreter that this thread is attached to.  Attached. */
void dls_guarded_flush(void);

/* The Python half, written once by python/attach.c at import.  This is the only way
 * from core to Python: core itself has no objects.  All but the first four are called
 * on attached threads. */
typedef struct {
    /* The attachment of this thread, never UNKNOWN.  PYTHON_GONE also if the
     * interpreter of this import (flags >> DLS_HOLD_IMPORT_BIT) has ended. */
    dls_attachment (*attachment)(uint32_t import_number);
    int (*attach)(void); /* only when UNATTACHED; returns a token */
    void (*detach)(int token);
    void (*take_back)(void *token); /* the end of let_go: attached again */
    void *(*let_go)(void);          /* let other threads run until take_back */
    bool (*save_error)(
        void *saved[3]); /* true: an exception was pending, and is taken */
    /* Reports the exception that is pending now, then restores the saved one. */
    void (*restore_error)(void *saved[3], bool pending);
    int64_t (*interpreter)(void); /* the number of the current one; of the main one 0 */
    void (*drop_object)(void *py);
    /* QUIET: drop the object (NULL allowed), and report the exception that is pending
     * then. */
    void (*drop_and_report)(void *py);
    /* ELSEWHERE: the main interpreter drops it soon.  Leaked when out of memory. */
    void (*queue)(const dls_hold *hold);
    void (*drop_buffer)(void *buffer); /* releases it; the caller frees it */
} dls_python_ops;

void dls_hold_set_python(const dls_python_ops *ops);

/* Let other threads run while this one calls a driver.  Any thread; true: it is
 * attached, and the caller must call the second with *token. */
bool dls_python_let_go(void **token);
void dls_python_take_back(void *token);
