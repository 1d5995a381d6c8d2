/* test_node_card.c: what a leader tells of its node survives its bytes, hostile bytes do not get through, and
 * all leaders draw the same conclusion from all cards. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/node_card.h"

#define SIZE 5

static unsigned char blobs[SIZE][WIREUP_BLOB_BYTES];
static size_t lengths[SIZE];
static struct peer_info own_info;
static struct node_card card = {.info = &own_info}, read_card;
static struct peer_table peer_table;
static struct leader_list leaders;

/* The card of [leader], with the ranks in [ranks], into its blob. */
static void put_card(int leader, const int *ranks, int count)
{
    static struct node_card_member members[SIZE];
    struct hvd_config config;
    char host[16];
    char *const nothing[] = {NULL};
    snprintf(host, sizeof(host), "n%d", leader);
    ck_assert_int_eq(config_load(&config, nothing, NULL, NULL), HVD_OK);
    peer_info_fill(card.info, host, (uint16_t)(4000 + leader), &config);
    ck_assert_int_eq(peer_info_fill_start(card.info, NULL, SIZE, leader, 0), HVD_OK);
    card.info->peer.node_key = (uint64_t)leader;
    card.info->peer.address_count = 1;
    inet_pton(AF_INET6, "::ffff:10.0.0.1", &card.info->peer.addresses[0]);
    card.members = members;
    card.member_count = count;
    for (int i = 0; i < count; i++)
        members[i] = (struct node_card_member){ranks[i], 100 + ranks[i], (uint16_t)(4000 + ranks[i])};
    lengths[leader] = node_card_encode(&card, blobs[leader]);
    ck_assert_uint_gt(lengths[leader], 0);
}

/* Ranks 0 and 3 share memory, and so do 1 and 4; 2 is alone. */
static void put_cards(void)
{
    put_card(2, (int[]){2}, 1);
    put_card(1, (int[]){1, 4}, 2);
    put_card(0, (int[]){0, 3}, 2);
}

static int fake_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state, (void)key, (void)bytes, (void)length, (void)err;
    return HVD_OK;
}

static int fake_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    (void)state, (void)deadline_us, (void)err;
    return HVD_OK;
}

static int fake_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                    struct hvd_error *err)
{
    (void)state, (void)key, (void)deadline_us, (void)err;
    ck_assert_msg(lengths[rank] > 0, "rank %d leads no node", rank);
    blob->bytes = malloc(lengths[rank]);
    ck_assert_ptr_nonnull(blob->bytes);
    memcpy(blob->bytes, blobs[rank], lengths[rank]);
    blob->length = lengths[rank];
    return HVD_OK;
}

static const struct wireup_ops fake_ops = {
    .name = "fake", .put = fake_put, .fence = fake_fence, .get = fake_get};
static const struct wireup fake = {&fake_ops, NULL, NULL};

static int exchange(struct hvd_error *err)
{
    const struct hvd_job job = {.rank = 0, .size = SIZE, .epoch = 9};
    ck_assert_int_eq(peer_table_open(&peer_table, &job, NULL), HVD_OK);
    return node_card_exchange(&peer_table, &leaders, &fake, &card, 0, err);
}

static void end(void)
{
    free(leaders.ranks);
    peer_table_close(&peer_table);
}

START_TEST(a_card_survives_its_bytes)
{
    struct hvd_error err = {""};
    put_card(1, (int[]){1, 4}, 2);
    ck_assert_int_eq(node_card_decode(&read_card, 1, SIZE, blobs[1], lengths[1], &err), HVD_OK);
    ck_assert_int_eq(read_card.member_count, 2);
    ck_assert_int_eq(read_card.members[1].rank, 4);
    ck_assert_int_eq(read_card.members[1].pid, 104);
    ck_assert_uint_eq(read_card.members[1].port, 4004);
    ck_assert_str_eq(read_card.info->peer.host, "n1");
    node_card_free(&read_card);
    node_card_free(&read_card); /* a zeroed one is fine */
}
END_TEST

START_TEST(hostile_cards_are_refused)
{
    static const int lists[][2] = {{1, 1}, {1, 0}, {2, 4}, {1, SIZE}};
    put_card(1, (int[]){1, 4}, 2);
    for (size_t cut = 0; cut < lengths[1]; cut++) /* ends in what is read of the peer info, too */
        ck_assert_int_lt(node_card_decode(&read_card, 1, SIZE, blobs[1], cut, NULL), HVD_OK);
    blobs[1][lengths[1]] = 0;
    ck_assert_int_eq(node_card_decode(&read_card, 1, SIZE, blobs[1], lengths[1] + 1, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(node_card_decode(&read_card, 0, SIZE, blobs[1], lengths[1], NULL), HVD_ERR_INVALID);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        put_card(1, lists[i], 2);
        ck_assert_int_eq(node_card_decode(&read_card, 1, SIZE, blobs[1], lengths[1], NULL), HVD_ERR_INVALID);
    }
}
END_TEST

START_TEST(all_nodes_are_found)
{
    static const int nodes[SIZE] = {0, 1, 2, 0, 1};
    struct hvd_error err = {""};
    put_cards();
    ck_assert_msg(exchange(&err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(leaders.count, 3);
    for (int rank = 0; rank < SIZE; rank++) {
        ck_assert_int_eq(peer_table.node_of_rank[rank], nodes[rank]);
        ck_assert_int_eq(peer_table.peers[rank].leader, nodes[rank]);
        ck_assert_int_eq(peer_table.peers[rank].pid, 100 + rank);
        ck_assert_uint_eq(peer_table.peers[rank].port, 4000 + rank);
    }
    ck_assert_int_eq(peer_table.peers[3].addresses[0].s6_addr[12], 127); /* on rank 0's node */
    ck_assert_int_eq(peer_table.peers[4].addresses[0].s6_addr[12], 10);
    end();
}
END_TEST

START_TEST(no_rank_has_two_leaders)
{
    struct hvd_error err = {""};
    put_card(2, (int[]){2, 4}, 2);
    put_card(1, (int[]){1, 4}, 2);
    put_card(0, (int[]){0, 3}, 2);
    ck_assert_int_eq(exchange(&err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "rank 2 and another rank both say that they lead the node of rank 4");
    end();
}
END_TEST

START_TEST(the_lowest_failure_is_everyones)
{
    struct hvd_error err = {""};
    card.report = (struct start_report){.status = HVD_ERR_SYSTEM, .reason = {"not this one"}};
    put_card(2, (int[]){2}, 1);
    card.report = (struct start_report){.status = HVD_ERR_NO_MEMORY, .reason = {"too little of it"}};
    put_card(1, (int[]){1, 4}, 2);
    card.report = (struct start_report){.status = HVD_OK};
    put_card(0, (int[]){0, 3}, 2);
    ck_assert_int_eq(exchange(&err), HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text, "rank 1 (n1) cannot start: too little of it");
    end();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("node_card");
    tcase_add_test(tcase, a_card_survives_its_bytes);
    tcase_add_test(tcase, hostile_cards_are_refused);
    tcase_add_test(tcase, all_nodes_are_found);
    tcase_add_test(tcase, no_rank_has_two_leaders);
    tcase_add_test(tcase, the_lowest_failure_is_everyones);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_card", fill);
}
