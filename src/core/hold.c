#include "core/hold.h"

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/lock.h"

/* Written once, at the first import. */
static const dls_python_ops *python;

void
dls_owner_set_python(const dls_python_ops *ops)
{
    python = ops;
}

static bool
is_foreign(const dls_hold *hold)
{
    return hold->kind == DLS_HOLD_LEGACY || hold->kind == DLS_HOLD_VERSIONED;
}

static void
run_foreign_deleter(const dls_hold *hold)
{
    if (hold->kind == DLS_HOLD_LEGACY) {
        dl_managed_tensor *managed = hold->base;
        if (managed->deleter != NULL) {
            managed->deleter(managed);
        }
    }
    else {
        dl_managed_tensor_versioned *managed = hold->base;
        if (managed->deleter != NULL) {
            managed->deleter(managed);
        }
    }
}

/* What needs a thread that is attached: the source object and a Py_buffer. */
static void
drop_python_half(const dls_hold *hold)
{
    if (hold->kind == DLS_HOLD_BUFFER) {
        python->drop_buffer(hold->base);
        dls_free(hold->base);
    }
    if (hold->py != NULL) {
        python->drop_object(hold->py);
    }
}

/* All of it on an attached thread that has the pending exception out of the way. */
static void
drop_saved(const dls_hold *hold)
{
    if (is_foreign(hold)) {
        run_foreign_deleter(hold);
    }
    drop_python_half(hold);
}

/* All of it on an attached thread, a pending exception kept out of the way (T9). */
static void
drop_attached(const dls_hold *hold)
{
    void *saved[3];
    bool pending = python->save_error(saved);
    drop_saved(hold);
    python->restore_error(saved, pending);
}

static void
drop_detached(const dls_hold *hold)
{
    bool foreign = is_foreign(hold);
    if (foreign && !(hold->flags & DLS_HOLD_WANTS_GIL)) {
        run_foreign_deleter(hold);
        if (hold->py != NULL) {
            python->drop_from_afar(hold->py);
        }
        return;
    }
    int token = python->attach();
    drop_attached(hold);
    python->detach(token);
}

/* Detach the hold from its place first: a deleter may come back here. */
static dls_hold
hold_move(dls_hold *hold)
{
    dls_hold moved = *hold;
    *hold = (dls_hold){0};
    return moved;
}

static void shared_drop(dls_shared *shared, bool attached);
static void guarded_drop(dls_guarded *guarded, bool attached);

/* Drops what needs no Python at all; true when nothing is left. */
static bool
drop_plain_half(dls_hold *hold, bool attached)
{
    if (hold->kind == DLS_HOLD_BLOCK) {
        dls_free(hold->base);
        hold->kind = DLS_HOLD_NONE;
    }
    else if (hold->kind == DLS_HOLD_SHARED) {
        shared_drop(hold->base, attached);
        hold->kind = DLS_HOLD_NONE;
    }
    else if (hold->kind == DLS_HOLD_GUARDED) {
        guarded_drop(hold->base, attached);
        hold->kind = DLS_HOLD_NONE;
    }
    return hold->kind == DLS_HOLD_NONE && hold->py == NULL;
}

void
dls_hold_drop_last(dls_hold *hold)
{
    if (DLS_RARE(!is_foreign(hold)) && drop_plain_half(hold, false)) {
        return;
    }
    switch (python->where()) {
    case DLS_PYTHON_QUIET:
        if (is_foreign(hold)) {
            run_foreign_deleter(hold);
            python->settle(hold->py);
            return;
        } /* fall through */
    case DLS_PYTHON_HELD:
        drop_attached(hold);
        return;
    case DLS_PYTHON_ALIVE:
        drop_detached(hold);
        return;
    case DLS_PYTHON_GONE:
        return;
    }
}

void
dls_hold_drop(dls_hold *hold)
{
    dls_hold moved = hold_move(hold);
    dls_hold_drop_last(&moved);
}

void
dls_hold_drop_attached(dls_hold *hold)
{
    dls_hold moved = hold_move(hold);
    if (!drop_plain_half(&moved, true)) {
        drop_attached(&moved);
    }
}

void
dls_hold_drop_saved(dls_hold *hold)
{
    if (DLS_RARE(!is_foreign(hold))) {
        dls_hold rest = *hold;
        if (!drop_plain_half(&rest, true)) {
            drop_saved(&rest);
        }
        return;
    }
    void *py = hold->py;
    run_foreign_deleter(hold);
    if (py != NULL) {
        python->drop_object(py);
    }
}

dls_shared *
dls_shared_new(dls_hold *hold)
{
    dls_shared *shared = dls_alloc(sizeof *shared);
    if (shared != NULL) {
        atomic_init(&shared->shares, 1);
        shared->hold = hold_move(hold);
    }
    return shared;
}

dls_shared *
dls_shared_add(dls_shared *shared)
{
    atomic_fetch_add_explicit(&shared->shares, 1, memory_order_relaxed);
    return shared;
}

static void
shared_drop(dls_shared *shared, bool attached)
{
    if (shared == NULL
        || atomic_fetch_sub_explicit(&shared->shares, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (attached) {
        dls_hold_drop_attached(&shared->hold);
    }
    else {
        dls_hold_drop(&shared->hold);
    }
    dls_free(shared);
}

void
dls_shared_drop_attached(dls_shared *shared)
{
    shared_drop(shared, true);
}

/* --- guards --------------------------------------------------------------------------
 */

/* Those whose device said "not now" (a graph capture): they go with a later one. */
static dls_guarded *waiting;

dls_guarded *
dls_guarded_new(const dls_ordering *what, bool (*order)(const dls_ordering *))
{
    dls_guarded *guarded = dls_alloc(sizeof *guarded);
    if (guarded != NULL) {
        *guarded =
            (dls_guarded){.home = python->interpreter(), .what = *what, .order = order};
    }
    return guarded;
}

/* Order all of a list; what cannot be ordered now is put back to wait, the rest is
 * returned.  Not attached. */
static dls_guarded *
order_all(dls_guarded *list)
{
    dls_guarded *done = NULL, *next;
    for (; list != NULL; list = next) {
        next = list->next;
        if (list->order(&list->what)) {
            list->next = done;
            done = list;
        }
        else {
            dls_lock_take(DLS_LOCK_GUARDS);
            list->next = waiting;
            waiting = list;
            dls_lock_give(DLS_LOCK_GUARDS);
        }
    }
    return done;
}

/* Move all that waits and is of this interpreter behind `list`: the objects that
 * others' guards hold are not to die here, nor their deleters to run. */
static dls_guarded *
add_waiting(dls_guarded *list, int64_t home)
{
    dls_lock_take(DLS_LOCK_GUARDS);
    for (dls_guarded **at = &waiting; *at != NULL;) {
        dls_guarded *guarded = *at;
        if (guarded->home != home) {
            at = &guarded->next;
            continue;
        }
        *at = guarded->next;
        guarded->next = list;
        list = guarded;
    }
    dls_lock_give(DLS_LOCK_GUARDS);
    return list;
}

/* Order and drop a list, with all that waits.  Threads of nobody attach to the main
 * interpreter. */
static void
drop_all(dls_guarded *list, bool attached)
{
    list = add_waiting(list, attached ? python->interpreter() : 0);
    if (list == NULL) {
        return;
    }
    void *token = attached ? python->let_go() : NULL;
    dls_guarded *done = order_all(list), *next;
    if (attached) {
        python->take_back(token);
    }
    for (; done != NULL; done = next) {
        next = done->next;
        if (attached) {
            dls_hold_drop_attached(&done->hold);
        }
        else {
            dls_hold_drop(&done->hold);
        }
        dls_free(done);
    }
}

void
dls_guarded_flush(void)
{
    drop_all(NULL, true);
}

static void
guarded_drop(dls_guarded *guarded, bool attached)
{
    dls_python_where where = attached ? DLS_PYTHON_HELD : python->where();
    if (where != DLS_PYTHON_GONE) { /* else as any foreign memory (T10) */
        guarded->next = NULL;
        drop_all(guarded, where <= DLS_PYTHON_HELD);
    }
}
