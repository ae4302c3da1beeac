#if !defined(_WIN32)
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif

#include "device/loader.h"

#include <stdatomic.h>
#include <stddef.h>

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
        library = (void *)LoadLibraryExA(*names, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    }
    return library;
}

void *
dls_loader_symbol(void *library, const char *name)
{
    return (void *)GetProcAddress((HMODULE)library, name);
}

void
dls_loader_watch_fork(void)
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

void *
dls_loader_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

static atomic_bool watching;
static atomic_bool is_child;

static void
on_fork(void)
{
    atomic_store_explicit(&is_child, true, memory_order_relaxed);
}

void
dls_loader_watch_fork(void)
{
    if (!atomic_exchange(&watching, true)) {
        pthread_atfork(NULL, NULL, on_fork);
    }
}

bool
dls_loader_is_child(void)
{
    return atomic_load_explicit(&is_child, memory_order_relaxed);
}

#endif
