/* The borrowed view that a Producer gives through its C table.  Called by
 * module/ctable_out.  The GIL is held. */
#pragma once

#include "exchange/producer_object.h"

/* Describe the Producer's memory in *out, which points to memory that lives as long as
 * the Producer.  A view has no flags, so the rules for legacy consumers hold (T8).  0,
 * or -1 with an exception. */
int dls_ctable_view(dls_producer *self, dl_tensor *out);
