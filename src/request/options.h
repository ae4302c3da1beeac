/* The options of `upgrade` (design section 3): parsed once, merged option by option. */
#ifndef DLS_MODULE_OPTIONS_H
#define DLS_MODULE_OPTIONS_H

#include "abi/dlpack_abi.h"
#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

/* X(member of state->names and keyword).  The order is that of the signature. */
#define DLS_OPTION_LIST(X)                                                             \
    X(stream)                                                                          \
    X(producer_stream) X(unknown_stream) X(device) X(copy) X(readonly)                 \
        X(legacy_readonly) X(order) X(align) X(reinterpret) X(assume_device) X(detach) \
            X(on_release)

typedef enum {
#define DLS_OPTION_ENUM(name) DLS_OPTION_##name,
    DLS_OPTION_LIST(DLS_OPTION_ENUM)
#undef DLS_OPTION_ENUM
        DLS_OPTION_COUNT
} dls_option;

enum { DLS_LEGACY_READONLY_ERROR, DLS_LEGACY_READONLY_STRIP, DLS_LEGACY_READONLY_COPY };
enum { DLS_ORDER_NONE, DLS_ORDER_K, DLS_ORDER_C };
enum { DLS_RELEASE_CONTRACT, DLS_RELEASE_GUARD };

/* Members are meaningful where `given` has the bit 1 << dls_option. */
typedef struct {
    uint32_t given;
    int8_t copy;     /* 0 or 1 */
    int8_t readonly; /* 0 or 1 */
    uint8_t legacy_readonly;
    uint8_t unknown_stream;
    uint8_t order;
    uint8_t on_release;
    bool detach;
    dl_dtype reinterpret;
    dl_device device;
    dl_device assume_device;
    int64_t align;             /* bytes, a power of two */
    PyObject *stream;          /* strong */
    PyObject *producer_stream; /* strong */
} dls_options;

static inline bool
dls_option_given(const dls_options *options, dls_option option)
{
    return options != NULL && (options->given >> option & 1);
}

/* Parse keywords (names[i] -> values[i]).  *result: a new dls_options, or NULL when
 * nothing was given.  0, or -1 with TypeError or ValueError. */
int dls_options_parse(dls_state *state, const char *function, PyObject *names,
                      PyObject *const *values, dls_options **result);

/* A copy of `inner` in which all that `outer` gives has been replaced (either may be
 * NULL).  *result NULL when both give nothing.  0, or -1 with MemoryError. */
int dls_options_merge(const dls_options *inner, const dls_options *outer,
                      dls_options **result);
void dls_options_free(dls_options *options); /* NULL allowed; GIL held */

int dls_options_visit(const dls_options *options, visitproc visit, void *arg);

/* ", order='C', copy=True": new str, empty for NULL. */
PyObject *dls_options_repr(const dls_options *options);

/* Single values, shared with other entry points.  0, or -1 with an exception. */
int dls_parse_copy(dls_state *state, PyObject *value, int8_t *copy); /* None: -1 */
int dls_parse_device(dls_state *state, const char *what, PyObject *value,
                     dl_device *device);

#endif
