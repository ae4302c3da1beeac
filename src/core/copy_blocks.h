/* The copy of transposed planes by blocks.  Called by core/copy.  No allocation. */
#pragma once

#include "core/copy_rows.h"

/* Where the rows of the source are nearer to each other than its columns: by blocks, so
 * that a cache line of either side is used up while it is there. */
DLS_EXTERN void dls_copy_across(char *to, const char *from, const dls_plane *plane);
