/* test_node_ranks.c: which ranks are on which node, and lists from the wire that are refused. */
#include "config.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "pmix_shim/node_ranks.h"

#define SIZE 6

/* The identities of the nodes of the ranks: 0, 2 and 5 are on one, 1 and 3 on another. */
static const uint64_t nodes[SIZE] = {9, 2, 9, 2, 5, 9};

static struct node_ranks node_ranks;

static void set_up(void)
{
    struct hvd_error err = {""};
    struct store *store = store_create(SIZE);
    for (int rank = 0; rank < SIZE; rank++) {
        unsigned char bytes[8];
        size_t length = 0;
        struct encoder encoder = {bytes, sizeof(bytes), false};
        encode_number(&encoder, nodes[rank], 8);
        ck_assert_int_eq(store_put(store, "env.node", bytes, sizeof(bytes), NULL), HVD_OK);
        const void *page = store_page(store, &length);
        ck_assert_int_eq(store_merge(store, rank, page, length, NULL), HVD_OK);
        store_forget_page(store);
    }
    int rc = node_ranks_read(&node_ranks, store, SIZE, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    store_destroy(store);
}

static void tear_down(void)
{
    node_ranks_free(&node_ranks);
}

START_TEST(ranks_with_one_identity_are_on_one_node)
{
    static const int expected[SIZE][4] = {{3, 0, 2, 5}, {2, 1, 3}, {3, 0, 2, 5},
                                          {2, 1, 3},    {1, 4},    {3, 0, 2, 5}};
    int *ranks = NULL, *read = NULL;
    int count = 0, read_count = 0;
    unsigned char *bytes = NULL;
    size_t length = 0;
    ck_assert_int_eq(node_ranks_copy(&node_ranks, _i, &ranks, &count, NULL), HVD_OK);
    ck_assert_int_eq(count, expected[_i][0]);
    ck_assert_mem_eq(ranks, expected[_i] + 1, (size_t)count * sizeof(*ranks));
    ck_assert_int_eq(node_ranks_encode(&node_ranks, _i, &bytes, &length, NULL), HVD_OK);
    ck_assert_int_eq(node_ranks_decode(bytes, length, &(struct env_job){.rank = _i, .size = SIZE}, &read,
                                       &read_count, NULL),
                     HVD_OK);
    ck_assert_int_eq(read_count, count);
    ck_assert_mem_eq(read, ranks, (size_t)count * sizeof(*ranks));
    free(bytes);
    free(ranks);
    free(read);
}
END_TEST

static const struct {
    const char *bytes;
    size_t length;
} damaged[] = {{"", 0},
               {"\1\0\0\0\2\0\0\0", 8}, /* not the own rank */
               {"\3\0\0\0\2\0\0\0", 8}, /* they do not ascend */
               {"\3\0\0\0\3\0\0\0", 8}, /* one comes twice */
               {"\3\0\0\0\6\0\0\0", 8}, /* there is no rank 6 */
               {"\3\0\0\0\4\0\0", 7},   /* cut short */
               {"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\5\0\0\0", 28}};

START_TEST(a_damaged_list_is_refused)
{
    struct hvd_error err = {""};
    int *ranks = NULL;
    int count = 0;
    const unsigned char *bytes = (const unsigned char *)damaged[_i].bytes;
    const struct env_job job = {.rank = 3, .size = SIZE};
    ck_assert_int_eq(node_ranks_decode(bytes, damaged[_i].length, &job, &ranks, &count, &err),
                     HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "it sent a list of the ranks of this node that is damaged");
    ck_assert_ptr_null(ranks);
    ck_assert_int_eq(count, 0);
}
END_TEST

START_TEST(a_rank_that_puts_no_identity_is_named)
{
    struct hvd_error err = {""};
    struct node_ranks none = {0};
    struct store *store = store_create(1);
    ck_assert_int_eq(node_ranks_read(&none, store, 1, &err), HVD_ERR_MISMATCH);
    ck_assert_msg(strstr(err.text, "rank 0 has put nothing") != NULL, "%s", err.text);
    ck_assert_ptr_null(none.ranks);
    store_destroy(store);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("node_ranks");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, ranks_with_one_identity_are_on_one_node, 0, SIZE);
    tcase_add_loop_test(tcase, a_damaged_list_is_refused, 0, sizeof(damaged) / sizeof(damaged[0]));
    tcase_add_test(tcase, a_rank_that_puts_no_identity_is_named);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_ranks", fill);
}
