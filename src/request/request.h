/* The request of one consumer: the record and its readers.  All functions need the
 * GIL. */
#pragma once

#include "core/tensor.h"
#include "exchange/exchange.h"
#include "request/options.h"

/* The request of a consumer that passes nothing.  A copy of the record may live
 * as long as the first: request->seen points into the first one.  Objects that are
 * read into it stay borrowed from the arguments and the options. */
void dls_request_init(dls_request *request, const dls_options *options);

/* Read one keyword of __dlpack__ into the request; None leaves the request as it is.
 * `keyword` is its name in messages.  0, or -1 with TypeError or ValueError. */
int dls_request_version(dls_state *state, PyObject *value, dls_request *request);
int dls_request_device(dls_state *state, const char *keyword, PyObject *value,
                       dls_request *request);
/* Read copy=: None sets "not said"; numbers (NumPy's bools) count by their truth. */
int dls_request_copy(dls_state *state, PyObject *value, dls_request *request);
int dls_request_stream(dls_state *state, PyObject *value, dls_request *request);

/* Read all arguments of one __dlpack__ call (METH_FASTCALL | METH_KEYWORDS) into a
 * request that dls_request_init made.  asked: of the object that is called, whether the
 * device question was put before (N9), which is used up on success.  0, or -1 with
 * TypeError or ValueError.  An unknown keyword is a TypeError, as from any function:
 * consumers then try with fewer. */
int dls_request_parse(dls_state *state, PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames, DLS_ATOMIC(unsigned long) * asked,
                      dls_request *request);

/* The wish of the same arguments, if they ask for nothing but a generation, or a copy
 * of it. */
typedef enum {
    DLS_READ_IN_FULL = -1, /* they may ask for more; no exception is set */
    DLS_WANTS_LEGACY = 0,
    DLS_WANTS_VERSIONED = 1,
    DLS_WANTS_LEGACY_COPY = 2,
    DLS_WANTS_VERSIONED_COPY = 3
} dls_usual;

/* Is this max_version, which is not the remembered one, (1, n)? */
bool dls_request_is_version_one(dls_state *state, PyObject *value);

/* Do the values ask for a generation and a copy?  Else they are to be read in full. */
dls_usual dls_request_usual_copy(dls_state *state, PyObject *const *values,
                                 const dls_seen_keywords *seen);

/* Does the value of this keyword ask for nothing but a generation?  stream=-1 asks for
 * nothing on the host. */
DLS_INLINE bool
dls_request_is_usual(dls_state *state, PyObject *value, bool is_version, bool is_stream,
                     bool *versioned)
{
    if (value == Py_None) {
        return true;
    }
    if (!is_version) {
        return is_stream && value == state->minus_one;
    }
    if (dls_memo_is_version(&state->memo, value, versioned)) {
        return true;
    }
    *versioned = dls_request_is_version_one(state, value);
    return *versioned;
}

/* The wish of the values of these keywords. */
DLS_INLINE dls_usual
dls_request_usual_values(dls_state *state, PyObject *const *values,
                         const dls_seen_keywords *seen)
{
    bool versioned = false;
    const int version_at = seen->at[DLS_KW_VERSION];
    const int stream_at = seen->at[DLS_KW_STREAM], count = seen->count;
    for (int i = 0; i < count; i++) {
        if (!dls_request_is_usual(state, values[i], i == version_at, i == stream_at,
                                  &versioned)) {
            return dls_request_usual_copy(state, values, seen);
        }
    }
    return versioned ? DLS_WANTS_VERSIONED : DLS_WANTS_LEGACY;
}

/* The wish of the values, if the names are not remembered. */
dls_usual dls_request_usual_anew(dls_state *state, PyObject *const *values,
                                 PyObject *kwnames);

DLS_INLINE dls_usual
dls_request_read_usual(dls_state *state, PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    if (n != 0) {
        return DLS_READ_IN_FULL;
    }
    if (kwnames == NULL) {
        return DLS_WANTS_LEGACY;
    }
    dls_seen_keywords room;
    const dls_seen_keywords *seen = dls_memo_keywords(&state->memo, kwnames, &room);
    return seen->kwnames == kwnames ? dls_request_usual_values(state, args, seen)
                                    : dls_request_usual_anew(state, args, kwnames);
}

/* Take from the options all that the consumer did not say; `source` is named in
 * messages.  0, or -1 with CopyRequiredError when the two contradict each other on
 * copy=. */
int dls_request_options(dls_state *state, PyObject *source, dls_request *request);

/* The layout that the consumer is known to take (N9).  negative: the memory has
 * negative strides; only then the way of asking tells something.  *package: the package
 * of the code that asks, where that tells; else NULL. */
dls_layout dls_request_layout(dls_state *state, const dls_request *request,
                              bool negative, const char **package);

/* Does a consumer that asks in this way for host memory on request->device copy it
 * itself where that is refused (N7)? */
bool dls_request_moves_itself(const dls_request *request);
