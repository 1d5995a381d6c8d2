/* listener.c: a socket that listens at a port of all addresses of this machine. */
#include "base/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int bind_any(int fd, int family, uint16_t port)
{
    const int off = 0;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
    if (family == AF_INET)
        return bind(fd, (struct sockaddr *)&four, sizeof(four));
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
        return -1;
    return bind(fd, (struct sockaddr *)&six, sizeof(six));
}

static int open_family(int family, uint16_t port)
{
    const int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 && bind_any(fd, family, port) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

int listener_open(uint16_t port)
{
    int fd = open_family(AF_INET6, port);
    return fd < 0 && errno == EAFNOSUPPORT ? open_family(AF_INET, port) : fd;
}

uint16_t listener_port(int fd)
{
    struct sockaddr_in6 own; /* an IPv4 address has its port at the same place */
    socklen_t length = sizeof(own);
    return getsockname(fd, (struct sockaddr *)&own, &length) == 0 ? ntohs(own.sin6_port) : 0;
}
