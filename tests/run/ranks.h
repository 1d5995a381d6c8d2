/* ranks.h: what test programs that run as the ranks of a job share: checks, and comparing errors among ranks.
 */
#ifndef TESTS_RUN_RANKS_H
#define TESTS_RUN_RANKS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hvd.h>

static int rank, size;
static bool odd; /* this is the last rank, the one that does something else than the others */

static inline void ranks_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static inline void ranks_fail(const char *format, ...)
{
    char text[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rank %d of %d: %s\n", rank, size, text);
    fflush(NULL);
    _exit(1);
}

/* Has hvdrun started this process in place of one that failed? */
static inline bool is_started_again(void)
{
    const char *restarts = getenv("HVD_RESTART");
    return restarts != NULL && strcmp(restarts, "0") != 0;
}

/* A newcomer of an elastic job, such as each task of a step: it may have to ask for a place more than once.
 */
static inline bool is_newcomer(void)
{
    const char *epochs = getenv("HVD_EPOCHS");
    return epochs != NULL && strstr(epochs, "newcomer") != NULL;
}

static inline void must_be(enum hvd_status status, enum hvd_status expected, const char *what)
{
    if (status != expected)
        ranks_fail("%s: status %d (%s), expected %d", what, status, hvd_error_text(), expected);
}

static inline void must(enum hvd_status status, const char *what)
{
    must_be(status, HVD_OK, what);
}

/* The same for the last operation before a rank dies: the others may hear of that before they hear of the
 * operation's end. */
static inline void must_or_lose(enum hvd_status status, const char *what)
{
    if (status != HVD_ERR_RANK_LOST)
        must(status, what);
}

/* Check that the sentence of the last error contains [text]. */
static inline void must_say(const char *text, const char *what)
{
    if (strstr(hvd_error_text(), text) == NULL)
        ranks_fail("%s: \"%s\", expected something with \"%s\"", what, hvd_error_text(), text);
}

/* Check that all ranks got the same sentence with their last error. */
static inline void must_agree(const char *what)
{
    char text[1024] = "";
    struct hvd_tensor tensor = {"what was said",   text,           NULL, HVD_UINT8, 2,
                                {1, sizeof(text)}, HVD_MEMORY_ANY, 0};
    struct hvd_result all = {0};
    snprintf(text, sizeof(text), "%s", hvd_error_text());
    must(hvd_allgather(&tensor, &all, NULL), "comparing sentences");
    for (int64_t i = 0; i < all.row_count; i++) {
        const char *other = (const char *)all.data + i * (int64_t)sizeof(text);
        if (strcmp(other, text) != 0)
            ranks_fail("%s: \"%s\", but rank %d was told \"%s\"", what, text, (int)i, other);
    }
    free(all.data);
}

struct ranks_case {
    const char *name;
    void (*run)(void);
    bool starts; /* it calls hvd_init itself */
};

static inline void ranks_know(void)
{
    rank = hvd_rank();
    size = hvd_size();
    odd = rank == size - 1;
}

/* main of such a program: `PROGRAM CASE`. */
static inline int ranks_main(int argc, char **argv, const struct ranks_case *cases, size_t count)
{
    for (size_t i = 0; argc >= 2 && i < count; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        if (!cases[i].starts)
            must(hvd_init(), "hvd_init");
        ranks_know();
        cases[i].run();
        if (hvd_is_initialized())
            must(hvd_barrier(HVD_ALL_RANKS), "the end"); /* a shutdown would end the others' operations */
        must(hvd_shutdown(), "hvd_shutdown");
        return 0;
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}

#endif
