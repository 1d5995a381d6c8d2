/* accept.h: the connections of an establishment that other processes begin. Nothing is known of them before
 * their handshake, and there may be any number: those that prove nothing give way to newer ones. */
#ifndef NET_ACCEPT_H
#define NET_ACCEPT_H

#include "net/establishment_state.h"

#define ACCEPT_UNAUTHENTICATED_MAX 64 /* accepted connections without a finished handshake */

/* Accept what has connected. What finds no descriptor left is accepted later. */
int accept_all(struct establishment *establishment, struct hvd_error *err);

/* Continue the handshake at [at], which belongs to an accepted connection. Returns the request that it meets
 * now that it is done, or -1. */
int accept_advance(struct establishment *establishment, int at);

/* A socket could not be made because of [error]. Where no descriptor is left, the oldest unauthenticated
 * connection gives way once it has had the time to prove itself. Returns true if another attempt is worth it
 * now; errno stays [error]. */
bool accept_make_room(struct establishment *establishment, int error);

/* Accept again, where that was put off and its time has come. */
void accept_resume(struct establishment *establishment);

#endif
