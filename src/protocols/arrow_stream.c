/* The way in through __arrow_c_stream__ and __arrow_c_device_stream__: one chunk goes
 * out as it is, several are joined where a copy is wanted (C9).
 * Called through the table in protocols.c, with the GIL, which is let go while
 * the producer's functions run: they may need threads that need it.  Only where the
 * chunks are known to be in memory it is kept (C11).
 * Tests: tests/core/test_columns.py, test_columns_lies.py. */
#include "protocols/arrow.h"

#include <string.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "python/errors.h"

/* A stream that was moved out of its capsule.  Its release is NULL after the end. */
typedef struct {
    bool on_device;
    bool in_memory; /* its functions are called with the GIL */
    arrow_stream host;
    arrow_device_stream device;
} stream;

/* A chunk with values. */
typedef struct {
    arrow_array array;
    dls_arrow_window window;
} chunk;

typedef struct {
    chunk *first; /* `only`, or a block of ours */
    int64_t count, room;
    int64_t length, bytes; /* of all */
    chunk only;            /* most columns have one */
} chunks;

/* --- the producer's functions ----------------------------------------------- */

/* Around calls of them; NULL: the GIL is kept. */
static PyThreadState *
let_go_of_python(const stream *s)
{
    return s->in_memory ? NULL : PyEval_SaveThread();
}

static void
take_back(PyThreadState *away)
{
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    dls_error_report(); /* T9 */
}

/* Needs no GIL. */
static void
release_stream(stream *s)
{
    if (s->host.release != NULL) {
        s->host.release(&s->host);
    }
    if (s->device.release != NULL) {
        s->device.release(&s->device);
    }
    s->host.release = NULL;
    s->device.release = NULL;
}

/* Arrays that came together.  They are asked for by twos, because most streams have
 * one. */
#define PAIR 2
typedef struct {
    arrow_device_array array[PAIR];
    int count; /* of those that came; below PAIR: the stream has ended, or failed */
    int code;  /* of the failure that came after them; 0: none */
} arrays;

/* Needs no GIL.  After the last array, the stream is released. */
static void
ask_next(stream *s, arrays *next)
{
    next->count = next->code = 0;
    for (int i = 0; i < PAIR && next->count == i; i++) {
        arrow_device_array *array = &next->array[i];
        *array = (arrow_device_array){.device_type = dl_kDLCPU};
        next->code = s->on_device ? s->device.get_next(&s->device, array)
                                  : s->host.get_next(&s->host, &array->array);
        next->count += next->code == 0 && array->array.release != NULL;
    }
    if (next->code == 0 && next->count < PAIR) {
        release_stream(s);
    }
}

static void
call_next(stream *s, arrays *next)
{
    PyThreadState *away = let_go_of_python(s);
    ask_next(s, next);
    take_back(away);
}

/* The code of a failure; 0: the type came. */
static int
call_schema(stream *s, dls_arrow_column *column)
{
    arrow_schema *schema = &column->schema;
    PyThreadState *away = let_go_of_python(s);
    int code = s->on_device ? s->device.get_schema(&s->device, schema)
                            : s->host.get_schema(&s->host, schema);
    take_back(away);
    return code;
}

static void
end_stream(stream *s)
{
    if (s->host.release == NULL && s->device.release == NULL) {
        return;
    }
    PyObject *error = PyErr_Occurred() != NULL ? dls_error_take() : NULL;
    PyThreadState *away = let_go_of_python(s);
    release_stream(s);
    take_back(away);
    if (error != NULL) {
        dls_error_restore(error);
    }
}

/* A function has returned `code`.  The text of the error is valid until the stream is
 * used again. */
static int
fail_call(const dls_reading *reading, stream *s, int code)
{
    const char *text = NULL;
    if (s->host.get_last_error != NULL) {
        text = s->host.get_last_error(&s->host);
    }
    if (s->device.get_last_error != NULL) {
        text = s->device.get_last_error(&s->device);
    }
    dls_error_report();
    PyObject *said = text != NULL ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text),
                                                         "replace")
                                  : PyUnicode_FromFormat("error %d", code);
    if (said != NULL) {
        dls_reading_fail(reading, "its producer could not give the values: %U", said);
        Py_DECREF(said);
    }
    return -1;
}

/* --- chunks ------------------------------------------------------------------- */

static int
add_chunk(chunks *all, arrow_array *array, const dls_arrow_window *window)
{
    if (all->count == all->room) {
        int64_t room = 4 * all->room;
        chunk *larger = dls_alloc((size_t)room * sizeof *larger);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(larger, all->first, (size_t)all->count * sizeof *larger);
        if (all->first != &all->only) {
            dls_free(all->first);
        }
        all->first = larger;
        all->room = room;
    }
    if (!dls_add(all->length, window->length, &all->length)
        || !dls_add(all->bytes, window->bytes, &all->bytes)) {
        PyErr_NoMemory();
        return -1;
    }
    chunk *one = &all->first[all->count++];
    dls_arrow_move(array, &one->array);
    one->window = *window;
    return 0;
}

static void
drop_chunks(chunks *all)
{
    for (int64_t i = 0; i < all->count; i++) {
        dls_arrow_drop(&all->first[i].array);
    }
    if (all->first != &all->only) {
        dls_free(all->first);
    }
}

/* Are the chunks joined?  Not unasked, because that is a copy; and only by the host, in
 * its memory. */
static bool
may_join(const dls_reading *reading)
{
    return reading->acquired->tensor.device.device_type == dl_kDLCPU
           && dls_want_copies(&reading->request->want);
}

static int
refuse_chunks(dls_arrow_column *column)
{
    static const char *const texts[2][2] = {
        {"its values lie in several chunks of memory\n"
         "  pass order=\"C\", which joins them, and copies nothing where there is one "
         "chunk",
         "its values lie in several chunks of memory\n"
         "  a stream is read once: make it anew, and pass order=\"C\", which joins "
         "them"},
        {", but copy=False was asked for\n"
         "  pass copy=True in its place, which joins them",
         ", but copy=False was asked for\n"
         "  a stream is read once: make it anew, and pass copy=True, which joins them"},
    };
    if (column->reading->acquired->tensor.device.device_type != dl_kDLCPU) {
        return dls_arrow_refuse(column,
                                "its values lie in several chunks of device memory, "
                                "which dlshim does not join",
                                "chunks", NULL, 0);
    }
    bool copy_forbidden = column->reading->request->want.copy == 0;
    int once = dls_arrow_ask(column->reading, "is_read_once");
    if (once < 0) {
        return -1;
    }
    if (copy_forbidden) {
        column->refusal.rest = texts[1][once];
        return dls_arrow_refuse(
            column, "a copy is needed (its values lie in several chunks of memory)",
            NULL, NULL, 0);
    }
    return dls_arrow_refuse(column, texts[0][once], NULL, NULL, 0);
}

/* An array that came is judged, and becomes a chunk unless it has no values.  Its
 * release may be NULL afterwards: else it is to be dropped. */
static int
take_chunk(dls_arrow_column *column, arrow_device_array *came, chunks *all)
{
    dls_reading *reading = column->reading;
    const dl_device device = reading->acquired->tensor.device;
    const dls_producer_stream p = *reading->p;
    dls_arrow_window window = {.length = 0};
    int code = dls_arrow_place(column, came);
    code = code == 0 ? dls_arrow_find(column, &came->array, &window) : code;
    if (code == 0 && window.length != 0) {
        code = all->count != 0 && !may_join(reading)
                   ? refuse_chunks(column)
                   : add_chunk(all, &came->array, &window);
    }
    /* Nobody waits for the event of a chunk without values. */
    /* mutant: event of an empty chunk */
    if (window.length == 0 && all->count != 0) {
        reading->acquired->tensor.device = device;
        *reading->p = p;
    }
    return code;
}

/* The arrays that came together become chunks.  After a failure the others are dropped.
 */
static int
take_arrays(dls_arrow_column *column, arrays *came, chunks *all)
{
    int taken = 0;
    for (int i = 0; i < came->count; i++) {
        if (taken == 0) {
            taken = take_chunk(column, &came->array[i], all);
        }
        dls_arrow_drop(&came->array[i].array);
    }
    return taken;
}

/* All chunks with values, up to the end of the stream. */
static int
take_chunks(dls_arrow_column *column, stream *s, chunks *all)
{
    arrays next; /* large, so it is filled where it is used */
    for (;;) {
        call_next(s, &next);
        if (take_arrays(column, &next, all) < 0) {
            return -1;
        }
        /* A query that was interrupted fails, too: the signal is what is reported. */
        if ((next.code != 0 || next.count == PAIR) && PyErr_CheckSignals() < 0) {
            return -1;
        }
        if (next.code != 0) {
            return fail_call(column->reading, s, next.code);
        }
        if (next.count < PAIR) {
            return 0;
        }
    }
}

/* --- the memory --------------------------------------------------------------- */

/* The memory of all chunks, one after the other, in a block of ours. */
static int
join(const dls_arrow_column *column, const chunks *all, dls_arrow_window *window)
{
    char *start = dls_arrow_make_room(column->reading, all->bytes), *to = start;
    if (start == NULL) {
        return -1;
    }
    bool alone = all->bytes >= DLS_COPY_WITHOUT_GIL;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    for (int64_t i = 0; i < all->count; i++) {
        to = dls_arrow_put(column, &all->first[i].window, to);
    }
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    *window = (dls_arrow_window){start, all->length, all->bytes, 0};
    return 0;
}

static int
describe(dls_arrow_column *column, chunks *all)
{
    dls_acquired *acquired = column->reading->acquired;
    dls_arrow_window window = {.length = 0};
    bool copies = all->count > 1 || column->is_packed;
    if (copies && join(column, all, &window) < 0) {
        return -1;
    }
    if (!copies && all->count == 1) {
        window = all->first[0].window;
        dls_arrow_move(&all->first[0].array, column->reading->array);
        all->count = 0;
    }
    if (!(acquired->flags & DL_FLAG_IS_COPIED)) {
        acquired->flags |= DL_FLAG_READ_ONLY;
    }
    return dls_arrow_describe(column, &window);
}

/* --- __arrow_c_stream__, __arrow_c_device_stream__ ------------------------------ */

static int
take_stream(const dls_reading *reading, PyObject *capsule, stream *s)
{
    s->on_device = reading->protocol == DLS_PROTOCOL_ARROW_DEVICE_STREAM;
    void *given = dls_arrow_open(
        reading, capsule, s->on_device ? ARROW_NAME_DEVICE_STREAM : ARROW_NAME_STREAM);
    if (given == NULL) {
        return -1;
    }
    if (s->on_device) {
        arrow_device_stream *from = given;
        s->device = *from;
        from->release = NULL;
    }
    else {
        arrow_stream *from = given;
        s->host = *from;
        from->release = NULL;
    }
    if (s->host.release == NULL && s->device.release == NULL) {
        return dls_arrow_fail_released(reading);
    }
    bool asks = s->on_device
                    ? s->device.get_schema != NULL && s->device.get_next != NULL
                    : s->host.get_schema != NULL && s->host.get_next != NULL;
    return asks ? 0
                : dls_reading_fail(reading, "its stream has no get_schema or get_next\n"
                                            "  the producer has to be corrected");
}

/* The type is judged before a chunk is asked for: to give one may run a query. */
static int
read_stream(dls_arrow_column *column, stream *s, chunks *all)
{
    int code = call_schema(s, column);
    if (code != 0) {
        column->schema.release = NULL;
        return fail_call(column->reading, s, code);
    }
    if (s->on_device && s->device.device_type != dl_kDLCPU) {
        column->reading->acquired->tensor.device.device_type = s->device.device_type;
        *column->reading->p = (dls_producer_stream){.known = DLS_P_READY};
    }
    return dls_arrow_judge(column) < 0 ? -1 : take_chunks(column, s, all);
}

int
dls_arrow_stream_read(dls_reading *reading)
{
    dls_arrow_column column = {.reading = reading};
    stream s = {.in_memory = reading->in_memory};
    chunks all = {.first = &all.only, .room = 1};
    PyObject *capsule = dls_arrow_call(reading);
    if (capsule == NULL) {
        return -1;
    }
    int code = take_stream(reading, capsule, &s);
    dls_drop_foreign(capsule);
    if (code == 0) {
        code = read_stream(&column, &s, &all);
    }
    end_stream(&s);
    if (code == 0) {
        code = describe(&column, &all);
    }
    if (code < 0) {
        dls_arrow_drop(reading->array);
    }
    drop_chunks(&all);
    return dls_arrow_end(&column, code);
}
