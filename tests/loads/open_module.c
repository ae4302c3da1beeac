/* Opens the extension module without a Python: every symbol must be resolved, and the
 * module must answer.  `open_module FILE`.  Built and run by tools/loads.py. */
#include <stdio.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

typedef void *(*init_function)(void);

static init_function
find_init(const char *file)
{
#ifdef _WIN32
    HMODULE module = LoadLibraryA(file);
    if (module == NULL) {
        fprintf(stderr, "%s: error %lu\n", file, GetLastError());
        return NULL;
    }
    return (init_function)(void *)GetProcAddress(module, "PyInit__core");
#else
    void *module = dlopen(file, RTLD_NOW);
    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    return (init_function)dlsym(module, "PyInit__core");
#endif
}

int
main(int count, char **names)
{
    init_function init = count == 2 ? find_init(names[1]) : NULL;
    if (init == NULL || init() == NULL) {
        fprintf(stderr, "the module does not answer\n");
        return 1;
    }
    printf("answers\n");
    return 0;
}
