/* seal.h: what a connection between two ranks carries, sealed: encrypted, and protected against changes.
 *
 * Bytes travel in the records of auth/record.h, whose keys come from the handshake.
 *
 * The calls take the place of sendmsg and recvmsg on non-blocking sockets. Where the seal is NULL they are
 * just that. */
#ifndef NET_SEAL_H
#define NET_SEAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "auth/handshake.h"

#define SEAL_RECORD_BYTES 32768 /* the longest contents of a record */

struct seal;

/* The seal of a connection whose handshake is done; NULL if memory ran out. */
struct seal *seal_create(const struct handshake *handshake);

/* Wipes the keys. NULL is fine. */
void seal_free(struct seal *seal);

/* Send from [parts], without waiting. Returns how many bytes will certainly be sent, or -1 with errno, EAGAIN
 * among them. After fewer than all, the next call must offer the rest, and may offer more behind it. */
ssize_t seal_send(struct seal *seal, int fd, const struct iovec *parts, int part_count);

/* Receive into [parts], without waiting. Returns how many bytes, 0 at the end of the stream, or -1 with
 * errno: EAGAIN, and EBADMSG if bytes were changed on their way. */
ssize_t seal_receive(struct seal *seal, int fd, const struct iovec *parts, int part_count);

/* Are there bytes to receive that are no longer in the socket, so that poll does not tell of them? */
bool seal_has_bytes(const struct seal *seal);

#endif
