/* Columns of Arrow (rules C1 to C12): a schema says what the values are, an array where
 * they lie.  Shared by arrow_schema.c (types and their axes), arrow_array.c (windows,
 * missing values, addresses, holds), arrow_stream.c (chunks) and arrow_device.c.  All
 * functions need the GIL and return 0, or -1, unless they say otherwise.
 *
 * -1 leaves an exception where the producer lies.  Where the column is refused for what
 * it is, it leaves column->refusal instead: the exception needs a cure, for which the
 * object is asked, and that only after the structs of the producer were released:
 * DuckDB lets nobody ask while a result is open.  dls_arrow_end raises it. */
#pragma once

#include "abi/arrow_abi.h"
#include "protocols/reading.h"

/* Why a column is no array. */
typedef struct {
    const char *text;    /* NULL: there is no refusal */
    const char *problem; /* for `column` of shim/cures.py; NULL: the text has a cure */
    const char
        *rest; /* what follows the text of a CopyRequiredError; NULL: it is none */
    long long number; /* of missing values, or bits of a value */
    char name[80];    /* a format, or the first field */
} dls_arrow_refusal;

/* One column that is being read.  Zeroed at the start, but for `reading`. */
typedef struct {
    dls_reading *reading;
    arrow_schema schema; /* ours; release NULL: none */

    /* Set by dls_arrow_judge: */
    int32_t lists;      /* how many lists of fixed size lie around the elements */
    int32_t axes;       /* of one value of the column */
    bool has_byte_axis; /* the bytes of a fixed_size_binary are an axis */
    bool takes_zero;    /* 0 can take the place of a missing element */
    bool is_packed;     /* booleans in bits, which a copy makes bytes of; width is 1 */
    dl_dtype dtype;     /* of the elements */
    int64_t itemsize;   /* their bytes */
    int64_t width;      /* bytes of what the innermost array counts */
    /* Integers that mean more than DLPack can say, and reinterpret= does not name them:
     * the refusal, unless values are missing, which is told first.  NULL: none. */
    const char *unnamed;
    PyObject *tensor; /* fixed_shape_tensor: (shape, permutation), strong; or NULL */

    dls_arrow_refusal refusal;
} dls_arrow_column;

/* Where the values of an array or of a chunk lie. */
typedef struct {
    const char *data; /* the first; NULL: there are none */
    int64_t length;   /* values */
    int64_t bytes;    /* of all of them; of packed booleans, when they are unpacked */
    int first_bit;    /* of packed booleans: its place in *data, lowest bit first */
} dls_arrow_window;

/* --- schema --- */

/* Judge the type that column->schema says: fill the members above. */
int dls_arrow_judge(dls_arrow_column *column);
/* The items of a list of fixed size ("+w:3": 3); -1: the format says no such list. */
int64_t dls_arrow_items(const arrow_schema *schema);
/* The last step: describe `window` in reading->acquired. */
int dls_arrow_describe(dls_arrow_column *column, const dls_arrow_window *window);
/* Note a refusal.  Always -1. */
int dls_arrow_refuse(dls_arrow_column *column, const char *text, const char *problem,
                     const char *name, long long number);
/* Ask the function of this name in shim/columns.py about the column's object, which the
 * structs do not tell.  1, 0, or -1 with an exception. */
int dls_arrow_ask(const dls_reading *reading, const char *function);
/* Refuse what only reinterpret= could name.  0, or -1. */
int dls_arrow_check_named(dls_arrow_column *column);
/* The struct was released or moved away before.  Always -1. */
int dls_arrow_fail_released(const dls_reading *reading);
/* Release the schema, then raise the refusal, if there is one.  code: of the reading so
 * far; returned. */
int dls_arrow_end(dls_arrow_column *column, int code);

/* --- array --- */

/* Call the method by its name, or the call that stands for it; a new reference to the
 * result, NULL with its exception. */
PyObject *dls_arrow_call(const dls_reading *reading);
/* The struct in a capsule of this name, borrowed from it.  NULL with an exception. */
void *dls_arrow_open(const dls_reading *reading, PyObject *capsule, const char *name);
/* Move an array that was not released: *from has none afterwards. */
static inline void
dls_arrow_move(arrow_array *from, arrow_array *to)
{
    *to = *from;
    from->release = NULL;
}
/* Release an array, if there is one.  A pending exception is kept. */
void dls_arrow_drop(arrow_array *array);
/* Where do the values lie?  Checks all that the array says (T11), and refuses missing
 * values. */
int dls_arrow_find(dls_arrow_column *column, const arrow_array *array,
                   dls_arrow_window *window);

/* New memory of ours for a copy of so many bytes, which reading->acquired holds.  NULL
 * with MemoryError. */
char *dls_arrow_make_room(const dls_reading *reading, int64_t bytes);
/* Copy the values of a window to `to`; packed booleans become bytes.  The end of the
 * copy.  Needs no GIL. */
char *dls_arrow_put(const dls_arrow_column *column, const dls_arrow_window *from,
                    char *to);

/* --- device --- */

/* The device, and the event, of an array or of one chunk: fills tensor.device and
 * *reading->p.  Host memory is (1, 0), whatever its number (pyarrow says -1). */
int dls_arrow_place(dls_arrow_column *column, const arrow_device_array *array);
