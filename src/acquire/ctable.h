/* DLPack's C exchange API (the C table) of a producer, as a way in (N2).  It does not
 * synchronise: it is asked where nothing has to be waited for.  GIL held; foreign code
 * runs. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "exchange/exchange.h"
#include "python/errors.h"
#include "python/py.h"

/* A call has returned this code and given no tensor: make sure that an exception is
 * set, or for 0 that none is.  Always NULL. */
dl_managed_tensor_versioned *dls_ctable_failed(int code);

/* Owned export of obj; NULL with an exception, or with none when it gave nothing. */
static inline dl_managed_tensor_versioned *
dls_ctable_call(const dl_exchange_api *table, PyObject *obj)
{
    dl_managed_tensor_versioned *managed = NULL;
    int code = table->managed_tensor_from_py_object_no_sync(obj, &managed);
    if (code != 0 || managed == NULL) {
        return dls_ctable_failed(code);
    }
    dls_error_report(); /* it succeeded, whatever it left behind */
    return managed;
}

/* What the call gave (stolen; NULL: 0 or -1).  1 = *acquired holds a versioned tensor
 * (already ours), 0 = this tensor is better asked for by __dlpack__ (NULL data with
 * elements, or off the host with elements while it needs a sync), nothing set, -1 =
 * the table's exception is pending. */
int dls_ctable_read(dl_managed_tensor_versioned *managed, bool needs_sync,
                    dls_acquired *acquired);

/* Device of obj by the borrowing entry.  1 = *device, 0 = cannot say, nothing set, -1 =
 * an exception that must not be lost. */
int dls_ctable_device(const dl_exchange_api *table, PyObject *obj, dl_device *device);
