/* hvdbench_spawn.c: start a command, take what it writes, and know when it ended. */
#include "config.h"

#include "tools/hvdbench_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define GRACE_US 10000000 /* launchers end their ranks within it */

/* In the child: does not return. */
static void become(const char *const *argv, int output_fd)
{
    int input_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* whatever ends hvdbench ends what it started */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (input_fd >= 0 && dup2(input_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0)
        execvp(argv[0], (char *const *)argv);
    _exit(errno == ENOENT ? 127 : 126);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Take what is there. False at its end. */
static bool take_output(struct spawned *spawned, size_t *usedp, int fd)
{
    char rest[4096];
    size_t room = SPAWN_OUTPUT_BYTES - 1 - *usedp;
    ssize_t got = room > 0 ? read(fd, spawned->output + *usedp, room) : read(fd, rest, sizeof(rest));
    if (got > 0 && room > 0)
        *usedp += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Until the process has ended, or the deadline. */
static int follow(struct spawned *spawned, int pid_fd, int output_fd, int64_t deadline_us)
{
    size_t used = 0;
    struct pollfd fds[] = {{pid_fd, POLLIN, 0}, {output_fd, POLLIN, 0}};
    while (fds[0].revents == 0) {
        int ms = clock_ms_until(deadline_us);
        int ready = poll(fds, 2, ms);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return HVD_ERR_TIMEOUT;
        if (ready < 0)
            continue;
        if (fds[0].revents != 0)
            spawned->end_ns = now_ns();
        if (fds[1].revents != 0 && !take_output(spawned, &used, output_fd))
            fds[1].fd = -1;
    }
    while (fds[1].fd >= 0 && poll(&fds[1], 1, 0) > 0 && take_output(spawned, &used, output_fd))
        continue;
    spawned->output[used] = 0;
    return HVD_OK;
}

/* Launchers told to end take their ranks with them. */
static void stop(pid_t pid, int pid_fd)
{
    struct pollfd end = {pid_fd, POLLIN, 0};
    kill(pid, SIGTERM);
    if (poll(&end, 1, GRACE_US / 1000) <= 0)
        kill(pid, SIGKILL);
}

static int collect(struct spawned *spawned, pid_t pid, struct hvd_error *err)
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
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(err, "cannot make a pipe for %s", argv[0]);
    spawned->output[0] = 0;
    spawned->begin_ns = now_ns();
    pid_t pid = fork();
    if (pid == 0)
        become(argv, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return error_set_errno(err, "cannot start %s", argv[0]);
    }
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
    int status = pid_fd < 0 ? error_set_errno(err, "cannot watch %s", argv[0])
                            : follow(spawned, pid_fd, ends[0], clock_us() + limit_us);
    close(ends[0]);
    if (status == HVD_ERR_TIMEOUT)
        error_set(err, status, "%s had not ended after %lld s", argv[0], (long long)limit_us / 1000000);
    if (status != HVD_OK && pid_fd >= 0)
        stop(pid, pid_fd);
    else if (status != HVD_OK)
        kill(pid, SIGKILL);
    if (pid_fd >= 0)
        close(pid_fd);
    int rc = collect(spawned, pid, status == HVD_OK ? err : NULL);
    return status == HVD_OK ? rc : status;
}
