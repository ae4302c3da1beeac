/* Exports for the consumers of our C table: the managed tensor itself, no capsule.  GIL
 * held; foreign code runs. */
#pragma once

#include "export/export.h"

/* An owned struct for the consumer of our C table, which asks for its stream afterwards
 * (sync/work_stream).  versioned: dl_managed_tensor_versioned*; else, for borrowers,
 * who are told no flags, dl_managed_tensor*.  The caller's to delete; NULL with an
 * exception.  outcome: as in export.h. */
void *dls_export_producer_struct(dls_producer *self, bool versioned,
                                 dls_outcome *outcome);
void *dls_export_tensor_struct(dls_tensor *self, bool versioned);
