/* test_node_card.c: what a leader tells of its node survives its bytes, hostile bytes do not get through, and
 * of cards that contradict each other none is believed. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/card_exchange.h"

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
    card.leader = leader;
    card.members = members;
    card.member_count = count;
    card.nics = (const unsigned char *)"eth0";
    card.nics_length = 4;
    for (int i = 0; i < count; i++)
        members[i] = (struct node_card_member){ranks[i], 100 + ranks[i], (uint16_t)(4000 + ranks[i]),
                                               (uint16_t)(5000 + ranks[i])};
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

static const struct wireup_ops fake_ops = {.name = "fake", .get = fake_get};
static const struct wireup fake = {&fake_ops, NULL, NULL};

static int exchange(struct hvd_error *err)
{
    const struct hvd_job job = {.rank = 0, .size = SIZE, .epoch = 9};
    ck_assert_int_eq(peer_table_open(&peer_table, &job, NULL), HVD_OK);
    struct card_exchange cards = {.exchange = {&peer_table, &fake, 0}};
    struct blob_list list = {NULL, 0, 0};
    int rc = card_exchange_hand_on(&cards, err);
    if (rc == HVD_OK)
        rc = card_exchange_read(&cards, card.info, &peer_table, &leaders, &list, err);
    blob_list_free(&list);
    return rc;
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
    ck_assert_uint_eq(read_card.members[1].message_port, 5004);
    ck_assert_str_eq(read_card.info->peer.host, "n1");
    ck_assert_uint_eq(read_card.nics_length, 4);
    ck_assert_mem_eq(read_card.nics, "eth0", 4);
    node_card_free(&read_card);
    node_card_free(&read_card); /* a zeroed one is fine */
}
END_TEST

/* A rank that leads no node says who leads it. */
START_TEST(a_member_names_its_leader)
{
    struct hvd_error err = {""};
    const struct node_card member = {.leader = 1};
    size_t length = node_card_encode(&member, blobs[4]);
    ck_assert_int_eq(node_card_decode(&read_card, 4, SIZE, blobs[4], length, &err), HVD_OK);
    ck_assert_int_eq(read_card.leader, 1);
    ck_assert_int_eq(read_card.member_count, 0);
    ck_assert_ptr_null(read_card.info);
    ck_assert_int_eq(node_card_decode(&read_card, 0, SIZE, blobs[4], length, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(node_card_decode(&read_card, 1, SIZE, blobs[4], length, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(node_card_decode(&read_card, 4, SIZE, blobs[4], length + 1, &err), HVD_ERR_INVALID);
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

/* Rank 3 says that rank 0 leads its node, whose card has no rank 3. */
START_TEST(a_leader_that_does_not_say_so_is_none)
{
    struct hvd_error err = {""};
    const struct node_card member = {.leader = 0};
    put_card(2, (int[]){2}, 1);
    put_card(1, (int[]){1, 4}, 2);
    put_card(0, (int[]){0}, 1);
    lengths[3] = node_card_encode(&member, blobs[3]);
    ck_assert_int_eq(exchange(&err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "rank 3 says that rank 0 leads its node, and that one does not say so");
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
    tcase_add_test(tcase, a_member_names_its_leader);
    tcase_add_test(tcase, hostile_cards_are_refused);
    tcase_add_test(tcase, all_nodes_are_found);
    tcase_add_test(tcase, no_rank_has_two_leaders);
    tcase_add_test(tcase, a_leader_that_does_not_say_so_is_none);
    tcase_add_test(tcase, the_lowest_failure_is_everyones);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_card", fill);
}
