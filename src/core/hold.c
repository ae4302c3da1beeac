/* How holds are dropped, on any thread and at any time (T8-T10), and the holds that
 * several owners share or that wait for a device.  Called by the deleters of exports,
 * by deallocs and by error paths.  Calls Python only through the functions of
 * python/attach.c.  Tests: tests/core/test_lifetime.py, tests/device/test_release.py.
 */
#include "core/hold.h"

#include <assert.h>
#include <stdatomic.h>

#include "abi/arrow_abi.h"
#include "core/alloc.h"
#include "core/base.h"
#include "core/lock.h"

/* Written once, at the first import. */
static DLS_ATOMIC(const dls_python_ops *) python;

void
dls_hold_set_python(const dls_python_ops *ops)
{
    python = ops;
}

static bool
is_arrow(const dls_hold *hold)
{
    return hold->kind == DLS_HOLD_ARROW || hold->kind == DLS_HOLD_ARROW_NEAR;
}

static bool
is_foreign(const dls_hold *hold)
{
    return hold->kind == DLS_HOLD_LEGACY || hold->kind == DLS_HOLD_VERSIONED
           || is_arrow(hold);
}

static void
run_foreign_deleter(const dls_hold *hold)
{
    if (is_arrow(hold)) {
        arrow_array *array = hold->base;
        array->release(array);
        if (hold->kind == DLS_HOLD_ARROW) {
            dls_free(array);
        }
        return;
    }
    dls_managed_run_deleter(hold->base, hold->kind == DLS_HOLD_VERSIONED);
}

/* The hold is dropped after its block was freed: an array in the block is moved out.
 * False: there is no memory, and the hold is leaked. */
static bool
leave_block(dls_hold *hold)
{
    if (hold->kind == DLS_HOLD_ARROW_NEAR) {
        arrow_array *array = dls_alloc(sizeof *array);
        if (array == NULL) {
            return false;
        }
        *array = *(const arrow_array *)hold->base;
        hold->base = array;
        hold->kind = DLS_HOLD_ARROW;
    }
    return true;
}

/* Drop foreign memory, and the parts that need an attached thread: a Py_buffer and the
 * object. */
static void
drop_foreign_and_python_part(const dls_hold *hold)
{
    if (is_foreign(hold)) {
        run_foreign_deleter(hold);
    }
    else if (hold->kind == DLS_HOLD_BUFFER) {
        python->drop_buffer(hold->base);
        dls_free(hold->base);
    }
    if (hold->py != NULL) {
        python->drop_object(hold->py);
    }
}

/* As drop_foreign_and_python_part, with the pending exception saved and restored (T9).
 */
static void
drop_saving_error(const dls_hold *hold)
{
    void *saved[3];
    bool pending = python->save_error(saved);
    drop_foreign_and_python_part(hold);
    python->restore_error(saved, pending);
}

/* The thread attaches if it must: for a source object, and for a deleter that wants the
 * GIL. */
static void
drop_unattached(const dls_hold *hold)
{
    dls_hold rest = *hold;
    if (is_foreign(hold) && !(hold->flags & DLS_HOLD_WANTS_GIL)) {
        run_foreign_deleter(hold);
        rest.kind = DLS_HOLD_NONE;
    }
    if (!dls_hold_is_empty(&rest)) {
        int token = python->attach();
        drop_saving_error(&rest);
        python->detach(token);
    }
}

static void guarded_drop(dls_guarded *guarded, dls_attachment attachment);

bool
dls_python_let_go(void **token)
{
    dls_attachment attachment = python->attachment(0);
    bool attached = attachment == DLS_ATTACHED_QUIET || attachment == DLS_ATTACHED;
    *token = attached ? python->let_go() : NULL;
    return attached;
}

void
dls_python_take_back(void *token)
{
    python->take_back(token);
}

/* The driver may block, so other threads run meanwhile.  When Python has gone the
 * driver may be gone too: the memory ends with the process. */
static void
drop_device(dls_device_memory *memory, dls_attachment attachment)
{
    if (attachment == DLS_ATTACHMENT_UNKNOWN) {
        attachment = python->attachment(0);
    }
    if (attachment == DLS_PYTHON_GONE) {
        return;
    }
    bool attached = attachment == DLS_ATTACHED_QUIET || attachment == DLS_ATTACHED;
    void *token = attached ? python->let_go() : NULL;
    memory->end(memory);
    if (attached) {
        python->take_back(token);
    }
}

/* Drop the part that needs no Python: blocks of ours, shares and guards.  True if
 * nothing is left then. */
static bool
drop_own_part(dls_hold *hold, dls_attachment attachment)
{
    switch (hold->kind) {
    case DLS_HOLD_BLOCK:
        dls_free(hold->base);
        break;
    case DLS_HOLD_SHARED:
        dls_shared_drop(hold->base, attachment);
        break;
    case DLS_HOLD_DEVICE:
        drop_device(hold->base, attachment);
        break;
    case DLS_HOLD_GUARDED:
        guarded_drop(hold->base, attachment);
        break;
    default:
        return dls_hold_is_empty(hold);
    }
    hold->kind = DLS_HOLD_NONE;
    return hold->py == NULL;
}

void
dls_hold_drop_unknown(dls_hold *hold)
{
    if (!is_foreign(hold) && drop_own_part(hold, DLS_ATTACHMENT_UNKNOWN)) {
        return;
    }
    dls_attachment attachment = python->attachment(hold->flags >> DLS_HOLD_IMPORT_BIT);
    if (attachment == DLS_ATTACHED_QUIET && is_foreign(hold)) {
        run_foreign_deleter(hold);
        python->drop_and_report(hold->py);
        return;
    }
    switch (attachment) {
    case DLS_ATTACHED_QUIET:
    case DLS_ATTACHED:
        drop_saving_error(hold);
        break;
    case DLS_ATTACHED_ELSEWHERE:
        if (leave_block(hold)) {
            python->queue(hold);
        }
        break;
    case DLS_UNATTACHED:
        drop_unattached(hold);
        break;
    default: /* DLS_PYTHON_GONE: leaked (T10) */
        break;
    }
}

void
dls_hold_drop_attached(dls_hold *hold)
{
    dls_hold moved; /* a foreign deleter may come back to *hold */
    dls_hold_move(hold, &moved);
    if (!drop_own_part(&moved, DLS_ATTACHED)) {
        drop_saving_error(&moved);
    }
}

void
dls_hold_drop_quiet(dls_hold *hold)
{
    /* No exception is pending.  That the thread is attached cannot be asserted: without
     * CPython's own function, python/attach.c takes every thread for an unattached one.
     */
    assert(python->attachment(0) != DLS_ATTACHED);
    if (!is_foreign(hold)) {
        dls_hold rest = *hold;
        if (!drop_own_part(&rest, DLS_ATTACHED)) {
            drop_foreign_and_python_part(&rest);
        }
        return;
    }
    void *py = hold->py;
    run_foreign_deleter(hold);
    if (py != NULL) {
        python->drop_object(py);
    }
}

/* --- shares --------------------------------------------------------------- */

dls_shared *
dls_shared_new(dls_hold *hold)
{
    dls_shared *shared = dls_alloc(sizeof *shared);
    if (shared != NULL) {
        atomic_init(&shared->shares, 1);
        dls_hold_move(hold, &shared->hold);
    }
    return shared;
}

dls_shared *
dls_shared_add(dls_shared *shared)
{
    atomic_fetch_add_explicit(&shared->shares, 1, memory_order_relaxed);
    return shared;
}

void
dls_shared_drop(dls_shared *shared, dls_attachment attachment)
{
    if (shared == NULL
        || atomic_fetch_sub_explicit(&shared->shares, 1, memory_order_acq_rel) != 1) {
        return;
    }
    dls_hold_drop(&shared->hold, attachment);
    dls_free(shared);
}

/* --- guards --------------------------------------------------------------- */

/* Guards whose device said "not now" (a graph capture).  They are dropped together with
 * a later guard, or by dls_guarded_flush. */
static dls_guarded *waiting;

dls_guarded *
dls_guarded_new(const dls_sync_job *what, bool (*sync)(const dls_sync_job *))
{
    dls_guarded *guarded = dls_alloc(sizeof *guarded);
    if (guarded != NULL) {
        *guarded = (dls_guarded){
            .interpreter = python->interpreter(), .what = *what, .sync = sync};
    }
    return guarded;
}

/* Sync each guard of a list.  Those whose device says "not now" are put back to wait,
 * the others are returned.  Not attached. */
static dls_guarded *
sync_all(dls_guarded *list)
{
    dls_guarded *done = NULL, *next;
    for (; list != NULL; list = next) {
        next = list->next;
        if (list->sync(&list->what)) {
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

/* Put the waiting guards of the interpreter before `list`.  The objects that
 * other interpreters' guards hold must not be freed here, nor their deleters run. */
static dls_guarded *
add_waiting(dls_guarded *list, int64_t interpreter)
{
    dls_lock_take(DLS_LOCK_GUARDS);
    for (dls_guarded **at = &waiting; *at != NULL;) {
        dls_guarded *guarded = *at;
        if (guarded->interpreter != interpreter) {
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

/* Sync and drop the guards of a list, and those that wait.  A thread that is not
 * attached will attach to the main interpreter, whose number is 0. */
static void
drop_all(dls_guarded *list, bool attached)
{
    list = add_waiting(list, attached ? python->interpreter() : 0);
    if (list == NULL) {
        return;
    }
    void *token = attached ? python->let_go() : NULL;
    dls_guarded *done = sync_all(list), *next;
    if (attached) {
        python->take_back(token);
    }
    for (; done != NULL; done = next) {
        next = done->next;
        dls_hold_drop(&done->hold, attached ? DLS_ATTACHED : DLS_ATTACHMENT_UNKNOWN);
        dls_free(done);
    }
}

void
dls_guarded_flush(void)
{
    drop_all(NULL, true);
}

static void
guarded_drop(dls_guarded *guarded, dls_attachment attachment)
{
    if (attachment == DLS_ATTACHMENT_UNKNOWN) {
        attachment = python->attachment(guarded->hold.flags >> DLS_HOLD_IMPORT_BIT);
    }
    if (attachment != DLS_PYTHON_GONE) { /* else leaked, as foreign memory is (T10) */
        guarded->next = NULL;
        drop_all(guarded,
                 attachment == DLS_ATTACHED_QUIET || attachment == DLS_ATTACHED);
    }
}
