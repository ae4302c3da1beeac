/* The C tables of homes.  They differ from dlshim's own (ctable/ctable_out) in up to
 * three functions.  None of these is told for which C table it is called, so that each
 * stands here as many times as there may be homes, and knows its number.  Tests:
 * tests/core/test_homes.py, tests/device/test_homes.py. */
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "ctable/ctable_out.h"
#include "ctable/homes.h"
#include "python/errors.h"
#include "sync/work_stream.h"

/* X(n) for each number below DLS_HOME_SLOTS: two octal digits, so that 0##n is the
 * number. */
#define DIGIT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define FOR_EACH_SLOT(X) \
    DIGIT(X, 0)          \
    DIGIT(X, 1) DIGIT(X, 2) DIGIT(X, 3) DIGIT(X, 4) DIGIT(X, 5) DIGIT(X, 6) DIGIT(X, 7)

/* --- outputs: the importers ----------------------------------------------- */

/* On failure nothing is taken.  After the Tensor has taken the memory, this does not
 * fail: the caller would free it (H2). */
static int
to_python(int slot, dl_managed_tensor_versioned *managed, void **out)
{
    if (dls_ctable_to_python(managed, out) < 0) {
        return -1;
    }
    PyObject *made = dls_importer_run(slot, *out);
    if (made != NULL) {
        Py_DECREF((PyObject *)*out);
        *out = made;
    }
    return 0;
}

#define TO_PYTHON(n)                                                     \
    static int to_python_##n(dl_managed_tensor_versioned *m, void **out) \
    {                                                                    \
        return to_python(0##n, m, out);                                  \
    }
FOR_EACH_SLOT(TO_PYTHON)

typedef int (*to_python_function)(dl_managed_tensor_versioned *, void **);
#define NAME(n) to_python_##n,
static const to_python_function to_python_of[] = {FOR_EACH_SLOT(NAME)};
_Static_assert(sizeof to_python_of / sizeof *to_python_of == DLS_HOME_SLOTS, "");

/* [1]: of the classes that dlshim.producer changed.  Each is written once, before
 * anybody has its address. */
static dl_exchange_api importer_tables[2][DLS_HOME_SLOTS];

const dl_exchange_api *
dls_home_table_of_importer(int slot, bool decorated)
{
    dl_exchange_api *table = &importer_tables[decorated][slot];
    DLS_IMPORT_BEGIN();
    if (table->managed_tensor_from_py_object_no_sync == NULL) {
        *table = dls_ctables[decorated];
        table->managed_tensor_to_py_object_no_sync = to_python_of[slot];
    }
    DLS_IMPORT_END();
    return table;
}

/* --- the stream: the libraries' own current_work_stream ------------------- */

typedef int (*stream_function)(int32_t, int32_t, void **);

/* Those that were met, each once, and never taken out. */
static DLS_ATOMIC(stream_function) asked[DLS_HOME_SLOTS];

/* What an export has left for this home, once; else what the library says now (H3). */
static int
current_work_stream(int number, int32_t device_type, int32_t device_id, void **out)
{
    const dl_device device = {device_type, device_id};
    const stream_function ask = asked[number];
    return dls_work_stream_take(device, ask, out) ? 0
                                                  : ask(device_type, device_id, out);
}

#define STREAM(n)                                                              \
    static int current_work_stream_##n(int32_t device_type, int32_t device_id, \
                                       void **out)                             \
    {                                                                          \
        return current_work_stream(0##n, device_type, device_id, out);         \
    }
FOR_EACH_SLOT(STREAM)

#define STREAM_NAME(n) current_work_stream_##n,
static const stream_function current_work_stream_of[] = {FOR_EACH_SLOT(STREAM_NAME)};

/* The function of a C table that asks this one of a library; NULL: as many are in use
 * as stand here. */
static stream_function
function_asking(stream_function ask)
{
    int n = 0;
    DLS_IMPORT_BEGIN();
    while (n < DLS_HOME_SLOTS && asked[n] != NULL && asked[n] != ask) {
        n++;
    }
    if (n < DLS_HOME_SLOTS) {
        asked[n] = ask;
    }
    DLS_IMPORT_END();
    return n < DLS_HOME_SLOTS ? current_work_stream_of[n] : NULL;
}

/* --- homes of libraries with C tables of their own ------------------------ */

typedef struct library_table {
    dl_exchange_api table; /* ours */
    const dl_exchange_api *library;
    struct library_table *next;
} library_table;

/* Those that were made, for all imports of dlshim. */
static DLS_ATOMIC(library_table *) library_tables;

/* Memory and results are the library's, by its own functions, so that nothing of ours
 * runs there.  All else is ours; tests/core/test_homes.py has a row for each function
 * that says whose it is. */
static void
fill_table(dl_exchange_api *table, const dl_exchange_api *library, bool asks)
{
    *table = dls_ctables[0];
    if (library->managed_tensor_allocator != NULL) {
        table->managed_tensor_allocator = library->managed_tensor_allocator;
    }
    if (library->managed_tensor_to_py_object_no_sync != NULL) {
        table->managed_tensor_to_py_object_no_sync =
            library->managed_tensor_to_py_object_no_sync;
    }
    stream_function ask = asks && library->current_work_stream != NULL
                              ? function_asking(library->current_work_stream)
                              : NULL;
    if (ask != NULL) {
        table->current_work_stream = ask;
    }
}

/* Add a table, unless an equal one is there; the one that is there then.  At an address
 * another library may have put another C table since. */
static library_table *
add(library_table *made)
{
    DLS_IMPORT_BEGIN();
    library_table *there = library_tables;
    while (there != NULL
           && !(there->library == made->library
                && memcmp(&there->table, &made->table, sizeof made->table) == 0)) {
        there = there->next;
    }
    if (there == NULL) {
        made->next = library_tables;
        library_tables = made;
    }
    DLS_IMPORT_END();
    return there != NULL ? there : made;
}

const dl_exchange_api *
dls_home_table_of_library(const dl_exchange_api *library, bool asks)
{
    library_table *made = dls_alloc(sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->library = library;
    fill_table(&made->table, library, asks);
    library_table *kept = add(made);
    if (kept != made) {
        dls_free(made);
    }
    return &kept->table;
}
