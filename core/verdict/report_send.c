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

#define LOOK_AGAIN_MS 1

const char *failure_report_name_node(char node[FAILURE_NODE_BYTES])
{
    node[0] = 0;
    gethostname(node, FAILURE_NODE_BYTES - 1);
    node[FAILURE_NODE_BYTES - 1] = 0;
    node[strcspn(node, ".")] = 0;
    return node;
}

/* Returns a socket that connects to srun, or -1. */
static int dial(const char *host, int port)
{
    struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 new = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool is_old = inet_pton(AF_INET, host, &old.sin_addr) == 1;
    if (!is_old && inet_pton(AF_INET6, host, &new.sin6_addr) != 1)
        return -1;
    int fd = socket(is_old ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int rc = is_old ? connect(fd, (struct sockaddr *)&old, sizeof(old))
                    : connect(fd, (struct sockaddr *)&new, sizeof(new));
    if (rc == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
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

bool failure_report_send(const char *host, int port, const char token[FAILURE_TOKEN_BYTES],
                         const struct failure_report *report)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    int64_t deadline_us = clock_us() + FAILURE_SEND_US;
    size_t length = failure_report_encode(report, token, message);
    int fd = length > 0 ? dial(host, port) : -1;
    bool sent = fd >= 0 && send_all(fd, message, length, deadline_us);
    if (fd >= 0)
        close(fd);
    return sent;
}
