/* server_accept.h: keeps connections that say nothing, and those of other users, away from libpmix. */
#ifndef PMIX_SHIM_SERVER_ACCEPT_H
#define PMIX_SHIM_SERVER_ACCEPT_H

/* Call it once in the process of the PMIx server, when libpmix listens and no rank has been started. libpmix
 * 4.2 reads what a connection says first on its only thread, and waits for that without end, so one silent
 * process of any user would stop the job. Afterwards the kernel keeps a connection back until it has said
 * something, and a pause within that ends it. Another user's connection is closed as it is accepted, and a
 * warning counts them, once in an interval; not where the kernel does not tell whose a connection is
 * (netlink's sock_diag). */
void server_accept_guard(void);

#endif
