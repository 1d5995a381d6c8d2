/* crash.c: ends in the way that its argument names, on rank 1 or alone, after an operation on all ranks:
 * `crash segv ADDRESS`, `exit STATUS`, `wait -` and others. */
#include <hvd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float value = 1;

static int sum(const char *name)
{
    const struct hvd_tensor tensor = {
        .name = name, .dtype = HVD_FLOAT32, .ndim = 1, .shape = {1}, .input = &value, .output = &value};
    return hvd_allreduce(&tensor, HVD_SUM, NULL);
}

/* All memory that there is, with [bytes] at a time. */
static void use_memory(size_t bytes)
{
    for (;;) {
        char *memory = malloc(bytes);
        if (memory == NULL)
            exit(5);
        memset(memory, 1, bytes);
    }
}

static void fail(const char *how, const char *argument)
{
    if (strcmp(how, "segv") == 0)
        *(volatile int *)(uintptr_t)strtoul(argument, NULL, 0) = 1;
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exit") == 0)
        _exit((int)strtol(argument, NULL, 10));
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "oom") == 0)
        use_memory(1 << 24);
    while (strcmp(how, "hang") == 0)
        pause();
}

int main(int argc, char **argv)
{
    if (argc < 3 || hvd_init() != HVD_OK)
        return 99;
    int rank = hvd_rank();
    if (sum("first") != HVD_OK) /* rank 1 has failed before this rank had its result */
        return 9;
    if (rank == (hvd_size() > 1)) {
        if (strcmp(argv[1], "wait") == 0)
            alarm(1);
        else
            fail(argv[1], argv[2]);
    } else if (strcmp(argv[1], "wait") == 0) {
        sleep(100);
    }
    int rc = sum("second");
    hvd_shutdown();
    bool last = rc == HVD_OK && strcmp(argv[1], "leave") == 0 && rank == 1;
    return last ? (int)strtol(argv[2], NULL, 10) : rc == HVD_OK ? 0 : 9;
}
