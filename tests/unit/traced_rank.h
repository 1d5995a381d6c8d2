/* traced_rank.h: a rank whose flight record a test looks at, and children that end in the midst of it. */
#ifndef TESTS_UNIT_TRACED_RANK_H
#define TESTS_UNIT_TRACED_RANK_H

#include <signal.h>
#include <sys/wait.h>

#include "temp_folder.h"
#include "trace/trace.h"

static struct trace *trace;

static inline struct trace *create(const char *dump_dir)
{
    struct trace_params plan = {.rank = 3, .size = 8, .host = "n2", .dump_dir = dump_dir};
    struct trace *made = NULL;
    struct hvd_error err = {""};
    ck_assert_msg(trace_create(&made, &plan, &err) == HVD_OK, "%s", err.text);
    return made;
}

static inline void setup(void)
{
    folder_empty();
    trace = create(folder);
}

static inline void teardown(void)
{
    trace_destroy(trace);
}

static inline void begin(struct trace_op *op, const char *name, int64_t now_us)
{
    *op = (struct trace_op){.kind = "allreduce", .name = name, .bytes = 1024, .tensors = 1};
    trace_submitted(trace, op, now_us);
}

static const int all_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGUSR2};

/* In a child that begins as a program without handlers does: neither of a sanitizer nor of Check. */
static inline int status_of_child(void (*run)(int), int argument)
{
    teardown();
    trace = NULL;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int i = 0; i < 6; i++)
            signal(all_signals[i], SIG_DFL);
        run(argument);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

#endif
