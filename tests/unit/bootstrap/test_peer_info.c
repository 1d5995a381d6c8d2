/* test_peer_info.c: what a rank tells of itself survives its bytes, and hostile bytes do not get through. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/peer_info.h"

static struct peer_info peer_info;
static unsigned char bytes[PEER_INFO_BYTES];
static size_t length;

static void fill_card(void)
{
    struct hvd_config config;
    char fusion[] = "HVD_FUSION=32M";
    char *const environment[] = {fusion, NULL};
    struct hvd_error err = {""};
    ck_assert_msg(config_load(&config, environment, NULL, &err) == HVD_OK, "%s", err.text);
    peer_info_fill(&peer_info, "n5", 4711, &config);
    peer_info.peer.message_port = 4712;
    ck_assert_int_eq(peer_info_fill_start(&peer_info, (const int[]){6, 2, 3, 4}, 4, 1, 7), HVD_OK);
    length = peer_info_encode(&peer_info, bytes);
}

START_TEST(a_card_survives_its_bytes)
{
    static struct peer_info read;
    ck_assert_int_eq(peer_info_decode(&read, bytes, length, NULL), HVD_OK);
    ck_assert_mem_eq(&read, &peer_info, sizeof(peer_info));
    ck_assert_str_eq(read.peer.host, "n5");
    ck_assert_int_eq(read.peer.pid, getpid());
    ck_assert_uint_eq(read.peer.port, 4711);
    ck_assert_uint_eq(read.peer.message_port, 4712);
    ck_assert_int_eq(read.start.launcher_rank, 2);
    ck_assert_int_eq(read.start.rank_count, 4);
    ck_assert_str_eq(read.start.ranks, "6,2-4");
    ck_assert_int_eq(read.start.set_count, 7);
    ck_assert_str_eq(read.options[option_index(OPTION_OF(fusion_bytes))].value, "32M");
    ck_assert_str_eq(read.options[option_index(OPTION_OF(fusion_bytes))].source, "environment (HVD_FUSION)");
    ck_assert_str_eq(read.options[option_index(OPTION_OF(lease_us))].value, ""); /* not job-wide */
}
END_TEST

START_TEST(the_longest_card_fits)
{
    static struct peer_info longest, read;
    memset(&longest, 'x', sizeof(longest));
    longest.peer = peer_info.peer;
    longest.key_guard = JOB_KEY_MUNGE;
    longest.start.launcher_rank = longest.start.rank_count = longest.start.set_count = INT32_MAX;
    longest.start.ranks[sizeof(longest.start.ranks) - 1] = 0;
    memset(longest.peer.host, 'h', sizeof(longest.peer.host) - 1);
    longest.peer.address_count = PEER_MAX_ADDRESSES;
    for (int i = 0; i < option_count; i++) {
        longest.options[i].value[sizeof(longest.options[i].value) - 1] = 0;
        longest.options[i].source[sizeof(longest.options[i].source) - 1] = 0;
    }
    ck_assert_int_eq(peer_info_decode(&read, bytes, peer_info_encode(&longest, bytes), NULL), HVD_OK);
    ck_assert_str_eq(read.peer.host, longest.peer.host);
    ck_assert_int_eq(read.key_guard, JOB_KEY_MUNGE);
    int backends = option_index(OPTION_OF(backends));
    ck_assert_str_eq(read.options[backends].value, longest.options[backends].value);
}
END_TEST

/* Long lists look alike in words; no list is the list of all. */
START_TEST(lists_of_ranks_are_told_apart)
{
    static struct peer_info other;
    int ranks[200];
    for (int i = 0; i < 200; i++)
        ranks[i] = 2 * i;
    ck_assert_int_eq(peer_info_fill_start(&peer_info, ranks, 200, 0, 0), HVD_OK);
    ranks[199]++;
    ck_assert_int_eq(peer_info_fill_start(&other, ranks, 200, 0, 0), HVD_OK);
    ck_assert_str_eq(peer_info.start.ranks, other.start.ranks);
    ck_assert(!peer_info_same_ranks(&peer_info, &other));
    ck_assert_int_eq(peer_info_fill_start(&peer_info, NULL, 3, 2, 0), HVD_OK);
    ck_assert_int_eq(peer_info_fill_start(&other, (const int[]){0, 1, 2}, 3, 0, 5), HVD_OK);
    ck_assert(peer_info_same_ranks(&peer_info, &other));
    ck_assert_int_eq(peer_info_fill_start(&other, (const int[]){1, 0, 2}, 3, 0, 5), HVD_OK);
    ck_assert(!peer_info_same_ranks(&peer_info, &other));
}
END_TEST

START_TEST(node_keys_are_equal_in_one_place)
{
    static struct peer_info again;
    struct hvd_config config;
    char *const environment[] = {NULL};
    ck_assert_int_eq(config_load(&config, environment, NULL, NULL), HVD_OK);
    peer_info_fill(&again, "other", 1, &config);
    ck_assert_uint_eq(again.peer.node_key, peer_info.peer.node_key);
}
END_TEST

START_TEST(a_cut_card_is_refused)
{
    static struct peer_info read;
    for (size_t cut = 0; cut < length; cut++) {
        unsigned char *part = malloc(cut + 1); /* exactly sized, for the address sanitizer */
        ck_assert_ptr_nonnull(part);
        memcpy(part, bytes, cut);
        ck_assert_int_ne(peer_info_decode(&read, part, cut, NULL), HVD_OK);
        free(part);
    }
    bytes[length] = 0;
    ck_assert_int_eq(peer_info_decode(&read, bytes, length + 1, NULL), HVD_ERR_INVALID);
}
END_TEST

/* Whatever is changed, what is accepted is bounded and can be shown. */
START_TEST(a_changed_card_is_harmless)
{
    static struct peer_info read;
    for (size_t at = 0; at < length; at++) {
        for (int value = 0; value < 256; value += 5) {
            unsigned char kept = bytes[at];
            bytes[at] = (unsigned char)value;
            if (peer_info_decode(&read, bytes, length, NULL) == HVD_OK) {
                ck_assert_uint_lt(strlen(read.peer.host), sizeof(read.peer.host));
                ck_assert_ptr_null(strpbrk(read.peer.host, "\n\r\033"));
                ck_assert_int_le(read.peer.address_count, PEER_MAX_ADDRESSES);
                ck_assert_int_ge(read.peer.address_count, 1);
                ck_assert_int_gt(read.peer.pid, 0);
                ck_assert_uint_lt(strlen(read.start.ranks), sizeof(read.start.ranks));
                ck_assert_int_ge(read.start.set_count, 0);
            }
            bytes[at] = kept;
        }
    }
}
END_TEST

static const struct {
    size_t at;
    unsigned char value;
    int status;
    const char *expect;
} changes[] = {
    {0, 'H', HVD_ERR_INVALID, "is not one of hvd"},
    {4, 99, HVD_ERR_MISMATCH, "is of another version of hvd"},
    {8, '\n', HVD_ERR_INVALID, "is cut short or damaged"}, /* in the host */
    {8, 0, HVD_ERR_INVALID, "is cut short or damaged"},
    {7, 0x7f, HVD_ERR_INVALID, "is cut short or damaged"}, /* the host's length */
    {34, 0, HVD_ERR_INVALID, "is cut short or damaged"},   /* the count of addresses */
    {34, PEER_MAX_ADDRESSES + 1, HVD_ERR_INVALID, "is cut short or damaged"},
};

START_TEST(what_is_wrong_is_said)
{
    static struct peer_info read;
    struct hvd_error err = {""};
    bytes[changes[_i].at] = changes[_i].value;
    ck_assert_int_eq(peer_info_decode(&read, bytes, length, &err), changes[_i].status);
    ck_assert_msg(strstr(err.text, changes[_i].expect) != NULL, "%s", err.text);
}
END_TEST

START_TEST(other_options_are_another_version)
{
    static struct peer_info read;
    struct hvd_error err = {""};
    unsigned char *name = memmem(bytes, length, "fusion", 6);
    ck_assert_ptr_nonnull(name);
    memcpy(name, "fission", 6);
    ck_assert_int_eq(peer_info_decode(&read, bytes, length, &err), HVD_ERR_MISMATCH);
    ck_assert_msg(strstr(err.text, "with other options") != NULL, "%s", err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("peer_info");
    tcase_add_checked_fixture(tcase, fill_card, NULL);
    tcase_add_test(tcase, a_card_survives_its_bytes);
    tcase_add_test(tcase, the_longest_card_fits);
    tcase_add_test(tcase, lists_of_ranks_are_told_apart);
    tcase_add_test(tcase, node_keys_are_equal_in_one_place);
    tcase_add_test(tcase, a_cut_card_is_refused);
    tcase_add_test(tcase, a_changed_card_is_harmless);
    tcase_add_loop_test(tcase, what_is_wrong_is_said, 0, sizeof(changes) / sizeof(changes[0]));
    tcase_add_test(tcase, other_options_are_another_version);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("peer_info", fill);
}
