/* test_secure_channel.c: sealed frames after a handshake, also with a hostile other end. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmix_shim/secure_channel.h"

static const unsigned char key[HANDSHAKE_KEY_BYTES] = "the key of this job";

static struct secure_channel server, client; /* the two ends */
static int raw[2];                           /* their sockets */

static void set_up(void)
{
    static const struct handshake_claim claim = {
        .purpose = HANDSHAKE_PURPOSE_FENCE, .epoch = 5, .from = 3, .size = 4};
    struct handshake acceptor, connector;
    ck_assert_int_ge(sodium_init(), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, raw), 0);
    handshake_accept(&acceptor, key, raw[0]);
    handshake_connect(&connector, key, &claim, raw[1]);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_WAITS);
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_WAITS);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_CLAIMED);
    handshake_admit(&acceptor);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_DONE);
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_DONE);
    ck_assert_int_eq(secure_channel_open(&server, &acceptor, NULL), HVD_OK);
    ck_assert_int_eq(secure_channel_open(&client, &connector, NULL), HVD_OK);
    ck_assert_int_eq(acceptor.fd, -1);
    ck_assert_int_eq(connector.fd, -1);
}

static void tear_down(void)
{
    secure_channel_close(&server);
    secure_channel_close(&client);
    secure_channel_close(&client);
}

static unsigned char frame[200]; /* taken out of a socket */
static size_t frame_length;
static const unsigned char *message; /* received last */
static size_t length;
static struct hvd_error err;

/* The client sends [text], and what then waits in the server's socket is taken out of it. */
static void send_and_intercept(const char *text)
{
    ck_assert_int_eq(secure_channel_send(&client, text, strlen(text), &err), HVD_OK);
    ssize_t got = recv(raw[0], frame, sizeof(frame), MSG_DONTWAIT);
    ck_assert_int_gt(got, 0);
    frame_length = (size_t)got;
}

static void inject(int fd, const void *bytes, size_t count)
{
    ck_assert_int_eq(send(fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
}

static int receive(struct secure_channel *channel)
{
    return secure_channel_receive(channel, &message, &length, &err);
}

static void expect_message(struct secure_channel *channel, const char *text)
{
    ck_assert_int_eq(receive(channel), HVD_OK);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_mem_eq(message, text, length);
}

START_TEST(messages_travel_both_ways_in_order)
{
    ck_assert_int_eq(receive(&server), HVD_IN_PROGRESS);
    ck_assert_int_eq(secure_channel_send(&client, "one", 3, &err), HVD_OK);
    ck_assert_int_eq(secure_channel_send(&client, "", 0, &err), HVD_OK);
    ck_assert_int_eq(secure_channel_send(&server, "three", 5, &err), HVD_OK);
    expect_message(&server, "one");
    expect_message(&server, "");
    expect_message(&client, "three");
    ck_assert_int_eq(receive(&client), HVD_IN_PROGRESS);
}
END_TEST

START_TEST(a_long_message_goes_out_in_parts)
{
    static unsigned char sent[SECURE_CHANNEL_MESSAGE_BYTES + 1];
    int small = 4096;
    setsockopt(raw[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    memset(sent, 'x', sizeof(sent));
    ck_assert_int_eq(secure_channel_send(&client, sent, sizeof(sent), &err), HVD_ERR_INVALID);
    ck_assert_int_eq(secure_channel_send(&client, sent, SECURE_CHANNEL_MESSAGE_BYTES, &err), HVD_OK);
    ck_assert_int_eq(secure_channel_flush(&client, &err), HVD_IN_PROGRESS);
    int rc = HVD_IN_PROGRESS;
    while (rc == HVD_IN_PROGRESS) {
        ck_assert_int_ge(secure_channel_flush(&client, &err), 0);
        rc = receive(&server);
    }
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_uint_eq(length, SECURE_CHANNEL_MESSAGE_BYTES);
    ck_assert_mem_eq(message, sent, length);
    ck_assert_int_eq(secure_channel_flush(&client, &err), HVD_OK);
}
END_TEST

/* What was recorded on one connection has no meaning on the next, though the key of the job is the same. */
START_TEST(a_frame_of_another_connection_is_refused)
{
    send_and_intercept("secret");
    ck_assert_ptr_null(memmem(frame, frame_length, "secret", 6));
    tear_down();
    set_up();
    inject(raw[1], frame, frame_length);
    ck_assert_int_eq(receive(&server), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "not sealed with this job's key") != NULL, "%s", err.text);
}
END_TEST

START_TEST(every_changed_byte_of_a_frame_is_noticed)
{
    send_and_intercept("one");
    ck_assert_int_lt(_i, (int)frame_length);
    frame[_i] ^= 1;
    inject(raw[1], frame, frame_length);
    int rc = receive(&server);
    /* the rest of a frame whose length grew is waited for; no message is returned either way */
    ck_assert(rc == HVD_ERR_INVALID || (rc == HVD_IN_PROGRESS && _i < 4));
}
END_TEST

START_TEST(a_frame_cannot_be_repeated)
{
    send_and_intercept("one");
    inject(raw[1], frame, frame_length);
    inject(raw[1], frame, frame_length);
    ck_assert_int_eq(receive(&server), HVD_OK);
    ck_assert_int_eq(receive(&server), HVD_ERR_INVALID);
}
END_TEST

START_TEST(an_own_frame_cannot_be_sent_back)
{
    send_and_intercept("one");
    inject(raw[0], frame, frame_length);
    ck_assert_int_eq(receive(&client), HVD_ERR_INVALID);
}
END_TEST

START_TEST(too_long_a_frame_is_refused_by_its_head)
{
    inject(raw[1], "\xff\xff\xff\xff", 4);
    ck_assert_int_eq(receive(&server), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "announces a message of 4294967295 bytes") != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_cut_frame_is_the_end_of_the_connection)
{
    send_and_intercept("one");
    inject(raw[1], frame, frame_length - 1);
    shutdown(raw[1], SHUT_WR);
    ck_assert_int_eq(receive(&server), HVD_ERR_RANK_LOST);
}
END_TEST

/* A channel that is closed holds no key any more. */
START_TEST(keys_are_wiped)
{
    static const struct secure_channel wiped = {.fd = -1};
    ck_assert_int_ne(sodium_is_zero(client.send_key.bytes, sizeof(client.send_key.bytes)), 1);
    ck_assert_mem_eq(client.send_key.bytes, server.receive_key.bytes, sizeof(client.send_key.bytes));
    ck_assert_mem_eq(server.send_key.bytes, client.receive_key.bytes, sizeof(client.send_key.bytes));
    ck_assert_mem_ne(client.send_key.bytes, client.receive_key.bytes, sizeof(client.send_key.bytes));
    secure_channel_close(&client);
    ck_assert_mem_eq(client.send_key.bytes, wiped.send_key.bytes, sizeof(client.send_key.bytes));
    ck_assert_mem_eq(client.receive_key.bytes, wiped.receive_key.bytes, sizeof(client.receive_key.bytes));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("secure_channel");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, messages_travel_both_ways_in_order);
    tcase_add_test(tcase, a_long_message_goes_out_in_parts);
    tcase_add_test(tcase, a_frame_of_another_connection_is_refused);
    tcase_add_loop_test(tcase, every_changed_byte_of_a_frame_is_noticed, 0, 23);
    tcase_add_test(tcase, a_frame_cannot_be_repeated);
    tcase_add_test(tcase, an_own_frame_cannot_be_sent_back);
    tcase_add_test(tcase, too_long_a_frame_is_refused_by_its_head);
    tcase_add_test(tcase, a_cut_frame_is_the_end_of_the_connection);
    tcase_add_test(tcase, keys_are_wiped);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("secure_channel", fill);
}
