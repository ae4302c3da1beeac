/* Finds the sync rule for a call, and the action for its task.
 *
 * Called by src/sync before and after a producer is called, by sync_run, and by the
 * test hooks, which list the whole table.  Tests:
 * tests/core/test_stream_table.py (every cell, every action).
 */
#include "gpu/sync_rules.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT(name, text) text,
const char *const dls_family_names[DLS_FAMILIES] = {DLS_FAMILY_LIST(TEXT)};
const char *const dls_value_names[DLS_VALUES] = {DLS_VALUE_LIST(TEXT)};
const char *const dls_producer_names[DLS_PRODUCERS] = {DLS_PRODUCER_LIST(TEXT)};
const char *const dls_argument_names[DLS_ARGUMENTS] = {DLS_ARGUMENT_LIST(TEXT)};
const char *const dls_task_names[DLS_TASKS] = {DLS_TASK_LIST(TEXT)};
#undef TEXT

/* ANY in a column of the tables fits every value. */
enum {
    DLS_FAMILY_ANY = DLS_FAMILIES,
    DLS_PRODUCER_ANY = DLS_PRODUCERS,
    DLS_VALUE_ANY = DLS_VALUES,
    DLS_TASK_ANY = DLS_TASKS,
    DLS_P_ANY = 0xff,
    DLS_UNKNOWN_ANY = 0xff
};

static const struct {
    uint8_t family, producer, value, argument, task;
} rules[] = {
#define SYNC_RULE(family, producer, value, argument, task)                            \
    {DLS_FAMILY_##family, DLS_PRODUCER_##producer, DLS_VALUE_##value, DLS_##argument, \
     DLS_TASK_##task},
#include "gpu/sync_rules.def"
#undef SYNC_RULE
};

static const struct {
    uint8_t task, knowledge, policy, action;
} actions[] = {
#define SYNC_ACTION(task, knowledge, policy, action) \
    {DLS_TASK_##task, DLS_P_##knowledge, DLS_UNKNOWN_##policy, DLS_ACTION_##action},
#include "gpu/sync_rules.def"
#undef SYNC_ACTION
};

dls_family
dls_family_of(int32_t device_type)
{
    switch (device_type) {
    case dl_kDLCPU:
        return DLS_FAMILY_HOST;
    case dl_kDLCUDA:
        return DLS_FAMILY_CUDA;
    case dl_kDLCUDAHost:
        return DLS_FAMILY_CUDA_HOST;
    case dl_kDLCUDAManaged:
        return DLS_FAMILY_CUDA_MANAGED;
    case dl_kDLROCM:
        return DLS_FAMILY_ROCM;
    case dl_kDLROCMHost:
        return DLS_FAMILY_ROCM_HOST;
    case dl_kDLOneAPI:
        return DLS_FAMILY_ONEAPI;
    default:
        return DLS_FAMILY_OTHER;
    }
}

dls_family
dls_family_of_streams(int32_t device_type)
{
    switch (dls_family_of(device_type)) {
    case DLS_FAMILY_CUDA_HOST:
    case DLS_FAMILY_CUDA_MANAGED:
        return DLS_FAMILY_CUDA;
    case DLS_FAMILY_ROCM_HOST:
        return DLS_FAMILY_ROCM;
    default:
        return dls_family_of(device_type);
    }
}

/* --- rules ---------------------------------------------------------------- */

/* The place of the first row that fits a cell. */
static size_t
find_rule(dls_family family, dls_producer_kind producer, dls_value value)
{
    const size_t last = sizeof rules / sizeof *rules - 1;
    for (size_t i = 0; i < last; i++) {
        if ((rules[i].family == family || rules[i].family == DLS_FAMILY_ANY)
            && (rules[i].producer == producer || rules[i].producer == DLS_PRODUCER_ANY)
            && (rules[i].value == value || rules[i].value == DLS_VALUE_ANY)) {
            return i;
        }
    }
    return last; /* it fits all */
}

/* The place of each cell's row, plus 1; 0: nobody has asked for it.  Any thread may
 * write it, and all write the same. */
static _Atomic uint8_t places[DLS_FAMILIES][DLS_PRODUCERS][DLS_VALUES];
_Static_assert(sizeof rules / sizeof *rules < UINT8_MAX, "a place fits a byte");

dls_sync_rule
dls_sync_rule_find(dls_family family, dls_producer_kind producer, dls_value value)
{
    assert(family < DLS_FAMILIES && producer < DLS_PRODUCERS && value < DLS_VALUES);
    _Atomic uint8_t *cell = &places[family][producer][value];
    size_t place = atomic_load_explicit(cell, memory_order_relaxed);
    if (place == 0) {
        place = find_rule(family, producer, value) + 1;
        atomic_store_explicit(cell, (uint8_t)place, memory_order_relaxed);
    }
    return (dls_sync_rule){(dls_argument)rules[place - 1].argument,
                           (dls_task)rules[place - 1].task};
}

/* --- actions -------------------------------------------------------------- */

dls_producer_stream
dls_sync_job_producer_stream(const dls_sync_job *job)
{
    dls_family family = dls_family_of_streams(job->device.device_type);
    bool about_l = job->task == DLS_TASK_EDGE_FROM_L || job->task == DLS_TASK_WAIT_L;
    /* mutant: policy */
    bool taken_for_l = job->p.known == DLS_P_UNKNOWN
                       && job->policy == DLS_UNKNOWN_LEGACY;
    if (about_l || taken_for_l) {
        return (dls_producer_stream){.known = DLS_P_KNOWN,
                                     .handle = family == DLS_FAMILY_ROCM ? 0 : 1};
    }
    return job->p;
}

static dls_action
find_row(dls_task task, dls_knowledge known, uint8_t policy)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if ((actions[i].task == task || actions[i].task == DLS_TASK_ANY)
            && (actions[i].knowledge == known || actions[i].knowledge == DLS_P_ANY)
            && (actions[i].policy == policy || actions[i].policy == DLS_UNKNOWN_ANY)) {
            return (dls_action)actions[i].action;
        }
    }
    return DLS_ACTION_REFUSE; /* VALUE_ERROR and TYPE_ERROR, which are never carried out
                               */
}

/* Would this action pull a stream into a capture, or end one (S14)? */
static bool
breaks_capture(dls_action action, const dls_sync_facts *facts)
{
    switch (action) {
    case DLS_ACTION_EDGE:
        return (facts->s_captures || facts->p_captures) && !facts->one_capture;
    case DLS_ACTION_WAIT_STREAM:
        return facts->p_captures;
    /* Nobody tells whether an event is of a capture (S27). */
    case DLS_ACTION_EVENT_EDGE: /* mutant: event in a capture */
    case DLS_ACTION_WAIT_EVENT:
    case DLS_ACTION_DEVICE_EDGE:
    case DLS_ACTION_WAIT_DEVICE:
        return facts->s_captures || facts->p_captures || facts->device_captures;
    default:
        return false;
    }
}

dls_action
dls_sync_action_find(const dls_sync_job *job, const dls_sync_facts *facts)
{
    dls_producer_stream p = dls_sync_job_producer_stream(job);
    dls_action action = find_row(job->task, p.known, job->policy);
    bool to_s = action == DLS_ACTION_EDGE || job->task == DLS_TASK_REFUSE;
    if (to_s && p.known == DLS_P_KNOWN && p.handle == job->s) {
        return DLS_ACTION_NOTHING; /* P is S (S10) */
    }
    bool device_wide = action == DLS_ACTION_DEVICE_EDGE
                       || action == DLS_ACTION_WAIT_DEVICE;
    if (device_wide && facts->no_device_wait) {
        return DLS_ACTION_REFUSE_UNKNOWN; /* S6 */
    }
    if (action == DLS_ACTION_DEVICE_EDGE && !facts->can_record_device) {
        action = DLS_ACTION_WAIT_DEVICE; /* S12 */
    }
    bool of_p = action == DLS_ACTION_WAIT_STREAM || action == DLS_ACTION_WAIT_EVENT;
    if (of_p && facts->host_must_be_alone) {
        action = DLS_ACTION_WAIT_DEVICE; /* S4 */
    }
    if (!breaks_capture(action, facts)) {
        return action;
    }
    /* No stream was named, and P captures: so does the reader, or it reads nothing. */
    bool within = job->s_omitted && action == DLS_ACTION_EDGE && facts->p_captures;
    return within ? DLS_ACTION_NOTHING : DLS_ACTION_REFUSE_CAPTURE;
}

/* --- what to pass instead -------------------------------------------------- */

const char *
dls_sync_cure(const dls_sync_job *job)
{
    return job->said_ready ? "unknown_stream=\"same\"" : "stream=-1";
}

const char *
dls_sync_cure_no_driver(const dls_sync_job *job)
{
    bool same_helps = job->p.known == DLS_P_UNKNOWN && job->policy != DLS_UNKNOWN_SAME;
    if (!same_helps) {
        return job->said_ready ? NULL : dls_sync_cure(job);
    }
    return job->said_ready ? "unknown_stream=\"same\" too"
                           : "stream=-1, and for a copy unknown_stream=\"same\" too";
}
