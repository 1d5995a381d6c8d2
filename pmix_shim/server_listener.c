/* server_listener.c: keeps connections that say nothing away from libpmix's listener. */
#include "config.h"

#include "pmix_shim/server_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "pmix_shim/server_accept.h"

#define MOST_FDS 256 /* libpmix has opened a dozen by now */

/* How long the kernel keeps a silent connection back before it lets it through after all. */
#define SILENCE_S 3600

/* The longest pause within a client's first message, which it sends as a whole. */
#define PAUSE_US 10000

#define DRAIN_MS 100

static bool is_tcp(int fd)
{
    int domain = 0;
    int type = 0;
    socklen_t length = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0)
        return false;
    length = sizeof(type);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
           (domain == AF_INET || domain == AF_INET6);
}

static bool listens(int fd)
{
    int listening = 0;
    socklen_t length = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
}

/* Connections inherit the timeout. */
static void guard(int fd)
{
    int silence = SILENCE_S;
    struct timeval pause = {.tv_usec = PAUSE_US};
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silence, sizeof(silence));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof(pause));
}

/* Connections that were there before the listener was guarded have not inherited the timeout. Wait until
 * libpmix has accepted them. */
static void drain(int fd)
{
    struct tcp_info info;
    for (int i = 0; i < DRAIN_MS; i++) {
        socklen_t length = sizeof(info);
        /* of a listener: how many connections wait to be accepted */
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 || info.tcpi_unacked == 0)
            return;
        poll(NULL, 0, 1);
    }
}

void server_listener_guard(void)
{
    for (int fd = STDERR_FILENO + 1; fd < MOST_FDS; fd++) {
        if (!is_tcp(fd) || !listens(fd))
            continue;
        guard(fd);
        server_accept_own_only(fd);
        drain(fd);
    }
    /* no rank has been started, so that all connections are of strangers */
    for (int fd = STDERR_FILENO + 1; fd < MOST_FDS; fd++) {
        if (is_tcp(fd) && !listens(fd))
            shutdown(fd, SHUT_RDWR);
    }
}
