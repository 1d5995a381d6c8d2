/* test_store.c: blobs by rank and key, and pages that a peer has damaged. */
#include "unit.h"

#include <string.h>

#include "pmix_shim/store.h"

static struct store *store;

static void set_up(void)
{
    store = store_create(3);
    ck_assert_ptr_nonnull(store);
}

static void tear_down(void)
{
    store_destroy(store);
    store_destroy(NULL);
}

static void expect_blob(int rank, const char *key, const char *text)
{
    struct hvd_error err = {""};
    struct wireup_blob blob = {NULL, 77};
    ck_assert_msg(store_get(store, rank, key, &blob, &err) == HVD_OK, "%s", err.text);
    ck_assert_uint_eq(blob.length, strlen(text));
    ck_assert_mem_eq(blob.bytes, text, blob.length);
    free(blob.bytes);
}

static void merge_own(int rank)
{
    size_t length = 0;
    const void *page = store_page(store, &length);
    ck_assert_int_eq(store_merge(store, rank, page, length, NULL), HVD_OK);
    store_forget_page(store);
}

START_TEST(the_last_blob_of_a_rank_is_found)
{
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    ck_assert_int_eq(store_put(store, "a", "one", 3, NULL), HVD_OK);
    ck_assert_int_eq(store_put(store, "ab", "", 0, NULL), HVD_OK);
    ck_assert_int_eq(store_get(store, 1, "a", &blob, &err), HVD_ERR_MISMATCH);
    merge_own(1);
    expect_blob(1, "a", "one");
    expect_blob(1, "ab", "");
    ck_assert_int_eq(store_put(store, "a", "two", 3, NULL), HVD_OK);
    expect_blob(1, "a", "one");
    merge_own(1);
    expect_blob(1, "a", "two");
    ck_assert_int_eq(store_get(store, 2, "a", &blob, &err), HVD_ERR_MISMATCH);
    ck_assert_msg(strstr(err.text, "rank 2 has put nothing under 'a'") != NULL, "%s", err.text);
    ck_assert_int_eq(store_get(store, 3, "a", &blob, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(store_get(store, -1, "a", &blob, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(blob.bytes);
}
END_TEST

START_TEST(what_is_too_long_is_refused)
{
    static char blob[WIREUP_BLOB_BYTES + 1];
    char key[STORE_KEY_BYTES + 2];
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = 0;
    ck_assert_int_eq(store_put(store, key, "", 0, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(store_put(store, key + 1, "", 0, NULL), HVD_OK);
    ck_assert_int_eq(store_put(store, "", "", 0, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(store_put(store, "a", blob, sizeof(blob), NULL), HVD_ERR_INVALID);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(store_put(store, "a", blob, WIREUP_BLOB_BYTES, NULL), HVD_OK);
    ck_assert_int_eq(store_put(store, "a", blob, WIREUP_BLOB_BYTES, NULL), HVD_ERR_INVALID);
    merge_own(0);
    ck_assert_int_eq(store_merge(store, 0, blob, STORE_PAGE_BYTES + 1, NULL), HVD_ERR_INVALID);
}
END_TEST

/* Entries of a page: length of the key, 4 bytes length of the blob, key, blob. */
static const struct {
    const char *bytes;
    size_t length;
    bool good;
} pages[] = {
    {"", 0, true},
    {"\1\1\0\0\0ab", 7, true},
    {"\1\0\0\0\0a\1\0\0\0\0b", 12, true},
    {"\1\1\0\0\0a", 6, false},
    {"\1\1\0\0", 4, false},
    {"\0\1\0\0\0ab", 7, false},
    {"\2\0\0\0\0a", 6, false},
    {"\377\0\0\0\0ab", 7, false},
    {"\1\1\0\0\0abc", 8, false},
    {"\1\377\377\377\377ab", 7, false},
    {"\1\1\0\1\0ab", 7, false},
    {"\1\1\0\0\0ab\1", 8, false},
};

START_TEST(a_damaged_page_changes_nothing)
{
    struct hvd_error err = {""};
    ck_assert_int_eq(store_put(store, "a", "one", 3, NULL), HVD_OK);
    merge_own(2);
    int rc = store_merge(store, 2, pages[_i].bytes, pages[_i].length, &err);
    if (pages[_i].good) {
        ck_assert_int_eq(rc, HVD_OK);
        return;
    }
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "the page of rank 2 is damaged") != NULL, "%s", err.text);
    expect_blob(2, "a", "one");
}
END_TEST

START_TEST(pages_of_no_rank_are_refused)
{
    ck_assert_int_eq(store_merge(store, 3, "", 0, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(store_merge(store, -1, "", 0, NULL), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("store");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_last_blob_of_a_rank_is_found);
    tcase_add_test(tcase, what_is_too_long_is_refused);
    tcase_add_loop_test(tcase, a_damaged_page_changes_nothing, 0, sizeof(pages) / sizeof(pages[0]));
    tcase_add_test(tcase, pages_of_no_rank_are_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("store", fill);
}
