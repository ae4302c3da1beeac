/* Shared libraries found at run time; never linked, never closed. */
#ifndef DLS_DEVICE_LOADER_H
#define DLS_DEVICE_LOADER_H

#include <stdbool.h>

/* The library of the first of `names` (NULL-terminated) that this process has mapped
 * already, by an array's own library as a rule; NULL: none. */
void *dls_loader_mapped(const char *const *names);

/* The same, else the first that opens.  NULL: none. */
void *dls_loader_open(const char *const *names);

/* All mapped libraries whose file name begins with `prefix`, up to `room` of them;
 * their number.  Frameworks bring copies of their own, under names of their own. */
int dls_loader_all_mapped(const char *prefix, void **libraries, int room);

/* Changes whenever a library was mapped; always 0 where the system does not tell. */
unsigned long long dls_loader_generation(void);

/* Address of an exact symbol, NULL when the library has none. */
void *dls_loader_symbol(void *library, const char *name);

/* Once, before any lock is taken: a fork waits until no thread holds one of ours. */
void dls_loader_watch_forks(void);

/* A driver is about to be used: from now on dls_loader_is_child says whether this
 * process was forked since.  Drivers must not be used in a child (reference
 * streams.md 1.8). */
void dls_loader_note_driver(void);
bool dls_loader_is_child(void);

/* Fill `count` pointers at `table` with the symbols of `names` (texts one behind the
 * other, each with its 0).  NULL, or the first name below `required` that the library
 * lacks. */
const char *dls_loader_fill(void *library, const char *names, int count, int required,
                            void *table);

#endif
