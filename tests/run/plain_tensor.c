/* plain_tensor.c: allreduces of a tensor that can be recognised on a network.
 *   print        print the bytes of one element in hexadecimal, and do nothing else
 *   until FILE   go on until FILE exists, and print "runs" at first
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hvd.h>

#define ELEMENTS 400000
#define PATTERN  INT64_C(0x5eedf00dcafe1234)

static int print_element(void)
{
    const int64_t pattern = PATTERN;
    unsigned char bytes[sizeof(pattern)];
    memcpy(bytes, &pattern, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        printf("%02x", bytes[i]);
    putchar('\n');
    return EXIT_SUCCESS;
}

/* Ends the process if it failed. */
static void check(enum hvd_status status)
{
    if (status == HVD_OK)
        return;
    fprintf(stderr, "%s\n", hvd_error_text());
    exit(EXIT_FAILURE);
}

static void reduce_elements(void)
{
    static int64_t elements[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        elements[i] = PATTERN;
    struct hvd_tensor tensor = hvd_vector("pattern", elements, ELEMENTS, HVD_INT64);
    check(hvd_allreduce(&tensor, HVD_MAX, NULL));
    if (elements[0] == PATTERN && elements[ELEMENTS - 1] == PATTERN)
        return;
    fputs("the result is wrong\n", stderr);
    exit(EXIT_FAILURE);
}

/* Has any rank seen the file? */
static bool file_exists(const char *file)
{
    int32_t seen = access(file, F_OK) == 0;
    struct hvd_tensor tensor = hvd_vector("seen", &seen, 1, HVD_INT32);
    check(hvd_allreduce(&tensor, HVD_MAX, NULL));
    return seen != 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "print") == 0)
        return print_element();
    check(hvd_init());
    reduce_elements();
    if (argc == 3 && strcmp(argv[1], "until") == 0) {
        puts("runs");
        fflush(stdout);
        while (!file_exists(argv[2]))
            reduce_elements();
    }
    check(hvd_shutdown());
    return EXIT_SUCCESS;
}
