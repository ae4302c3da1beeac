/* One consumer's request, and how it is served. */
#ifndef DLS_MODULE_REQUEST_H
#define DLS_MODULE_REQUEST_H

#include "acquire/attempt_host.h"
#include "exchange/producer_object.h"

/* What a consumer's keywords said, beside DLS_ASK_*, which it passed (askers.def). */
#define DLS_ASKED_NONE 16u /* one of them None */
#define DLS_ASKED_1_0 32u  /* max_version=(n, 0) */

/* The consumer's words after the options were laid over them. */
typedef struct {
    dls_want want;
    const dls_options *options; /* borrowed; NULL: none */
    unsigned asked_with;    /* DLS_ASK_*, DLS_ASKED_*: the consumer's own words (N9) */
    bool device_question;   /* it asked for the device just before (N9) */
    dls_stream_memory seen; /* of want.stream */
    bool bears_anything;    /* a Tensor of ours: strides of any sign */
    dls_shared **kept;      /* the Producer's slot for memory made now, or NULL */
    dls_answer *answer;     /* the source was asked already; NULL: not yet */
} dls_request;

#define DLS_DOC_DLPACK                                                                 \
    "__dlpack__($self, stream=None, *, max_version=None, dl_device=None, copy=None)\n" \
    "--\n\n"                                                                           \
    "Export a fresh capsule (array API, __dlpack__).\n\n"                              \
    "max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or major " \
    "0 a "                                                                             \
    "legacy\n'dltensor'.  BufferError when the data cannot be given so, "              \
    "CopyRequiredError "                                                               \
    "when\ncopy=False and a copy is needed."
#define DLS_DOC_DLPACK_DEVICE             \
    "__dlpack_device__($self, /)\n--\n\n" \
    "(device_type, device_id) that an export will say, plain ints."

/* The request of a consumer that passes nothing. */
void dls_request_init(dls_request *request, const dls_options *options);

/* Keywords of __dlpack__ (and max_version= of to_capsule).  0, or -1 with TypeError or
 * ValueError. */
int dls_request_version(dls_state *state, PyObject *value, dls_request *request);
int dls_request_device(dls_state *state, const char *keyword, PyObject *value,
                       dls_request *request);
/* copy: None, or anything that counts as a truth value among numbers. */
int dls_request_copy(dls_state *state, PyObject *value, dls_request *request);
int dls_request_stream(dls_state *state, PyObject *value, dls_request *request);
/* All keywords of one __dlpack__ call (METH_FASTCALL | METH_KEYWORDS); stream may also
 * be given by position.  Any other keyword is a TypeError, so that consumers' own
 * fallbacks work. */
int dls_request_parse(dls_state *state, PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames, dls_request *request);
/* Is it one that asks for nothing but a flavour, in words seen before?  Then *versioned
 * is that.  A stream of -1 asks for nothing on the host.  False says nothing. */
bool dls_request_is_usual(dls_state *state, PyObject *const *args, Py_ssize_t n,
                          PyObject *kwnames, bool *versioned);

/* Options that stand in for what the consumer did not say; a copy=True against a False
 * is CopyRequiredError. */
int dls_request_options(dls_state *state, PyObject *source, dls_request *request);

/* Does this way of asking bear negative strides?  (askers.def) */
bool dls_request_bears_negative(const dls_request *request);
/* The table of askers as a list of dicts, for docs and tests. */
PyObject *dls_request_askers(void);

/* An export of a Producer, with the memory that was made for it kept (T8). */
PyObject *dls_producer_export(dls_producer *self, dls_request *request);
/* __dlpack__ of a Producer, on the careful road.  answer: what the source gave on the
 * express road (used up, on failure too), or NULL. */
PyObject *dls_producer_ask(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames, dls_answer *answer);

/* Serve a request with a new capsule.  plan NULL: source is a Tensor. */
PyObject *dls_serve_capsule(dls_state *state, PyObject *source, dls_plan *plan,
                            dls_request *request);
/* Serve it with a Tensor. */
PyObject *dls_serve_tensor(dls_state *state, PyObject *source, dls_plan *plan,
                           dls_request *request);
/* The device that an export would say.  0, or -1 with an exception. */
int dls_serve_device(dls_state *state, PyObject *source, dls_plan *plan,
                     const dls_options *options, dl_device *device);

#endif
