#include "gpu/sync_rules.h"

#include <stddef.h>

#define TEXT(name, text) text,
const char *const dls_family_names[DLS_FAMILIES] = {DLS_FAMILY_LIST(TEXT)};
const char *const dls_value_names[DLS_VALUES] = {DLS_VALUE_LIST(TEXT)};
const char *const dls_producer_names[DLS_PRODUCERS] = {DLS_PRODUCER_LIST(TEXT)};
const char *const dls_argument_names[DLS_ARGUMENTS] = {DLS_ARGUMENT_LIST(TEXT)};
const char *const dls_duty_names[DLS_DUTIES] = {DLS_DUTY_LIST(TEXT)};
const char *const dls_action_names[DLS_ACTIONS] = {DLS_ACTION_LIST(TEXT)};
#undef TEXT

enum { /* "fits everything", in every column that allows it */
       DLS_PRODUCER_ANY = DLS_PRODUCERS,
       DLS_VALUE_ANY = DLS_VALUES,
       DLS_DUTY_ANY = DLS_DUTIES,
       DLS_P_ANY = 0xff,
       DLS_UNKNOWN_ANY = 0xff
};

static const struct {
    uint8_t family, producer, value, argument, duty;
} rules[] = {
#define STREAM(family, producer, value, argument, duty)               \
    {DLS_FAMILY_##family, DLS_PRODUCER_##producer, DLS_VALUE_##value, \
     DLS_ARGUMENT_##argument, DLS_DUTY_##duty},
#include "gpu/sync_rules.def"
#undef STREAM
};

static const struct {
    uint8_t duty, knowledge, policy, action;
} settlements[] = {
#define SETTLE(duty, knowledge, policy, action) \
    {DLS_DUTY_##duty, DLS_P_##knowledge, DLS_UNKNOWN_##policy, DLS_ACTION_##action},
#include "gpu/sync_rules.def"
#undef SETTLE
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

dls_stream_rule
dls_order_decide(dls_family family, dls_producer_kind producer, dls_value value)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].family == family
            && (rules[i].producer == producer || rules[i].producer == DLS_PRODUCER_ANY)
            && (rules[i].value == value || rules[i].value == DLS_VALUE_ANY)) {
            return (dls_stream_rule){(dls_argument)rules[i].argument,
                                     (dls_duty)rules[i].duty};
        }
    }
    return (dls_stream_rule){DLS_ARGUMENT_NOTHING, DLS_DUTY_REFUSE}; /* not reached */
}

dls_pending
dls_order_pending(const dls_ordering *ordering)
{
    bool rocm = dls_family_of(ordering->device.device_type) == DLS_FAMILY_ROCM
                || dls_family_of(ordering->device.device_type) == DLS_FAMILY_ROCM_HOST;
    const dls_pending legacy = {.known = DLS_P_KNOWN, .handle = !rocm};
    bool about_l = ordering->duty == DLS_DUTY_HOP || ordering->duty == DLS_DUTY_WAIT_L;
    bool taken_for_l = ordering->p.known == DLS_P_UNKNOWN
                       && ordering->policy == DLS_UNKNOWN_LEGACY;
    return about_l || taken_for_l ? legacy : ordering->p;
}

static dls_action
look_up(dls_duty duty, dls_knowledge known, uint8_t policy)
{
    for (size_t i = 0; i < sizeof settlements / sizeof *settlements; i++) {
        if ((settlements[i].duty == duty || settlements[i].duty == DLS_DUTY_ANY)
            && (settlements[i].knowledge == known
                || settlements[i].knowledge == DLS_P_ANY)
            && (settlements[i].policy == policy
                || settlements[i].policy == DLS_UNKNOWN_ANY)) {
            return (dls_action)settlements[i].action;
        }
    }
    return DLS_ACTION_REFUSE; /* not reached */
}

/* A capture may be neither entered nor left by an ordering (reference 1.5). */
static bool
breaks_capture(dls_action action, const dls_order_facts *facts)
{
    switch (action) {
    case DLS_ACTION_EDGE:
        return (facts->s_captures || facts->p_captures) && !facts->one_capture;
    case DLS_ACTION_SYNC_STREAM:
        return facts->p_captures;
    case DLS_ACTION_DEVICE_EDGE:
    case DLS_ACTION_SYNC_DEVICE:
        return facts->s_captures || facts->p_captures || facts->device_captures;
    default:
        return false;
    }
}

dls_action
dls_order_settle(const dls_ordering *ordering, const dls_order_facts *facts)
{
    dls_pending p = dls_order_pending(ordering);
    dls_action action = look_up(ordering->duty, p.known, ordering->policy);
    bool to_s = action == DLS_ACTION_EDGE || ordering->duty == DLS_DUTY_REFUSE;
    if (to_s && p.known == DLS_P_KNOWN && p.handle == ordering->s) {
        return DLS_ACTION_NOTHING;
    }
    bool device_wide = action == DLS_ACTION_DEVICE_EDGE
                       || action == DLS_ACTION_SYNC_DEVICE;
    if (device_wide && facts->no_device_wait) {
        return DLS_ACTION_REFUSE_UNKNOWN;
    }
    if (action == DLS_ACTION_DEVICE_EDGE && !facts->can_record_device) {
        action = DLS_ACTION_SYNC_DEVICE;
    }
    if (action == DLS_ACTION_SYNC_STREAM && facts->host_must_be_alone) {
        action = DLS_ACTION_SYNC_DEVICE;
    }
    return breaks_capture(action, facts) ? DLS_ACTION_REFUSE_CAPTURE : action;
}
