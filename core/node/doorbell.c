/* doorbell.c: waking a rank of this node that sleeps: its eventfd, or a datagram to a random name. */
#include "node/doorbell.h"

#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptors.h"

/* Most rings that doorbell_clear removes, so that nobody can keep it busy. More than the kernel queues by
 * default (net.unix.max_dgram_qlen). */
#define RINGS_MAX 64

void doorbell_ring_eventfd(const struct doorbell_eventfd *doorbell)
{
    descriptors_ring(doorbell->fd);
}

/* The first byte 0 makes the name abstract: there is no file, and the name belongs to this network namespace.
 */
static socklen_t address_of(const unsigned char name[DOORBELL_NAME_BYTES], struct sockaddr_un *address)
{
    static const char prefix[] = "hvd-doorbell-";
    const size_t prefix_bytes = sizeof(prefix) - 1;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, prefix, prefix_bytes);
    sodium_bin2hex(address->sun_path + 1 + prefix_bytes, (size_t)2 * DOORBELL_NAME_BYTES + 1, name,
                   DOORBELL_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix_bytes +
                       (size_t)2 * DOORBELL_NAME_BYTES);
}

int doorbell_open(struct doorbell *doorbell, int epoll_fd, struct hvd_error *err)
{
    struct sockaddr_un address;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    *doorbell = (struct doorbell){.fd = -1};
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium finds no random numbers");
    randombytes_buf(doorbell->name, sizeof(doorbell->name));
    socklen_t length = address_of(doorbell->name, &address);
    doorbell->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (doorbell->fd < 0)
        return error_set_errno(err, "cannot make the socket by which ranks of this node wake each other");
    int rc = HVD_OK;
    if (bind(doorbell->fd, (struct sockaddr *)&address, length) != 0)
        rc = error_set_errno(err, "cannot name the socket by which ranks of this node wake each other");
    else if (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, doorbell->fd, &event) != 0)
        rc = error_set_errno(err, "cannot wait for other ranks of this node (epoll_ctl)");
    if (rc != HVD_OK)
        doorbell_close(doorbell);
    return rc;
}

void doorbell_ring(const struct doorbell *own, const unsigned char name[DOORBELL_NAME_BYTES])
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    /* It fails if nobody has that name, or if the queue is full; then the rank is awake or will wake. */
    ssize_t ignored =
        sendto(own->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    (void)ignored;
}

void doorbell_clear(const struct doorbell *doorbell)
{
    char byte;
    int left = RINGS_MAX;
    while (left > 0 && recv(doorbell->fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
        left--;
}

void doorbell_close(struct doorbell *doorbell)
{
    descriptors_close(&doorbell->fd);
}
