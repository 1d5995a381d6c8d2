/* endpoint.c: the socket on which this rank listens for the other ranks. */
#include "config.h"
#include "net/endpoint.h"

#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/drop_report.h"
#include "net/address.h"

struct endpoint {
    int fd;
    uint16_t port;
    int64_t lease_us;
    const struct hvd_log *log;
    struct drop_report drop_report; /* of foreign connections */
};

static int listen_on(struct endpoint *endpoint, const struct in6_addr *any, struct hvd_error *err)
{
    struct sockaddr_storage address;
    socklen_t length = address_to_sockaddr(any, 0, &address);
    int both = 0;
    endpoint->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (endpoint->fd < 0)
        return error_set_errno(err, "cannot make a socket for the other ranks");
    if (address.ss_family == AF_INET6 &&
        setsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)) < 0)
        goto fail;
    if (bind(endpoint->fd, (struct sockaddr *)&address, length) < 0 || listen(endpoint->fd, SOMAXCONN) < 0)
        goto fail;
    length = sizeof(address);
    if (getsockname(endpoint->fd, (struct sockaddr *)&address, &length) < 0)
        goto fail;
    endpoint->port = address_sockaddr_port(&address);
    return HVD_OK;
fail:;
    int rc = error_set_errno(err, "cannot listen for the other ranks");
    close(endpoint->fd);
    endpoint->fd = -1;
    return rc;
}

int endpoint_open(struct endpoint **endpointp, int64_t lease_us, const struct hvd_log *log,
                  struct hvd_error *err)
{
    static const struct in6_addr any4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}}};
    if (sodium_init() < 0)
        return error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised");
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the listening socket");
    endpoint->lease_us = lease_us;
    endpoint->log = log;
    int rc = listen_on(endpoint, &in6addr_any, err);
    if (rc == HVD_ERR_SYSTEM)
        rc = listen_on(endpoint, &any4, err); /* no IPv6 here */
    if (rc != HVD_OK) {
        free(endpoint);
        return rc;
    }
    *endpointp = endpoint;
    return HVD_OK;
}

uint16_t endpoint_port(const struct endpoint *endpoint)
{
    return endpoint->port;
}

int endpoint_fd(const struct endpoint *endpoint)
{
    return endpoint->fd;
}

int64_t endpoint_lease_us(const struct endpoint *endpoint)
{
    return endpoint->lease_us;
}

const struct hvd_log *endpoint_log(const struct endpoint *endpoint)
{
    return endpoint->log;
}

void endpoint_warn_foreign(struct endpoint *endpoint, int fd, const char *why)
{
    char text[ADDRESS_TEXT_BYTES];
    address_peer_text(fd, text);
    drop_report_add(&endpoint->drop_report, clock_us(), endpoint->log, "endpoint",
                    "dropped a connection with %s: the other end %s", text, why);
}

void endpoint_after_fork(struct endpoint *endpoint)
{
    if (endpoint == NULL || endpoint->fd < 0)
        return;
    close(endpoint->fd);
    endpoint->fd = -1;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (endpoint != NULL)
        drop_report_tell(&endpoint->drop_report, INT64_MAX, endpoint->log, "endpoint");
    endpoint_after_fork(endpoint);
    free(endpoint);
}
