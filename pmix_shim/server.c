/* server.c: hvdrun's side of the PMIx server: starts its process, receives its events, and ends it.
 *
 * The server has a process of its own because libpmix 4.2.2 may crash or block for ever when several ranks
 * of a fence die at the same time. That is just what happens when a job fails, and then hvdrun must be
 * alive to say why. */
#include "config.h"

#include "pmix_shim/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_signal.h"
#include "pmix_shim/event_channel.h"
#include "pmix_shim/server_process.h"

#define START_LIMIT_US 30000000

struct server {
    pid_t pid;
    int size;
    int channel_fd;
    int pipe_fd;
    char ***environments;  /* of all ranks; NULL: not received, or taken */
    int environment_count; /* received, in the order of ranks */
    char end[128];         /* how the process ended; "": it has not */
};

/* End the server, if nobody has, and describe its end. Afterwards its number may be another process's. */
static void end_server(struct server *server)
{
    int status = 0;
    pid_t pid = 0;
    if (server->pid == 0)
        return;
    process_signal(server->pid, SIGKILL);
    do
        pid = waitpid(server->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    server->pid = 0;
    if (WIFSIGNALED(status))
        snprintf(server->end, sizeof(server->end), "the PMIx server was killed by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(server->end, sizeof(server->end), "the PMIx server exited with status %d",
                 WEXITSTATUS(status));
}

static int spawn(struct server *server, const struct server_job *job, struct hvd_error *err)
{
    int sockets[2];
    int pipes[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_set_errno(err, "cannot make a socket to the PMIx server");
    if (pipe2(pipes, O_CLOEXEC) < 0) {
        int status = error_set_errno(err, "cannot make a pipe to the PMIx server");
        close(sockets[0]);
        close(sockets[1]);
        return status;
    }
    server->channel_fd = sockets[0];
    server->pipe_fd = pipes[0];
    pid_t pid = fork();
    if (pid == 0)
        server_process_run(job, sockets[1], pipes[1]);
    close(sockets[1]);
    close(pipes[1]);
    if (pid < 0)
        return error_set_errno(err, "cannot fork the PMIx server");
    server->pid = pid;
    return HVD_OK;
}

/* Read [bytes] bytes by [deadline_us]. Returns 0, or -1 with errno, which is 0 if the server closed its
 * end. */
static int read_all(int fd, void *to, size_t bytes, int64_t deadline_us)
{
    char *at = to;
    while (bytes > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int rc = poll(&ready, 1, clock_ms_until(deadline_us));
        if (rc == 0)
            errno = ETIMEDOUT;
        ssize_t length = rc > 0 ? read(fd, at, bytes) : -1;
        if (length < 0 && errno == EINTR)
            continue;
        if (length == 0)
            errno = 0;
        if (length <= 0)
            return -1;
        at += length;
        bytes -= (size_t)length;
    }
    return 0;
}

/* The server did not answer in time, or it closed its pipe. */
static int no_answer(struct server *server, struct hvd_error *err)
{
    if (errno == ETIMEDOUT)
        return error_set(err, HVD_ERR_TIMEOUT, "the PMIx server did not answer within %d s",
                         (int)(START_LIMIT_US / 1000000));
    end_server(server);
    return error_set(err, HVD_ERR_SYSTEM, "%s at its start", server->end);
}

/* Receive the next record into [bytes], which has room for SERVER_RECORD_BYTES. */
static int receive_record(struct server *server, char *bytes, size_t *lengthp, struct hvd_error *err)
{
    struct server_record record;
    int64_t deadline_us = clock_us() + START_LIMIT_US;
    if (read_all(server->pipe_fd, &record, sizeof(record), deadline_us) < 0)
        return no_answer(server, err);
    if (record.length > SERVER_RECORD_BYTES)
        return error_set(err, HVD_ERR_SYSTEM,
                         "the PMIx server sent a record of %u bytes; at most %d were expected", record.length,
                         SERVER_RECORD_BYTES);
    if (read_all(server->pipe_fd, bytes, record.length, deadline_us) < 0)
        return no_answer(server, err);
    if (record.status != HVD_OK)
        return error_set(err, record.status, "%.*s", (int)record.length, bytes);
    *lengthp = record.length;
    return HVD_OK;
}

int server_open(struct server **serverp, const struct server_job *job, struct hvd_error *err)
{
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set_errno(err, "cannot start the PMIx server");
    *server = (struct server){.size = job->size, .channel_fd = -1, .pipe_fd = -1};
    server->environments = calloc((size_t)job->size, sizeof(*server->environments));
    int status = server->environments != NULL
                     ? spawn(server, job, err)
                     : error_set_errno(err, "cannot keep the environments of %d ranks", job->size);
    if (status != HVD_OK) {
        server_close(server);
        return status;
    }
    *serverp = server;
    return HVD_OK;
}

int server_await(struct server *server, struct hvd_error *err)
{
    char bytes[SERVER_RECORD_BYTES];
    size_t length = 0;
    return receive_record(server, bytes, &length, err);
}

/* Split strings that follow one another, each with its final 0, into an array. */
static char **split(const char *bytes, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += bytes[i] == 0;
    char **environment = calloc(count + 1, sizeof(*environment));
    for (size_t i = 0; environment != NULL && i < count; i++) {
        environment[i] = strdup(bytes);
        if (environment[i] == NULL) {
            server_environment_free(environment);
            return NULL;
        }
        bytes += strlen(bytes) + 1;
    }
    return environment;
}

static int receive_environment(struct server *server, struct hvd_error *err)
{
    char bytes[SERVER_RECORD_BYTES];
    size_t length = 0;
    int rank = server->environment_count;
    int status = receive_record(server, bytes, &length, err);
    if (status != HVD_OK)
        return status;
    server->environments[rank] = split(bytes, length);
    if (server->environments[rank] == NULL)
        return error_set_errno(err, "cannot keep the environment of rank %d", rank);
    server->environment_count++;
    return HVD_OK;
}

int server_environment(struct server *server, int rank, char ***environmentp, struct hvd_error *err)
{
    while (server->environment_count <= rank) {
        int status = receive_environment(server, err);
        if (status != HVD_OK)
            return status;
    }
    *environmentp = server->environments[rank];
    server->environments[rank] = NULL;
    return HVD_OK;
}

void server_environment_free(char **environment)
{
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++)
        free(*entry);
    free(environment);
}

int server_fd(const struct server *server)
{
    return server == NULL ? -1 : server->channel_fd;
}

bool server_next(struct server *server, struct server_event *event)
{
    if (server == NULL || server->channel_fd < 0)
        return false;
    int rc = event_channel_receive(server->channel_fd, event);
    if (rc > 0 && (event->rank < 0 || event->rank >= server->size))
        rc = -1;
    if (rc >= 0)
        return rc > 0;
    descriptors_close(&server->channel_fd);
    end_server(server);
    *event = (struct server_event){.kind = SERVER_LOST, .rank = -1};
    snprintf(event->text, sizeof(event->text), "%s", server->end);
    return true;
}

void server_ask_alive(struct server *server)
{
    if (server != NULL && server->channel_fd >= 0)
        send(server->channel_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void server_close(struct server *server)
{
    if (server == NULL)
        return;
    end_server(server);
    descriptors_close(&server->channel_fd);
    descriptors_close(&server->pipe_fd);
    for (int rank = 0; rank < server->environment_count; rank++)
        server_environment_free(server->environments[rank]);
    free(server->environments);
    free(server);
}
