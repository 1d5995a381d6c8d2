/* scrape.c: answer at a socket with metrics. Nothing is looked at while nobody asks. */
#include "config.h"
#include "tools/hvdinfo/ps/scrape.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

#define WAITING       16
#define ASK_US        INT64_C(1000000) /* for a request to come */
#define SEND_S        5                /* for an answer to go */
#define REQUEST_BYTES 8192

/* ---- The socket ---------------------------------------------------------------------------------- */

/* Does nobody listen there, where a process before this one did? */
static bool is_left_over(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
                   errno == ECONNREFUSED;
    descriptors_close(&fd);
    return refused;
}

static int bind_to(int fd, const struct sockaddr_un *address)
{
    mode_t before = umask(S_IRWXG | S_IRWXO);
    int rc = bind(fd, (const struct sockaddr *)address, sizeof(*address));
    if (rc < 0 && errno == EADDRINUSE && is_left_over(address) && unlink(address->sun_path) == 0)
        rc = bind(fd, (const struct sockaddr *)address, sizeof(*address));
    umask(before);
    return rc;
}

static int open_at(const char *path, struct hvd_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = -1;
    errno = ENAMETOOLONG;
    if (strlen(path) < sizeof(address.sun_path)) {
        memcpy(address.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd >= 0 && bind_to(fd, &address) == 0 && listen(fd, WAITING) == 0)
        return fd;
    error_set(err, HVD_ERR_INVALID,
              "--output=" SCRAPE_PREFIX
              "%.120s: %s; expected the path of a socket to make, at which no other "
              "process listens",
              path, strerror(errno));
    descriptors_close(&fd);
    return -1;
}

/* ---- One that asks ------------------------------------------------------------------------------- */

/* Whatever it asks for, it gets the metrics; one that asks for nothing gets them too, a little later. */
static void read_request(int fd)
{
    char request[REQUEST_BYTES];
    size_t length = 0;
    int64_t deadline_us = clock_us() + ASK_US;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    while (length < sizeof(request) && poll(&polled, 1, clock_ms_until(deadline_us)) > 0) {
        ssize_t got = recv(fd, request + length, sizeof(request) - length, MSG_DONTWAIT);
        length += got > 0 ? (size_t)got : 0;
        if (got <= 0 || memmem(request, length, "\r\n\r\n", 4) != NULL)
            return;
    }
}

static void send_all(int fd, const char *text, size_t length)
{
    struct timeval limit = {.tv_sec = SEND_S};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* it has gone */
        text += sent;
        length -= (size_t)sent;
    }
}

static void answer(int fd, scrape_f *write, const void *arg)
{
    char *body = NULL;
    size_t length = 0;
    char head[200];
    struct hvd_error err = {""};
    read_request(fd);
    FILE *to = open_memstream(&body, &length);
    if (to == NULL)
        return;
    int rc = write(to, arg, &err);
    if (rc != HVD_OK)
        fprintf(to, "# %s\n", err.text);
    if (fclose(to) == 0) {
        int bytes = snprintf(head, sizeof(head),
                             "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: "
                             "%zu\r\nConnection: close\r\n\r\n",
                             rc == HVD_OK ? "200 OK" : "503 Service Unavailable", length);
        send_all(fd, head, (size_t)bytes);
        send_all(fd, body, length);
    }
    free(body);
}

/* ---- All of them --------------------------------------------------------------------------------- */

static int open_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

int scrape_serve(const char *path, scrape_f *write, const void *arg, struct hvd_error *err)
{
    struct pollfd polled[] = {{.fd = open_signals(), .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (polled[0].fd < 0)
        return error_set_errno(err, "no descriptor for signals");
    polled[1].fd = open_at(path, err);
    bool listens = polled[1].fd >= 0;
    while (listens && polled[0].revents == 0) {
        int ready = poll(polled, 2, -1);
        int fd = ready > 0 && polled[1].revents != 0 ? accept4(polled[1].fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0)
            answer(fd, write, arg);
        descriptors_close(&fd);
    }
    if (listens)
        unlink(path);
    descriptors_close(&polled[0].fd);
    descriptors_close(&polled[1].fd);
    return listens ? HVD_OK : HVD_ERR_INVALID;
}
