/* The fast path's half of acquire: ask the producer in the call form that has worked
 * for its type, and see whether the answer leaves anything to decide.  Inline: all of
 * it belongs to the body of one entry point of export/fast_path.c.  GIL held. */
#pragma once

#include <assert.h>

#include "acquire/attempt.h"
#include "core/tensor.h"
#include "python/capsule.h"
#include "python/errors.h"

/* source.__dlpack__(...) in a learned form that is fast: without keywords, or with
 * max_version alone. */
DLS_INLINE PyObject *
dls_call_learned(dls_hot hot)
{
    PyObject *args[DLS_CALL_ROOM], *kwnames = NULL;
    args[DLS_CALL_SELF] = hot.source;
    if (hot.form & DLS_ASK_VERSION) {
        args[DLS_CALL_VALUES] = hot.state->asked_version;
        kwnames = hot.state->kwnames[DLS_ASK_VERSION];
    }
    return hot.form & DLS_FORM_DIRECT ? dls_call_directly(hot.plan, args, kwnames)
                                      : dls_call_method(hot.plan, args, kwnames);
}

/* By __dlpack__.  answer: the generation of the answer; the code is shortest where it
 * is a constant.  A capsule that others hold too is not read here: they could consume
 * it. */
DLS_INLINE dls_hot
dls_ask_method(dls_hot hot, bool answer)
{
    hot.capsule = dls_call_learned(hot);
    bool readable = hot.capsule != NULL && dls_is_unshared(hot.capsule);
    hot.managed = readable ? dls_capsule_pointer(hot.capsule, answer) : NULL;
    return hot;
}

/* Drop the struct of the C table: its memory holds other values than the tensor shows
 * (T12). The exception that says so is pending, and stays so.  Always NULL. */
void *dls_drop_refused(dl_managed_tensor_versioned *managed);

/* By the producer's C table, which checks neither autograd nor lazy bits (T12).  We do;
 * the error counts as the table's.  A subclass is asked for both after the call. */
DLS_INLINE dls_hot
dls_ask_table(dls_hot hot, bool kernel_asks)
{
    bool lazy = dls_plan_has(hot.plan, DLS_LIB_LAZY_BITS);
    bool autograd = dls_plan_has(hot.plan, DLS_LIB_AUTOGRAD) && !kernel_asks;
    bool hooked = hot.plan->plain_calls != NULL;
    assert(lazy || !hooked); /* so that autograd is asked, too */
    hot.capsule = NULL;
    hot.managed = NULL;
    if (autograd && !hooked
        && dls_refuse_autograd(hot.state, hot.plan, hot.source) < 0) {
        return hot;
    }
    dl_managed_tensor_versioned *managed = dls_ctable_call(hot.plan->table, hot.source);
    if (lazy && managed != NULL && managed->version.major == DL_MAJOR
        && (hooked ? dls_refuse_past_hook(hot.state, hot.plan, hot.source, autograd,
                                          managed->dl_tensor.dtype)
                   : dls_refuse_lazy_bits(hot.state, hot.plan, hot.source,
                                          managed->dl_tensor.dtype))
               < 0) {
        managed = dls_drop_refused(managed);
    }
    hot.managed = managed;
    return hot;
}

DLS_INLINE dls_hot
dls_ask_learned(dls_hot hot, bool answer, bool kernel_asks)
{
    return answer && dls_form_protocol(hot.form) == DLS_PROTOCOL_TABLE
               ? dls_ask_table(hot, kernel_asks)
               : dls_ask_method(hot, answer);
}

/* Does the struct around the tensor need no change?  A versioned consumer sees the
 * flags, so READ_ONLY may be set; a legacy one sees none, so none may be set.  A NULL
 * deleter must be replaced before it is handed on. */
DLS_INLINE bool
dls_struct_is_plain(const dls_state *state, const void *managed, bool answer,
                    bool wanted)
{
    const dl_managed_tensor_versioned *newer = managed;
    const dl_managed_tensor *legacy = managed;
    uint64_t allowed = wanted ? DL_FLAG_READ_ONLY : 0;
    return answer ? newer->version.major == DL_MAJOR && (newer->flags & ~allowed) == 0
                        && (!wanted || newer->deleter != NULL)
                  : wanted || (legacy->deleter != NULL && state->legacy_hold == 0);
}

/* Is the outcome DLS_PLAIN: host memory that needs no change but of its generation, and
 * of its strides where these are NULL and writes_strides?  answer, wanted: is the
 * answer versioned, and does the consumer want a versioned one? */
DLS_INLINE bool
dls_hot_is_plain(dls_hot hot, bool answer, bool wanted, bool writes_strides)
{
    return hot.managed != NULL
           && dls_struct_is_plain(hot.state, hot.managed, answer, wanted)
           && dls_tensor_is_plain_for(dls_managed_tensor(hot.managed, answer),
                                      writes_strides);
}

/* Carry the answer on to the full record.  Foreign code may run before the record is
 * read, so an exception does not stay pending. */
dls_outcome dls_outcome_of(dls_hot hot);
/* Drop the answer; a pending exception is kept. */
void dls_outcome_drop(dls_outcome *outcome);
/* Give up after an exception of ours, which is kept.  Always NULL. */
void *dls_hot_drop(dls_hot hot);
