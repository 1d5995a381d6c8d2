/* fuzz_dial.h: a process that holds the key connects to a port of this machine. */
#ifndef TESTS_FUZZ_FUZZ_DIAL_H
#define TESTS_FUZZ_FUZZ_DIAL_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Returns a socket that does not block, and leaves nothing behind when it is closed; -1: there is none. */
static inline int dial(uint16_t port)
{
    const struct linger none = {.l_onoff = 1};
    const int on = 1; /* as hvd's processes do: what is sent comes in the same step */
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    close(fd);
    return -1;
}

#endif
