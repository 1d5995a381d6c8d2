/* spawn.c: run a command, capture its standard output, and record when it ended. */
#include "config.h"

#include "tools/hvdbench/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/kernel.h"
#include "base/process_signal.h"

#define GRACE_US      10000000 /* time for a launcher to end its ranks */
#define LOOK_AGAIN_MS 5

/* Runs in the child and does not return. */
static void become_command(const char *const *argv, int output_fd)
{
    int input_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* when hvdbench dies, the command gets SIGTERM */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (input_fd >= 0 && dup2(input_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0)
        execvp(argv[0], (char *const *)argv);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Read once, into the rest of the output; what is longer is read and dropped. Returns false at end of file.
 */
static bool take_output(struct spawned *spawned, int fd)
{
    char rest[4096];
    size_t used = strlen(spawned->output), room = sizeof(spawned->output) - 1 - used;
    ssize_t got = room > 0 ? read(fd, spawned->output + used, room) : read(fd, rest, sizeof(rest));
    if (got > 0 && room > 0)
        spawned->output[used + (size_t)got] = 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool has_ended(pid_t pid)
{
    siginfo_t child = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &child, WEXITED | WNOHANG | WNOWAIT) == 0 && child.si_pid == pid;
}

/* Wait for events until [deadline_us]; the first one of [fds] is the end of the process. Without pidfds its
 * descriptor is -1, and the process is looked at now and then. */
static int await_events(pid_t pid, struct pollfd *fds, int count, int64_t deadline_us)
{
    int left_ms = clock_ms_until(deadline_us);
    if (fds[0].fd >= 0)
        return poll(fds, (nfds_t)count, left_ms);
    do {
        int ready = poll(fds, (nfds_t)count, left_ms < LOOK_AGAIN_MS ? left_ms : LOOK_AGAIN_MS);
        if (has_ended(pid))
            fds[0].revents = POLLIN;
        if (ready != 0 || fds[0].revents != 0)
            return ready + (fds[0].revents != 0);
        left_ms = clock_ms_until(deadline_us);
    } while (left_ms > 0);
    return 0;
}

/* Read the output from [fd] until the process has ended or the deadline is reached. */
static int follow(struct spawned *spawned, pid_t pid, int pid_fd, int fd, int64_t deadline_us)
{
    struct pollfd fds[] = {{.fd = pid_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    bool ended = false;
    while (!ended) {
        int ready = await_events(pid, fds, 2, deadline_us);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return HVD_ERR_TIMEOUT;
        if (ready < 0)
            continue;
        ended = fds[0].revents != 0;
        if (ended)
            spawned->end_ns = clock_ns();
        if (fds[1].revents != 0 && !take_output(spawned, fd))
            fds[1].fd = -1;
    }
    while (fds[1].fd >= 0 && poll(&fds[1], 1, 0) > 0 && take_output(spawned, fd))
        continue;
    return HVD_OK;
}

/* Send SIGTERM first, because a launcher then ends its ranks too. */
static void stop_process(pid_t pid, int pid_fd)
{
    struct pollfd end = {pid_fd, POLLIN, 0};
    process_signal(pid, SIGTERM);
    if (await_events(pid, &end, 1, clock_us() + GRACE_US) <= 0)
        process_signal(pid, SIGKILL);
}

static int collect_status(struct spawned *spawned, pid_t pid, struct hvd_error *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(err, "cannot wait for process %d", (int)pid);
    spawned->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return HVD_OK;
}

int spawn(struct spawned *spawned, const char *const *argv, int64_t limit_us, struct hvd_error *err)
{
    int output[2] = {-1, -1}, pid_fd = -1;
    pid_t pid = -1;
    spawned->output[0] = 0;
    if (pipe2(output, O_CLOEXEC) != 0)
        return error_set_errno(err, "cannot make a pipe for %s", argv[0]);
    spawned->begin_ns = clock_ns();
    pid = fork();
    if (pid == 0)
        become_command(argv, output[1]);
    int status = pid < 0 ? error_set_errno(err, "cannot start %s", argv[0]) : HVD_OK;
    close(output[1]);
    if (status == HVD_OK) {
        pid_fd = kernel_pidfd_open(pid);
        status = follow(spawned, pid, pid_fd, output[0], clock_us() + limit_us);
    }
    close(output[0]);
    if (status == HVD_ERR_TIMEOUT)
        error_set(err, status, "%s had not ended after %lld s", argv[0], (long long)limit_us / 1000000);
    if (status != HVD_OK && pid > 0)
        stop_process(pid, pid_fd);
    descriptors_close(&pid_fd);
    int rc = pid > 0 ? collect_status(spawned, pid, status == HVD_OK ? err : NULL) : HVD_OK;
    return status == HVD_OK ? rc : status;
}
