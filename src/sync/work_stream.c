#include "sync/work_stream.h"

#include "core/device.h"
#include "export/fast_path.h"
#include "gpu/driver.h"
#include "module/tensor_type.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/transfer.h"

/* Of this thread's last export of device memory: device and stream.  Keys for the whole
 * process, made at the first import and never freed. */
static Py_tss_t *last_device, *last_stream;

static Py_tss_t *
new_key(void)
{
    Py_tss_t *key = PyThread_tss_alloc();
    if (key != NULL && PyThread_tss_create(key) != 0) {
        PyThread_tss_free(key);
        key = NULL;
    }
    return key;
}

int
dls_work_stream_init(void)
{
    if (last_device == NULL) {
        last_device = new_key();
    }
    if (last_stream == NULL) {
        last_stream = new_key();
    }
    if (last_device == NULL || last_stream == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Never NULL, which says that nothing was left. */
static void *
device_word(dl_device device)
{
    uint64_t word = (uint64_t)(uint32_t)device.device_id << 8
                    | (uint8_t)device.device_type;
    return (void *)(uintptr_t)word;
}

static bool
takes_streams(int32_t device_type)
{
    return device_type == dl_kDLCUDA || device_type == dl_kDLROCM
           || device_type == dl_kDLCUDAManaged;
}

/* An interface dict names the stream itself, at the export: nothing is learned for it.
 */
static bool
may_learn(const dls_plan *plan)
{
    return plan->off_host
           && (dls_plan_offers(plan, DLS_RUNG_TABLE)
               || dls_plan_offers(plan, DLS_RUNG_DLPACK)
               || dls_plan_offers(plan, DLS_RUNG_FUNCTION));
}

static int
learn(dls_state *state, PyObject *source, dls_plan *plan, const dls_request *request,
      dls_pending *p)
{
    const dls_options *options = request->options;
    dls_want want = request->want;
    dl_device device;
    if (dls_option_given(options, DLS_OPTION_producer_stream)) {
        want.producer_stream = options->producer_stream;
    }
    if (plan == NULL && Py_IS_TYPE(source, state->tensor_type)) {
        *p = dls_tensor_pending(dls_tensor_data(source));
        device = dls_tensor_data(source)->tensor.device;
    }
    else if (plan == NULL || !may_learn(plan)) {
        return 0;
    }
    else if (dls_serve_device(state, source, plan, options, &device) < 0) {
        return -1;
    }
    if (!takes_streams(device.device_type)) {
        *p = (dls_pending){.known = DLS_P_UNKNOWN};
        return 0;
    }
    return dls_pending_of(state, plan, source, &want, device, p);
}

/* Where P is known, request->want.stream becomes -1 (no ordering is made) and *p says
 * P; else the request is left to order into L.  *minus: a new reference that
 * want.stream borrows, or NULL.  0, or -1 with an exception. */
static int
begin(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request,
      dls_pending *p, PyObject **minus)
{
    *p = (dls_pending){.known = DLS_P_UNKNOWN};
    *minus = NULL;
    bool tensor = plan == NULL && Py_IS_TYPE(source, state->tensor_type);
    bool host = tensor ? dls_tensor_on_host(dls_tensor_data(source))
                       : plan != NULL && !plan->off_host;
    if (host || dls_option_given(request->options, DLS_OPTION_stream)) {
        return 0;
    }
    if (learn(state, source, plan, request, p) < 0) {
        return -1;
    }
    if (p->known != DLS_P_UNKNOWN && p->object == NULL) {
        *minus = PyLong_FromLong(-1);
        request->want.stream = *minus;
        return *minus != NULL ? 0 : -1;
    }
    *p = (dls_pending){.known = DLS_P_UNKNOWN};
    return 0;
}

/* Leave what the next question is to be answered. */
static void
leave(dls_state *state, const dls_request *request, dl_device device, dls_pending p)
{
    if (!takes_streams(device.device_type)) {
        return;
    }
    if (p.known == DLS_P_UNKNOWN) {
        p = dls_order_ready(state, &request->want, device);
    }
    bool named = p.known == DLS_P_KNOWN && p.object == NULL
                 && p.handle != dls_driver_of(device.device_type)->legacy;
    void *stream = named ? (void *)(uintptr_t)p.handle : NULL;
    if (PyThread_tss_set(last_stream, stream) != 0
        || PyThread_tss_set(last_device, device_word(device)) != 0) {
        PyThread_tss_set(last_device, NULL);
    }
}

/* The struct out of a capsule that is ours alone, which is dropped; NULL with an
 * exception. */
static void *
unpack(PyObject *capsule, bool versioned)
{
    void *managed;
    dls_capsule_look_for(capsule, versioned, &managed);
    int code = dls_capsule_take(capsule, versioned);
    dls_drop_foreign(capsule);
    return code == 0 ? managed : NULL;
}

void *
dls_export_for_table(PyObject *self, bool versioned, dls_answer *answer)
{
    dls_producer *producer = dls_is_producer(self) ? dls_producer_data(self) : NULL;
    dls_state *state = dls_producer_data(self)->state;
    PyObject *source = producer != NULL ? producer->source : self, *minus,
             *capsule = NULL;
    dls_plan *plan = producer != NULL ? producer->plan : NULL;
    dls_pending p;
    dls_request request;
    void *managed = NULL;
    dls_request_init(&request, producer != NULL ? producer->options : NULL);
    request.answer = answer;
    request.want.versioned = versioned;
    request.want.kernel_asks = true;
    request.bears_anything = true;
    if (begin(state, source, plan, &request, &p, &minus) == 0) {
        capsule = producer != NULL ? dls_producer_export(producer, &request)
                                   : dls_serve_capsule(state, self, NULL, &request);
    }
    if (capsule != NULL) {
        managed = unpack(capsule, versioned);
    }
    if (managed != NULL) {
        const dl_tensor *tensor =
            versioned ? &((dl_managed_tensor_versioned *)managed)->dl_tensor
                      : &((dl_managed_tensor *)managed)->dl_tensor;
        leave(state, &request, tensor->device, p);
    }
    Py_XDECREF(minus);
    if (request.answer != NULL) {
        dls_express_drop(request.answer); /* nobody got as far as to use it */
    }
    return managed;
}

void *
dls_work_stream_answer(dl_device device)
{
    bool same = takes_streams(device.device_type)
                && PyThread_tss_get(last_device) == device_word(device);
    return same ? PyThread_tss_get(last_stream) : NULL;
}
