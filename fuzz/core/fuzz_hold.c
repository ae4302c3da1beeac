/* Holds: a program of bytes makes, moves, shares, guards, exports and drops what is
 * held, on threads that stand to Python in every way.  The model is a set of resources
 * for each owner: what the last owner drops is given back at once and once, nothing
 * before, and nothing pending is lost (T9, T10). */
#include "input.h"

#include "core/alloc.h"
#include "core/hold.h"
#include "core/tensor.h"

#define SLOTS 8
#define MOST 60 /* resources of one program: bits of a set */

typedef enum { PLAIN_LEGACY, PLAIN_VERSIONED, OBJECT, BUFFER } resource_kind;

typedef struct {
    resource_kind kind;
    union {
        dl_managed_tensor legacy;
        dl_managed_tensor_versioned versioned;
    } managed;
    int index;
    bool wants_gil, raises;
} resource;

typedef struct {
    dls_hold hold;
    uint64_t set;            /* of resources that it keeps alive, by their bits */
    bool own, own_versioned; /* hold.base is an export of ours */
} slot;

static struct {
    resource *all[MOST];
    int made;
    uint64_t given_back, waiting, queued;
    slot slots[SLOTS];
    dls_hold queue[256];
    int queue_length;
    bool attached, elsewhere, pending, away, device_says_not_now;
    int reported;
} w;

/* --- the Python half -------------------------------------------------------- */

static void
give_back(const resource *r)
{
    uint64_t bit = (uint64_t)1 << r->index;
    INSIST(!(w.given_back & bit) && !w.away);
    w.given_back |= bit;
    for (int i = 0; i < SLOTS; i++) {
        INSIST(!(w.slots[i].set & bit)); /* an owner is left */
    }
}

static void
run_deleter(resource *r)
{
    INSIST(!w.pending && (w.attached || !r->wants_gil));
    give_back(r);
    w.pending = w.attached && r->raises;
}

static void
delete_legacy(dl_managed_tensor *self)
{
    run_deleter(self->manager_ctx);
}

static void
delete_versioned(dl_managed_tensor_versioned *self)
{
    run_deleter(self->manager_ctx);
}

static dls_attachment
attachment(uint32_t DLS_UNUSED(home))
{
    if (!w.attached) {
        return DLS_UNATTACHED;
    }
    return w.elsewhere ? DLS_ATTACHED_ELSEWHERE
           : w.pending ? DLS_ATTACHED
                       : DLS_ATTACHED_QUIET;
}

static int
attach(void)
{
    INSIST(!w.attached && !w.pending);
    w.attached = true;
    return 77;
}

static void
detach(int token)
{
    INSIST(token == 77 && w.attached && !w.pending);
    w.attached = false;
}

static void *
let_go(void)
{
    INSIST(w.attached && !w.away);
    w.attached = false;
    w.away = true;
    return &w;
}

static void
take_back(void *token)
{
    INSIST(token == &w && w.away);
    w.attached = true;
    w.away = false;
}

static bool
save_error(void *saved[3])
{
    bool was = w.pending;
    INSIST(w.attached);
    saved[0] = saved[1] = saved[2] = NULL;
    w.pending = false;
    return was;
}

static void
restore_error(void **DLS_UNUSED(saved), bool pending)
{
    INSIST(w.attached);
    w.reported += w.pending;
    w.pending = pending;
}

static int64_t
interpreter(void)
{
    return 0;
}

static void
drop_object(void *py)
{
    INSIST(w.attached && !w.elsewhere);
    give_back(py);
}

static void
drop_and_report(void *py)
{
    if (py != NULL) {
        drop_object(py);
    }
    w.reported += w.pending;
    w.pending = false;
}

static void
queue(const dls_hold *hold)
{
    INSIST(w.elsewhere && w.queue_length < 256);
    w.queue[w.queue_length++] = *hold;
}

/* A buffer's block says which resource it is. */
static void
drop_buffer(void *buffer)
{
    INSIST(w.attached && !w.elsewhere);
    give_back(*(resource **)buffer);
}

static const dls_python_ops ops = {
    attachment,    attach,      detach,      take_back,       let_go, save_error,
    restore_error, interpreter, drop_object, drop_and_report, queue,  drop_buffer,
};

static bool
sync_guard(const dls_sync_job *DLS_UNUSED(what))
{
    INSIST(!w.attached || w.elsewhere);
    return !w.device_says_not_now;
}

/* --- the program ------------------------------------------------------------ */

static resource *
new_resource(resource_kind kind, uint8_t traits)
{
    resource *r = calloc(1, sizeof *r);
    INSIST(r != NULL && w.made < MOST);
    *r = (resource){.kind = kind, .index = w.made, .raises = traits & 1};
    r->wants_gil = kind <= PLAIN_VERSIONED && (traits & 2);
    w.all[w.made++] = r;
    return r;
}

static void
make(slot *s, uint8_t traits)
{
    resource *r = new_resource((resource_kind)(traits >> 2 & 3), traits);
    uint8_t flags = r->wants_gil ? DLS_HOLD_WANTS_GIL : 0;
    s->set = (uint64_t)1 << r->index;
    if (r->kind == PLAIN_LEGACY) {
        r->managed.legacy = (dl_managed_tensor){{0}, r, delete_legacy};
        s->hold = (dls_hold){.base = &r->managed, .kind = DLS_HOLD_LEGACY};
    }
    else if (r->kind == PLAIN_VERSIONED) {
        r->managed.versioned = (dl_managed_tensor_versioned){
            {1, 0}, r, delete_versioned, 0, {0}};
        s->hold = (dls_hold){.base = &r->managed, .kind = DLS_HOLD_VERSIONED};
    }
    else if (r->kind == OBJECT) {
        s->hold = (dls_hold){.kind = DLS_HOLD_NONE, .py = (void *)r};
    }
    else {
        resource **block = dls_alloc(sizeof *block);
        INSIST(block != NULL);
        *block = r;
        s->hold = (dls_hold){.base = block, .kind = DLS_HOLD_BUFFER};
    }
    s->hold.flags = flags;
}

/* Add the object that most exports keep beside the memory (T10). */
static void
add_object(slot *s)
{
    if (s->hold.py == NULL && w.made < MOST) {
        resource *r = new_resource(OBJECT, 0);
        s->hold.py = (void *)r;
        s->set |= (uint64_t)1 << r->index;
    }
}

static void
share(slot *s)
{
    dls_shared *shared = dls_shared_new(&s->hold);
    INSIST(shared != NULL && dls_hold_is_empty(&s->hold));
    s->hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    s->own = false;
}

static void
guard(slot *s)
{
    const dls_sync_job what = {0};
    dls_guarded *guarded = dls_guarded_new(&what, sync_guard);
    INSIST(guarded != NULL);
    dls_hold_move(&s->hold, &guarded->hold);
    s->hold = (dls_hold){.base = guarded, .kind = DLS_HOLD_GUARDED};
    s->own = false;
}

/* The hold goes into a new struct of ours, which the slot then holds. */
static void
export(slot *s, bool versioned)
{
    dls_delivery what = {.versioned = versioned, .canonical = true};
    void *made = dls_export_new(&what);
    INSIST(made != NULL);
    dls_hold_move(&s->hold, dls_export_own_hold(made, versioned));
    s->hold = (dls_hold){.base = made,
                         .kind = versioned ? DLS_HOLD_VERSIONED : DLS_HOLD_LEGACY};
    s->own = true;
    s->own_versioned = versioned;
}

static void
unwrap(slot *s)
{
    if (s->own && s->hold.py == NULL) {
        dls_hold inner = s->hold;
        if (dls_export_unwrap(s->hold.base, s->own_versioned, &inner)) {
            INSIST(inner.kind == DLS_HOLD_SHARED);
            s->hold = inner;
            s->own = false;
        }
    }
}

/* What the model demands after a drop: all that has no owner left is given back, but
 * what waits for a device or for the main interpreter. */
static void
drop(slot *s, uint8_t how)
{
    uint64_t set = s->set, kept = 0;
    dls_hold hold = s->hold;
    bool own = s->own, versioned = s->own_versioned;
    *s = (slot){0};
    w.attached = how & 1;
    w.elsewhere = w.attached && (how & 14) == 2;
    w.pending = w.attached && !w.elsewhere && (how & 4);
    w.device_says_not_now = (how & 0xe0) == 0xe0;
    bool was = w.pending, main_thread = w.attached && !w.elsewhere;
    if (main_thread && !was && own && hold.py == NULL) {
        dls_managed_delete_attached(hold.base, versioned);
        w.pending = false;
    }
    else if (main_thread && (how & 16)) {
        dls_hold_drop(&hold, was ? DLS_ATTACHED : DLS_ATTACHED_QUIET);
        w.pending = was; /* QUIET leaves to the caller what is raised */
    }
    else {
        dls_hold_drop(&hold, DLS_ATTACHMENT_UNKNOWN);
    }
    INSIST(w.pending == was && !w.away);
    INSIST(w.attached == (how & 1));
    for (int i = 0; i < SLOTS; i++) {
        kept |= w.slots[i].set;
    }
    if (w.device_says_not_now || w.elsewhere) { /* may be given back later */
        w.waiting |= set & ~w.given_back;
    }
    INSIST((set & ~kept & ~w.waiting & ~w.given_back) == 0);
}

static void
step(input *in)
{
    uint8_t what = take_byte(in), more = take_byte(in);
    slot *s = &w.slots[what >> 4 & 7], *other = &w.slots[more & 7];
    if (dls_hold_is_empty(&s->hold)) {
        if (w.made < MOST) {
            make(s, more);
        }
        return;
    }
    switch (what & 15) {
    case 0:
    case 1:
        add_object(s);
        break;
    case 2:
    case 3:
        share(s);
        break;
    case 4:
    case 5:
    case 6:
        if (s->hold.kind == DLS_HOLD_SHARED && s->hold.py == NULL
            && dls_hold_is_empty(&other->hold)) {
            *other = *s;
            dls_shared_add(s->hold.base);
        }
        break;
    case 7:
        guard(s);
        break;
    case 8:
    case 9:
        export(s, more & 1);
        break;
    case 10:
        unwrap(s);
        break;
    case 11:
        if (dls_hold_is_empty(&other->hold)) {
            dls_hold_move(&s->hold, &other->hold);
            *other = (slot){other->hold, s->set, s->own, s->own_versioned};
            *s = (slot){0};
        }
        break;
    default:
        drop(s, more);
    }
}

/* Everything that is left goes, then what waited: each resource has been given back. */
static void
finish(void)
{
    for (int i = 0; i < SLOTS; i++) {
        if (!dls_hold_is_empty(&w.slots[i].hold)) {
            drop(&w.slots[i], (uint8_t)(i & 1));
        }
    }
    w.attached = true;
    w.elsewhere = w.device_says_not_now = w.pending = false;
    for (int i = 0; i < w.queue_length; i++) {
        dls_hold_drop(&w.queue[i], DLS_ATTACHED);
    }
    dls_guarded_flush();
    INSIST(w.given_back == ((uint64_t)1 << w.made) - 1 && w.attached && !w.pending);
    for (int i = 0; i < w.made; i++) {
        free(w.all[i]);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    int64_t live = dls_counters.live;
    memset(&w, 0, sizeof w);
    dls_hold_set_python(&ops);
    for (int steps = 0; in.left > 0 && steps < 300; steps++) {
        step(&in);
    }
    finish();
    INSIST(dls_counters.live == live);
    return 0;
}
