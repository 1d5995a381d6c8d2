/* replay.c: give every file of a corpus to a fuzz target, and each of its beginnings: what was once found
 * stays mended, with any compiler. `fuzz_wire` reads tests/fuzz/corpus/wire. Results as TAP. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_BYTES 65536

static int replay_file(const char *folder, const char *name)
{
    static unsigned char bytes[INPUT_BYTES];
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    size_t length = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (size_t part = 0; part <= length; part++) {
        /* memory of exactly this size, so that a sanitizer sees a read past its end */
        unsigned char *copy = malloc(part + 1);
        if (copy == NULL)
            return -1;
        memcpy(copy + 1, bytes, part);
        LLVMFuzzerTestOneInput(copy + 1, part);
        free(copy);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *source = getenv("HVD_SOURCE");
    const char *target = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    char folder[2048];
    int count = 0;
    if (strncmp(target, "lt-", 3) == 0)
        target += 3;
    snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/%s", source != NULL ? source : ".",
             strncmp(target, "fuzz_", 5) == 0 ? target + 5 : target);
    DIR *corpus = opendir(argc > 1 ? argv[1] : folder);
    if (corpus == NULL) {
        printf("1..1\nnot ok 1 - cannot open %s: %s\n", folder, strerror(errno));
        return 1;
    }
    for (struct dirent *entry = readdir(corpus); entry != NULL; entry = readdir(corpus)) {
        if (entry->d_name[0] == '.')
            continue;
        printf("%sok %d - %s\n", replay_file(argc > 1 ? argv[1] : folder, entry->d_name) == 0 ? "" : "not ",
               ++count, entry->d_name);
    }
    closedir(corpus);
    printf("1..%d\n", count);
    return count > 0 ? 0 : 1;
}
