/* Makes plans, counts them, and keeps the facts learned from asking their objects.
 * Called by offers.c and plan_cache.c, and by acquire/ and export/ for learned facts.
 * Tests: tests/core/test_negotiation.py, tests/core/test_stress.py. */
#include "types/plan.h"

#include <stddef.h>
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"

const char *const dls_protocol_names[DLS_PROTOCOL_COUNT] = {
#define NAME(name, attribute, text) text,
    DLS_PROTOCOL_LIST(NAME)
#undef NAME
};

const int8_t dls_protocol_attributes[DLS_PROTOCOL_COUNT] = {
#define ATTRIBUTE(name, attribute, text) DLS_NAME_INDEX_##attribute,
    DLS_PROTOCOL_LIST(ATTRIBUTE)
#undef ATTRIBUTE
};

uint32_t
dls_plan_tried(const dls_plan *plan)
{
    uint32_t tried = plan->offers;
    if (!dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)) {
        return tried;
    }
    for (int i = 0; plan->on_instance && i < DLS_PROTOCOL_COUNT; i++) {
        tried |= (uint32_t)(dls_protocol_attributes[i] != DLS_NAME_INDEX_NONE) << i;
    }
    return tried | 1u << DLS_PROTOCOL_FUNCTION;
}

atomic_bool dls_hand_on_allowed = true;

void
dls_hand_on_allow(bool allowed)
{
    atomic_store(&dls_hand_on_allowed, allowed);
}

/* --- what is learned ------------------------------------------------------ */

/* The only place that writes the word, and only where it says something new: it lies
 * beside what other threads read.  False, without the GIL: another thread has written
 * it since `before` was read. */
static bool
write_learned(dls_plan *plan, dls_learned before, dls_learned learned)
{
    uint64_t word, expected;
    memcpy(&word, &learned, sizeof word);
    memcpy(&expected, &before, sizeof expected);
    if (word == expected) {
        return true;
    }
#ifdef DLS_FREE_THREADED
    return atomic_compare_exchange_strong(&plan->learned, &expected, word);
#else
    atomic_store_explicit(&plan->learned, word, memory_order_relaxed);
    return true;
#endif
}

void
dls_plan_learn_form(dls_plan *plan, dls_form form)
{
    dls_learned learned, before;
    do {
        learned = before = dls_plan_learned(plan);
        learned.met = true;
        if (form & DLS_FORM_KNOWN) {
            learned.forms[(form & DLS_FORM_WANTED) != 0] = form;
        }
    } while (!write_learned(plan, before, learned));
}

void
dls_plan_learn_keywords(dls_plan *plan, unsigned taken, int refused)
{
    dls_learned learned, before;
    if (plan->on_instance) {
        return; /* the next object's __dlpack__ may be another function (N1) */
    }
    do {
        learned = before = dls_plan_learned(plan);
        learned.taken = (learned.taken | taken) & 15u;
        if (refused >= 0) {
            learned.refused = (unsigned)refused & ~(unsigned)learned.taken & 15u;
        }
    } while (!write_learned(plan, before, learned));
}

void
dls_plan_learn_no_minus_one(dls_plan *plan)
{
    dls_learned learned, before;
    if (plan->on_instance) {
        return; /* as above */
    }
    do {
        learned = before = dls_plan_learned(plan);
        learned.no_minus_one = true;
    } while (!write_learned(plan, before, learned));
}

void
dls_plan_leave_host(dls_plan *plan)
{
    dls_learned learned, before;
    do {
        learned = before = dls_plan_learned(plan);
        learned.off_host = true;
        for (int i = 0; i < 2; i++) {
            dls_form form = learned.forms[i];
            form |= form & DLS_FORM_FAST ? DLS_FORM_FAST_ON_HOST : 0;
            form &= (dls_form) ~(DLS_FORM_FAST | DLS_FORM_ASKS_DEVICE);
            learned.forms[i] = form;
        }
    } while (!write_learned(plan, before, learned));
}

/* --- memory --------------------------------------------------------------- */

/* With the GIL a plan is a block of dls_alloc.  Without it, a thread may find a plan in
 * the cache while another takes the plan out and drops it.  The memory of a plan is
 * therefore never given back to the system, only used for the next plan: a thread that
 * comes late finds a count of 0, or a plan of another type, and no plan. */

#ifdef DLS_FREE_THREADED
static dls_plan *without_owner; /* read and written under DLS_LOCK_PLANS */

/* A plan of `type` that says nothing yet, with a count of 1; NULL when out of memory.
 */
static dls_plan *
memory_take(PyTypeObject *type)
{
    /* Late readers may look at the count, and at nothing else while it is 0. */
    const size_t begin = offsetof(dls_plan, learned), end = offsetof(dls_plan, parts);
    dls_lock_take(DLS_LOCK_PLANS);
    dls_plan *plan = without_owner;
    if (plan != NULL) {
        without_owner = plan->next;
    }
    dls_lock_give(DLS_LOCK_PLANS);
    if (plan == NULL) {
        plan = dls_alloc(sizeof *plan);
        if (plan == NULL) {
            return NULL;
        }
        atomic_init(&plan->refs, 0);
        for (int i = 0; i < DLS_THREAD_SLOTS; i++) {
            atomic_init(&plan->parts[i].word, 1);
        }
    }
    memset((char *)plan + begin, 0, end - begin);
    plan->type = type;
    atomic_store_explicit(&plan->refs, 1, memory_order_release);
    return plan;
}

/* The memory of a plan whose count is 0 and which holds nothing any more. */
static void
memory_give(dls_plan *plan)
{
    assert(plan->refs == 0);
    dls_lock_take(DLS_LOCK_PLANS);
    plan->next = without_owner;
    without_owner = plan;
    dls_lock_give(DLS_LOCK_PLANS);
}

#else
static dls_plan *
memory_take(PyTypeObject *type)
{
    dls_plan *plan = dls_alloc(sizeof *plan);
    if (plan != NULL) {
        *plan = (dls_plan){.refs = 1, .type = type};
    }
    return plan;
}
#define memory_give dls_free
#endif

/* --- plans ------------------------------------------------------------------ */

dls_plan *
dls_plan_begin(const dls_state *state, PyTypeObject *type)
{
    dls_plan *plan = memory_take(type);
    if (plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    plan->producer_type = state->producer_type;
    plan->name = Py_NewRef(state->names.dlpack);
    plan->device_name = Py_NewRef(state->names.dlpack_device);
    plan->can_cycle = (PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC) != 0;
    return plan;
}

void
dls_plan_end(dls_plan *plan)
{
    Py_XDECREF(plan->habits);
    Py_XDECREF(plan->method);
    Py_XDECREF(plan->device_method);
    Py_XDECREF(plan->name);
    Py_XDECREF(plan->device_name);
    Py_XDECREF(plan->seen_on);
    Py_XDECREF(plan->seen);
    Py_XDECREF(plan->inner);
    Py_XDECREF(plan->is_neg);
    Py_XDECREF(plan->plain_calls);
    Py_XDECREF(plan->requires_grad.descriptor);
    Py_XDECREF(plan->where.descriptor);
    memory_give(plan);
}

#ifdef DLS_FREE_THREADED

/* Add a count to a plan whose parts are closed, unless it has none. */
static bool
share_closed(dls_plan *plan)
{
    intptr_t refs = atomic_load_explicit(&plan->refs, memory_order_relaxed);
    do {
        if (refs == 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&plan->refs, &refs, refs + 1));
    return true;
}

dls_plan *
dls_plan_share_found(dls_plan *plan, const PyTypeObject *type)
{
    if (plan == NULL) {
        return NULL;
    }
    if (!dls_plan_count(plan, 1) && !share_closed(plan)) {
        return NULL;
    }
    if (plan->type == type) {
        return plan;
    }
    dls_plan_drop(plan);
    return NULL;
}

void
dls_plan_open(dls_plan *plan)
{
    for (int i = 0; i < DLS_THREAD_SLOTS; i++) {
        atomic_store(&plan->parts[i].word, 0);
    }
}

/* Other threads share and drop meanwhile, in `refs` where their part is closed already.
 * That much keeps it above 0 until the last part is added. */
#define MANY (INTPTR_MAX / 2)

void
dls_plan_close(dls_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    intptr_t sum = -1; /* the cache's own */
    plan->refs += MANY;
    for (int i = 0; i < DLS_THREAD_SLOTS; i++) {
        sum += atomic_fetch_or(&plan->parts[i].word, 1) / 2;
    }
    sum -= MANY;
    if (atomic_fetch_add(&plan->refs, sum) + sum == 0) {
        dls_plan_end(plan);
    }
}

#endif

/* Tensors own their memory, so an export of one needs no reference to it (T10).  The
 * state keeps the plan as a cache does. */
dls_plan *
dls_plan_new_of_tensors(dls_state *state)
{
    dls_plan *plan = dls_plan_begin(state, state->tensor_type);
    if (plan != NULL) {
        plan->traits = DLS_LIB_OWNS;
        plan->offers = 1u << DLS_PROTOCOL_TENSOR;
        dls_plan_open(plan);
    }
    return plan;
}

#ifndef NDEBUG

/* 1. It is counted, and offers something; a Tensor's plan offers nothing else.
 * 2. The members of a protocol are set only if the protocol is offered.
 * 3. A learned form is of a protocol that is offered; the fast path uses no other form
 *    than the learned one, and none off the host. */
bool
dls_plan_check(const dls_plan *plan)
{
    const dls_learned learned = dls_plan_learned(plan);
    bool good = plan->refs > 0 && plan->offers != 0
                && (!dls_plan_is_tensor(plan)
                    || plan->offers == 1u << DLS_PROTOCOL_TENSOR);
    good &= dls_plan_offers(plan, DLS_PROTOCOL_TABLE) == (plan->table != NULL)
            && (dls_plan_offers(plan, DLS_PROTOCOL_DLPACK) || plan->method == NULL)
            && (plan->has_device || plan->device_method == NULL)
            && (plan->library == NULL || plan->habits != NULL);
    for (int i = 0; i < 2; i++) {
        const dls_form form = learned.forms[i];
        bool known = form & DLS_FORM_KNOWN, fast = form & DLS_FORM_FAST;
        good &= !known || (dls_plan_tried(plan) >> dls_form_protocol(form) & 1);
        good &= !fast || (known && !learned.off_host);
        good &= fast || !(form & DLS_FORM_ASKS_DEVICE);
    }
    return good;
}

#endif
