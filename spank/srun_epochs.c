/* srun_epochs.c: in srun, for an elastic step: start the driver of its epochs, say if it ends too early, and
 * end with its verdict. */
#include "config.h"
#include "spank/srun_epochs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <slurm/spank.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_signal.h"
#include "base/stack.h"
#include "spank/srun_port.h"
#include "verdict/verdict.h"

/* How long srun waits for the driver's verdict, which waits for late reports itself. */
#define VERDICT_US INT64_C(3000000)

/* Above those that the driver has. */
#define FIRST_FREE_FD 10

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    pid_t pid;
    int hold;            /* the other end is the driver's standard input; -1: there is no driver */
    bool watched;        /* by the thread */
    pthread_t thread;    /* ends with the driver */
    atomic_bool may_end; /* the driver: the step has ended */
} driver = {.hold = -1};

extern char **environ;

/* What becomes the driver's descriptors. */
struct inherited {
    int hold, listener, reports;
};

/* Its signals are as in a new program, and its process group its own: what the terminal sends is for srun. */
static int spawn(const struct elastic_step *step, const struct inherited *inherited)
{
    char slots[12], fewest[12], spares[12], id[24], name[] = "hvdepochs";
    char *const argv[] = {name, slots, fewest, spares, id, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    snprintf(slots, sizeof(slots), "%d", step->slots);
    snprintf(fewest, sizeof(fewest), "%d", step->fewest);
    snprintf(spares, sizeof(spares), "%d", step->spares);
    snprintf(id, sizeof(id), "%u.%u", step->job, step->number);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, inherited->hold, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, inherited->listener, EPOCHS_LISTENER_FD);
    posix_spawn_file_actions_adddup2(&actions, inherited->reports, EPOCHS_REPORTS_FD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int problem = posix_spawn(&driver.pid, step->program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return problem;
}

/* A copy that stands in the way of none of the driver's. */
static int move_up(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

/* Its process is left to srun_epochs_end, which may have it already. */
static void *await_end(void *arg)
{
    char how[96];
    siginfo_t info = {.si_pid = 0};
    (void)arg;
    while (waitid(P_PID, (id_t)driver.pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    if (info.si_pid == 0 || atomic_load(&driver.may_end))
        return NULL;
    bool exited = info.si_code == CLD_EXITED;
    const struct verdict_end end = {.wait_status =
                                        W_EXITCODE(exited ? info.si_status : 0, exited ? 0 : info.si_status)};
    verdict_describe_end(&end, how, sizeof(how));
    slurm_spank_log(
        "hvd: hvdepochs, which decides the epochs of this step beside srun, %s: ranks that work go "
        "on until the next one is lost, and none can join; then start the step again, which goes "
        "on from its last commit on disk if it has --hvd-state-dir",
        how);
    return NULL;
}

static int start(const struct elastic_step *step, int listener, struct hvd_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, "no pipe to the driver of an elastic step");
    struct inherited inherited = {move_up(ends[0]), move_up(listener), move_up(step->reports)};
    int problem = EMFILE;
    if (inherited.hold >= 0 && inherited.listener >= 0 && inherited.reports >= 0)
        problem = spawn(step, &inherited);
    descriptors_close(&inherited.hold);
    descriptors_close(&inherited.listener);
    descriptors_close(&inherited.reports);
    close(ends[0]);
    driver.hold = ends[1];
    driver.watched = problem == 0 && stack_create_thread(&driver.thread, await_end, NULL) == 0;
    if (problem == 0)
        return HVD_OK;
    descriptors_close(&driver.hold);
    return error_set(
        err, HVD_ERR_SYSTEM,
        "--hvd-min: the driver of the step's epochs, %s, cannot be started: %s; plugstack.conf can "
        "say where it is, as in epochs=/usr/libexec/hvd/hvdepochs",
        step->program, strerror(problem));
}

int srun_epochs_start(const struct elastic_step *step, struct hvd_error *err)
{
    char text[12];
    int port = 0;
    if (step->slots < 1 || step->fewest < 1 || step->fewest > step->slots)
        return error_set(err, HVD_ERR_INVALID, "--hvd-min=%d: the step has %d tasks; expected 1 to %d",
                         step->fewest, step->slots, step->slots);
    if (step->spares > step->slots - step->fewest)
        return error_set(
            err, HVD_ERR_INVALID,
            "--hvd-spares=%d: the step has %d tasks, of which --hvd-min=%d must work; expected at "
            "most %d",
            step->spares, step->slots, step->fewest, step->slots - step->fewest);
    int listener = srun_port_listen(&port);
    if (listener < 0 || step->reports < 0) {
        descriptors_close(&listener);
        return error_set_errno(err, "--hvd-min: srun cannot listen for the ranks of the step");
    }
    int rc = start(step, listener, err);
    descriptors_close(&listener);
    snprintf(text, sizeof(text), "%d", port);
    if (rc == HVD_OK)
        setenv(EPOCHS_PORT_VARIABLE, text, 1);
    return rc;
}

bool srun_epochs_has_started(void)
{
    return driver.hold >= 0;
}

int srun_epochs_end(void)
{
    int64_t deadline_us = clock_us() + VERDICT_US;
    int status = 0;
    if (driver.hold < 0)
        return -1;
    atomic_store(&driver.may_end, true);
    descriptors_close(&driver.hold);
    pid_t ended = waitpid(driver.pid, &status, WNOHANG);
    while (ended == 0 && clock_us() < deadline_us) {
        poll(NULL, 0, 1);
        ended = waitpid(driver.pid, &status, WNOHANG);
    }
    if (ended == 0) {
        process_signal(driver.pid, SIGKILL);
        waitpid(driver.pid, &status, 0);
    }
    if (driver.watched)
        pthread_join(driver.thread, NULL);
    bool knows = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) != EPOCHS_UNKNOWN;
    return knows ? WEXITSTATUS(status) : -1;
}
