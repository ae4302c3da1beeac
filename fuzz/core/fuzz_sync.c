/* The sync rules as pure functions: any cell and any facts of a driver.  What is
 * insisted on is what docs/streams.rst says of whole rows and columns. */
#include "input.h"

#include "gpu/sync_rules.h"

static dls_producer_stream
take_stream(input *in)
{
    dls_producer_stream p = {.known = (dls_knowledge)take_below(in, 4)};
    p.handle = take_below(in, 6);
    return p;
}

static void
check_rule(dls_family family, dls_producer_kind producer, dls_value value)
{
    dls_sync_rule rule = dls_sync_rule_find(family, producer, value);
    INSIST(rule.argument < DLS_ARGUMENTS && rule.task < DLS_TASKS);
    bool refused = rule.task == DLS_TASK_VALUE_ERROR
                   || rule.task == DLS_TASK_TYPE_ERROR;
    if (refused || producer == DLS_PRODUCER_OLD || producer == DLS_PRODUCER_WAITED) {
        INSIST(rule.argument == DLS_OMIT);
    }
    if (family == DLS_FAMILY_HOST) { /* S9 */
        INSIST(rule.argument == DLS_OMIT || rule.argument == DLS_PASS_NONE);
        INSIST(rule.task == DLS_TASK_NOTHING);
    }
    if (value == DLS_VALUE_MINUS_ONE) { /* S10 */
        INSIST(rule.task == DLS_TASK_NOTHING);
    }
    if (producer == DLS_PRODUCER_NO_MINUS_ONE || producer == DLS_PRODUCER_IGNORES) {
        INSIST(rule.argument != DLS_PASS_MINUS_1);
    }
    if (producer == DLS_PRODUCER_WAITED) {
        INSIST(rule.task == DLS_TASK_NOTHING || refused);
    }
    if (producer == DLS_PRODUCER_REFUSES_TWO && value == DLS_VALUE_TWO
        && dls_family_of_streams(dl_kDLCUDA) == family) {
        INSIST(rule.argument != DLS_PASS_S);
    }
}

static bool
is_settled(dls_action action)
{
    return action == DLS_ACTION_NOTHING || action == DLS_ACTION_REFUSE
           || action == DLS_ACTION_REFUSE_UNKNOWN;
}

static void
check_action(const dls_sync_job *job, const dls_sync_facts *facts)
{
    const dls_sync_facts none = {0};
    dls_action bare = dls_sync_action_find(job, &none);
    dls_action action = dls_sync_action_find(job, facts);
    dls_producer_stream p = dls_sync_job_producer_stream(job);
    INSIST(action < DLS_ACTIONS);
    if (is_settled(bare)) {
        INSIST(action == bare); /* the header promises it */
    }
    if (job->task == DLS_TASK_NOTHING) {
        INSIST(action == DLS_ACTION_NOTHING);
    }
    if (action == DLS_ACTION_EDGE || action == DLS_ACTION_WAIT_STREAM) {
        /* Nobody waits for a stream that is not known; of WAIT_OWN the caller knows it. */
        INSIST(p.known == DLS_P_KNOWN || job->task == DLS_TASK_WAIT_OWN);
        INSIST(action != DLS_ACTION_EDGE || p.handle != job->s);
    }
    if (action == DLS_ACTION_EVENT_EDGE || action == DLS_ACTION_WAIT_EVENT) {
        INSIST(p.known == DLS_P_EVENT);
        INSIST(!facts->s_captures && !facts->device_captures);
    }
    if (facts->p_captures || facts->s_captures) { /* S14 */
        INSIST(action != DLS_ACTION_DEVICE_EDGE && action != DLS_ACTION_WAIT_DEVICE);
        INSIST(action != DLS_ACTION_EDGE || facts->one_capture);
        INSIST(action != DLS_ACTION_WAIT_STREAM || !facts->p_captures);
    }
    if (action == DLS_ACTION_DEVICE_EDGE) {
        INSIST(facts->can_record_device && !facts->no_device_wait);
    }
    if (job->policy == DLS_UNKNOWN_ERROR && job->p.known == DLS_P_UNKNOWN
        && (job->task == DLS_TASK_SYNC || job->task == DLS_TASK_WAIT)) {
        INSIST(action == DLS_ACTION_REFUSE_UNKNOWN); /* S12 */
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    check_rule((dls_family)take_below(&in, DLS_FAMILIES),
               (dls_producer_kind)take_below(&in, DLS_PRODUCERS),
               (dls_value)take_below(&in, DLS_VALUES));
    dls_sync_job job = {.task = (dls_task)take_below(&in, DLS_TASKS)};
    job.p = take_stream(&in);
    job.s = (uint64_t)take_below(&in, 6);
    job.has_s = take_byte(&in) & 1;
    job.policy = (uint8_t)take_below(&in, 4);
    job.device.device_type = take_byte(&in) % 24 - 2;
    uint8_t bits = take_byte(&in);
    dls_sync_facts facts = {bits & 1,      bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1,
                            bits >> 4 & 1, bits >> 5 & 1, bits >> 6 & 1};
    check_action(&job, &facts);
    return 0;
}
