/* Reads a fuzzer's bytes as numbers.  Included by the targets of fuzz/core.  Bytes that
 * are missing read as 0, so that every input is a lawful one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A broken invariant ends the process, which the fuzzer keeps as a crash. */
#define INSIST(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

typedef struct {
    const uint8_t *at;
    size_t left;
} input;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline uint64_t
take_raw(input *in, size_t bytes)
{
    uint64_t value = 0;
    size_t have = bytes < in->left ? bytes : in->left;
    memcpy(&value, in->at, have);
    in->at += have;
    in->left -= have;
    return value;
}

static inline uint8_t
take_byte(input *in)
{
    return (uint8_t)take_raw(in, 1);
}

/* A number of [0, end).  end > 0. */
static inline int64_t
take_below(input *in, int64_t end)
{
    return (int64_t)(take_raw(in, end > 256 ? 2 : 1) % (uint64_t)end);
}

/* Mostly a small number, often one at which arithmetic breaks, else any 8 bytes. */
static inline int64_t
take_int64(input *in)
{
    static const int64_t edges[] = {
        INT64_MAX,           INT64_MIN,        INT64_MAX - 1,    INT64_MIN + 1,
        INT64_MAX / 2,       INT64_MIN / 2,    INT64_MAX / 8,    INT64_MAX / 16,
        (int64_t)1 << 62,    (int64_t)1 << 38, (int64_t)1 << 32, ((int64_t)1 << 32) - 1,
        -((int64_t)1 << 31), (int64_t)1 << 31, 3037000499,       3037000500,
    };
    const int64_t count = sizeof edges / sizeof *edges;
    uint8_t kind = take_byte(in);
    if (kind == 0xff) {
        return (int64_t)take_raw(in, 8);
    }
    return kind >= 0xe0 ? edges[(kind - 0xe0) % count] : (int64_t)kind % 24 - 4;
}
