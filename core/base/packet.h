/* packet.h: packets from a socket of type SOCK_SEQPACKET. */
#ifndef BASE_PACKET_H
#define BASE_PACKET_H

#include <sys/socket.h>

/* As recvmsg with MSG_DONTWAIT, which Linux answers with 0, the end, although a packet is there: if both that
 * packet and the end come while it looks. Here 0 comes after all packets. One that is empty, which a hostile
 * process may send, is skipped or taken for the end, and its descriptors are closed. */
ssize_t packet_receive(int fd, struct msghdr *message, int flags);

/* The same for a packet without descriptors. */
ssize_t packet_read(int fd, void *bytes, size_t length);

#endif
