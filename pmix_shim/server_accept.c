/* server_accept.c: keeps connections that say nothing, and those of other users, away from libpmix. libpmix
 * reads what a connection says first on its only thread, and waits some 30 ms for one that begins and stops,
 * so that a thousand of them would keep the ranks from starting. And it listens no longer once descriptors
 * have run out. */
#include "config.h"

#include "pmix_shim/server_accept.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/drop_report.h"

#define MOST_FDS 256 /* libpmix has opened a dozen by now */

/* How long the kernel keeps a silent connection back before it lets it through after all. */
#define SILENCE_S 3600

/* The longest pause within a client's first message, which it sends as a whole. */
#define PAUSE_US 10000

#define DRAIN_MS 100

/* Before libpmix tries again where descriptors have run out. */
#define PAUSE_MS 10

/* Global, because libpmix calls accept without an argument of ours. */
static struct {
    atomic_int diag_fd; /* asks the kernel; -1: all connections go to libpmix */
    struct drop_report drop_report;
} gate = {.diag_fd = -1};

static const struct hvd_log server_log = {.level = LOG_WARN, .sink = log_to_stderr};

/* ---- Whose is a socket? ------------------------------------------------------------------------- */

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

union reply {
    struct nlmsghdr header;
    char bytes[4096]; /* the kernel adds attributes */
};

/* Enter one end of a connection, an IPv4 or IPv6 address. */
static void put_end(const struct sockaddr_storage *end, __be32 *address, __be16 *port)
{
    if (end->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)end;
        memcpy(address, &six->sin6_addr, sizeof(six->sin6_addr));
        *port = six->sin6_port;
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)end;
        memcpy(address, &four->sin_addr, sizeof(four->sin_addr));
        *port = four->sin_port;
    }
}

/* Ask for the owner of the TCP socket at [near] that is connected with [far], which has no port where the
 * socket listens. False where there is no such socket on this machine. */
static bool find_owner(int diag_fd, const struct sockaddr_storage *near, const struct sockaddr_storage *far,
                       uid_t *uidp)
{
    union reply reply;
    struct question question = {.header = {.nlmsg_len = sizeof(question),
                                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                           .nlmsg_flags = NLM_F_REQUEST},
                                .request = {.sdiag_family = (__u8)near->ss_family,
                                            .sdiag_protocol = IPPROTO_TCP,
                                            .idiag_states = ~0U}};
    struct inet_diag_sockid *id = &question.request.id;
    put_end(near, id->idiag_src, &id->idiag_sport);
    put_end(far, id->idiag_dst, &id->idiag_dport);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(diag_fd, &question, sizeof(question), 0) < 0)
        return false;
    ssize_t length = recv(diag_fd, &reply, sizeof(reply), 0);
    if (length < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    const struct inet_diag_msg *found = NLMSG_DATA(&reply.header);
    *uidp = found->idiag_uid;
    return true;
}

/* A socket for questions, if the kernel answers them: it must know whose the listener is. -1: it does not. */
static int open_diag(int listener)
{
    uid_t owner = 0;
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof(own);
    if (getsockname(listener, (struct sockaddr *)&own, &length) < 0)
        return -1;
    struct sockaddr_storage none = {.ss_family = own.ss_family};
    int diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (diag_fd >= 0 && find_owner(diag_fd, &own, &none, &owner) && owner == geteuid())
        return diag_fd;
    descriptors_close(&diag_fd);
    return -1;
}

/* ---- Accept ------------------------------------------------------------------------------------- */

/* A connection whose other end has gone has no owner. */
static bool is_own(int diag_fd, int connection)
{
    uid_t owner = 0;
    struct sockaddr_storage near = {0};
    struct sockaddr_storage far = {0};
    socklen_t near_length = sizeof(near);
    socklen_t far_length = sizeof(far);
    if (getsockname(connection, (struct sockaddr *)&near, &near_length) < 0 ||
        getpeername(connection, (struct sockaddr *)&far, &far_length) < 0 ||
        !find_owner(diag_fd, &far, &near, &owner))
        return false;
    if (owner == geteuid())
        return true;
    drop_report_add(&gate.drop_report, clock_us(), &server_log, "pmix",
                    "closed a connection of user %u to the PMIx server", (unsigned)owner);
    return false;
}

/* In place of libc's for all of hvdrun, libpmix included. After ECONNABORTED libpmix goes on to listen. */
int server_accept(int fd, struct sockaddr *address, socklen_t *length) __asm__("accept")
    __attribute__((visibility("default")));

int server_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    int diag_fd = atomic_load(&gate.diag_fd);
    int connection = accept4(fd, address, length, 0);
    if (diag_fd < 0)
        return connection;
    if (connection < 0 && descriptors_are_used_up(errno)) {
        poll(NULL, 0, PAUSE_MS);
        errno = ECONNABORTED;
    }
    if (connection < 0 || is_own(diag_fd, connection))
        return connection;
    close(connection);
    errno = ECONNABORTED;
    return -1;
}

/* ---- Guard --------------------------------------------------------------------------------------- */

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

void server_accept_guard(void)
{
    for (int fd = STDERR_FILENO + 1; fd < MOST_FDS; fd++) {
        if (!is_tcp(fd) || !listens(fd))
            continue;
        guard(fd);
        atomic_store(&gate.diag_fd, open_diag(fd));
        drain(fd);
    }
    /* no rank has been started, so that all connections are of strangers */
    for (int fd = STDERR_FILENO + 1; fd < MOST_FDS; fd++) {
        if (is_tcp(fd) && !listens(fd))
            shutdown(fd, SHUT_RDWR);
    }
}
