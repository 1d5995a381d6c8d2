/* listener.h: a socket that listens at a port of all addresses of this machine. */
#ifndef BASE_LISTENER_H
#define BASE_LISTENER_H

#include <stdint.h>

/* For IPv6 and IPv4, or IPv4 alone where the kernel has no IPv6; [port] 0 is one that the kernel chooses. It
 * does not block. -1 with errno if it cannot. */
int listener_open(uint16_t port);

/* The port at which [fd] listens; 0 with errno if it cannot be told. */
uint16_t listener_port(int fd);

#endif
