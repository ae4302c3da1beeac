/* Where a column of Arrow lies, and after which event it may be used, as
 * __arrow_c_device_array__ and __arrow_c_device_stream__ say it (S27).  Called by
 * arrow_array.c and arrow_stream.c, with the GIL; touches no driver.  Tests:
 * tests/device/test_arrow_events.py, tests/core/test_columns.py. */
#include "protocols/arrow.h"

#include "sync/producer_stream.h"

int
dls_arrow_place(dls_arrow_column *column, const arrow_device_array *array)
{
    dls_reading *reading = column->reading;
    if (array->device_type == dl_kDLCPU) {
        return array->sync_event == NULL
                   ? 0 /* the reading has begun with (1, 0) */
                   : dls_reading_fail(reading,
                                      "its memory is on the host, and its sync_event "
                                      "names an event, which the host has none of\n"
                                      "  the producer has to be corrected");
    }
    if (array->device_id < INT32_MIN || array->device_id > INT32_MAX) {
        return dls_reading_fail(
            reading,
            "its device has the number %lld, and DLPack has 32 bits for it\n"
            "  the producer has to be corrected",
            (long long)array->device_id);
    }
    dl_device device = {array->device_type, (int32_t)array->device_id};
    reading->acquired->tensor.device = device;
    *reading->p = dls_producer_stream_of_event(device, array->sync_event);
    return 0;
}
