/* reunion.c: the provider of a process's later starts, where PMIx served the first: the ranks meet again at
 * rank 0, which has listened since then. */
#include "config.h"
#include "pmix_shim/provider.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/listener.h"
#include "pmix_shim/fence_wireup.h"

_Static_assert(WIREUP_REUNION_KEY_BYTES == HANDSHAKE_KEY_BYTES, "it is a key for the handshake");

/* Of this process, from its first start to its end. */
static struct {
    bool planned;
    struct hvd_job job; /* as the launcher described it */
    struct env_job where;
    int listener; /* on rank 0, or -1 */
} reunion = {.listener = -1};

bool reunion_is_planned(int *sizep)
{
    *sizep = reunion.job.size;
    return reunion.planned;
}

uint16_t wireup_open_reunion(void)
{
    if (reunion.listener < 0)
        reunion.listener = listener_open(0);
    return reunion.listener < 0 ? 0 : listener_port(reunion.listener);
}

/* The address as text that the resolver of names takes for a number. */
static bool address_text(const struct in6_addr *address, char *text, size_t text_bytes)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        return inet_ntop(AF_INET, &address->s6_addr[12], text, (socklen_t)text_bytes) != NULL;
    return inet_ntop(AF_INET6, address, text, (socklen_t)text_bytes) != NULL;
}

void wireup_plan_reunion(const struct hvd_job *job, const struct in6_addr *rank_0, uint16_t port,
                         const unsigned char key[WIREUP_REUNION_KEY_BYTES])
{
    static const char purpose[] = "hvd reunion";
    struct env_job *where = &reunion.where;
    if (job->size > 1 && (port == 0 || !address_text(rank_0, where->master_host, sizeof(where->master_host))))
        return;
    reunion.job = *job;
    if (job->size > 1) {
        snprintf(where->master_port, sizeof(where->master_port), "%u", port);
        where->port_from = "of the first start";
        where->must_agree = "all ranks of the job must call hvd_init again, in the same processes";
        where->listener = job->rank == 0 ? &reunion.listener : NULL;
        crypto_generichash(where->key, sizeof(where->key), (const unsigned char *)purpose, sizeof(purpose),
                           key, WIREUP_REUNION_KEY_BYTES);
    }
    reunion.planned = true;
}

void wireup_forget_reunion(void)
{
    reunion.planned = false;
    sodium_memzero(reunion.where.key, sizeof(reunion.where.key));
}

void wireup_after_fork(void)
{
    wireup_forget_reunion();
    epochs_close_sockets();
    descriptors_close(&reunion.listener);
}

static int reunion_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                        struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    uint32_t epoch = job->epoch;
    *job = reunion.job;
    job->epoch = epoch;
    reunion.where.log = log;
    return fence_wireup_open(&reunion.where, job, deadline_us, statep, err);
}

const struct wireup_ops wireup_reunion_ops = {.name = "reunion",
                                              .open = reunion_open,
                                              .put = fence_wireup_put,
                                              .fence = fence_wireup_fence,
                                              .get = fence_wireup_get,
                                              .local_peers = fence_wireup_local_peers,
                                              .close = fence_wireup_close};
