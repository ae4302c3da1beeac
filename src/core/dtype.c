/* The table of named dtypes, and how other protocols spell them; the names of devices.
 * Pure functions.  Tests: tests/core/test_ways_in.py, tests/core/test_ways_out.py,
 * tests/core/test_devices.py. */
#include "core/dtype.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define NATIVE_ORDER '>'
#else
#define NATIVE_ORDER '<'
#endif

/* PEP 3118 says 'l' for 8 bytes where NumPy's own int64 is a C long: 'q' would
 * come back as longlong, equal but not the same type number. */
#if LONG_MAX > 0x7fffffff
#define FORMAT_INT64 "l"
#define FORMAT_UINT64 "L"
#else
#define FORMAT_INT64 "q"
#define FORMAT_UINT64 "Q"
#endif

typedef struct {
    const char *name;
    uint8_t code;
    uint8_t bits;
    char kind;          /* array interface; 0 = none (NumPy says 'V') */
    const char *format; /* PEP 3118; NULL = none */
    char arrow[2];      /* a format of Arrow with the same memory; "" = none */
} dtype_row;

static const dtype_row dtype_table[] = {
    {"bool", dl_kDLBool, 8, 'b', "?", ""},
    {"int8", dl_kDLInt, 8, 'i', "b", "c"},
    {"int16", dl_kDLInt, 16, 'i', "h", "s"},
    {"int32", dl_kDLInt, 32, 'i', "i", "i"},
    {"int64", dl_kDLInt, 64, 'i', FORMAT_INT64, "l"},
    {"uint8", dl_kDLUInt, 8, 'u', "B", "C"},
    {"uint16", dl_kDLUInt, 16, 'u', "H", "S"},
    {"uint32", dl_kDLUInt, 32, 'u', "I", "I"},
    {"uint64", dl_kDLUInt, 64, 'u', FORMAT_UINT64, "L"},
    {"float16", dl_kDLFloat, 16, 'f', "e", "e"},
    {"float32", dl_kDLFloat, 32, 'f', "f", "f"},
    {"float64", dl_kDLFloat, 64, 'f', "d", "g"},
    {"complex64", dl_kDLComplex, 64, 'c', "Zf", ""},
    {"complex128", dl_kDLComplex, 128, 'c', "Zd", ""},
    {"bfloat16", dl_kDLBfloat, 16, 0, NULL, ""},
    {"complex32", dl_kDLComplex, 32, 0, NULL, ""},
    {"bcomplex32", dl_kDLBcomplex, 32, 0, NULL, ""},
    {"float8_e3m4", dl_kDLFloat8_e3m4, 8, 0, NULL, ""},
    {"float8_e4m3", dl_kDLFloat8_e4m3, 8, 0, NULL, ""},
    {"float8_e4m3b11fnuz", dl_kDLFloat8_e4m3b11fnuz, 8, 0, NULL, ""},
    {"float8_e4m3fn", dl_kDLFloat8_e4m3fn, 8, 0, NULL, ""},
    {"float8_e4m3fnuz", dl_kDLFloat8_e4m3fnuz, 8, 0, NULL, ""},
    {"float8_e5m2", dl_kDLFloat8_e5m2, 8, 0, NULL, ""},
    {"float8_e5m2fnuz", dl_kDLFloat8_e5m2fnuz, 8, 0, NULL, ""},
    {"float8_e8m0fnu", dl_kDLFloat8_e8m0fnu, 8, 0, NULL, ""},
    {"float6_e2m3fn", dl_kDLFloat6_e2m3fn, 6, 0, NULL, ""},
    {"float6_e3m2fn", dl_kDLFloat6_e3m2fn, 6, 0, NULL, ""},
    {"float4_e2m1fn", dl_kDLFloat4_e2m1fn, 4, 0, NULL, ""},
    {"int4", dl_kDLInt, 4, 0, NULL, ""},
    {"uint4", dl_kDLUInt, 4, 0, NULL, ""},
    {"int2", dl_kDLInt, 2, 0, NULL, ""},
    {"uint2", dl_kDLUInt, 2, 0, NULL, ""},
    {"int1", dl_kDLInt, 1, 0, NULL, ""},
    {"uint1", dl_kDLUInt, 1, 0, NULL, ""},
};

#define ROWS (sizeof dtype_table / sizeof dtype_table[0])

static dl_dtype
dtype_of(const dtype_row *row)
{
    return (dl_dtype){.code = row->code, .bits = row->bits, .lanes = 1};
}

/* The row of a dtype, lanes left aside; NULL when it has no name. */
static const dtype_row *
find_row(dl_dtype dtype)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (dtype_table[i].code == dtype.code && dtype_table[i].bits == dtype.bits) {
            return &dtype_table[i];
        }
    }
    return NULL;
}

int
dls_dtype_from_name(const char *name, dl_dtype *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(dtype_table[i].name, name) == 0) {
            *out = dtype_of(&dtype_table[i]);
            return 1;
        }
    }
    return 0;
}

/* Codes whose name is a word and a width, for widths that have no name of their own. */
static const char *const families[] = {
    [dl_kDLInt] = "int",       [dl_kDLUInt] = "uint",
    [dl_kDLFloat] = "float",   [dl_kDLOpaqueHandle] = "handle",
    [dl_kDLBfloat] = "bfloat", [dl_kDLComplex] = "complex",
    [dl_kDLBool] = "bool",     [dl_kDLBcomplex] = "bcomplex",
};

const char *
dls_dtype_name(dl_dtype dtype, char *text, size_t size)
{
    char lanes[8] = "";
    if (dtype.lanes != 1) {
        snprintf(lanes, sizeof lanes, "x%u", (unsigned)dtype.lanes);
    }
    const dtype_row *row = find_row(dtype);
    bool known = dtype.code < sizeof families / sizeof *families
                 && families[dtype.code] != NULL;
    if (row != NULL) {
        snprintf(text, size, "%s%s", row->name, lanes);
    }
    else if (known) {
        snprintf(text, size, "%s%u%s", families[dtype.code], (unsigned)dtype.bits,
                 lanes);
    }
    else {
        snprintf(text, size, "code %u, %u bits%s%s", (unsigned)dtype.code,
                 (unsigned)dtype.bits, lanes[0] != '\0' ? " " : "", lanes);
    }
    return text;
}

bool
dls_dtype_has_kind(dl_dtype dtype)
{
    const dtype_row *row = find_row(dtype);
    return row != NULL && row->kind != 0;
}

int
dls_dtype_from_kind(char kind, int64_t itemsize, dl_dtype *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        const dtype_row *row = &dtype_table[i];
        if (row->kind != 0 && row->kind == kind && row->bits / 8 == itemsize) {
            *out = dtype_of(row);
            return 1;
        }
    }
    return 0;
}

/* The meaning of each letter of a PEP 3118 format.  Only the sizes of real numbers are
 * the same everywhere; those of integers depend on the platform and on the writer of
 * the format.  One-byte letters must be one byte: ctypes says 'B' for unions and packed
 * structs of any size.  F and D are those of the struct module of Python 3.14. */
static const struct {
    char kind;     /* as in the array interface; 0: no number */
    char itemsize; /* the only one that it can have; 0: any */
} letters['z' + 1] = {
    ['?'] = {'b', 1}, ['b'] = {'i', 1}, ['B'] = {'u', 1},  ['c'] = {'u', 1},
    ['h'] = {'i', 0}, ['i'] = {'i', 0}, ['l'] = {'i', 0},  ['q'] = {'i', 0},
    ['n'] = {'i', 0}, ['H'] = {'u', 0}, ['I'] = {'u', 0},  ['L'] = {'u', 0},
    ['Q'] = {'u', 0}, ['N'] = {'u', 0}, ['e'] = {'f', 2},  ['f'] = {'f', 4},
    ['d'] = {'f', 8}, ['F'] = {'c', 8}, ['D'] = {'c', 16},
};

/* The kind of the array interface for an element of this format, whose byte order was
 * read already, and of `itemsize` bytes.  0: there is none.  Zf and Zd are pairs. */
static char
kind_of_format(const char *format, int64_t itemsize)
{
    bool is_pair = format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd');
    unsigned char letter = (unsigned char)format[is_pair];
    if (letter >= sizeof letters / sizeof *letters || letters[letter].kind == 0
        || format[1 + is_pair] != '\0') {
        return 0;
    }
    int only = letters[letter].itemsize * (is_pair ? 2 : 1);
    char kind = is_pair ? 'c' : letters[letter].kind;
    return only == 0 || only == itemsize ? kind : 0;
}

int
dls_dtype_from_format(const char *format, int64_t itemsize, dl_dtype *out,
                      bool *swapped)
{
    bool foreign = false;
    format = format != NULL ? format : "B";
    if (format[0] != '\0' && strchr("@=^<>!", format[0]) != NULL) {
        char order = format[0] == '!' ? '>' : format[0];
        foreign = (order == '<' || order == '>') && order != NATIVE_ORDER;
        format++;
    }
    char kind = kind_of_format(format, itemsize);
    bool found = dls_dtype_from_kind(kind, itemsize, out) > 0;
    *swapped = found && foreign && itemsize > 1;
    return found;
}

const char *
dls_dtype_arrow(dl_dtype dtype)
{
    const dtype_row *row = find_row(dtype);
    bool said = row != NULL && dtype.lanes == 1 && row->arrow[0] != '\0';
    return said ? row->arrow : NULL;
}

int
dls_dtype_from_arrow(const char *format, dl_dtype *out)
{
    bool letter = format[0] != '\0' && format[1] == '\0';
    for (size_t i = 0; letter && i < ROWS; i++) {
        if (dtype_table[i].arrow[0] == format[0]) {
            *out = dtype_of(&dtype_table[i]);
            return 1;
        }
    }
    return 0;
}

const char *
dls_dtype_format(dl_dtype dtype)
{
    const dtype_row *row = dtype.lanes == 1 ? find_row(dtype) : NULL;
    return row != NULL ? row->format : NULL;
}

int
dls_dtype_typestr(dl_dtype dtype, char *text)
{
    if (dtype.bits < 8 || dtype.bits % 8 != 0 || dtype.lanes == 0) {
        return 0;
    }
    const dtype_row *row = dtype.lanes == 1 ? find_row(dtype) : NULL;
    char kind = row != NULL && row->kind != 0 ? row->kind : 'V';
    int64_t itemsize = dls_dtype_bits(dtype) / 8;
    char order = itemsize > 1 ? NATIVE_ORDER : '|';
    snprintf(text, 16, "%c%c%d", order, kind, (int)itemsize);
    return 1;
}

int64_t
dls_dtype_itemsize(dl_dtype dtype, bool padded)
{
    if (padded && dtype.bits > 0 && dtype.bits < 8) {
        return dtype.lanes;
    }
    int64_t bits = dls_dtype_bits(dtype);
    return bits % 8 == 0 ? bits / 8 : 0;
}

/* --- devices -------------------------------------------------------------- */

static const struct {
    const char *word;
    int32_t device_type;
} words[] = {
    {"cpu", dl_kDLCPU},
    {"cuda", dl_kDLCUDA},
    {"cuda_host", dl_kDLCUDAHost},
    {"cuda_managed", dl_kDLCUDAManaged},
    {"rocm", dl_kDLROCM},
    {"rocm_host", dl_kDLROCMHost},
    {"oneapi", dl_kDLOneAPI},
    {"metal", dl_kDLMetal},
    {"opencl", dl_kDLOpenCL},
    {"vulkan", dl_kDLVulkan},
    {"webgpu", dl_kDLWebGPU},
    {"hexagon", dl_kDLHexagon},
    /* Names that Paddle, JAX and torch give to the same devices. */
    {"gpu", dl_kDLCUDA},
    {"xpu", dl_kDLOneAPI},
    {"mps", dl_kDLMetal},
};
#define WORDS (sizeof words / sizeof *words)

const char *
dls_device_name(dl_device device, char *text, size_t size)
{
    const char *word = NULL;
    for (size_t i = WORDS; i-- > 0;) {
        if (words[i].device_type == device.device_type) {
            word = words[i].word;
        }
    }
    if (device.device_type == dl_kDLCPU && device.device_id == 0) {
        return "cpu";
    }
    if (word != NULL) {
        snprintf(text, size, "%s:%d", word, (int)device.device_id);
    }
    else {
        snprintf(text, size, "(%d, %d)", (int)device.device_type,
                 (int)device.device_id);
    }
    return text;
}

int
dls_device_from_name(const char *name, dl_device *out)
{
    const char *colon = strchr(name, ':');
    size_t length = colon != NULL ? (size_t)(colon - name) : strlen(name);
    long long id = 0; /* a long may have 32 bits, and end at INT32_MAX */
    if (colon != NULL) {
        char *end;
        id = strtoll(colon + 1, &end, 10);
        if (end == colon + 1 || *end != '\0' || id < 0 || id > INT32_MAX) {
            return 0;
        }
    }
    for (size_t i = 0; i < WORDS; i++) {
        if (strlen(words[i].word) == length
            && memcmp(words[i].word, name, length) == 0) {
            *out = (dl_device){words[i].device_type, (int32_t)id};
            return 1;
        }
    }
    return 0;
}
