/* agent_steps.c: the steps of a Slurm job in which hvdrun's agents run. */
#include "config.h"
#include "tools/hvdrun/agent/agent_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_signal.h"
#include "base/secret.h"
#include "options/slurm_step.h"
#include "verdict/verdict.h"

/* How long an srun may take to end when its agents have ended, and again when it has been told to. */
#define END_US INT64_C(2000000)

extern char **environ;

void agent_steps_begin(struct agent_steps *steps, const struct agent_launch *launch)
{
    *steps = (struct agent_steps){.launch = *launch};
    /* now, as later another file may have this name, which the agents get then: they say their version */
    if (readlink("/proc/self/exe", steps->program, sizeof(steps->program) - 1) < 0)
        snprintf(steps->program, sizeof(steps->program), "%s", launch->argv[0]);
}

/* ---- The command line ----------------------------------------------------------------------------- */

/* Each agent may use all that the job has on its node; the others go on without one that is lost. */
void agent_steps_line(struct words *words, const struct agent_launch *launch, const struct host_list *hosts,
                      const char *program, const char *port)
{
    words_add(words, "srun");
    words_add(words, "--nodes=%d", hosts->count);
    words_add(words, "--ntasks=%d", hosts->count);
    words_add(words, "--ntasks-per-node=1");
    words_add_hosts(words, "--nodelist=", hosts, HOSTS_ONCE);
    words_add(words, "--export=ALL");
    words_add(words, "--mpi=none");
    words_add(words, "--overlap");
    words_add(words, "--cpu-bind=none");
    words_add(words, "--no-kill");
    words_add(words, "--kill-on-bad-exit=0");
    words_add(words, "--wait=0");
    words_add(words, "--input=none");
    words_add(words, "%s", program);
    words_add(words, "--join=:%s", port);
    words_add(words, "--run-id=%s", launch->run_id);
    for (int i = 1; launch->argv[i] != NULL; i++)
        words_add(words, "%s", launch->argv[i]);
}

/* The secret of the job, and no plug-in of hvd's, which is for srun's own tasks. */
static void add_environment(const struct agent_steps *steps, struct words *environment)
{
    static const char plugin[] = SLURM_HANDED_DOWN "hvd=", secret[] = SECRET_VARIABLE "=";
    words_add(environment, "%soff", plugin);
    words_add(environment, "%s%s", secret, steps->launch.secret);
    for (char **entry = environ; *entry != NULL; entry++)
        if (strncmp(*entry, plugin, strlen(plugin)) != 0 && strncmp(*entry, secret, strlen(secret)) != 0)
            words_add(environment, "%s", *entry);
}

/* ---- Start ---------------------------------------------------------------------------------------- */

/* In a process group of its own, so that a Ctrl-C at the terminal reaches hvdrun alone. It does not use its
 * standard input: that is one end of a pipe, which says when it has ended. */
static int spawn(const struct agent_steps *steps, const struct words *words, const struct words *environment,
                 int alive_fd, pid_t *pidp)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &steps->launch.signals->original);
    int rc = posix_spawn_file_actions_adddup2(&actions, alive_fd, STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawnp(pidp, words->list[0], &actions, &attributes, words->list, environment->list);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

static int run(const struct agent_steps *steps, const struct host_list *hosts, uint16_t port, int alive_fd,
               pid_t *pidp)
{
    char digits[8];
    snprintf(digits, sizeof(digits), "%u", port);
    struct words words = {.list = NULL}, environment = {.list = NULL};
    agent_steps_line(&words, &steps->launch, hosts, steps->program, digits);
    add_environment(steps, &environment);
    int rc = words.failed || environment.failed ? ENOMEM : spawn(steps, &words, &environment, alive_fd, pidp);
    words_free(&words);
    words_free(&environment);
    return rc;
}

int agent_steps_start(struct agent_steps *steps, struct host_list *hosts, uint16_t port,
                      struct hvd_error *err)
{
    size_t bytes = ((size_t)steps->count + 1) * sizeof(*steps->steps);
    struct agent_step *more = realloc(steps->steps, bytes);
    if (more != NULL)
        steps->steps = more;
    pid_t pid = 0;
    int ends[2] = {-1, -1};
    int problem = more == NULL ? ENOMEM : pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;
    if (problem == 0)
        problem = run(steps, hosts, port, ends[1], &pid);
    descriptors_close(&ends[1]);
    if (problem != 0) {
        descriptors_close(&ends[0]);
        errno = problem;
        error_set_errno(err, "srun cannot be started");
        return -1;
    }
    steps->steps[steps->count++] = (struct agent_step){.pid = pid, .fd = ends[0], .hosts = *hosts};
    *hosts = (struct host_list){NULL, 0, 0};
    return ends[0];
}

/* ---- End ------------------------------------------------------------------------------------------ */

bool agent_steps_ended(struct agent_steps *steps, struct host_list *hosts, char *why, size_t why_bytes)
{
    for (int i = 0; i < steps->count; i++) {
        struct verdict_end end = {.wait_status = 0};
        struct agent_step *step = &steps->steps[i];
        if (waitpid(step->pid, &end.wait_status, WNOHANG) != step->pid)
            continue;
        int used = snprintf(why, why_bytes, "srun ");
        if (end.wait_status == 0)
            snprintf(why + used, why_bytes - (size_t)used, "ended before it came");
        else
            verdict_describe_end(&end, why + used, why_bytes - (size_t)used);
        *hosts = step->hosts;
        descriptors_close(&step->fd);
        steps->steps[i] = steps->steps[--steps->count];
        return true;
    }
    return false;
}

static void wait_for_all(struct agent_steps *steps)
{
    struct host_list hosts;
    char why[64];
    int64_t deadline_us = clock_us() + END_US;
    while (steps->count > 0 && clock_us() < deadline_us) {
        struct pollfd ended = {.fd = steps->steps[0].fd, .events = POLLIN};
        poll(&ended, 1, clock_ms_until(deadline_us));
        while (agent_steps_ended(steps, &hosts, why, sizeof(why)))
            host_list_free(&hosts);
    }
}

/* srun may wait for a node that has vanished, until Slurm gives the node up. */
void agent_steps_end(struct agent_steps *steps)
{
    static const int signals[] = {0, SIGTERM, SIGKILL};
    for (size_t k = 0; steps->count > 0 && k < sizeof(signals) / sizeof(signals[0]); k++) {
        for (int i = 0; i < steps->count && signals[k] != 0; i++)
            process_signal(steps->steps[i].pid, signals[k]);
        wait_for_all(steps);
    }
    free(steps->steps);
    *steps = (struct agent_steps){.count = 0};
}
