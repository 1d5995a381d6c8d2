/* facts.c: read where hvdrun runs. */
#include "config.h"

#include "tools/hvdrun/launcher/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "base/env.h"
#include "options/parse.h"
#include "tools/common/command.h"

#define ASK_LIMIT_US 10000000

extern char **environ;

/* A variable that holds a number; 0 if it is not set, or holds none. */
static int number_of(char *const *environment, const char *name)
{
    int64_t number = parse_count_or(environment_value(environment, name), 0);
    return number > INT_MAX ? 0 : (int)number;
}

void launch_facts_read(struct launch_facts *facts, char *const *environment)
{
    const char *path = environment_value(environment, "PATH");
    char found[PATH_MAX];
    *facts = (struct launch_facts){.outer = outer_tasks_read(environment),
                                   .slurm_job = environment_value(environment, "SLURM_JOB_ID"),
                                   .slurm_nodes = number_of(environment, "SLURM_JOB_NUM_NODES"),
                                   .slurm_tasks = number_of(environment, "SLURM_NTASKS"),
                                   .slurm_cpus = number_of(environment, "SLURM_CPUS_PER_TASK"),
                                   .lsf_job = environment_value(environment, "LSB_JOBID")};
    for (int i = LAUNCHER_SRUN; i <= LAUNCHER_MPIRUN; i++)
        facts->found[i] =
            command_find(launcher_name((enum launcher)i), path, found, sizeof(found), NULL) == 0;
}

/* Read what the child writes, until it ends its output or the time is over. */
static void read_answer(int fd, char *text, size_t text_bytes)
{
    int64_t deadline_us = clock_us() + ASK_LIMIT_US;
    char rest[512];
    size_t used = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int count = poll(&ready, 1, clock_ms_until(deadline_us));
        if (count < 0 && errno == EINTR) /* hvdrun was stopped, and goes on */
            continue;
        if (count <= 0 || clock_us() >= deadline_us)
            break;
        bool full = used + 1 >= text_bytes;
        ssize_t got = full ? read(fd, rest, sizeof(rest)) : read(fd, text + used, text_bytes - used - 1);
        if (got <= 0)
            break;
        used += full ? 0 : (size_t)got;
    }
    text[used] = 0;
}

int launch_facts_ask(const char *program, const char *option, char *text, size_t text_bytes)
{
    char *const words[] = {(char *)program, (char *)option, NULL};
    posix_spawn_file_actions_t actions;
    int fds[2];
    pid_t pid = 0;
    int status = -1;
    text[0] = 0;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int to = STDOUT_FILENO; to <= STDERR_FILENO && rc == 0; to++)
        rc = posix_spawn_file_actions_adddup2(&actions, fds[1], to);
    if (rc == 0)
        rc = posix_spawnp(&pid, program, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (rc == 0) {
        read_answer(fds[0], text, text_bytes);
        process_signal(pid, SIGKILL); /* if it still runs */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(fds[0]);
    return text[0] != 0 ? 0 : -1;
}
