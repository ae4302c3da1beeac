/* Where a column of Arrow lies, as __arrow_c_device_array__ and
 * __arrow_c_device_stream__ say it (C13).  Called by arrow_array.c and arrow_stream.c,
 * with the GIL.  Tests: tests/core/test_columns.py. */
#include "older_protocols/arrow.h"

#include "core/dtype.h"

int
dls_arrow_place(dls_arrow_column *column, const arrow_device_array *array)
{
    char name[48];
    if (array->device_type == dl_kDLCPU) {
        return 0; /* the reading has begun with (1, 0) */
    }
    dl_device device = {array->device_type, (int32_t)array->device_id};
    return dls_reading_fail(column->reading,
                            "its memory is on a device (%s), and dlshim takes columns "
                            "of the host only; copy it to the host first",
                            dls_device_name(device, name, sizeof name));
}
