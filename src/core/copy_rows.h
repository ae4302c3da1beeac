/* Planes of two axes, and their copy row by row.  Called by core/copy and
 * core/copy.  No allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base.h"

/* Rows x columns items.  The columns of a row are dense in the destination. */
typedef struct {
    int64_t rows, columns; /* at least 1 */
    int64_t row_step;      /* bytes in the source, any sign */
    int64_t column_step;
    int64_t row_pitch; /* bytes in the destination */
    int64_t itemsize;
} dls_plane;

/* Row by row, each by the loop for its step and the size of its items. */
DLS_EXTERN void dls_copy_rows(char *to, const char *from, const dls_plane *plane);

/* The first `unit` of `total` bytes are there; fill the others with them, over and
 * over. */
void dls_copy_repeat(char *to, int64_t unit, int64_t total);

/* Vectors of 16 bytes, where the compiler has them (clang; GCC from 12 on).  It makes
 * code for every processor of the family, also for those without vectors.  Without them
 * the loops are plain C. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DLS_VECTORS
#endif
#endif
#ifdef DLS_VECTORS
#define DLS_VECTOR __attribute__((vector_size(16)))
typedef uint8_t dls_vector_1 DLS_VECTOR;
typedef uint16_t dls_vector_2 DLS_VECTOR;
typedef uint32_t dls_vector_4 DLS_VECTOR;
typedef uint64_t dls_vector_8 DLS_VECTOR;
#endif
