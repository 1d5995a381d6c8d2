/* peer_exchange.c: exchanges the ranks' peer infos and the job's key by wire-up. */
#include "bootstrap/peer_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "bootstrap/job_key.h"

static void blob_name(const struct peer_table *peer_table, const char *what, char name[64])
{
    snprintf(name, 64, "hvd.%u.%s", peer_table->epoch, what);
}

static int put_own_info(const struct peer_table *peer_table, const struct wireup *wireup,
                        const struct peer_info *peer_info, struct hvd_error *err)
{
    char name[64];
    unsigned char bytes[PEER_INFO_BYTES];
    size_t length = peer_info_encode(peer_info, bytes);
    blob_name(peer_table, "peer_info", name);
    int rc = wireup->ops->put(wireup->state, name, bytes, length, err);
    if (rc != HVD_OK || peer_table->rank != 0)
        return rc;
    return job_key_put(peer_table, wireup, peer_info->key_guard, err);
}

static int get_peer_info(struct peer_table *peer_table, const struct wireup *wireup, int rank,
                         int64_t deadline_us, struct peer_info *peer_info, struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error why = {""};
    blob_name(peer_table, "peer_info", name);
    int rc = wireup->ops->get(wireup->state, rank, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = peer_info_decode(peer_info, blob.bytes, blob.length, &why);
    free(blob.bytes);
    if (rc != HVD_OK)
        return error_set(err, rc, "the peer info of rank %d, which it put for all ranks to see, %s", rank,
                         why.text);
    peer_table->peers[rank] = peer_info->peer;
    peer_table->peers[rank].leader = rank;
    return HVD_OK;
}

static int report_option_mismatch(const struct peer_table *peer_table, const struct hvd_option *option,
                                  int rank, const struct peer_info *peer_info, const struct peer_info *first,
                                  struct hvd_error *err)
{
    char name[300], first_name[300];
    const struct peer_info_option *value = &peer_info->options[option_index(option)];
    const struct peer_info_option *first_value = &first->options[option_index(option)];
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    peer_table_rank_name(peer_table, 0, first_name, sizeof(first_name));
    return error_set(
        err, HVD_ERR_MISMATCH,
        "option %s: %.80s has %.64s set by %.96s, %.80s has %.64s set by %.96s; give all ranks the same",
        option->name, name, value->value, value->source, first_name, first_value->value, first_value->source);
}

static int report_rank_list_mismatch(const struct peer_info *peer_info, const struct peer_info *first,
                                     struct hvd_error *err)
{
    return error_set(err, HVD_ERR_MISMATCH,
                     "hvd_init_with: the launcher's rank %d (%.64s) makes a job of the ranks %s, its rank %d "
                     "(%.64s) one of %s; all ranks of a job give the same list",
                     peer_info->start.launcher_rank, peer_info->peer.host, peer_info->start.ranks,
                     first->start.launcher_rank, first->peer.host, first->start.ranks);
}

static int report_set_count_mismatch(const struct peer_table *peer_table, int rank,
                                     const struct peer_info *peer_info, const struct peer_info *first,
                                     struct hvd_error *err)
{
    char name[300], first_name[300];
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    peer_table_rank_name(peer_table, 0, first_name, sizeof(first_name));
    return error_set(err, HVD_ERR_MISMATCH,
                     "hvd_init_with: %.80s gives %d process sets, %.80s gives %d; give all ranks the same",
                     name, peer_info->start.set_count, first_name, first->start.set_count);
}

static int report_guard_mismatch(const struct peer_table *peer_table, int rank,
                                 const struct peer_info *peer_info, const struct peer_info *first,
                                 struct hvd_error *err)
{
    char name[300], first_name[300];
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    peer_table_rank_name(peer_table, 0, first_name, sizeof(first_name));
    return error_set(err, HVD_ERR_MISMATCH,
                     "the secret of the job: %.80s has %s, %.80s has %s; give all ranks the same: hvdrun and "
                     "the plug-in set " SECRET_VARIABLE " for each rank, so do not remove it or change it",
                     name, job_key_guard_text(peer_info->key_guard), first_name,
                     job_key_guard_text(first->key_guard));
}

static int compare_peer_info(const struct peer_table *peer_table, int rank, const struct peer_info *peer_info,
                             const struct peer_info *first, struct hvd_error *err)
{
    const struct hvd_option *option = peer_info_differing_option(first, peer_info);
    if (!peer_info_same_ranks(first, peer_info))
        return report_rank_list_mismatch(peer_info, first, err);
    if (first->start.set_count != peer_info->start.set_count)
        return report_set_count_mismatch(peer_table, rank, peer_info, first, err);
    if (first->key_guard != peer_info->key_guard)
        return report_guard_mismatch(peer_table, rank, peer_info, first, err);
    return option == NULL ? HVD_OK : report_option_mismatch(peer_table, option, rank, peer_info, first, err);
}

/* Read the peer infos of all ranks, and compare each with that of rank 0. [infos] is room for two of them. */
static int get_all_peer_info(struct peer_table *peer_table, const struct wireup *wireup,
                             struct peer_info *infos, int64_t deadline_us, struct hvd_error *err)
{
    int rc = get_peer_info(peer_table, wireup, 0, deadline_us, &infos[0], err);
    for (int rank = 1; rc == HVD_OK && rank < peer_table->size; rank++) {
        rc = get_peer_info(peer_table, wireup, rank, deadline_us, &infos[1], err);
        if (rc == HVD_OK)
            rc = compare_peer_info(peer_table, rank, &infos[1], &infos[0], err);
    }
    return rc;
}

/* Ranks of this node reach each other by loopback, without any network interface. */
static void use_loopback(struct peer_table *peer_table)
{
    static const struct in6_addr loopback4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
    for (int rank = 0; rank < peer_table->size; rank++) {
        struct peer *peer = &peer_table->peers[rank];
        if (peer->node_key != peer_table->peers[peer_table->rank].node_key)
            continue;
        peer->addresses[0] = loopback4;
        peer->addresses[1] = in6addr_loopback;
        peer->address_count = 2;
    }
}

int peer_exchange(struct peer_table *peer_table, const struct wireup *wireup,
                  const struct peer_info *peer_info, int64_t deadline_us, struct hvd_error *err)
{
    struct peer_info *infos = calloc(2, sizeof(*infos));
    if (infos == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to read the other ranks' peer infos");
    int rc = put_own_info(peer_table, wireup, peer_info, err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    if (rc == HVD_OK)
        rc = get_all_peer_info(peer_table, wireup, infos, deadline_us, err);
    if (rc == HVD_OK) /* the first rank of our list took that rank for its own, and so drew a key */
        rc = job_key_get(peer_table, wireup, peer_info->key_guard, deadline_us, err);
    if (rc == HVD_OK)
        use_loopback(peer_table);
    free(infos);
    return rc;
}
