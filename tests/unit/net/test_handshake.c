/* test_handshake.c: how two ends prove that they hold the job key: every changed bit is refused. */
#include "unit.h"

#include <sodium.h>
#include <string.h>

#include "auth/auth_message.h"
#include "net/peer_table.h"

static unsigned char key[JOB_KEY_BYTES], other_key[JOB_KEY_BYTES];
static unsigned char challenge[AUTH_CHALLENGE_BYTES], response[AUTH_RESPONSE_BYTES];
static unsigned char confirmation[AUTH_CONFIRMATION_BYTES];
static const struct auth_claim claim = {.purpose = 2, .tag = 9, .epoch = 7, .from = 70000, .to = 3};

static void shake(void)
{
    ck_assert_int_ge(sodium_init(), 0);
    randombytes_buf(key, sizeof(key));
    randombytes_buf(other_key, sizeof(other_key));
    auth_make_challenge(challenge);
    auth_make_response(key, challenge, &claim, response);
    auth_make_confirmation(key, challenge, response, confirmation);
}

START_TEST(both_ends_understand_each_other)
{
    struct auth_claim heard = {0};
    ck_assert_ptr_null(auth_check_challenge(challenge, sizeof(challenge)));
    ck_assert_ptr_null(auth_check_response(key, challenge, response, sizeof(response), &heard));
    ck_assert_uint_eq(heard.purpose, claim.purpose);
    ck_assert_uint_eq(heard.tag, claim.tag);
    ck_assert_uint_eq(heard.epoch, claim.epoch);
    ck_assert_uint_eq(heard.from, claim.from);
    ck_assert_uint_eq(heard.to, claim.to);
    ck_assert_ptr_null(auth_check_confirmation(key, challenge, response, confirmation, sizeof(confirmation)));
}
END_TEST

START_TEST(the_bytes_are_little_endian)
{
    static const unsigned char head[] = {'h', 'v', 'd', 'a', 3,    0,    2, 0, 9, 0, 0, 0,
                                         7,   0,   0,   0,   0x70, 0x11, 1, 0, 3, 0, 0, 0};
    ck_assert_mem_eq(response, head, sizeof(head));
    ck_assert_mem_eq(challenge, "hvdc\3\0", 6);
}
END_TEST

START_TEST(every_changed_bit_of_an_answer_is_refused)
{
    struct auth_claim heard = {.from = 77};
    for (size_t bit = 0; bit < 8 * sizeof(response); bit++) {
        response[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_ptr_nonnull(auth_check_response(key, challenge, response, sizeof(response), &heard));
        response[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    ck_assert_uint_eq(heard.from, 77);
}
END_TEST

START_TEST(every_changed_bit_of_a_welcome_is_refused)
{
    for (size_t bit = 0; bit < 8 * sizeof(confirmation); bit++) {
        confirmation[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_ptr_nonnull(
            auth_check_confirmation(key, challenge, response, confirmation, sizeof(confirmation)));
        confirmation[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

START_TEST(cut_bytes_are_refused)
{
    struct auth_claim heard;
    for (size_t length = 0; length < sizeof(response); length++) {
        unsigned char *cut = malloc(length + 1); /* exactly sized, for the address sanitizer */
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, response, length);
        ck_assert_ptr_nonnull(auth_check_response(key, challenge, cut, length, &heard));
        free(cut);
    }
    for (size_t length = 0; length < sizeof(challenge); length++)
        ck_assert_ptr_nonnull(auth_check_challenge(challenge, length));
    ck_assert_ptr_nonnull(
        auth_check_confirmation(key, challenge, response, confirmation, sizeof(confirmation) - 1));
}
END_TEST

START_TEST(what_is_wrong_is_said)
{
    struct auth_claim heard;
    ck_assert_str_eq(auth_check_response(other_key, challenge, response, sizeof(response), &heard),
                     "does not hold the key of this job");
    response[4]++;
    ck_assert_str_eq(auth_check_response(key, challenge, response, sizeof(response), &heard),
                     "speaks another version of hvd's protocol");
    memcpy(challenge, "HTTP", 4);
    ck_assert_str_eq(auth_check_challenge(challenge, sizeof(challenge)), "does not speak hvd's protocol");
}
END_TEST

START_TEST(nothing_can_be_played_back)
{
    struct auth_claim heard;
    unsigned char later[AUTH_CHALLENGE_BYTES];
    auth_make_challenge(later);
    ck_assert_ptr_nonnull(auth_check_response(key, later, response, sizeof(response), &heard));
    /* the MAC of an response is no confirmation */
    ck_assert_ptr_nonnull(auth_check_confirmation(
        key, challenge, response, response + sizeof(response) - AUTH_MAC_BYTES, AUTH_CONFIRMATION_BYTES));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("handshake");
    tcase_add_checked_fixture(tcase, shake, NULL);
    tcase_add_test(tcase, both_ends_understand_each_other);
    tcase_add_test(tcase, the_bytes_are_little_endian);
    tcase_add_test(tcase, every_changed_bit_of_an_answer_is_refused);
    tcase_add_test(tcase, every_changed_bit_of_a_welcome_is_refused);
    tcase_add_test(tcase, cut_bytes_are_refused);
    tcase_add_test(tcase, what_is_wrong_is_said);
    tcase_add_test(tcase, nothing_can_be_played_back);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("handshake", fill);
}
