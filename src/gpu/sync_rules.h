/* The stream table, walked.  Pure functions: no driver, no state (design section 6). */
#ifndef DLS_DEVICE_STREAM_H
#define DLS_DEVICE_STREAM_H

#include "abi/dlpack_abi.h"
#include "core/sync_words.h"

dls_family dls_family_of(int32_t device_type);

/* Which row: what a producer of this kind is passed for this value, and what is then
 * owed.  duty VALUE or TYPE: the consumer's value is no stream of this device. */
typedef struct {
    dls_argument argument;
    dls_duty duty;
} dls_stream_rule;

dls_stream_rule dls_order_decide(dls_family family, dls_producer_kind producer,
                                 dls_value value);

/* What a duty comes down to.  With facts all zero the answer is what no driver call can
 * still change: NOTHING and REFUSE_UNKNOWN need no driver at all. */
dls_action dls_order_settle(const dls_ordering *ordering, const dls_order_facts *facts);

/* P and S, as the duty sees them (HOP and WAIT_L are about L). */
dls_pending dls_order_pending(const dls_ordering *ordering);

extern const char *const dls_family_names[DLS_FAMILIES];
extern const char *const dls_value_names[DLS_VALUES];
extern const char *const dls_producer_names[DLS_PRODUCERS];
extern const char *const dls_argument_names[DLS_ARGUMENTS];
extern const char *const dls_duty_names[DLS_DUTIES];
extern const char *const dls_action_names[DLS_ACTIONS];

#endif
