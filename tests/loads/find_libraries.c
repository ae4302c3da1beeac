/* The loader (src/gpu/driver.c) on a library that was made for this program:
 * `find_libraries LIBRARY`.  Built and run by tools/loads.py. */
#include "gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As other programs name it.  musl knows a library that was opened by its path by that
 * path alone. */
#if defined(_WIN32)
#define NAME "amdhip64_7.dll"
#elif defined(__GLIBC__)
#define NAME "libamdhip64.so.7"
#else
#define NAME path
#endif

#define INSIST(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "line %d: broken: %s\n", __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static const dls_loader_symbol symbols[] = {
    {"hipInit", 0, DLS_LOADER_MUST},
    {"hipAbsent", sizeof(void *), DLS_LOADER_MAY},
};
static const dls_loader_symbol absent = {"hipAbsent", 0, DLS_LOADER_MUST};

/* The library of one name. */
static void *
find(const char *name, bool only_mapped)
{
    const char *const names[] = {name, NULL};
    return dls_loader_find(names, only_mapped);
}

static void
do_nothing(void)
{
}

int
main(int count, char **names)
{
    INSIST(count == 2);
    void *libraries[8], *table[2] = {NULL, NULL};
    const char *path = names[1];
    dls_loader_watch_forks(do_nothing);
    INSIST(!dls_loader_is_child());
    /* Nothing is mapped yet, and asking does not map it. */
    INSIST(find(path, true) == NULL);
    INSIST(dls_loader_all_mapped("libamdhip64", libraries, 8) == 0);
    void *library = find(path, false);
    INSIST(library != NULL);
    INSIST(find(NAME, true) == library);
    INSIST(dls_loader_all_mapped("libamdhip64", libraries, 8) == 1);
    INSIST(libraries[0] == library);
    /* A function, one that may be missing, one that must be there. */
    INSIST(dls_loader_fill(library, symbols, 2, table) == NULL);
    INSIST(table[0] != NULL && table[1] == NULL);
    const char *missing = dls_loader_fill(library, &absent, 1, table);
    INSIST(missing != NULL && strcmp(missing, "hipAbsent") == 0);
    INSIST(find("no-such-library", false) == NULL);
    printf("finds\n");
    return 0;
}
