/* endpoint.h: the socket on which this rank listens for the other ranks. establishment.h makes connections
 * with it. */
#ifndef NET_ENDPOINT_H
#define NET_ENDPOINT_H

#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

struct endpoint;

/* Listen on a port that the kernel chooses. A connection whose peer has not answered for [lease_us] is cut.
 */
int endpoint_open(struct endpoint **endpointp, int64_t lease_us, const struct hvd_log *log,
                  struct hvd_error *err);
uint16_t endpoint_port(const struct endpoint *endpoint);

/* The listening socket, which does not block. */
int endpoint_fd(const struct endpoint *endpoint);
int64_t endpoint_lease_us(const struct endpoint *endpoint);
const struct hvd_log *endpoint_log(const struct endpoint *endpoint);

/* Warn of the dropped connection [fd] to a foreign process; [why] is a phrase that follows "the other end".
 * Many in a short time share one line. */
void endpoint_warn_foreign(struct endpoint *endpoint, int fd, const char *why);

/* In a forked child: close the socket, touch nothing else. NULL is fine. */
void endpoint_after_fork(struct endpoint *endpoint);

/* NULL is fine. */
void endpoint_close(struct endpoint *endpoint);

#endif
