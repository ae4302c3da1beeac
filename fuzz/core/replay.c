/* Runs a target on files without a fuzzer: `replay FILE...`.  Compiled with any C
 * compiler (tests/fuzz/test_core.py).  Prints how many files it has run. */
#include "input.h"

static void
run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        exit(2);
    }
    static uint8_t block[1 << 16];
    size_t size = fread(block, 1, sizeof block, file);
    fclose(file);
    /* A block of the exact size: a read past its end is then seen. */
    uint8_t *exact = malloc(size != 0 ? size : 1);
    INSIST(exact != NULL);
    memcpy(exact, block, size);
    INSIST(LLVMFuzzerTestOneInput(exact, size) == 0);
    free(exact);
}

int
main(int count, char **names)
{
    for (int i = 1; i < count; i++) {
        run_file(names[i]);
    }
    printf("%d inputs\n", count - 1);
    return 0;
}
