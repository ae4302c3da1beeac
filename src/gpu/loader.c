#if !defined(_WIN32)
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif

#include "gpu/loader.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "core/lock.h"

const char *
dls_loader_fill(void *library, const char *names, int count, int required, void *table)
{
    const char *missing = NULL;
    for (int i = 0; i < count; i++) {
        void *address = dls_loader_symbol(library, names);
        /* memcpy: C has no conversion from an object's address to a function's. */
        memcpy((char *)table + (size_t)i * sizeof address, &address, sizeof address);
        if (address == NULL && missing == NULL && i < required) {
            missing = names;
        }
        names += strlen(names) + 1;
    }
    return missing;
}

#if defined(_WIN32)

#include <windows.h>

void *
dls_loader_mapped(const char *const *names)
{
    void *library = NULL;
    for (; library == NULL && *names != NULL; names++) {
        library = (void *)GetModuleHandleA(*names);
    }
    return library;
}

void *
dls_loader_open(const char *const *names)
{
    void *library = dls_loader_mapped(names);
    for (; library == NULL && *names != NULL; names++) {
        library = (void *)LoadLibraryExA(*names, NULL,
                                         LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    }
    return library;
}

/* Windows: names carry the major version, and nothing lists them by prefix. */
int
dls_loader_all_mapped(const char *prefix, void **libraries, int room)
{
    static const char *const endings[] = {"_7.dll", "_6.dll", ".dll"};
    char name[64];
    int found = 0;
    for (size_t i = 0; i < 3 && found < room && strlen(prefix) < sizeof name - 8; i++) {
        strcpy(name, prefix);
        strcat(name, endings[i]);
        libraries[found] = (void *)GetModuleHandleA(name);
        found += libraries[found] != NULL;
    }
    return found;
}

unsigned long long
dls_loader_generation(void)
{
    return 0;
}

void *
dls_loader_symbol(void *library, const char *name)
{
    return (void *)GetProcAddress((HMODULE)library, name);
}

void
dls_loader_watch_forks(void)
{
}

void
dls_loader_note_driver(void)
{
}

bool
dls_loader_is_child(void)
{
    return false;
}

#else

#include <dlfcn.h>
#include <pthread.h>
#if defined(__linux__)
#include <link.h>
#endif

void *
dls_loader_mapped(const char *const *names)
{
    void *library = NULL;
    for (; library == NULL && *names != NULL; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    return library;
}

void *
dls_loader_open(const char *const *names)
{
    void *library = dls_loader_mapped(names);
    for (; library == NULL && *names != NULL; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

#if defined(__linux__)

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
note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    search *s = data;
    const char *path = info->dlpi_name, *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (s->found < NAMES_MAX && strlen(path) < NAME_ROOM
        && strncmp(name, s->prefix, strlen(s->prefix)) == 0) {
        strcpy(s->names[s->found++], path);
    }
    return 0;
}

static int
note_generation(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
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

int
dls_loader_all_mapped(const char *prefix, void **libraries, int room)
{
    search s = {.prefix = prefix};
    int found = 0;
    dl_iterate_phdr(note_library, &s);
    for (int i = 0; i < s.found && found < room; i++) {
        libraries[found] = dlopen(s.names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        found += libraries[found] != NULL;
    }
    return found;
}

#else

int
dls_loader_all_mapped(const char *prefix, void **libraries, int room)
{
    (void)prefix;
    (void)libraries;
    (void)room;
    return 0; /* no such runtime on this system */
}

unsigned long long
dls_loader_generation(void)
{
    return 0;
}

#endif

void *
dls_loader_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

static atomic_bool watching;
static atomic_bool uses_driver;
static atomic_bool is_child;

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
    if (!atomic_exchange(&watching, true)) {
        pthread_atfork(dls_lock_take_all, dls_lock_give_all, in_child);
    }
}

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

#endif
