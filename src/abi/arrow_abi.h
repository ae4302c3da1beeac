/* The structs of Arrow's C data, stream and device interfaces, declared by us.
 *
 * Python passes each in a capsule of the name below.  A consumer moves the struct: it
 * copies the bytes and sets `release` of the source to NULL.  It calls the release of
 * its copy once, on any thread; the children are released with it, but for those that
 * were moved away.  The layout has been the same since Arrow 1.0. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define ARROW_NAME_SCHEMA "arrow_schema"
#define ARROW_NAME_ARRAY "arrow_array"
#define ARROW_NAME_STREAM "arrow_array_stream"
#define ARROW_NAME_DEVICE_ARRAY "arrow_device_array"
#define ARROW_NAME_DEVICE_STREAM "arrow_device_array_stream"

#define ARROW_FLAG_NULLABLE 2

/* A type. */
typedef struct arrow_schema {
    const char *format;   /* "l" = int64, "+w:3" = lists of 3 items ... */
    const char *name;     /* NULL or "": none */
    const char *metadata; /* counted keys and values; NULL: none */
    int64_t flags;        /* ARROW_FLAG_* */
    int64_t n_children;
    struct arrow_schema **children;
    struct arrow_schema *dictionary;
    void (*release)(struct arrow_schema *self); /* NULL: released, or moved away */
    void *private_data;                         /* the producer's */
} arrow_schema;

/* The memory of a column of that type. */
typedef struct arrow_array {
    int64_t length;
    int64_t null_count; /* -1: not counted */
    int64_t offset;     /* elements that are passed over at the start of each buffer */
    int64_t n_buffers;
    int64_t n_children;
    const void *
        *buffers; /* first the bitmap of missing values; NULL: none is missing */
    struct arrow_array **children;
    struct arrow_array *dictionary;
    void (*release)(struct arrow_array *self);
    void *private_data;
} arrow_array;

/* A column in chunks.  The chunks live on without the stream.  get_schema and get_next
 * fill *out, which the caller then owns, and return 0 or a code of errno; a chunk whose
 * release is NULL is the end.  One thread at a time. */
typedef struct arrow_stream {
    int (*get_schema)(struct arrow_stream *self, arrow_schema *out);
    int (*get_next)(struct arrow_stream *self, arrow_array *out);
    /* The text of the last error, valid until the next call; NULL: none. */
    const char *(*get_last_error)(struct arrow_stream *self);
    void (*release)(struct arrow_stream *self);
    void *private_data;
} arrow_stream;

/* The memory of a column on a device. */
typedef struct arrow_device_array {
    arrow_array array;
    int64_t device_id;
    int32_t device_type; /* of DLPack */
    /* The address of the driver's event that comes after the producer's work, owned by
     * the array; NULL: nothing is pending. */
    void *sync_event;
    int64_t reserved[3];
} arrow_device_array;

/* A column in chunks on devices of one type. */
typedef struct arrow_device_stream {
    int32_t device_type;
    int (*get_schema)(struct arrow_device_stream *self, arrow_schema *out);
    int (*get_next)(struct arrow_device_stream *self, arrow_device_array *out);
    const char *(*get_last_error)(struct arrow_device_stream *self);
    void (*release)(struct arrow_device_stream *self);
    void *private_data;
} arrow_device_stream;

#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(arrow_schema) == 72, "ArrowSchema");
static_assert(offsetof(arrow_schema, flags) == 24, "flags");
static_assert(offsetof(arrow_schema, release) == 56, "release");
static_assert(sizeof(arrow_array) == 80, "ArrowArray");
static_assert(offsetof(arrow_array, buffers) == 40, "buffers");
static_assert(offsetof(arrow_array, release) == 64, "release");
static_assert(sizeof(arrow_stream) == 40, "ArrowArrayStream");
static_assert(sizeof(arrow_device_array) == 128, "ArrowDeviceArray");
static_assert(offsetof(arrow_device_array, device_type) == 88, "device_type");
static_assert(offsetof(arrow_device_array, sync_event) == 96, "sync_event");
static_assert(sizeof(arrow_device_stream) == 48, "ArrowDeviceArrayStream");
#endif
