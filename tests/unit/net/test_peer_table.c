/* test_peer_table.c: the exchange of cards and reports, by a wire-up whose other ranks say what the test
 * wants.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/peer_exchange.h"
#include "bootstrap/start_report.h"

#define SIZE 4

/* What each rank is to have put. */
static unsigned char cards[SIZE][PEER_INFO_BYTES];
static size_t card_lengths[SIZE];
static struct start_report reports[SIZE];
static unsigned char job_key[64];
static size_t job_key_length;
static int fence_count;

static int fake_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state;
    (void)err;
    if (strcmp(key, "hvd.9.key") == 0) {
        memcpy(job_key, bytes, length);
        job_key_length = length;
    }
    return HVD_OK;
}

static int fake_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    (void)state;
    (void)deadline_us;
    (void)err;
    fence_count++;
    return HVD_OK;
}

static int fake_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                    struct hvd_error *err)
{
    (void)state;
    (void)deadline_us;
    (void)err;
    unsigned char report[START_REPORT_BYTES];
    const void *bytes = cards[rank];
    size_t length = card_lengths[rank];
    if (strcmp(key, "hvd.9.key") == 0) {
        ck_assert_int_eq(rank, 0);
        bytes = job_key;
        length = job_key_length;
    } else if (strncmp(key, "hvd.9.", 6) == 0 && strcmp(key + strlen(key) - 5, ".step") == 0) {
        length = start_report_encode(&reports[rank], report);
        bytes = report;
    } else {
        ck_assert_str_eq(key, "hvd.9.peer_info");
    }
    blob->bytes = malloc(length + 1);
    ck_assert_ptr_nonnull(blob->bytes);
    memcpy(blob->bytes, bytes, length);
    blob->length = length;
    return HVD_OK;
}

static const struct wireup_ops fake_ops = {
    .name = "fake", .put = fake_put, .fence = fake_fence, .get = fake_get};
static const struct wireup fake = {&fake_ops, NULL, NULL};
static struct peer_table peer_table;
static struct peer_info peer_info;
static struct node_group group;

/* Rank [rank] with a fusion of [fusion]: ranks 0 and 2 are in one place, 1 and 3 in others. */
static void make_card(int rank, char *const *environment)
{
    struct hvd_config config;
    char host[16];
    snprintf(host, sizeof(host), "n%d", rank);
    ck_assert_int_eq(config_load(&config, environment, NULL, NULL), HVD_OK);
    peer_info_fill(&peer_info, host, (uint16_t)(4000 + rank), &config);
    ck_assert_int_eq(peer_info_fill_start(&peer_info, NULL, SIZE, rank, 0), HVD_OK);
    peer_info.peer.node_key = rank == 2 ? 100 : 100 + (uint64_t)rank;
    peer_info.peer.address_count = 1;
    inet_pton(AF_INET6, "::ffff:10.0.0.1", &peer_info.peer.addresses[0]);
    card_lengths[rank] = peer_info_encode(&peer_info, cards[rank]);
}

static void begin(int rank)
{
    const struct hvd_job job = {.rank = rank, .size = SIZE, .epoch = 9};
    char *const nothing[] = {NULL};
    for (int i = SIZE - 1; i >= 0; i--)
        make_card(i, nothing);
    job_key_length = JOB_KEY_BYTES;
    ck_assert_int_eq(peer_table_open(&peer_table, &job, NULL), HVD_OK);
}

static void end(void)
{
    node_group_free(&group);
    node_group_free(&group);
    peer_table_close(&peer_table);
    peer_table_close(&peer_table); /* a zeroed one is fine */
}

START_TEST(all_ranks_are_learnt)
{
    begin(0);
    char text[300];
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, NULL), HVD_OK);
    ck_assert_int_eq(fence_count, 1);
    ck_assert_mem_eq(peer_table.key, job_key, JOB_KEY_BYTES); /* drawn here, as rank 0 */
    static const unsigned char zero[JOB_KEY_BYTES];
    ck_assert_mem_ne(peer_table.key, zero, sizeof(zero));
    ck_assert_uint_eq(peer_table.peers[3].port, 4003);
    peer_table_rank_name(&peer_table, 3, text, sizeof(text));
    ck_assert_str_eq(text, "rank 3 (n3)");
    peer_table_rank_name(&peer_table, 99, text, sizeof(text));
    ck_assert_str_eq(text, "rank 99");
    end();
}
END_TEST

START_TEST(neighbours_are_reached_by_loopback)
{
    begin(2);
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, NULL), HVD_OK);
    struct in6_addr *address = &peer_table.peers[0].addresses[0];
    ck_assert(IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
    ck_assert_int_eq(peer_table.peers[0].address_count, 2);
    ck_assert_int_eq(peer_table.peers[1].address_count, 1);
    ck_assert_int_eq(peer_table.peers[1].addresses[0].s6_addr[12], 10);
    ck_assert_int_eq(group.member_count, 1); /* who does not lead needs its leader only */
    ck_assert_int_eq(group.members[0].rank, 0);
    end();
    begin(0);
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, NULL), HVD_OK);
    ck_assert_int_eq(group.member_count, 2);
    ck_assert_int_eq(group.members[0].rank, 0);
    ck_assert_int_eq(group.members[1].rank, 2);
    ck_assert_int_eq(group.members[1].port, 4002);
    end();
}
END_TEST

START_TEST(a_difference_names_both_ranks_and_values)
{
    struct hvd_error err = {""};
    char fusion64[] = "HVD_CLI=fusion=64M", fusion32[] = "HVD_FUSION=32M";
    char *const cli[] = {fusion64, NULL};
    char *const user[] = {fusion32, NULL};
    begin(_i);
    make_card(0, cli);
    make_card(3, user);
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, &err), HVD_ERR_MISMATCH);
    ck_assert_str_eq(
        err.text, "option fusion: rank 3 (n3) has 32M set by environment (HVD_FUSION), rank 0 (n0) has 64M "
                  "set by command line; give all ranks the same");
    end();
}
END_TEST

/* Rank 3 gives another list to hvd_init_with, or other sets; every rank says so, with the launcher's numbers.
 */
START_TEST(a_different_start_is_named)
{
    static const int launcher_ranks[SIZE] = {0, 1, 2, 7};
    static const char *const sentences[] = {
        "hvd_init_with: the launcher's rank 7 (n3) makes a job of the ranks 0-2,7, its rank 0 (n0) one of "
        "0-3; "
        "all ranks of a job give the same list",
        "hvd_init_with: rank 3 (n3) gives 2 process sets, rank 0 (n0) gives 0; give all ranks the same"};
    struct hvd_error err = {""};
    char *const nothing[] = {NULL};
    int sets = _i % 2 == 0 ? 0 : 2;
    begin(_i / 2);
    make_card(3, nothing);
    ck_assert_int_eq(peer_info_fill_start(&peer_info, sets == 0 ? launcher_ranks : NULL, SIZE, 3, sets),
                     HVD_OK);
    card_lengths[3] = peer_info_encode(&peer_info, cards[3]);
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, &err), HVD_ERR_MISMATCH);
    ck_assert_str_eq(err.text, sentences[_i % 2]);
    end();
}
END_TEST

/* A rank whose environment has lost the secret says so, and so do the others. */
START_TEST(all_ranks_have_the_same_guard)
{
    struct hvd_error err = {""};
    begin(1);
    make_card(3, (char *const[]){NULL});
    peer_info.key_guard = JOB_KEY_SECRET;
    card_lengths[3] = peer_info_encode(&peer_info, cards[3]);
    peer_info.key_guard = JOB_KEY_BARE;
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, &err), HVD_ERR_MISMATCH);
    ck_assert_msg(strstr(err.text, "rank 3 (n3) has HVD_JOB_KEY, rank 0 (n0) has no HVD_JOB_KEY; ") != NULL,
                  "%s", err.text);
    end();
}
END_TEST

START_TEST(hostile_blobs_are_refused)
{
    struct hvd_error err = {""};
    begin(1);
    job_key_length = JOB_KEY_BYTES - 1;
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "the job key of rank 0 has 31 bytes; expected 32") != NULL, "%s",
                  err.text);
    node_group_free(&group);
    job_key_length = JOB_KEY_BYTES;
    card_lengths[2]--;
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "cannot read what rank 2 has published about itself") != NULL, "%s",
                  err.text);
    end();
}
END_TEST

static const struct {
    uint64_t keys[SIZE];
    int count;
    int network_of_rank[SIZE], firsts[SIZE];
} networks[] = {
    {{7, 7, 7, 7}, 1, {0, 0, 0, 0}, {0}},
    {{9, 7, 9, 8}, 3, {0, 1, 0, 2}, {0, 1, 3}},
    {{4, 3, 2, 1}, 4, {0, 1, 2, 3}, {0, 1, 2, 3}},
    {{9, 7, 0, 8}, 1, {0, 0, 0, 0}, {0}}, /* rank 2 cannot tell */
};

START_TEST(networks_are_numbered_by_their_first_ranks)
{
    int network_of_rank[SIZE], firsts[SIZE];
    begin(1);
    for (int rank = 0; rank < SIZE; rank++)
        peer_table.peers[rank].net_key = networks[_i].keys[rank];
    ck_assert_int_eq(peer_table_networks(&peer_table, network_of_rank, firsts), networks[_i].count);
    for (int rank = 0; rank < SIZE; rank++)
        ck_assert_int_eq(network_of_rank[rank], networks[_i].network_of_rank[rank]);
    for (int i = 0; i < networks[_i].count; i++)
        ck_assert_int_eq(firsts[i], networks[_i].firsts[i]);
    end();
}
END_TEST

START_TEST(nonsense_from_the_launcher_is_refused)
{
    static const struct hvd_job jobs[] = {
        {.rank = 0, .size = 0}, {.rank = 3, .size = 3}, {.rank = -1, .size = 2}};
    struct peer_table untouched = {.rank = 77};
    ck_assert_int_eq(peer_table_open(&untouched, &jobs[_i], NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(untouched.rank, 77);
}
END_TEST

/* ---- Reports ---- */

START_TEST(a_report_survives_its_bytes)
{
    struct start_report report = {"step", HVD_ERR_TIMEOUT, true, {"rank 3 did not come"}, "found", 5};
    struct start_report read = {.step = NULL};
    unsigned char bytes[START_REPORT_BYTES + 1];
    size_t length = start_report_encode(&report, bytes);
    ck_assert_int_eq(start_report_decode(&read, bytes, length), HVD_OK);
    ck_assert_int_eq(read.status, HVD_ERR_TIMEOUT);
    ck_assert(read.names_ranks);
    ck_assert_str_eq(read.reason.text, report.reason.text);
    ck_assert_uint_eq(read.result_length, 5);
    ck_assert_mem_eq(read.result, "found", 5);
    for (size_t cut = 0; cut < length; cut++)
        ck_assert_int_eq(start_report_decode(&read, bytes, cut), HVD_ERR_INVALID);
    bytes[length] = 0;
    ck_assert_int_eq(start_report_decode(&read, bytes, length + 1), HVD_ERR_INVALID);
    bytes[4] = 1; /* a status of 0xffffff01 */
    ck_assert_int_eq(start_report_decode(&read, bytes, length), HVD_ERR_INVALID);
}
END_TEST

static struct start_report failing(int status, const char *reason)
{
    struct start_report report = {.step = "step", .status = status};
    snprintf(report.reason.text, sizeof(report.reason.text), "%s", reason);
    return report;
}

static int read_reports(const struct leader_list *leaders, struct hvd_error *err)
{
    const struct leader_exchange exchange = {&peer_table, &fake, 0};
    struct blob_list list = {NULL, 0, 0};
    int rc = start_report_read(&exchange, leaders, "step", &list, err);
    blob_list_free(&list);
    return rc;
}

START_TEST(one_failure_is_everyones)
{
    struct hvd_error err = {""};
    int ranks[] = {0, 2, 3};
    const struct leader_list leaders = {ranks, 3, 0};
    begin(0);
    ck_assert_int_eq(peer_exchange(&peer_table, &fake, &peer_info, 0, &group, NULL), HVD_OK);
    reports[0].step = "step";
    reports[1] = failing(HVD_ERR_SYSTEM, "this rank leads no node");
    ck_assert_int_eq(read_reports(&leaders, &err), HVD_OK);
    reports[2] = failing(HVD_ERR_NO_MEMORY, "there is too little of it");
    reports[3] = failing(HVD_ERR_SYSTEM, "not this one");
    ck_assert_int_eq(read_reports(&leaders, &err), HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text, "rank 2 (n2) cannot start: there is too little of it");
    reports[2].names_ranks = true;
    ck_assert_int_eq(read_reports(&leaders, &err), HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text, "there is too little of it");
    end();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("peer_table");
    tcase_add_test(tcase, all_ranks_are_learnt);
    tcase_add_test(tcase, neighbours_are_reached_by_loopback);
    tcase_add_loop_test(tcase, a_difference_names_both_ranks_and_values, 0, SIZE);
    tcase_add_loop_test(tcase, a_different_start_is_named, 0, 2 * SIZE);
    tcase_add_test(tcase, all_ranks_have_the_same_guard);
    tcase_add_test(tcase, hostile_blobs_are_refused);
    tcase_add_loop_test(tcase, networks_are_numbered_by_their_first_ranks, 0,
                        sizeof(networks) / sizeof(networks[0]));
    tcase_add_loop_test(tcase, nonsense_from_the_launcher_is_refused, 0, 3);
    tcase_add_test(tcase, a_report_survives_its_bytes);
    tcase_add_test(tcase, one_failure_is_everyones);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("peer_table", fill);
}
