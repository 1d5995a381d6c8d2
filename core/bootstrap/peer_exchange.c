/* peer_exchange.c: exchanges peer infos and the job's key by wire-up, as far as each rank needs them to find
 * the ranks of its node. */
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
    unsigned char *bytes = malloc(PEER_INFO_BYTES);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to publish this rank's peer info");
    blob_name(peer_table, "peer_info", name);
    int rc = wireup->ops->put(wireup->state, name, bytes, peer_info_encode(peer_info, bytes), err);
    free(bytes);
    if (rc != HVD_OK || peer_table->rank != 0)
        return rc;
    return job_key_put(peer_table, wireup, peer_info->key_guard, err);
}

/* Where it cannot be read, [peer_info] is zeroed, or knows the rank's place but not its options. */
static int get_peer_info(struct peer_table *peer_table, const struct wireup *wireup, int rank,
                         int64_t deadline_us, struct peer_info *peer_info, struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error why = {""};
    blob_name(peer_table, "peer_info", name);
    memset(peer_info, 0, sizeof(*peer_info));
    int rc = wireup->ops->get(wireup->state, rank, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = peer_info_decode(peer_info, blob.bytes, blob.length, &why);
    free(blob.bytes);
    if (rc != HVD_OK)
        return error_set(err, rc, "rank %d cannot read what rank %d has published about itself, which %s",
                         peer_table->rank, rank, why.text);
    peer_table->peers[rank] = peer_info->peer;
    peer_table->peers[rank].leader = rank;
    return HVD_OK;
}

/* "rank 3 (n2)" of a rank that differs from rank 0, and the same of rank 0. */
struct rank_names {
    char rank[300], first[300];
};

static struct rank_names names_of(const struct peer_table *peer_table, int rank)
{
    struct rank_names names = {"", ""};
    peer_table_rank_name(peer_table, rank, names.rank, sizeof(names.rank));
    peer_table_rank_name(peer_table, 0, names.first, sizeof(names.first));
    return names;
}

static int report_option_mismatch(const struct peer_table *peer_table, const struct hvd_option *option,
                                  int rank, const struct peer_info *peer_info, const struct peer_info *first,
                                  struct hvd_error *err)
{
    const struct rank_names names = names_of(peer_table, rank);
    const struct peer_info_option *value = &peer_info->options[option_index(option)];
    const struct peer_info_option *first_value = &first->options[option_index(option)];
    return error_set(
        err, HVD_ERR_MISMATCH,
        "option %s: %.80s has %.64s set by %.96s, %.80s has %.64s set by %.96s; give all ranks the same",
        option->name, names.rank, value->value, value->source, names.first, first_value->value,
        first_value->source);
}

int peer_exchange_list_mismatch(const struct peer_info *peer_info, const struct peer_info *first,
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
    const struct rank_names names = names_of(peer_table, rank);
    return error_set(err, HVD_ERR_MISMATCH,
                     "hvd_init_with: %.80s gives %d process sets, %.80s gives %d; give all ranks the same",
                     names.rank, peer_info->start.set_count, names.first, first->start.set_count);
}

static int report_guard_mismatch(const struct peer_table *peer_table, int rank,
                                 const struct peer_info *peer_info, const struct peer_info *first,
                                 struct hvd_error *err)
{
    const struct rank_names names = names_of(peer_table, rank);
    return error_set(err, HVD_ERR_MISMATCH,
                     "the secret of the job: %.80s has %s, %.80s has %s; give all ranks the same: hvdrun and "
                     "the plug-in set " SECRET_VARIABLE " for each rank, so do not remove it or change it",
                     names.rank, job_key_guard_text(peer_info->key_guard), names.first,
                     job_key_guard_text(first->key_guard));
}

static int compare_peer_info(const struct peer_table *peer_table, int rank, const struct peer_info *peer_info,
                             const struct peer_info *first, struct hvd_error *err)
{
    const struct hvd_option *option = peer_info_differing_option(first, peer_info);
    if (!peer_info_same_ranks(first, peer_info))
        return peer_exchange_list_mismatch(peer_info, first, err);
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

void peer_exchange_use_loopback(struct peer_table *peer_table, uint64_t node_key)
{
    static const struct in6_addr loopback4 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
    for (int rank = 0; rank < peer_table->size; rank++) {
        struct peer *peer = &peer_table->peers[rank];
        if (peer->node_key != node_key)
            continue;
        peer->addresses[0] = loopback4;
        peer->addresses[1] = in6addr_loopback;
        peer->address_count = 2;
    }
}

/* ---- Who may share memory ---- */

/* One rank's exchange under way. */
struct info_exchange {
    struct peer_table *peer_table;
    const struct wireup *wireup;
    const struct peer_info *own;
    struct peer_info *infos; /* room for two of other ranks */
    int *local_peers;        /* the ranks that the launcher says are on this node; NULL if it does not say */
    int local_count;
    int64_t deadline_us;
    struct node_group *group;
};

/* Read one rank's info into infos[place]. */
static int read_info(const struct info_exchange *exchange, int rank, int place, struct hvd_error *err)
{
    if (rank == exchange->peer_table->rank) {
        exchange->infos[place] = *exchange->own;
        exchange->peer_table->peers[rank] = exchange->own->peer;
        return HVD_OK;
    }
    return get_peer_info(exchange->peer_table, exchange->wireup, rank, exchange->deadline_us,
                         &exchange->infos[place], err);
}

void node_group_free(struct node_group *group)
{
    free(group->members);
    group->members = NULL;
    group->member_count = 0;
}

static int group_alloc(struct node_group *group, int count, struct hvd_error *err)
{
    group->members = calloc((size_t)count, sizeof(*group->members));
    return group->members != NULL
               ? HVD_OK
               : error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", count);
}

static void group_add(struct node_group *group, int rank, const struct peer *peer)
{
    group->members[group->member_count++] = (struct node_card_member){
        .rank = rank, .pid = peer->pid, .port = peer->port, .message_port = peer->message_port};
}

/* Only the leader needs to know the others. */
static void group_settle(struct node_group *group, int own_rank)
{
    if (group->members[0].rank == own_rank)
        return;
    group->member_count = 1;
    group->report = (struct start_report){.status = HVD_OK};
}

/* The launcher does not say who is on which node: read the infos of all ranks. */
static int find_group_in_job(const struct info_exchange *exchange, struct hvd_error *err)
{
    struct peer_table *peer_table = exchange->peer_table;
    struct node_group *group = exchange->group;
    uint64_t node_key = exchange->own->peer.node_key;
    int rc = group_alloc(group, peer_table->size, err);
    if (rc == HVD_OK)
        rc = get_all_peer_info(peer_table, exchange->wireup, exchange->infos, exchange->deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    for (int rank = 0; rank < peer_table->size; rank++)
        if (peer_table->peers[rank].node_key == node_key)
            group_add(group, rank, &peer_table->peers[rank]);
    group_settle(group, peer_table->rank);
    peer_exchange_use_loopback(peer_table, node_key);
    return HVD_OK;
}

/* A rank with another list of ranks is in another job; one whose key is guarded otherwise has another key. */
static bool may_share_memory(const struct peer_info *own, const struct peer_info *info)
{
    return info->peer.node_key == own->peer.node_key && info->key_guard == own->key_guard &&
           peer_info_same_ranks(own, info);
}

/* Keep the first reason why the job cannot start for the leader's report: the other ranks must learn it too.
 */
static void keep_reason(const struct info_exchange *exchange, int status, const struct hvd_error *why)
{
    struct start_report *report = &exchange->group->report;
    if (status != HVD_OK && report->status == HVD_OK)
        *report = (struct start_report){.status = status, .names_ranks = true, .reason = *why};
}

/* The rank's place is known, though perhaps not its options. */
static bool knows_place(const struct peer_info *info)
{
    return info->peer.pid > 0;
}

/* Read one local peer's info, compare it with that of rank 0, and add the peer to the group if it may share
 * memory with this rank. */
static int consider_peer(const struct info_exchange *exchange, int rank, struct hvd_error *err)
{
    const struct peer_info *first = &exchange->infos[0], *info = &exchange->infos[1];
    struct hvd_error why = {""};
    int rc = read_info(exchange, rank, 1, &why);
    if (rc != HVD_OK && !knows_place(info))
        return error_set(err, rc, "%s", why.text);
    if (rc == HVD_OK)
        rc = compare_peer_info(exchange->peer_table, rank, info, first, &why);
    keep_reason(exchange, rc, &why);
    if (may_share_memory(exchange->own, info))
        group_add(exchange->group, rank, &info->peer);
    return HVD_OK;
}

/* Read the infos of all local peers: this rank may lead them, or is not where the launcher says. */
static int find_group_in_node(const struct info_exchange *exchange, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int rc = group_alloc(exchange->group, exchange->local_count, err);
    if (rc != HVD_OK)
        return rc;
    rc = read_info(exchange, 0, 0, &why);
    if (rc != HVD_OK && !knows_place(&exchange->infos[0]))
        return error_set(err, rc, "%s", why.text);
    keep_reason(exchange, rc, &why);
    rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < exchange->local_count; i++)
        rc = consider_peer(exchange, exchange->local_peers[i], err);
    if (rc == HVD_OK)
        group_settle(exchange->group, exchange->peer_table->rank);
    return rc;
}

/* The first local peer leads this rank, if the launcher is right. */
static int find_leader(const struct info_exchange *exchange, struct hvd_error *err)
{
    int first = exchange->local_peers[0];
    const struct peer_info *own = exchange->own, *info = &exchange->infos[0];
    struct hvd_error why = {""};
    if (first == exchange->peer_table->rank)
        return find_group_in_node(exchange, err);
    int rc = read_info(exchange, first, 0, &why);
    if (rc != HVD_OK && !knows_place(info))
        return error_set(err, rc, "%s", why.text);
    if (!may_share_memory(own, info))
        return find_group_in_node(exchange, err);
    keep_reason(exchange, rc, &why);
    rc = group_alloc(exchange->group, 1, err);
    if (rc == HVD_OK)
        group_add(exchange->group, first, &info->peer);
    return rc;
}

/* The first rank of our list drew a key, unless it gave another list; then say so. */
static int get_key_of_same_job(const struct info_exchange *exchange, struct hvd_error *err)
{
    int rc = job_key_get(exchange->peer_table, exchange->wireup, exchange->own->key_guard,
                         exchange->deadline_us, err);
    const struct peer_info *first = &exchange->infos[0], *own = exchange->own;
    if (rc == HVD_OK || read_info(exchange, 0, 0, NULL) != HVD_OK)
        return rc;
    if (!peer_info_same_ranks(first, own))
        return peer_exchange_list_mismatch(own, first, err);
    if (first->key_guard != own->key_guard)
        return report_guard_mismatch(exchange->peer_table, exchange->peer_table->rank, own, first, err);
    return rc;
}

int peer_exchange(struct peer_table *peer_table, const struct wireup *wireup,
                  const struct peer_info *peer_info, int64_t deadline_us, struct node_group *group,
                  struct hvd_error *err)
{
    const struct wireup_ops *ops = wireup->ops;
    struct info_exchange exchange = {.peer_table = peer_table,
                                     .wireup = wireup,
                                     .own = peer_info,
                                     .infos = calloc(2, sizeof(*peer_info)),
                                     .deadline_us = deadline_us,
                                     .group = group};
    if (exchange.infos == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to read the other ranks' peer infos");
    int rc = put_own_info(peer_table, wireup, peer_info, err);
    if (rc == HVD_OK)
        rc = ops->fence(wireup->state, deadline_us, err);
    if (rc == HVD_OK && ops->local_peers != NULL)
        rc = ops->local_peers(wireup->state, &exchange.local_peers, &exchange.local_count, err);
    if (rc == HVD_OK)
        rc = exchange.local_count == 0 ? find_group_in_job(&exchange, err) : find_leader(&exchange, err);
    if (rc == HVD_OK)
        rc = get_key_of_same_job(&exchange, err);
    free(exchange.local_peers);
    free(exchange.infos);
    return rc;
}
