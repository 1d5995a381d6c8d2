/* server_listener.h: keeps connections that say nothing away from libpmix's listener. */
#ifndef PMIX_SHIM_SERVER_LISTENER_H
#define PMIX_SHIM_SERVER_LISTENER_H

/* Call it once in the process of the PMIx server, when libpmix listens and no rank has been started. libpmix
 * 4.2 reads what a connection says first on its only thread, and waits for that without end, so one silent
 * process of any user would stop the job. Afterwards the kernel keeps a connection back until it has said
 * something, another user's is closed then (server_accept.h), and a pause within that ends it. */
void server_listener_guard(void);

#endif
