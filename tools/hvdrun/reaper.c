/* reaper.c: hvdrun's side of the reaper: fork it, send it requests, read its reports, and clean up if it
 * dies. */
#include "tools/hvdrun/reaper.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fd_passing.h"
#include "base/packet.h"
#include "tools/hvdrun/reaper_process.h"
#include "tools/hvdrun/scratch.h"
#include "tools/hvdrun/process_tree.h"

#define KILL_WAIT_US 10000000

/* The reaper creates the scratch folders, so that it can remove them whatever happens to hvdrun. */
static int await_ready(const struct reaper *reaper, const struct reaper_plan *plan, struct hvd_error *err)
{
    struct reaper_report ready;
    ssize_t length = 0;
    do
        length = recv(reaper->fd, &ready, sizeof(ready), 0);
    while (length < 0 && errno == EINTR);
    if (length != (ssize_t)sizeof(ready) || ready.kind != REAPER_READY)
        return error_set(err, HVD_ERR_SYSTEM, "the reaper, which starts and ends the ranks, could not start");
    errno = ready.number;
    if (ready.number != 0)
        return error_set_errno(err, "cannot make the temporary folder %.200s", plan->scratches[ready.rank]);
    return HVD_OK;
}

const struct reaper_app *reaper_app_of(const struct reaper_plan *plan, int rank)
{
    const struct reaper_app *app = plan->apps;
    while (app + 1 < plan->apps + plan->app_count && rank >= app->end)
        app++;
    return app;
}

int reaper_fork(struct reaper *reaper, const struct reaper_plan *plan, struct hvd_error *err)
{
    int fds[2];
    *reaper = (struct reaper){0, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_set_errno(err, "cannot make a socket to the reaper");
    /* if the reaper is killed, its ranks become hvdrun's children */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    reaper->pid = fork();
    if (reaper->pid < 0) {
        reaper->pid = 0;
        close(fds[0]);
        close(fds[1]);
        return error_set_errno(err, "cannot fork the reaper");
    }
    if (reaper->pid == 0) {
        close(fds[0]);
        reaper_process_run(plan, fds[1]);
    }
    close(fds[1]);
    reaper->fd = fds[0];
    return await_ready(reaper, plan, err);
}

/* The datagram is the request followed by [text]. */
static int send_request(const struct reaper *reaper, const struct reaper_request *request, struct iovec text,
                        const int *fds, int fd_count)
{
    struct fd_passing room;
    struct iovec parts[] = {{(void *)request, sizeof(*request)}, text};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = text.iov_len == 0 ? 1 : 2};
    fd_passing_attach(&message, &room, fds, fd_count);
    ssize_t sent = 0;
    do
        sent = sendmsg(reaper->fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

/* A rank's own environment variables, as the text of a request. */
struct strings {
    char text[REAPER_REQUEST_BYTES - sizeof(struct reaper_request)];
    size_t used;
};

static int add_strings(struct strings *strings, char *const *environment, struct hvd_error *err)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        size_t length = strlen(*environment) + 1;
        if (length > sizeof(strings->text) - strings->used)
            return error_set(err, HVD_ERR_NO_MEMORY,
                             "what is added to a rank's environment is longer than %zu bytes",
                             sizeof(strings->text));
        memcpy(strings->text + strings->used, *environment, length);
        strings->used += length;
    }
    return HVD_OK;
}

int reaper_start(const struct reaper *reaper, const struct reaper_rank *rank, struct hvd_error *err)
{
    struct strings strings;
    const int *from = rank->stdio_fds;
    int fds[3] = {from[1], from[2], from[0]};
    struct reaper_request request = {.kind = REAPER_DO_START,
                                     .rank = rank->rank,
                                     .again = rank->again,
                                     .has_stdin = from[0] >= 0,
                                     .is_bound = rank->cpus != NULL};
    if (rank->cpus != NULL) {
        request.cpus = *rank->cpus;
        request.mems = *rank->mems;
    }
    strings.used = 0;
    for (size_t i = 0; i < sizeof(rank->environment) / sizeof(rank->environment[0]); i++) {
        int status = add_strings(&strings, rank->environment[i], err);
        if (status != HVD_OK)
            return status;
    }
    struct iovec text = {strings.text, strings.used};
    if (send_request(reaper, &request, text, fds, request.has_stdin ? 3 : 2) < 0)
        return error_set_errno(err, "cannot ask the reaper to start rank %d", rank->rank);
    return HVD_OK;
}

/* If the reaper is gone, reaper_next reports it. A reaper that cannot be asked ends its ranks, as for a
 * hvdrun that is gone: nothing else would, for example where a container refuses sendmsg. */
static void send_simple_request(const struct reaper *reaper, const struct reaper_request *request)
{
    if (reaper->fd >= 0 && send_request(reaper, request, (struct iovec){0}, NULL, 0) < 0)
        shutdown(reaper->fd, SHUT_WR);
}

void reaper_signal(const struct reaper *reaper, int signal_number)
{
    send_simple_request(reaper, &(struct reaper_request){.kind = REAPER_DO_SIGNAL, .number = signal_number});
}

void reaper_signal_rank(const struct reaper *reaper, int rank, int signal_number)
{
    send_simple_request(reaper, &(struct reaper_request){
                                    .kind = REAPER_DO_SIGNAL_RANK, .rank = rank, .number = signal_number});
}

void reaper_beat(const struct reaper *reaper)
{
    send_simple_request(reaper, &(struct reaper_request){.kind = REAPER_DO_BEAT});
}

void reaper_end(const struct reaper *reaper, int signal_number)
{
    send_simple_request(reaper, &(struct reaper_request){.kind = REAPER_DO_END, .number = signal_number});
}

void reaper_kill(const struct reaper *reaper)
{
    send_simple_request(reaper, &(struct reaper_request){.kind = REAPER_DO_KILL});
}

int reaper_next(struct reaper *reaper, struct reaper_report *report)
{
    if (reaper->fd < 0)
        return -1;
    ssize_t length = packet_read(reaper->fd, report, sizeof(*report));
    if (length == (ssize_t)sizeof(*report))
        return 1;
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    close(reaper->fd);
    reaper->fd = -1;
    return -1;
}

int reaper_close(struct reaper *reaper, const struct reaper_plan *plan)
{
    int status = 0;
    int rc = 0;
    if (reaper->pid == 0)
        return HVD_OK;
    descriptors_close(&reaper->fd);
    pid_t pid = 0;
    do
        pid = waitpid(reaper->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (pid < 0 || !WIFEXITED(status)) {
        rc = process_tree_kill(clock_us() + KILL_WAIT_US);
        for (int i = 0; i < 2; i++)
            scratch_remove(plan->scratches[i]);
    }
    *reaper = (struct reaper){0, -1};
    return rc == 0 ? HVD_OK : HVD_ERR_TIMEOUT;
}
