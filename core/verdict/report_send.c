/* report_send.c: name the node in a report of a step, and send it to srun. */
#include "verdict/failure_report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"

#define LOOK_AGAIN_MS 1

const char *failure_report_name_node(char node[FAILURE_NODE_BYTES])
{
    node[0] = 0;
    gethostname(node, FAILURE_NODE_BYTES - 1);
    node[FAILURE_NODE_BYTES - 1] = 0;
    node[strcspn(node, ".")] = 0;
    return node;
}

/* Returns a socket that connects to srun, or -1 with errno. */
static int begin_connect(const char *host, int port)
{
    struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 new = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool is_old = inet_pton(AF_INET, host, &old.sin_addr) == 1;
    errno = EINVAL;
    if (!is_old && inet_pton(AF_INET6, host, &new.sin6_addr) != 1)
        return -1;
    int fd = socket(is_old ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int rc = is_old ? connect(fd, (struct sockaddr *)&old, sizeof(old))
                    : connect(fd, (struct sockaddr *)&new, sizeof(new));
    if (rc < 0 && errno != EINPROGRESS)
        descriptors_close(&fd);
    return fd;
}

/* Returns 0 once [fd] is connected, or the errno of why it is not. */
static int await_connection(int fd, int64_t deadline_us)
{
    int problem = 0, ready = 0;
    socklen_t length = sizeof(problem);
    struct pollfd connected = {.fd = fd, .events = POLLOUT};
    while (ready <= 0 && clock_us() < deadline_us)
        ready = poll(&connected, 1, clock_ms_until(deadline_us));
    return ready <= 0                                                    ? ETIMEDOUT
           : getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length) < 0 ? errno
                                                                         : problem;
}

int failure_report_connect(const char *host, int port, int64_t deadline_us, struct hvd_error *err)
{
    int fd = begin_connect(host, port);
    int problem = fd < 0 ? errno : await_connection(fd, deadline_us);
    if (problem == 0)
        return fd;
    descriptors_close(&fd);
    error_set(err, HVD_ERR_SYSTEM, "srun at %s port %d is not reached from here: %s", host, port,
              strerror(problem));
    return -1;
}

/* Nobody answers: srun's kernel takes the report, and srun reads it in its own time. So it is told once that
 * kernel has all of it. */
static bool send_all(int fd, const unsigned char *message, size_t length, int64_t deadline_us)
{
    size_t sent = 0;
    int unacknowledged = 1;
    while (sent < length && clock_us() < deadline_us) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        if (poll(&ready, 1, clock_ms_until(deadline_us)) <= 0)
            continue;
        ssize_t count = send(fd, message + sent, length - sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        sent += count > 0 ? (size_t)count : 0;
    }
    while (sent == length && clock_us() < deadline_us) {
        if (ioctl(fd, SIOCOUTQ, &unacknowledged) < 0 || unacknowledged == 0)
            break;
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return unacknowledged == 0;
}

int failure_report_deliver(const char *host, int port, const char token[FAILURE_TOKEN_BYTES],
                           const struct failure_report *report, struct hvd_error *err)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    int64_t deadline_us = clock_us() + FAILURE_SEND_US;
    size_t length = failure_report_encode(report, token, message);
    error_set(err, HVD_ERR_SYSTEM, "srun at %s port %d does not take the report", host, port);
    int fd = length > 0 ? failure_report_connect(host, port, deadline_us, err) : -1;
    if (fd >= 0 && !send_all(fd, message, length, deadline_us))
        descriptors_close(&fd);
    return fd;
}

bool failure_report_send(const char *host, int port, const char token[FAILURE_TOKEN_BYTES],
                         const struct failure_report *report, struct hvd_error *err)
{
    int fd = failure_report_deliver(host, port, token, report, err);
    bool sent = fd >= 0;
    descriptors_close(&fd);
    return sent;
}
