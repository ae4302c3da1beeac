/* Names of errors, and cuGetProcAddress with its versions. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(int error)
{
    switch (error) {
    case OK:
        return "CUDA_SUCCESS";
    case INVALID_VALUE:
        return "CUDA_ERROR_INVALID_VALUE";
    case OUT_OF_MEMORY:
        return "CUDA_ERROR_OUT_OF_MEMORY";
    case NOT_INITIALIZED:
        return "CUDA_ERROR_NOT_INITIALIZED";
    case 4:
        return "CUDA_ERROR_DEINITIALIZED";
    case STUB_LIBRARY:
        return "CUDA_ERROR_STUB_LIBRARY";
    case NO_DEVICE:
        return "CUDA_ERROR_NO_DEVICE";
    case INVALID_DEVICE:
        return "CUDA_ERROR_INVALID_DEVICE";
    case INVALID_CONTEXT:
        return "CUDA_ERROR_INVALID_CONTEXT";
    case INVALID_HANDLE:
        return "CUDA_ERROR_INVALID_HANDLE";
    case NOT_FOUND:
        return "CUDA_ERROR_NOT_FOUND";
    case NOT_READY:
        return "CUDA_ERROR_NOT_READY";
    case 700:
        return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case CONTEXT_IS_DESTROYED:
        return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    case 719:
        return "CUDA_ERROR_LAUNCH_FAILED";
    case 800:
        return "CUDA_ERROR_NOT_PERMITTED";
    case NOT_SUPPORTED:
        return "CUDA_ERROR_NOT_SUPPORTED";
    case 900:
        return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case 901:
        return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case 902:
        return "CUDA_ERROR_STREAM_CAPTURE_MERGE";
    case 903:
        return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    case 904:
        return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case 905:
        return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    case 906:
        return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case 907:
        return "CUDA_ERROR_CAPTURED_EVENT";
    case 908:
        return "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    default:
        return NULL;
    }
}

FM_EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    ENTER(EARLY, "error=%d", (int)error);
    *name = name_of((int)error);
    LEAVE(*name ? OK : INVALID_VALUE);
}

FM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    ENTER(EARLY, "error=%d", (int)error);
    *text = name_of((int)error) ? "an error of the fake driver" : NULL;
    LEAVE(*text ? OK : INVALID_VALUE);
}

#if FAKE_VERSION >= 11030

/* Under one name, other functions from some version on. */
static const struct {
    const char *name;
    int since;
    const char *suffix;
} renamed[] = {
    {"cuDeviceTotalMem", 3020, "_v2"},
    {"cuDevicePrimaryCtxRelease", 11000, "_v2"},
    {"cuDeviceGetUuid", 11040, "_v2"},
    {"cuCtxCreate", 3020, "_v2"},
    {"cuCtxDestroy", 4000, "_v2"},
    {"cuCtxPushCurrent", 4000, "_v2"},
    {"cuCtxPopCurrent", 4000, "_v2"},
    {"cuCtxSynchronize", 13000, "_v2"},
    {"cuCtxGetDevice", 13000, "_v2"},
    {"cuStreamDestroy", 4000, "_v2"},
    {"cuStreamGetCtx", 12050, "_v2"},
    {"cuStreamBeginCapture", 10010, "_v2"},
    {"cuStreamGetCaptureInfo", 11030, "_v2"},
    {"cuStreamGetCaptureInfo", 12030, "_v3"},
    {"cuStreamWaitValue32", 11070, "_v2"},
    {"cuEventDestroy", 4000, "_v2"},
    {"cuMemAlloc", 3020, "_v2"},
    {"cuMemFree", 3020, "_v2"},
    {"cuMemAllocHost", 3020, "_v2"},
    {"cuMemGetInfo", 3020, "_v2"},
    {"cuMemGetAddressRange", 3020, "_v2"},
    {"cuMemHostGetDevicePointer", 3020, "_v2"},
    {"cuMemcpyDtoH", 3020, "_v2"},
    {"cuMemcpyHtoD", 3020, "_v2"},
    {"cuMemcpyDtoD", 3020, "_v2"},
    {"cuMemcpyDtoHAsync", 3020, "_v2"},
    {"cuMemcpyHtoDAsync", 3020, "_v2"},
    {"cuMemcpyDtoDAsync", 3020, "_v2"},
    {"cuMemcpy2D", 3020, "_v2"},
    {"cuMemcpy2DAsync", 3020, "_v2"},
    {"cuMemcpy3DAsync", 3020, "_v2"},
    {"cuMemsetD8", 3020, "_v2"},
    {"cuMemsetD32", 3020, "_v2"},
    {"cuGetProcAddress", 12000, "_v2"},
};

static void *own(const char *symbol)
{
    static void *self;
    Dl_info info;
    if (!self && dladdr(&renamed, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return self ? dlsym(self, symbol) : NULL;
}

static bool has_suffix(const char *name)
{
    size_t length = strlen(name);
    return (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v') ||
           (length > 5 && strcmp(name + length - 5, "_ptsz") == 0);
}

static void *find(const char *name, int version, bool per_thread)
{
    if (strncmp(name, "cu", 2) != 0 || has_suffix(name))
        return NULL;
    const char *suffix = "";
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(name, renamed[i].name) == 0 && renamed[i].since <= version &&
            renamed[i].since <= FAKE_VERSION)
            suffix = renamed[i].suffix;
    char symbol[128];
    void *found = NULL;
    if (per_thread) {
        snprintf(symbol, sizeof symbol, "%s%s_ptsz", name, suffix);
        found = own(symbol);
    }
    snprintf(symbol, sizeof symbol, "%s%s", name, suffix);
    found = found ? found : own(symbol);
    if (!found && getenv("FAKE_TRACE"))
        fprintf(stderr, "fake driver: asked for %s %d, which is not there\n", name, version);
    return found;
}

FM_EXPORT CUresult cuGetProcAddress(const char *name, void **to, int version, cuuint64_t flags)
{
    ENTER(EARLY | QUIET, "%s", name);
    *to = find(name, version, flags & 2);
    LEAVE(*to ? OK : NOT_FOUND);
}

#if FAKE_VERSION >= 12000
FM_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **to, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    ENTER(EARLY | QUIET, "%s", name);
    *to = find(name, version, flags & 2);
    if (status)
        *status = (CUdriverProcAddressQueryResult)(*to ? 0 : 1);
    LEAVE(OK);
}
#endif

#endif
