/* The names of devices that users may write.  Pure functions.  Tests:
 * tests/core/test_devices.py. */
#include "core/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    char word[16];
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
    /* Other names that libraries give them: Paddle and JAX, torch. */
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
