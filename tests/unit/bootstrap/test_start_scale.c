/* test_start_scale.c: how much a rank asks of wire-up at the start of jobs of up to 65,536 ranks, 64 on each
 * node. One rank at a time is real; a provider that knows the rule of the job plays all others. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/card_exchange.h"
#include "bootstrap/peer_exchange.h"

#define NODE_SIZE 64

static const int sizes[] = {64, 1024, 16384, 65536};

/* What the real rank has asked for. */
static struct {
    int size, rank, fences, gets;
    size_t bytes;
} asked;

static struct peer_info template;
static struct peer_table peer_table;
static struct node_group group_of_node;
static struct leader_list leaders;

static void describe_rank(struct peer_info *info, int rank)
{
    *info = template;
    info->start.launcher_rank = rank;
    info->peer.pid = rank + 1;
    info->peer.port = (uint16_t)(1024 + rank % 60000);
    info->peer.node_key = info->peer.net_key = (uint64_t)(1000 + rank / NODE_SIZE);
}

static size_t encode_node(int leader, unsigned char *bytes)
{
    static struct peer_info info;
    static struct node_card card = {.info = &info};
    static struct node_card_member members[NODE_SIZE];
    describe_rank(card.info, leader);
    card.leader = leader;
    card.members = members;
    card.member_count = NODE_SIZE;
    for (int i = 0; i < NODE_SIZE; i++)
        members[i] =
            (struct node_card_member){leader + i, leader + i + 1, (uint16_t)(1024 + i), (uint16_t)(2024 + i)};
    return node_card_encode(&card, bytes);
}

/* The first leader of a block hands on the cards of as many nodes as the square root of their number. */
static size_t encode_block(int first, size_t piece, unsigned char *bytes)
{
    static unsigned char card[WIREUP_BLOB_BYTES];
    struct blob_list list = {NULL, 0, 0};
    int block = NODE_SIZE * leader_group_size(asked.size / NODE_SIZE);
    ck_assert_int_eq(first % block, 0);
    for (int leader = first; leader < first + block && leader < asked.size; leader += NODE_SIZE)
        ck_assert_int_eq(blob_list_append(&list, leader, card, encode_node(leader, card), NULL), HVD_OK);
    unsigned char *whole = malloc(4 + list.length);
    ck_assert_ptr_nonnull(whole);
    for (int i = 0; i < 4; i++)
        whole[i] = (unsigned char)(list.length >> (8 * i));
    memcpy(whole + 4, list.bytes, list.length);
    size_t at = piece * WIREUP_BLOB_BYTES, left = 4 + list.length - at;
    size_t length = left < WIREUP_BLOB_BYTES ? left : WIREUP_BLOB_BYTES;
    memcpy(bytes, whole + at, length);
    free(whole);
    blob_list_free(&list);
    return length;
}

static int played_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state, (void)key, (void)bytes, (void)length, (void)err;
    return HVD_OK;
}

static int played_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    (void)state, (void)deadline_us, (void)err;
    asked.fences++;
    return HVD_OK;
}

static int played_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                      struct hvd_error *err)
{
    (void)state, (void)deadline_us, (void)err;
    static struct peer_info info;
    const char *what = strrchr(key, '.');
    unsigned char *bytes = calloc(1, WIREUP_BLOB_BYTES);
    ck_assert(bytes != NULL && what != NULL);
    if (strcmp(what, ".key") == 0) {
        ck_assert_int_eq(rank, 0);
        blob->length = JOB_KEY_BYTES;
    } else if (strcmp(what, ".node") == 0) {
        ck_assert_int_eq(rank % NODE_SIZE, 0); /* who leads no node need not be asked */
        blob->length = encode_node(rank, bytes);
    } else if (strncmp(what, ".all", 4) == 0) {
        blob->length = encode_block(rank, strtoul(what + 4, NULL, 10), bytes);
    } else {
        ck_assert_str_eq(what, ".peer_info");
        describe_rank(&info, rank);
        blob->length = peer_info_encode(&info, bytes);
    }
    blob->bytes = bytes;
    asked.gets++;
    asked.bytes += blob->length;
    return HVD_OK;
}

static int played_local_peers(void *state, int **ranksp, int *countp, struct hvd_error *err)
{
    (void)state, (void)err;
    int *ranks = calloc(NODE_SIZE, sizeof(*ranks));
    ck_assert_ptr_nonnull(ranks);
    for (int i = 0; i < NODE_SIZE; i++)
        ranks[i] = asked.rank / NODE_SIZE * NODE_SIZE + i;
    *ranksp = ranks;
    *countp = NODE_SIZE;
    return HVD_OK;
}

static const struct wireup_ops played_ops = {.name = "played",
                                             .put = played_put,
                                             .fence = played_fence,
                                             .get = played_get,
                                             .local_peers = played_local_peers};
static const struct wireup played = {&played_ops, NULL, NULL};

/* Let [rank] of [size] find its node. */
static void find_node(int size, int rank)
{
    const struct hvd_job job = {.rank = rank, .size = size, .epoch = 3};
    static struct peer_info own;
    struct hvd_error err = {""};
    struct hvd_config config;
    char *const nothing[] = {NULL};
    ck_assert_int_eq(config_load(&config, nothing, NULL, NULL), HVD_OK);
    peer_info_fill(&template, "node.of.a.cluster", 4000, &config);
    ck_assert_int_eq(peer_info_fill_start(&template, NULL, size, 0, 0), HVD_OK);
    template.peer.address_count = 1;
    inet_pton(AF_INET6, "::ffff:10.0.0.1", &template.peer.addresses[0]);
    memset(&asked, 0, sizeof(asked));
    asked.size = size;
    asked.rank = rank;
    ck_assert_int_eq(peer_table_open(&peer_table, &job, NULL), HVD_OK);
    describe_rank(&own, rank);
    int rc = peer_exchange(&peer_table, &played, &own, 0, &group_of_node, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_int_eq(group_of_node.report.status, HVD_OK);
    ck_assert_int_eq(group_of_node.members[0].rank, rank / NODE_SIZE * NODE_SIZE);
}

static void end(void)
{
    free(leaders.ranks);
    leaders = (struct leader_list){.ranks = NULL};
    node_group_free(&group_of_node);
    peer_table_close(&peer_table);
}

/* Its leader's info and the job's key, however large the job. */
START_TEST(a_member_asks_twice)
{
    find_node(sizes[_i], sizes[_i] - 1);
    ck_assert_int_eq(asked.gets, 2);
    ck_assert_int_eq(asked.fences, 1);
    ck_assert_int_eq(group_of_node.member_count, 1);
    ck_assert_uint_le(asked.bytes, 8192);
    end();
}
END_TEST

/* Of [group] lists: a list takes more than one blob where it is long. */
static int pieces_of_all(const struct blob_list *all, int group)
{
    return group + (int)(all->length / WIREUP_BLOB_BYTES);
}

/* The infos of the others of its node, that of rank 0, and the key. Where there are few nodes, the card of
 * each; else that of rank 0, those of its block if it hands them on, and the list of each block. */
START_TEST(a_leader_asks_for_few_blobs)
{
    int size = sizes[_i], nodes = size / NODE_SIZE, group = leader_group_size(nodes), rank = size - NODE_SIZE;
    struct hvd_error err = {""};
    struct blob_list all = {NULL, 0, 0};
    struct peer_info own;
    find_node(size, rank);
    int infos = rank == 0 ? NODE_SIZE - 1 : NODE_SIZE;
    ck_assert_int_eq(asked.gets, infos + 1);
    ck_assert_int_eq(group_of_node.member_count, NODE_SIZE);
    describe_rank(&own, rank);
    struct card_exchange cards = {.exchange = {&peer_table, &played, 0}};
    int rc = card_exchange_hand_on(&cards, &err);
    if (rc == HVD_OK)
        rc = card_exchange_read(&cards, &own, &peer_table, &leaders, &all, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    if (nodes <= LEADERS_DIRECT)
        ck_assert_int_eq(asked.gets, infos + 1 + 1 + nodes);
    else
        ck_assert_int_le(asked.gets, infos + 1 + 2 + group + pieces_of_all(&all, group));
    ck_assert_int_eq(leaders.count, nodes);
    ck_assert_int_eq(peer_table.node_of_rank[size / 2 + 1], size / 2 / NODE_SIZE * NODE_SIZE);
    ck_assert_uint_eq(peer_table.peers[1].port, 1025);
    size_t table_bytes = (size_t)size * (sizeof(struct peer) + sizeof(int));
    printf("# %d ranks: a leader gets %d blobs of %zu bytes in all, %.1f blobs and %zu bytes for each rank "
           "of its "
           "node; the node's table of peers has %zu bytes, %zu for each rank\n",
           size, asked.gets, asked.bytes, (double)asked.gets / NODE_SIZE, asked.bytes / NODE_SIZE,
           table_bytes, table_bytes / NODE_SIZE);
    blob_list_free(&all);
    end();
}
END_TEST

/* A rank that is not on the node of which the launcher speaks finds that out. */
START_TEST(a_launcher_may_be_wrong)
{
    find_node(1024, 70);
    struct peer_info *own = calloc(1, sizeof(*own));
    struct hvd_error err = {""};
    node_group_free(&group_of_node);
    describe_rank(own, 70);
    own->peer.node_key = 5;
    asked.gets = 0;
    ck_assert_int_eq(peer_exchange(&peer_table, &played, own, 0, &group_of_node, &err), HVD_OK);
    ck_assert_int_eq(asked.gets, 1 + 1 + (NODE_SIZE - 1) + 1); /* the leader's again, and the key */
    ck_assert_int_eq(group_of_node.member_count, 1);
    ck_assert_int_eq(group_of_node.members[0].rank, 70);
    free(own);
    end();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("start_scale");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_member_asks_twice, 0, 4);
    tcase_add_loop_test(tcase, a_leader_asks_for_few_blobs, 0, 4);
    tcase_add_test(tcase, a_launcher_may_be_wrong);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("start_scale", fill);
}
