/* test_card_exchange.c: all leaders of a job get the cards and reports of all, however the ranks are spread
 * over the nodes, and ask for few blobs. All ranks of the job are played, one after the other, with one
 * store. */
#include "config.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "bootstrap/card_exchange.h"
#include "bootstrap/start_report.h"

#define MOST_RANKS 4096

/* ---- The store ---- */

struct blob {
    char name[96]; /* the rank and the key */
    unsigned char *bytes;
    size_t length;
};

static struct blob store[4 * MOST_RANKS];
static size_t blob_count;
static int rank_now; /* whose turn it is */
static int gets;     /* of this rank, since it is its turn */
static int withheld; /* what this rank has put cannot be got; -1: all can */

static struct blob *find(int rank, const char *key)
{
    char name[96];
    snprintf(name, sizeof(name), "%d %s", rank, key);
    for (size_t i = 0; i < blob_count; i++)
        if (strcmp(store[i].name, name) == 0)
            return &store[i];
    return NULL;
}

static int store_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state, (void)err;
    ck_assert_ptr_null(find(rank_now, key)); /* nobody promises that a value can be replaced */
    ck_assert_uint_lt(blob_count, sizeof(store) / sizeof(store[0]));
    ck_assert_uint_le(length, WIREUP_BLOB_BYTES);
    struct blob *blob = &store[blob_count++];
    snprintf(blob->name, sizeof(blob->name), "%d %s", rank_now, key);
    blob->bytes = malloc(length);
    ck_assert_ptr_nonnull(blob->bytes);
    memcpy(blob->bytes, bytes, length);
    blob->length = length;
    return HVD_OK;
}

static int store_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                     struct hvd_error *err)
{
    (void)state, (void)deadline_us;
    const struct blob *found = find(rank, key);
    gets++;
    if (found == NULL || rank == withheld)
        return error_set(err, HVD_ERR_MISMATCH, "rank %d has put nothing under '%s'", rank,
                         strrchr(key, '.'));
    blob->length = found->length;
    blob->bytes = malloc(found->length);
    ck_assert_ptr_nonnull(blob->bytes);
    memcpy(blob->bytes, found->bytes, found->length);
    return HVD_OK;
}

static const struct wireup_ops ops = {.name = "store", .put = store_put, .get = store_get};
static const struct wireup wireup = {&ops, NULL, NULL};

static void empty_store(void)
{
    for (size_t i = 0; i < blob_count; i++)
        free(store[i].bytes);
    blob_count = 0;
    withheld = -1;
}

/* ---- The job ---- */

static int size;
static int node_of_rank[MOST_RANKS];          /* the leader of each rank */
static struct peer_info infos[MOST_RANKS];    /* of leaders only */
static struct card_exchange made[MOST_RANKS]; /* the same */
static struct start_report reports[MOST_RANKS];
static struct hvd_error why[MOST_RANKS];     /* a leader could not hand on all cards; "": it could */
static struct peer_table tables[MOST_RANKS]; /* without peers, but for the rank whose turn it is */

/* Each rank goes to the node that [number_of] says. */
static void make_job(int ranks, int (*number_of)(int rank))
{
    static int leader_of_number[MOST_RANKS];
    struct hvd_config config;
    char *const nothing[] = {NULL};
    ck_assert_int_eq(config_load(&config, nothing, NULL, NULL), HVD_OK);
    size = ranks;
    memset(leader_of_number, -1, sizeof(leader_of_number));
    for (int rank = 0; rank < size; rank++) {
        int number = number_of(rank);
        bool leads = leader_of_number[number] < 0;
        if (leads)
            leader_of_number[number] = rank;
        node_of_rank[rank] = leader_of_number[number];
        tables[rank] = (struct peer_table){.rank = rank, .size = size, .epoch = 7};
        made[rank].exchange = (struct leader_exchange){&tables[rank], &wireup, 0};
        made[rank].block = 0;
        reports[rank] = (struct start_report){.step = "probed"};
        if (!leads)
            continue;
        char host[16];
        snprintf(host, sizeof(host), "n%d", rank);
        peer_info_fill(&infos[rank], host, 4000, &config);
        ck_assert_int_eq(peer_info_fill_start(&infos[rank], NULL, size, rank, 0), HVD_OK);
        infos[rank].peer.node_key = (uint64_t)(rank + 1);
    }
}

static bool leads(int rank)
{
    return node_of_rank[rank] == rank;
}

static void put_card(int rank)
{
    static struct node_card_member members[MOST_RANKS];
    static const unsigned char nics[] = "some";
    struct node_card card = {.leader = node_of_rank[rank]};
    rank_now = rank;
    if (leads(rank)) {
        card = (struct node_card){.leader = rank,
                                  .info = &infos[rank],
                                  .report = reports[rank],
                                  .members = members,
                                  .nics = nics,
                                  .nics_length = sizeof(nics)};
        for (int other = rank; other < size; other++)
            if (node_of_rank[other] == rank)
                members[card.member_count++] = (struct node_card_member){
                    other, 100 + other, (uint16_t)(1024 + other), (uint16_t)(2024 + other)};
    }
    ck_assert_int_eq(card_exchange_put(&made[rank].exchange, &card, NULL), HVD_OK);
}

/* All ranks put their cards, and leaders hand on what they have to. Returns the most blobs that one got. */
static int hand_on(void)
{
    int most = 0;
    for (int rank = 0; rank < size; rank++)
        put_card(rank);
    for (int rank = 0; rank < size; rank++) {
        why[rank].text[0] = 0;
        if (!leads(rank))
            continue;
        rank_now = rank;
        gets = 0;
        int rc = card_exchange_hand_on(&made[rank], &why[rank]);
        ck_assert_msg(rc == HVD_OK || withheld >= 0, "rank %d: %s", rank, why[rank].text);
        most = gets > most ? gets : most;
    }
    return most;
}

/* What one leader reads. */
static struct {
    struct peer_table table;
    struct leader_list leaders;
    struct blob_list cards;
    struct hvd_error err;
} view;

static int read_cards(int rank)
{
    const struct hvd_job job = {.rank = rank, .size = size, .epoch = 7};
    memset(&view, 0, sizeof(view));
    ck_assert_int_eq(peer_table_open(&view.table, &job, NULL), HVD_OK);
    rank_now = rank;
    gets = 0;
    return card_exchange_read(&made[rank], &infos[rank], &view.table, &view.leaders, &view.cards, &view.err);
}

static void close_view(void)
{
    blob_list_free(&view.cards);
    free(view.leaders.ranks);
    peer_table_close(&view.table);
}

static void check_view(void)
{
    struct blob_entry entry;
    size_t at = 0;
    int count = 0;
    for (int rank = 0; rank < size; rank++) {
        ck_assert_int_eq(view.table.node_of_rank[rank], node_of_rank[rank]);
        ck_assert_int_eq(view.table.peers[rank].leader, node_of_rank[rank]);
        ck_assert_int_eq(view.table.peers[rank].pid, 100 + rank);
        ck_assert_uint_eq(view.table.peers[rank].port, (uint16_t)(1024 + rank));
        ck_assert_uint_eq(view.table.peers[rank].message_port, (uint16_t)(2024 + rank));
        if (!leads(rank))
            continue;
        ck_assert_int_eq(view.leaders.ranks[count++], rank);
        ck_assert(blob_list_next(&view.cards, &at, &entry));
        ck_assert_int_eq(entry.rank, rank);
    }
    ck_assert_int_eq(view.leaders.count, count);
    ck_assert(!blob_list_next(&view.cards, &at, &entry));
}

/* ---- How ranks are spread over nodes ---- */

static int by_fours(int rank)
{
    return rank / 4;
}

static int in_turns(int rank)
{
    return rank % 50;
}

static int each_alone(int rank)
{
    return rank;
}

/* Nodes of 1 to 5 ranks, so that blocks begin in the middle of nodes. */
static int uneven(int rank)
{
    return rank / 15 * 5 + (rank % 15 > 0) + (rank % 15 > 2) + (rank % 15 > 5) + (rank % 15 > 9);
}

/* Rank 0 is alone on its node, which tells little of the others. */
static int one_apart(int rank)
{
    return rank == 0 ? 0 : 1 + rank / 8;
}

static int scattered(int rank)
{
    return (int)((uint32_t)(rank + 1) * UINT32_C(2654435761) >> 26);
}

static const struct {
    int ranks;
    int (*number_of)(int rank);
    bool two_rounds;
    int most_gets; /* to hand on and to read: about three times the square root of the number of nodes */
} jobs[] = {
    {1, each_alone, false, 2},   {64, by_fours, false, 17},   {68, by_fours, true, 16},
    {400, by_fours, true, 33},   {4096, by_fours, true, 100}, {200, in_turns, true, 30},
    {500, each_alone, true, 72}, {300, uneven, true, 60},     {301, one_apart, true, 60},
    {300, scattered, true, 130}, {17, each_alone, true, 16},
};

START_TEST(every_leader_knows_every_node)
{
    empty_store();
    make_job(jobs[_i].ranks, jobs[_i].number_of);
    int handing = hand_on(), most = 0;
    ck_assert_int_eq(card_exchange_has_two_rounds(&made[0]), jobs[_i].two_rounds);
    for (int rank = 0; rank<size; rank += size> 500 ? 4 * 37 : 1) {
        if (!leads(rank))
            continue;
        int rc = read_cards(rank);
        ck_assert_msg(rc == HVD_OK, "job %d, rank %d: %s", _i, rank, view.err.text);
        check_view();
        most = gets > most ? gets : most;
        close_view();
    }
    ck_assert_msg(handing + most <= jobs[_i].most_gets, "job %d: %d and %d gets", _i, handing, most);
}
END_TEST

/* Whichever node cannot go on, each leader hears of it, and of the lowest where there are several. */
START_TEST(the_lowest_failure_is_everyones)
{
    empty_store();
    make_job(100, by_fours);
    reports[88] = (struct start_report){.status = HVD_ERR_SYSTEM, .reason = {"not this one"}};
    reports[32] = (struct start_report){.status = HVD_ERR_NO_MEMORY, .reason = {"too little of it"}};
    hand_on();
    for (int rank = 0; rank < size; rank += 4) {
        ck_assert_int_eq(read_cards(rank), HVD_ERR_NO_MEMORY);
        ck_assert_str_eq(view.err.text, rank == 0    ? "rank 32 (n32) cannot start: too little of it"
                                        : rank == 32 ? "too little of it"
                                                     : "the job cannot start: rank 0 (n0) says why");
        ck_assert_int_eq(view.leaders.count, 25);
        close_view();
    }
}
END_TEST

/* A leader that cannot get a card fails with its reason, and the others learn who misses what. */
START_TEST(a_card_that_does_not_come_is_named)
{
    empty_store();
    make_job(100, by_fours); /* blocks of 20 ranks */
    withheld = 28;
    hand_on();
    ck_assert_str_eq(why[20].text, "rank 28 has put nothing under '.node'");
    ck_assert_str_eq(why[24].text, "");
    ck_assert_int_eq(read_cards(0), HVD_ERR_INVALID);
    ck_assert_str_eq(view.err.text,
                     "rank 20, which hands on the cards of the nodes that ranks 20 to 39 lead, has "
                     "none of the node of rank 28");
    close_view();
}
END_TEST

/* ---- Reports ---- */

static void put_reports(const struct leader_list *leaders)
{
    for (int i = 0; i < leaders->count; i++) {
        rank_now = leaders->ranks[i];
        reports[rank_now].result = &leaders->ranks[i];
        reports[rank_now].result_length = sizeof(leaders->ranks[i]);
        ck_assert_int_eq(start_report_put(&made[rank_now].exchange, &reports[rank_now], NULL), HVD_OK);
    }
}

static const int leader_counts[] = {2, LEADERS_DIRECT, LEADERS_DIRECT + 1, 50, 1024};

static struct leader_list leaders;
static int leader_ranks[1024];

static void make_leaders(int count)
{
    empty_store();
    make_job(3 * count, each_alone);
    leaders = (struct leader_list){leader_ranks, count, 0};
    for (int i = 0; i < count; i++)
        leader_ranks[i] = 3 * i;
}

static void hand_on_reports(void)
{
    for (int i = 0; leader_exchange_has_two_rounds(&leaders) && i < leaders.count; i++) {
        rank_now = leader_ranks[i];
        int rc = leader_exchange_hand_on(&made[rank_now].exchange, &leaders, "probed", NULL);
        ck_assert(rc == HVD_OK || withheld >= 0);
    }
}

START_TEST(every_leader_reads_every_report)
{
    int count = leader_counts[_i];
    make_leaders(count);
    put_reports(&leaders);
    hand_on_reports();
    for (int i = 0; i<count; i += count> 100 ? 97 : 1) {
        struct blob_list list = {NULL, 0, 0};
        struct blob_entry entry;
        struct start_report report;
        size_t at = 0;
        gets = 0;
        ck_assert_int_eq(start_report_read(&made[leader_ranks[i]].exchange, &leaders, "probed", &list, NULL),
                         HVD_OK);
        ck_assert_int_le(gets, count <= LEADERS_DIRECT ? count : leader_group_size(count));
        for (int other = 0; other < count; other++) {
            ck_assert(blob_list_next(&list, &at, &entry));
            ck_assert_int_eq(start_report_of_entry(&report, "probed", &entry, NULL), HVD_OK);
            ck_assert_uint_eq(report.result_length, sizeof(int));
            ck_assert_mem_eq(report.result, &leader_ranks[other], sizeof(int));
        }
        ck_assert(!blob_list_next(&list, &at, &entry));
        blob_list_free(&list);
    }
}
END_TEST

START_TEST(a_report_that_does_not_come_is_named)
{
    struct blob_list list = {NULL, 0, 0};
    struct hvd_error err = {""};
    make_leaders(50); /* groups of 8 */
    put_reports(&leaders);
    withheld = leader_ranks[17];
    hand_on_reports();
    ck_assert_int_eq(start_report_read(&made[0].exchange, &leaders, "probed", &list, &err), HVD_ERR_INVALID);
    ck_assert_str_eq(err.text,
                     "rank 48, which hands on what the ranks 48 to 69 report, did not get it from rank 51");
    blob_list_free(&list);
}
END_TEST

/* ---- Lists ---- */

/* What rank 0 hands on under "x", after its first [cut] bytes from [at] were changed to [value]. */
static int get_list(size_t at, int value, size_t length, struct blob_list *list, struct hvd_error *err)
{
    struct blob *blob = find(0, "hvd.7.0000000000000000.x.all0");
    ck_assert_ptr_nonnull(blob);
    blob->length = length;
    if (at < length)
        blob->bytes[at] = (unsigned char)value;
    return blob_list_get(&made[0].exchange, 0, "x", list, err);
}

static void put_list(void)
{
    struct blob_list list = {NULL, 0, 0};
    empty_store();
    make_job(1, each_alone);
    ck_assert_int_eq(blob_list_append(&list, 3, "three", 5, NULL), HVD_OK);
    ck_assert_int_eq(blob_list_append(&list, 4, "", 0, NULL), HVD_OK);
    ck_assert_int_eq(blob_list_append(&list, 9, "nine", 4, NULL), HVD_OK);
    rank_now = 0;
    ck_assert_int_eq(blob_list_put(&made[0].exchange, "x", &list, NULL), HVD_OK);
    blob_list_free(&list);
}

#define LIST_LENGTH (4 + 3 * 8 + 9)

START_TEST(hostile_lists_are_refused)
{
    struct blob_list list = {NULL, 0, 0};
    struct hvd_error err = {""};
    put_list();
    ck_assert_int_eq(get_list(LIST_LENGTH, 0, LIST_LENGTH, &list, &err), HVD_OK);
    blob_list_free(&list);
    for (size_t cut = 0; cut < LIST_LENGTH; cut++) {
        put_list();
        ck_assert_int_eq(get_list(LIST_LENGTH, 0, cut, &list, &err), HVD_ERR_INVALID);
        ck_assert_str_eq(err.text, "what rank 0 hands on (x) is cut short or damaged");
        blob_list_free(&list);
    }
    static const struct {
        size_t at;
        int value;
    } changes[] = {{3, 0x7f}, {0, LIST_LENGTH - 5}, {0, LIST_LENGTH - 3}, {4, 4}, {8, 6}, {8, 4}, {11, 1},
                   {17, 2}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        put_list();
        ck_assert_msg(get_list(changes[i].at, changes[i].value, LIST_LENGTH, &list, &err) < HVD_OK,
                      "change %zu is taken", i);
        blob_list_free(&list);
    }
}
END_TEST

/* A list of many bytes travels in pieces. */
START_TEST(a_long_list_comes_in_pieces)
{
    static unsigned char bytes[WIREUP_BLOB_BYTES];
    struct blob_list list = {NULL, 0, 0}, got = {NULL, 0, 0};
    struct blob_entry entry;
    size_t at = 0;
    empty_store();
    make_job(1, each_alone);
    for (int rank = 0; rank < 5; rank++) {
        memset(bytes, rank, sizeof(bytes));
        ck_assert_int_eq(blob_list_append(&list, rank, bytes, sizeof(bytes) - (size_t)rank, NULL), HVD_OK);
    }
    rank_now = 0;
    ck_assert_int_eq(blob_list_put(&made[0].exchange, "x", &list, NULL), HVD_OK);
    gets = 0;
    ck_assert_int_eq(blob_list_get(&made[0].exchange, 0, "x", &got, NULL), HVD_OK);
    ck_assert_int_eq(gets, 6);
    for (int rank = 0; rank < 5; rank++) {
        memset(bytes, rank, sizeof(bytes));
        ck_assert(blob_list_next(&got, &at, &entry));
        ck_assert_uint_eq(entry.length, sizeof(bytes) - (size_t)rank);
        ck_assert_mem_eq(entry.bytes, bytes, entry.length);
    }
    blob_list_free(&list);
    blob_list_free(&got);
}
END_TEST

START_TEST(a_list_has_a_limit)
{
    static unsigned char bytes[WIREUP_BLOB_BYTES];
    struct blob_list list = {NULL, 0, 0};
    struct hvd_error err = {""};
    int rc = HVD_OK;
    for (int rank = 0; rc == HVD_OK; rank++)
        rc = blob_list_append(&list, rank, bytes, sizeof(bytes), &err);
    ck_assert_int_eq(rc, HVD_ERR_UNSUPPORTED);
    ck_assert_uint_le(list.length, BLOB_LIST_BYTES);
    ck_assert_uint_gt(list.length, BLOB_LIST_BYTES - 2 * WIREUP_BLOB_BYTES);
    blob_list_free(&list);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("card_exchange");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, every_leader_knows_every_node, 0, sizeof(jobs) / sizeof(jobs[0]));
    tcase_add_test(tcase, the_lowest_failure_is_everyones);
    tcase_add_test(tcase, a_card_that_does_not_come_is_named);
    tcase_add_loop_test(tcase, every_leader_reads_every_report, 0,
                        sizeof(leader_counts) / sizeof(leader_counts[0]));
    tcase_add_test(tcase, a_report_that_does_not_come_is_named);
    tcase_add_test(tcase, hostile_lists_are_refused);
    tcase_add_test(tcase, a_long_list_comes_in_pieces);
    tcase_add_test(tcase, a_list_has_a_limit);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("card_exchange", fill);
}
