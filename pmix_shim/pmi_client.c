/* pmi_client.c: the rank's end of PMI-1: a line to the launcher's server, and a line that answers it. */
#include "config.h"
#include "pmix_shim/pmi_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"

int pmi_client_open(struct pmi_client *client, int fd, struct hvd_error *err)
{
    int type = 0;
    socklen_t length = sizeof(type);
    client->fd = fd;
    client->answer[0] = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "PMI_FD=%d is no connection to a launcher: a program between the launcher and this one has "
        "closed it. Start the ranks by srun or mpiexec itself, or unset PMI_FD where other "
        "variables describe the job",
        fd);
}

/* Wait until the connection has [event]. */
static int await(const struct pmi_client *client, short event, int64_t deadline_us, struct hvd_error *err)
{
    struct pollfd poller = {.fd = client->fd, .events = event};
    int ready = -1;
    do
        ready = poll(&poller, 1, clock_ms_until(deadline_us));
    while (ready < 0 && errno == EINTR);
    if (ready < 0)
        return error_set_errno(err, "poll");
    return ready > 0 ? HVD_OK : error_set(err, HVD_ERR_TIMEOUT, "the launcher's PMI server does not answer");
}

static int is_closed(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_RANK_LOST,
                     "the launcher's PMI server on this node has closed the connection; it ended, or a "
                     "program that this rank ran before has left PMI, which each rank joins only once");
}

/* In one call: Slurm takes what it reads at once for a whole request. */
static int send_line(const struct pmi_client *client, const char *bytes, int64_t deadline_us,
                     struct hvd_error *err)
{
    size_t length = strlen(bytes);
    while (length > 0) {
        ssize_t sent = send(client->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return is_closed(err);
        int rc = sent < 0 ? await(client, POLLOUT, deadline_us, err) : HVD_OK;
        if (rc != HVD_OK)
            return rc;
        bytes += sent > 0 ? sent : 0;
        length -= sent > 0 ? (size_t)sent : 0;
    }
    return HVD_OK;
}

/* Receive one line, without its end. The server sends nothing without being asked. */
static int receive_line(struct pmi_client *client, int64_t deadline_us, struct hvd_error *err)
{
    size_t used = 0;
    while (used == 0 || client->answer[used - 1] != '\n') {
        int rc = await(client, POLLIN, deadline_us, err);
        if (rc != HVD_OK)
            return rc;
        ssize_t got = recv(client->fd, client->answer + used, PMI_LINE_BYTES - used, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return is_closed(err);
        used += (size_t)got;
        if (used == PMI_LINE_BYTES)
            return error_set(err, HVD_ERR_SYSTEM, "the launcher's PMI server sent more than %d bytes at once",
                             PMI_LINE_BYTES);
    }
    client->answer[used - 1] = 0;
    if (strlen(client->answer) == used - 1 && memchr(client->answer, '\n', used) == NULL)
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the launcher's PMI server sent what is not one line of text");
}

int pmi_client_ask(struct pmi_client *client, const char *request, const char *answer, int64_t deadline_us,
                   struct hvd_error *err)
{
    struct token command;
    int rc = send_line(client, request, deadline_us, err);
    if (rc == HVD_OK)
        rc = receive_line(client, deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    if (pmi_text_field(client->answer, "cmd", &command) && token_equals(command, answer))
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the launcher's PMI server answered '%.64s'; expected %s",
                     client->answer, answer);
}

bool pmi_client_refused(const struct pmi_client *client)
{
    struct token rc;
    return pmi_text_field(client->answer, "rc", &rc) && !token_equals(rc, "0");
}

int pmi_client_text(const struct pmi_client *client, const char *name, struct token *value,
                    struct hvd_error *err)
{
    if (pmi_text_field(client->answer, name, value))
        return HVD_OK;
    return error_set(err, HVD_ERR_SYSTEM, "the launcher's PMI server answered '%.64s', which has no %s",
                     client->answer, name);
}

int pmi_client_number(const struct pmi_client *client, const char *name, int min, int *numberp,
                      struct hvd_error *err)
{
    struct token text;
    const char *why = NULL;
    int rc = pmi_client_text(client, name, &text, err);
    if (rc == HVD_OK && token_parse_number(text, min, INT_MAX, numberp, &why) < 0)
        rc = error_set(err, HVD_ERR_SYSTEM,
                       "the launcher's PMI server answered '%.64s', where %s %s; expected at least %d",
                       client->answer, name, why, min);
    return rc;
}
