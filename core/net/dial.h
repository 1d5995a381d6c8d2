/* dial.h: the connections of an establishment that this rank begins. */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include "net/establishment_state.h"

/* Find the addresses to try for each request that this rank connects. */
void dial_prepare(struct establishment *establishment);

/* Where the rank of a request listens for such connections. */
uint16_t dial_port(const struct establishment *establishment, const struct endpoint_connection *request);

/* Begin to connect for each request that is not met and whose next attempt is due. */
void dial_start_due(struct establishment *establishment);

/* Continue the handshake of request [index]. Returns true if it is done. */
bool dial_advance(struct establishment *establishment, int index);

/* The attempt for request [index] has failed; [why] is a phrase. The next address has its turn. */
void dial_failed(struct establishment *establishment, int index, const char *why);

/* When the next attempt is due: clock_us time, or INT64_MAX. */
int64_t dial_next_due(const struct establishment *establishment);

/* For how long the rank of request [index] has not even accepted a connection; -1 if it has accepted the last
 * one, or the request is met. */
int64_t dial_unanswered_us(const struct establishment *establishment, int index);

#endif
