/* test_job_key.c: what the key of a job depends on besides what wire-up carries. */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>

#include "auth/handshake.h"
#include "bootstrap/job_key.h"

static unsigned char carried[4096];
static size_t carried_length;

static int fake_put(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state;
    (void)err;
    ck_assert_str_eq(key, "hvd.3.key");
    ck_assert_uint_le(length, sizeof(carried));
    memcpy(carried, bytes, length);
    carried_length = length;
    return HVD_OK;
}

static int fake_get(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                    struct hvd_error *err)
{
    (void)state;
    (void)deadline_us;
    (void)err;
    ck_assert_int_eq(rank, 0);
    ck_assert_str_eq(key, "hvd.3.key");
    blob->bytes = malloc(carried_length + 1);
    ck_assert_ptr_nonnull(blob->bytes);
    memcpy(blob->bytes, carried, carried_length);
    blob->length = carried_length;
    return HVD_OK;
}

static const struct wireup_ops ops = {.name = "fake", .put = fake_put, .get = fake_get};
static const struct wireup fake = {&ops, NULL, NULL};

/* The key that a rank with the secret [secret] gets from what was put. */
static struct peer_table key_with(const char *secret)
{
    enum job_key_guard guard;
    struct peer_table peer_table = {.size = 2, .epoch = 3};
    if (secret != NULL)
        setenv("HVD_JOB_KEY", secret, 1);
    else
        unsetenv("HVD_JOB_KEY");
    ck_assert_int_eq(job_key_find_guard(false, &guard, NULL), HVD_OK);
    ck_assert_int_eq(guard, secret != NULL ? JOB_KEY_SECRET : JOB_KEY_BARE);
    ck_assert_int_eq(job_key_get(&peer_table, &fake, guard, 0, NULL), HVD_OK);
    return peer_table;
}

START_TEST(what_wireup_carries_is_not_the_key)
{
    const struct peer_table rank_0 = {.size = 2, .epoch = 3};
    unsetenv("PMIX_NAMESPACE");
    ck_assert_int_eq(job_key_put(&rank_0, &fake, JOB_KEY_SECRET, NULL), HVD_OK);
    struct peer_table one = key_with("a secret of 22 letters"), same = key_with("a secret of 22 letters");
    struct peer_table other = key_with("another of 22 letters."), thief = key_with(NULL);
    ck_assert_mem_eq(one.key, same.key, JOB_KEY_BYTES);
    ck_assert_mem_ne(one.key, other.key, JOB_KEY_BYTES);
    ck_assert_mem_ne(one.key, thief.key, JOB_KEY_BYTES);
    ck_assert_uint_eq(carried_length, JOB_KEY_BYTES);
    ck_assert_mem_eq(thief.key, carried, JOB_KEY_BYTES);
    ck_assert_int_eq(job_key_put(&rank_0, &fake, JOB_KEY_SECRET, NULL), HVD_OK);
    struct peer_table next = key_with("a secret of 22 letters");
    ck_assert_mem_ne(one.key, next.key, JOB_KEY_BYTES); /* each start has its own */
}
END_TEST

/* Advance both ends of a connection, of which one has the key [connector_key], until one of them has ended.
 */
static enum handshake_result meet(const unsigned char *connector_key, const unsigned char *acceptor_key)
{
    const struct handshake_claim claim = {.epoch = 3, .from = 1};
    enum handshake_result result = HANDSHAKE_WAITS;
    struct handshake connector, acceptor;
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    handshake_connect(&connector, connector_key, &claim, fds[0]);
    handshake_accept(&acceptor, acceptor_key, fds[1]);
    while (result == HANDSHAKE_WAITS) {
        handshake_advance(&connector);
        result = handshake_advance(&acceptor);
    }
    ck_assert_int_eq(acceptor.wrong_key, result == HANDSHAKE_FAILED);
    handshake_close(&connector);
    handshake_close(&acceptor);
    return result;
}

START_TEST(who_has_only_what_wireup_carries_is_not_let_in)
{
    const struct peer_table rank_0 = {.size = 2, .epoch = 3};
    ck_assert_int_eq(job_key_put(&rank_0, &fake, JOB_KEY_SECRET, NULL), HVD_OK);
    struct peer_table one = key_with("a secret of 22 letters"), same = key_with("a secret of 22 letters");
    struct peer_table other = key_with("another of 22 letters."), thief = key_with(NULL);
    ck_assert_int_eq(meet(same.key, one.key), HANDSHAKE_CLAIMED);
    ck_assert_int_eq(meet(other.key, one.key), HANDSHAKE_FAILED);
    ck_assert_int_eq(meet(thief.key, one.key), HANDSHAKE_FAILED);
}
END_TEST

START_TEST(a_short_secret_is_refused)
{
    enum job_key_guard guard;
    struct hvd_error err = {""};
    setenv("HVD_JOB_KEY", "short", 1);
    ck_assert_int_eq(job_key_find_guard(false, &guard, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "HVD_JOB_KEY is too short") != NULL, "%s", err.text);
}
END_TEST

START_TEST(nothing_is_encrypted_with_a_key_that_others_can_read)
{
    enum job_key_guard guard;
    struct hvd_error err = {""};
    unsetenv("HVD_JOB_KEY");
    ck_assert_int_eq(job_key_find_guard(true, &guard, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "give all ranks the same HVD_JOB_KEY") != NULL, "%s", err.text);
    setenv("HVD_JOB_KEY", "a secret of 22 letters", 1);
    ck_assert_int_eq(job_key_find_guard(true, &guard, &err), HVD_OK);
    ck_assert_int_eq(guard, JOB_KEY_SECRET);
}
END_TEST

/* Who can write into wire-up cannot hand the ranks a key of his own. */
START_TEST(a_key_without_a_credential_is_refused)
{
    static const char *const texts[] = {"", "no credential", "MUNGE:no:"};
    struct peer_table peer_table = {.size = 2, .epoch = 3};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hvd_error err = {""};
        fake_put(NULL, "hvd.3.key", texts[i], strlen(texts[i]) + (i > 0), NULL);
        ck_assert_int_eq(job_key_get(&peer_table, &fake, JOB_KEY_MUNGE, 0, &err), HVD_ERR_INVALID);
        ck_assert_msg(strstr(err.text, "credential of munge, cannot be used: ") != NULL, "%s", err.text);
    }
    memset(carried, 'x', carried_length = JOB_KEY_BYTES);
    ck_assert_int_eq(job_key_get(&peer_table, &fake, JOB_KEY_MUNGE, 0, NULL), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("job_key");
    tcase_add_test(tcase, what_wireup_carries_is_not_the_key);
    tcase_add_test(tcase, who_has_only_what_wireup_carries_is_not_let_in);
    tcase_add_test(tcase, a_short_secret_is_refused);
    tcase_add_test(tcase, nothing_is_encrypted_with_a_key_that_others_can_read);
    tcase_add_test(tcase, a_key_without_a_credential_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("job_key", fill);
}
