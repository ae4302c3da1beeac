/* The options of upgrade(), from_dlpack() and to_capsule(): their values, how they are
 * parsed, merged and shown.  The rows are in request/options.def.  All functions need
 * the GIL. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/alloc.h"
#include "core/sync_words.h"
#include "exchange/exchange.h"
#include "python/py.h"
#include "python/state.h"

typedef enum {
#define OPTION(name, ...) DLS_OPTION_##name,
#include "request/options.def"
#undef OPTION
    DLS_OPTION_COUNT
} dls_option;

/* Values of kind `word`, in the order of options.def; DLS_UNKNOWN_* of unknown_stream
 * are in core/sync_words.h, dls_order in exchange/exchange.h. */
enum { DLS_RELEASE_CONTRACT, DLS_RELEASE_GUARD };

/* The C type of each kind. */
typedef PyObject *dls_option_stream; /* strong; an accepted value (dls_stream_check), or
                                      * the word "wait" */
typedef uint8_t dls_option_word;     /* position in the row's words */
typedef dls_readonly dls_option_readonly; /* in the order of the row's words */
/* In the order of the row's words: AUTO and those behind it. */
typedef enum { DLS_DETACH_NO, DLS_DETACH_YES, DLS_DETACH_AUTO } dls_option_detach;
typedef dl_device dls_option_device;
typedef struct {
    dl_device device;
    const dl_exchange_api *table; /* static: its library's; NULL: none that allocates */
    bool tells_stream;            /* it tells the stream on which its library works */
} dls_option_like;
typedef bool dls_option_flag;
typedef int64_t dls_option_align; /* bytes, a power of two */
typedef dl_dtype dls_option_dtype;

/* Constant after it was made.  A member means something only where dls_option_given
 * says so; a stream that is not given is NULL. */
struct dls_options {
    uint32_t given; /* bits 1 << dls_option */
    /* Only order=, align= and the words of readonly= are given: they change nothing of
     * writable memory in row-major order that is so aligned. */
    bool idle;
#define OPTION(name, kind, ...) dls_option_##kind name;
#include "request/options.def"
#undef OPTION
};

static inline bool
dls_option_given(const dls_options *options, dls_option option)
{
    return options != NULL && (options->given >> option & 1);
}

/* A keyword of a function that is no option. */
typedef struct {
    PyObject *name;  /* an interned str; NULL behind the last */
    PyObject *value; /* borrowed, of the call; NULL: it was not passed */
} dls_keyword_value;

/* Parse the keywords names[i] (a tuple, or NULL) with values[i].  Those of `others`
 * (NULL: there are none) are no options: their values are written there.  *result is a
 * new dls_options, the caller's, or NULL when no option was given.  0, or -1 with
 * TypeError, ValueError or MemoryError, and *result is NULL.  `function` is named in
 * messages. */
int dls_options_parse(dls_state *state, const char *function, PyObject *names,
                      PyObject *const *values, dls_keyword_value *others,
                      dls_options **result);

/* *result is a new copy of `inner` in which every option that `outer` gives replaces
 * the inner one; either may be NULL.  NULL when both give nothing.  0, or -1 with
 * MemoryError, or with ValueError for options that disagree, and *result is NULL. */
int dls_options_merge(dls_state *state, const dls_options *inner,
                      const dls_options *outer, dls_options **result);

/* Free the options and their streams; NULL is allowed.  May run any code. */
void dls_options_free(dls_options *options);

/* For tp_traverse; NULL is allowed. */
int dls_options_visit(const dls_options *options, visitproc visit, void *arg);

/* {"copy": True, "order": "C"}: the options that were given, in the order of
 * options.def.  A new dict, empty for NULL. */
PyObject *dls_options_dict(const dls_options *options);

/* Single values that other functions take too.  0, or -1 with an exception.
 * *copy becomes -1 for None; `what` is the keyword, for messages. */
int dls_parse_copy(dls_state *state, PyObject *value, int8_t *copy);
int dls_parse_device(dls_state *state, const char *what, PyObject *value,
                     dl_device *device);
int dls_parse_dtype(dls_state *state, const char *what, PyObject *value,
                    dl_dtype *dtype);
/* The device that device= or like= names.  False: neither is given. */
bool dls_options_device(const dls_options *options, dl_device *device);
