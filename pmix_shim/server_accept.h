/* server_accept.h: keeps connections of other users away from libpmix. */
#ifndef PMIX_SHIM_SERVER_ACCEPT_H
#define PMIX_SHIM_SERVER_ACCEPT_H

/* From now on libpmix gets no connection of another user's process from [listener]: such a connection is
 * closed as it is accepted, and a warning counts them, once in an interval. Nothing changes where the kernel
 * does not tell whose a connection is (netlink's sock_diag). Call it once in the process of the PMIx
 * server. */
void server_accept_own_only(int listener);

#endif
