/* plain_tensor.c: allreduces of tensors that can be recognised on a network; the argument "print" prints the
 * bytes of one element in hexadecimal. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <hvd.h>

#define ELEMENTS 400000
#define PATTERN  INT64_C(0x5eedf00dcafe1234)

int main(int argc, char **argv)
{
    static int64_t elements[ELEMENTS];
    const int64_t pattern = PATTERN;
    unsigned char bytes[sizeof(pattern)];
    if (argc > 1 && strcmp(argv[1], "print") == 0) {
        memcpy(bytes, &pattern, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
            printf("%02x", bytes[i]);
        putchar('\n');
        return 0;
    }
    if (hvd_init() != HVD_OK) {
        fprintf(stderr, "%s\n", hvd_error_text());
        return 1;
    }
    for (int i = 0; i < ELEMENTS; i++)
        elements[i] = PATTERN;
    struct hvd_tensor tensor = hvd_vector("pattern", elements, ELEMENTS, HVD_INT64);
    if (hvd_allreduce(&tensor, HVD_MAX, NULL) != HVD_OK || elements[ELEMENTS - 1] != PATTERN) {
        fprintf(stderr, "%s\n", hvd_error_text());
        return 1;
    }
    return hvd_shutdown() == HVD_OK ? 0 : 1;
}
