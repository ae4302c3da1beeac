/* Finds shared libraries at run time and functions in them, and knows whether this
 * process was forked.  Libraries are never linked and never closed (S16).  No function
 * needs the GIL.
 */
#pragma once

#include <stdbool.h>

/* The library of the first of `names` (as for dls_loader_fill) that this process has
 * mapped already, as a rule because an array's own library did.  If there is none and
 * only_mapped is false, the first that opens.  NULL: none of them. */
void *dls_loader_find(const char *names, bool only_mapped);

/* Fill `libraries` with the mapped ones whose file name begins with `prefix`, `room` at
 * most.  Returns their number; -1: no memory to look.  Frameworks bring copies of their
 * own, under names of their own. */
int dls_loader_all_mapped(const char *prefix, void **libraries, int room);

/* Changes whenever a library was mapped; always 0 where the system does not tell. */
unsigned long long dls_loader_generation(void);

/* Called before any lock of dlshim is taken.  From then on a fork waits until no thread
 * holds one of them, and the child calls `forked` before all else. */
void dls_loader_watch_forks(void (*forked)(void));

/* Say that a driver is about to be used.  From then on dls_loader_is_child says whether
 * this process was forked since; drivers must not be used in such a child (S23). */
void dls_loader_note_driver(void);
bool dls_loader_is_child(void);

/* What stands before the name of a function that must be there, or may be missing. */
#define DLS_LOADER_MUST ""
#define DLS_LOADER_MAY "?"

/* Fill the function pointers at `table` with the symbols of `names`: texts one behind
 * the other, each with its 0 and the last with two.  Returns NULL, or the first name
 * that must be there and is not. */
const char *dls_loader_fill(void *library, const char *names, void *table);
