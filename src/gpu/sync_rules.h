/* The sync rules as pure functions: they find the row of gpu/sync_rules.def that fits,
 * and the action for its task (S2 to S14).
 *
 * No function here calls a driver or can fail; all may be called from any thread, with
 * or without the GIL. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/sync_words.h"

/* A sync or a copy that would break a graph capture is refused with this text, wherever
 * that is noticed (S14). */
#define DLS_CAPTURE_REFUSAL                                        \
    "a graph capture is running, and this export would break it\n" \
    "  export outside the capture"
/* The options that follow it where a sync is refused: inside the capture a consumer on
 * the capturing stream needs none.  A copy is refused there in any case. */
#define DLS_CAPTURE_OPTIONS                                                       \
    ", or, for work inside it, give the capturing stream both as stream= and as " \
    "producer_stream=, or stream=-1"

dls_family dls_family_of(int32_t device_type);
/* The family whose streams that memory has: CUDA for all memory of CUDA, ROCM for all
 * memory of ROCm, else its own. */
dls_family dls_family_of_streams(int32_t device_type);

/* The argument that a producer of this kind is passed for this value, and the task that
 * is left for dlshim.  VALUE_ERROR, TYPE_ERROR: the value is no stream of these devices
 * (S1). */
typedef struct {
    dls_argument argument;
    dls_task task;
} dls_sync_rule;

dls_sync_rule dls_sync_rule_find(dls_family family, dls_producer_kind producer,
                                 dls_value value);

/* The action for a task.  If it is NOTHING, REFUSE or REFUSE_UNKNOWN with facts that
 * are all zero, no answer of a driver can change it, so no driver has to be asked. */
dls_action dls_sync_action_find(const dls_sync_job *job, const dls_sync_facts *facts);

/* P as the task means it: L for EDGE_FROM_L and WAIT_L, and also if P is unknown and
 * unknown_stream="legacy"; else job->p. */
dls_producer_stream dls_sync_job_producer_stream(const dls_sync_job *job);

/* An option that the exchange was not given, and with which data that are ready anyway
 * need no such job. */
const char *dls_sync_cure(const dls_sync_job *job);
/* As dls_sync_cure, where no driver can carry the job out.  NULL: no option would help.
 */
const char *dls_sync_cure_no_driver(const dls_sync_job *job);

/* The texts of the lists in core/sync_words.h. */
DLS_EXTERN const char *const dls_family_names[DLS_FAMILIES];
DLS_EXTERN const char *const dls_value_names[DLS_VALUES];
DLS_EXTERN const char *const dls_producer_names[DLS_PRODUCERS];
DLS_EXTERN const char *const dls_argument_names[DLS_ARGUMENTS];
DLS_EXTERN const char *const dls_task_names[DLS_TASKS];
