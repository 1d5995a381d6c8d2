/* rank_claim.c: lets one process at a time have a rank: it binds a socket to a name that says which rank. The
 * kernel frees the name when the process ends, however it ends. */
#include "config.h"
#include "bootstrap/rank_claim.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_stat.h"
#include "bootstrap/wireup.h"

/* How long a process that has bound its name may take until it listens. */
#define LISTEN_US INT64_C(1000000)

/* The first byte 0 makes the name abstract: there is no file, and it belongs to this network namespace. */
static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "hvd-rank-%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* The process that has the name; its number is 0 where nobody has. */
static struct ucred owner_of(const struct sockaddr_un *address, socklen_t length)
{
    struct ucred owner = {.pid = 0};
    socklen_t owner_length = sizeof(owner);
    int64_t deadline_us = clock_us() + LISTEN_US;
    int fd = new_socket();
    int rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)address, length);
    while (fd >= 0 && rc != 0 && errno == ECONNREFUSED && clock_us() < deadline_us) {
        poll(NULL, 0, 1);
        rc = connect(fd, (const struct sockaddr *)address, length);
    }
    if (rc != 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &owner_length) != 0)
        owner.pid = 0;
    descriptors_close(&fd);
    return owner;
}

/* Does another process of this user hold the rank? A process that was killed, or this one in an earlier job,
 * may have left the socket to a child that was made behind the C library's back and has not called exec yet;
 * other users cannot take a rank away. */
static bool is_held(const struct ucred *owner)
{
    struct process_stat stat, own;
    if (owner->pid <= 0 || owner->pid == getpid() || owner->uid != geteuid())
        return false;
    return process_stat_read(owner->pid, &stat) ? !stat.exits : !process_stat_read(getpid(), &own);
}

int rank_claim_take(struct rank_claim *claim, struct hvd_error *err)
{
    struct wireup_identity identity;
    struct sockaddr_un address;
    if (!wireup_identify(&identity))
        return HVD_OK;
    socklen_t length = address_of(identity.name, &address);
    int fd = new_socket();
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, SOMAXCONN) == 0) {
        *claim = (struct rank_claim){.held = true, .fd = fd};
        return HVD_OK;
    }
    int problem = errno;
    descriptors_close(&fd);
    if (problem != EADDRINUSE)
        return HVD_OK; /* without such sockets, as in a sandbox, nothing is checked */
    struct ucred owner = owner_of(&address, length);
    if (!is_held(&owner))
        return HVD_OK;
    return error_set(
        err, HVD_ERR_STATE,
        "rank %.16s of this job is process %d, which has not left it: a program that a rank "
        "starts, such as a worker that loads data, or a tool, has no part in the job; let it not "
        "call hvd_init, or remove %s from its environment, so that it is a job of its own",
        identity.rank, (int)owner.pid, identity.variables);
}

void rank_claim_release(struct rank_claim *claim)
{
    if (claim->held)
        close(claim->fd);
    claim->held = false;
}
