/* A foreign exchange table as a way in (reference dlpack-standard section 2).
 * Tables order no streams: used for host memory only. */
#ifndef DLS_SOURCE_TABLE_H
#define DLS_SOURCE_TABLE_H

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "exchange/acquired.h"
#include "python/errors.h"
#include "python/py.h"

/* The table behind a class attribute: a capsule named dlpack_exchange_api or an int
 * (DLPack 1.2).  prev_api is walked to a table of major 1.  NULL, nothing set, when it
 * is something else or lacks the export function. */
const dl_exchange_api *dls_table_from_attribute(PyObject *value);

/* What remains of a call that gave nothing, with this code: NULL. */
dl_managed_tensor_versioned *dls_table_failed(int code);

/* Owned export of obj; NULL with an exception, or with none when it gave nothing. */
static inline dl_managed_tensor_versioned *
dls_table_call(const dl_exchange_api *table, PyObject *obj)
{
    dl_managed_tensor_versioned *managed = NULL;
    int code = table->managed_tensor_from_py_object_no_sync(obj, &managed);
    if (DLS_RARE(code != 0 || managed == NULL)) {
        return dls_table_failed(code);
    }
    dls_error_report(); /* it succeeded, whatever it left behind */
    return managed;
}

/* What the call gave (stolen; NULL: 0 or -1).  1 = *loan holds a versioned tensor
 * (already ours), 0 = this tensor is better asked for by __dlpack__ (NULL data with
 * elements, or off the host with elements while ordering is owed), nothing set, -1 =
 * the table's exception is pending. */
int dls_table_read(dl_managed_tensor_versioned *managed, bool ordering_owed,
                   dls_loan *loan);

/* Device of obj by the borrowing entry.  1 = *device, 0 = cannot say, nothing set, -1 =
 * an exception that must not be lost. */
int dls_table_device(const dl_exchange_api *table, PyObject *obj, dl_device *device);

#endif
