/* Libraries that are found at run time, and forks of this process; the calls that CUDA
 * and HIP have in common, and the errors of both.  Called by sync_run, device_copy and
 * the two drivers, without the GIL, and for forks by module.c at imports.  Writes two
 * flags, atomically.  Tests: tests/device/test_loading.py,
 * tests/device/test_hip_runtimes.py, tests/device/test_fake_driver.py,
 * tests/device/test_fake_hip.py, tests/device/test_fake_capture.py,
 * tests/device/test_failures.py. */
#if !defined(_WIN32)
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif

#include "gpu/driver.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/lock.h"
#include "gpu/sync_rules.h"

/* --- forks (S23) ---------------------------------------------------------- */

static atomic_bool uses_driver;
static atomic_bool is_child;

void
dls_loader_note_driver(void)
{
    atomic_store_explicit(&uses_driver, true, memory_order_relaxed);
}

bool
dls_loader_is_child(void)
{
    return atomic_load_explicit(&is_child, memory_order_relaxed);
}

/* --- the system ----------------------------------------------------------- */

#if defined(_WIN32)

#include <windows.h>

static void *
open_library(const char *name, bool only_mapped)
{
    HMODULE library = NULL;
    if (only_mapped) {
        /* Unlike GetModuleHandle it shares the library, as dlopen does (S16). */
        GetModuleHandleExA(0, name, &library);
        return library;
    }
    return LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

static void *
find_symbol(void *library, const char *name)
{
    return (void *)GetProcAddress((HMODULE)library, name);
}

/* Try the names one by one, because Windows has no list of libraries by prefix.  The
 * names have the major version, and do not begin with "lib". */
int
dls_loader_all_mapped(const char *prefix, void **libraries, int room)
{
    static const char *const endings[] = {"_7.dll", "_6.dll", ".dll"};
    char name[64];
    int found = 0;
    prefix += strncmp(prefix, "lib", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < 3 && found < room && strlen(prefix) < sizeof name - 8; i++) {
        strcpy(name, prefix);
        strcat(name, endings[i]);
        libraries[found] = open_library(name, true);
        found += libraries[found] != NULL;
    }
    return found;
}

void
dls_loader_watch_forks(void)
{
    /* there are no forks */
}

#else

#include <dlfcn.h>
#include <pthread.h>

static void *
open_library(const char *name, bool only_mapped)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | (only_mapped ? RTLD_NOLOAD : 0));
}

static void *
find_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

static void
in_child(void)
{
    dls_lock_give_all();
    if (atomic_load_explicit(&uses_driver, memory_order_relaxed)) {
        atomic_store_explicit(&is_child, true, memory_order_relaxed);
    }
}

void
dls_loader_watch_forks(void)
{
    static atomic_bool watching;
    if (!atomic_exchange(&watching, true)) {
        pthread_atfork(dls_lock_take_all, dls_lock_give_all, in_child);
    }
}

#endif

#if defined(__linux__)

#include <link.h>

/* Names are noted first and opened later: dlopen inside the walk could wait for a
 * thread that waits for the walk's lock. */
#define NAMES_MAX 8
#define NAME_ROOM 1024

typedef struct {
    const char *prefix;
    int found;
    char names[NAMES_MAX][NAME_ROOM];
} search;

static int
note_library(struct dl_phdr_info *info, size_t DLS_UNUSED(size), void *data)
{
    search *s = data;
    const char *path = info->dlpi_name, *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t size = strlen(path) + 1;
    if (s->found < NAMES_MAX && size <= NAME_ROOM
        && strncmp(name, s->prefix, strlen(s->prefix)) == 0) {
        memcpy(s->names[s->found++], path, size);
    }
    return 0;
}

int
dls_loader_all_mapped(const char *prefix, void **libraries, int room)
{
    search *s = dls_alloc(sizeof *s);
    if (s == NULL) {
        return -1;
    }
    s->prefix = prefix;
    s->found = 0;
    dl_iterate_phdr(note_library, s);
    int found = 0;
    for (int i = 0; i < s->found && found < room; i++) {
        libraries[found] = open_library(s->names[i], true);
        found += libraries[found] != NULL;
    }
    dls_free(s);
    return found;
}

static int
note_generation(struct dl_phdr_info *info, size_t DLS_UNUSED(size), void *data)
{
    *(unsigned long long *)data = info->dlpi_adds;
    return 1; /* the same for all */
}

unsigned long long
dls_loader_generation(void)
{
    unsigned long long generation = 0;
    dl_iterate_phdr(note_generation, &generation);
    return generation;
}

#else

unsigned long long
dls_loader_generation(void)
{
    return 0;
}

#if !defined(_WIN32)
/* HIP exists on Linux and Windows only. */
int
dls_loader_all_mapped(const char *DLS_UNUSED(prefix), void **DLS_UNUSED(libraries),
                      int DLS_UNUSED(room))
{
    return 0;
}
#endif

#endif

/* --- libraries by their names --------------------------------------------- */

void *
dls_loader_find(const char *const *names, bool only_mapped)
{
    void *library = NULL;
    for (int mapped = 1; library == NULL && mapped >= only_mapped; mapped--) {
        for (size_t i = 0; library == NULL && names[i] != NULL; i++) {
            library = open_library(names[i], mapped);
        }
    }
    return library;
}

const char *
dls_loader_fill(void *library, const dls_loader_symbol *symbols, size_t count,
                void *table)
{
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        const dls_loader_symbol *symbol = &symbols[i];
        void *address = find_symbol(library, symbol->name);
        /* memcpy: C has no conversion from an object's address to a function's. */
        memcpy((char *)table + symbol->at, &address, sizeof address);
        if (address == NULL && missing == NULL && symbol->need == DLS_LOADER_MUST) {
            missing = symbol->name;
        }
    }
    return missing;
}

/* --- captures (S14) ------------------------------------------------------- */

int
dls_gpu_set_capture_mode(const dls_gpu_calls *api, int mode)
{
    if (api->exchange_capture_mode != NULL) {
        api->exchange_capture_mode(&mode);
    }
    return mode;
}

/* Clear the thread's last error if a question of dlshim has set it: it is not the
 * program's. */
static int
heard(const dls_place *place, int result)
{
    if (result != GPU_OK && place->driver->forget_error != NULL) {
        place->driver->forget_error(place->api);
    }
    return result;
}

/* L answers 906 while a stream that waits for it captures, without harm to the
 * capture. */
bool
dls_gpu_captures(const dls_place *place, uint64_t stream)
{
    int status = 0;
    if (place->api->stream_is_capturing == NULL) {
        return false;
    }
    int result = heard(
        place, place->api->stream_is_capturing(dls_gpu_stream(stream), &status));
    /* mutant: capture */
    return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);
}

static bool
find_capture(const dls_place *place, uint64_t stream, unsigned long long *id)
{
    int status;
    return place->api->stream_capture_info != NULL
           && heard(place, place->api->stream_capture_info(dls_gpu_stream(stream),
                                                           &status, id))
                  == GPU_OK;
}

bool
dls_gpu_one_capture(const dls_place *place, uint64_t a, uint64_t b)
{
    unsigned long long of_a = 0, of_b = 0;
    /* mutant: same capture */
    return find_capture(place, a, &of_a) && find_capture(place, b, &of_b)
           && of_a == of_b;
}

bool
dls_gpu_is_capture_error(int result)
{
    return result >= GPU_CAPTURE_FIRST && result <= GPU_CAPTURE_LAST;
}

/* --- events and streams --------------------------------------------------- */

int
dls_gpu_event_new(const dls_place *place, void **event)
{
    *event = NULL;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = place->api->event_create(event, GPU_DISABLE_TIMING);
    dls_gpu_set_capture_mode(place->api, mode);
    return result;
}

void
dls_gpu_event_end(const dls_place *place, void *event)
{
    heard(place, place->api->event_destroy(event));
}

int
dls_gpu_stream_new(const dls_place *place, uint64_t *stream)
{
    void *made = NULL;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    /* mutant: stream of copies */
    int result = place->api->stream_create(&made, GPU_NON_BLOCKING);
    dls_gpu_set_capture_mode(place->api, mode);
    *stream = (uint64_t)(uintptr_t)made;
    return result;
}

/* --- errors (S24) --------------------------------------------------------- */

/* The meaning of a code for one vendor only; DLS_OK: it has none. */
static int
fail_of_vendor(const dls_place *place, int result, const char *call, const char *name,
               int device_id, dls_error *err)
{
    bool cuda = !place->driver->is_hip;
    if (cuda && result == GPU_INVALID_CONTEXT) {
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: %s: device %d has no live context (%s, %d)\n"
                        "  use the data's library in this process first",
                        call, device_id, name, result);
    }
    if (!cuda && (result == GPU_NO_DEVICE || result == GPU_INVALID_DEVICE)) {
        return dls_fail(err, DLS_ENODRIVER,
                        "ROCm: the runtime finds no device %d (%s, %d)", device_id,
                        name, result);
    }
    if (!cuda && result == GPU_CONTEXT_DESTROYED) {
        return dls_fail(err, DLS_ERUNTIME,
                        "ROCm: %s failed: %s (%d)\n"
                        "  look for a second HIP runtime in this process",
                        call, name, result);
    }
    return DLS_OK;
}

int
dls_gpu_check(const dls_place *place, int result, dls_call call, int device_id,
              dls_error *err)
{
    static const char *const calls[][2] = {
#define CALL(name, cuda, hip) {cuda, hip},
        DLS_GPU_FAILURE_LIST(CALL)
#undef CALL
    };
    /* mutant: error of the driver */
    if (result == GPU_OK) {
        return DLS_OK;
    }
    const char *vendor = place->driver->name;
    const char *what = calls[call][place->driver->is_hip];
    const char *name = place->driver->error_name(place->api, result);
    name = name != NULL ? name : "unknown error";
    int code = fail_of_vendor(place, result, what, name, device_id, err);
    if (code != DLS_OK) {
        return code;
    }
    if (dls_gpu_is_capture_error(result)) {
        return dls_fail(err, DLS_ECAPTURE, "%s: %s (%s, %d): " DLS_CAPTURE_REFUSAL,
                        vendor, what, name, result);
    }
    if (result == GPU_INVALID_HANDLE) {
        return dls_fail(
            err, DLS_EBUFFER,
            "%s: %s: the %s belongs to another device or was destroyed (%s, %d)",
            vendor, what, call == DLS_CALL_SYNC_EVENT ? "event" : "stream", name,
            result);
    }
    /* Lasting errors of the program itself (700 ...) must not pass for a refusal. */
    return dls_fail(err, DLS_ERUNTIME, "%s: %s failed: %s (%d)", vendor, what, name,
                    result);
}
