/* Texts: names of dtypes and devices, PEP 3118 formats, kinds and type strings.  The
 * text is a block of exactly its size, and what is read is written out and read again.
 */
#include "input.h"

#include "core/dtype.h"

static bool
same(dl_dtype a, dl_dtype b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* A dtype that is known, in every spelling that it has. */
static void
check_spellings(dl_dtype dtype)
{
    char text[48], small[6], typestr[16];
    dl_dtype back;
    bool swapped;
    INSIST(dls_dtype_name(dtype, text, sizeof text) == text);
    INSIST(strlen(text) > 0 && strlen(text) < sizeof text - 1);
    dls_dtype_name(dtype, small, sizeof small);
    INSIST(strncmp(small, text, sizeof small - 1) == 0);
    if (dls_dtype_from_name(text, &back)) {
        INSIST(same(back, dtype));
    }
    int64_t bytes = dls_dtype_bits(dtype) / 8;
    const char *format = dls_dtype_format(dtype);
    if (format != NULL) {
        INSIST(dls_dtype_from_format(format, bytes, &back, &swapped));
        INSIST(same(back, dtype) && !swapped);
    }
    if (dls_dtype_typestr(dtype, typestr)) {
        int64_t said = strtol(typestr + 2, NULL, 10);
        INSIST(strlen(typestr) < sizeof typestr && said == bytes);
        INSIST(typestr[0] == (bytes > 1 ? '<' : '|'));
        if (typestr[1] != 'V') {
            INSIST(dls_dtype_from_kind(typestr[1], bytes, &back) && same(back, dtype));
        }
    }
    else {
        INSIST(dtype.bits % 8 != 0 || dtype.bits == 0 || dtype.lanes == 0);
    }
    int64_t plain = dls_dtype_itemsize(dtype, false);
    INSIST(plain * 8 == dls_dtype_bits(dtype) || plain == 0);
}

static void
check_format(const char *text, int64_t itemsize)
{
    dl_dtype dtype = {9, 9, 9};
    bool swapped = false;
    int found = dls_dtype_from_format(text, itemsize, &dtype, &swapped);
    INSIST(found == 0 || found == 1);
    if (found) {
        INSIST(itemsize == dls_dtype_bits(dtype) / 8 && dtype.lanes == 1);
        check_spellings(dtype);
    }
    if (found && swapped) { /* it is the same in the machine's order */
        dl_dtype native;
        INSIST(dls_dtype_from_format(text + 1, itemsize, &native, &swapped) && !swapped);
        INSIST(same(native, dtype));
    }
}

static void
check_device(const char *text)
{
    dl_device device;
    if (dls_device_from_name(text, &device)) {
        INSIST(device.device_id >= 0 && device.device_type > 0);
        char back[64];
        const char *colon = strchr(text, ':');
        size_t word = colon != NULL ? (size_t)(colon - text) : strlen(text);
        INSIST(word < sizeof back - 16);
        snprintf(back, sizeof back, "%.*s:%d", (int)word, text, device.device_id);
        dl_device again;
        INSIST(dls_device_from_name(back, &again));
        INSIST(again.device_type == device.device_type);
        INSIST(again.device_id == device.device_id);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    dl_dtype any;
    any.code = take_byte(&in);
    any.bits = take_byte(&in);
    any.lanes = (uint16_t)take_raw(&in, 2);
    int64_t itemsize = take_int64(&in);
    char kind = (char)take_byte(&in);
    check_spellings(any);
    if (dls_dtype_from_kind(kind, itemsize, &any)) {
        INSIST(itemsize == dls_dtype_bits(any) / 8);
        check_spellings(any);
    }
    char *text = malloc(in.left + 1);
    INSIST(text != NULL);
    memcpy(text, in.at, in.left);
    text[in.left] = '\0';
    if (dls_dtype_from_name(text, &any)) {
        char name[48];
        INSIST(strcmp(dls_dtype_name(any, name, sizeof name), text) == 0);
        check_spellings(any);
    }
    check_format(text, itemsize);
    check_format(NULL, itemsize);
    check_device(text);
    free(text);
    return 0;
}
