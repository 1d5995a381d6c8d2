/* test_handshake.c: how two ends prove that they hold the key of the job: every changed bit is refused. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "base/clock.h"
#include "net/establishment.h"

static unsigned char key[HANDSHAKE_KEY_BYTES], other_key[HANDSHAKE_KEY_BYTES];
static struct handshake acceptor, connector;

/* Who uses the handshake, and over which kind of socket. */
static const struct user {
    const char *name;
    int socket_type;
    struct handshake_claim claim;
} users[] = {
    {"endpoint", SOCK_STREAM, {.purpose = ENDPOINT_CHAIN, .tag = 9, .epoch = 7, .from = 70000, .to = 3}},
    {"attach", SOCK_SEQPACKET, {.purpose = HANDSHAKE_PURPOSE_ATTACH, .epoch = 1, .from = 5, .to = 4}},
    {"fence", SOCK_STREAM, {.purpose = HANDSHAKE_PURPOSE_FENCE, .epoch = 7, .from = 3, .size = 4}},
};
enum { USER_COUNT = sizeof(users) / sizeof(users[0]) };

static void make_keys(void)
{
    ck_assert_int_ge(sodium_init(), 0);
    randombytes_buf(key, sizeof(key));
    randombytes_buf(other_key, sizeof(other_key));
}

static void open_ends(const struct user *user)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, user->socket_type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    handshake_accept(&acceptor, key, fds[0]);
    handshake_connect(&connector, key, &user->claim, fds[1]);
}

static void close_ends(void)
{
    handshake_close(&acceptor);
    handshake_close(&connector);
}

/* Take what waits for [handshake] out of its socket. */
static size_t intercept(const struct handshake *handshake, unsigned char *bytes, size_t room)
{
    ssize_t got = recv(handshake->fd, bytes, room, MSG_DONTWAIT);
    ck_assert_int_gt(got, 0);
    return (size_t)got;
}

/* Send in the name of [handshake]. */
static void inject(const struct handshake *handshake, const unsigned char *bytes, size_t length)
{
    if (length > 0)
        ck_assert_int_eq(send(handshake->fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* Advance one end, which must wait afterwards. */
static void advance(struct handshake *handshake)
{
    ck_assert_int_eq(handshake_advance(handshake), HANDSHAKE_WAITS);
}

/* The messages of a handshake, in the order in which they are sent. */
enum message { CHALLENGE, RESPONSE, CONFIRMATION, MESSAGE_COUNT };

static const size_t lengths[MESSAGE_COUNT] = {HANDSHAKE_CHALLENGE_BYTES, HANDSHAKE_RESPONSE_BYTES,
                                              HANDSHAKE_CONFIRMATION_BYTES};

static struct handshake *sender_of(enum message message)
{
    return message == RESPONSE ? &connector : &acceptor;
}

static struct handshake *receiver_of(enum message message)
{
    return message == RESPONSE ? &acceptor : &connector;
}

/* Go through a handshake until [message] waits for its receiver. */
static void advance_to(enum message message)
{
    advance(&acceptor);
    if (message >= RESPONSE)
        advance(&connector);
    if (message >= CONFIRMATION) {
        ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_CLAIMED);
        handshake_admit(&acceptor);
        ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_DONE);
    }
}

/* ---- All is well ---- */

/* Each row is a step: which end advances, what it returns, and what both ends are in afterwards. */
START_TEST(the_states_follow_each_other)
{
    static const struct {
        struct handshake *end;
        bool admits;
        enum handshake_result result;
        enum handshake_state acceptor, connector;
        short acceptor_events, connector_events;
    } steps[] = {
        {NULL, false, HANDSHAKE_WAITS, HANDSHAKE_CHALLENGE, HANDSHAKE_CONNECTING, POLLOUT, POLLOUT},
        {&connector, false, HANDSHAKE_WAITS, HANDSHAKE_CHALLENGE, HANDSHAKE_CHALLENGE, POLLOUT, POLLIN},
        {&acceptor, false, HANDSHAKE_WAITS, HANDSHAKE_RESPONSE, HANDSHAKE_CHALLENGE, POLLIN, POLLIN},
        {&acceptor, false, HANDSHAKE_WAITS, HANDSHAKE_RESPONSE, HANDSHAKE_CHALLENGE, POLLIN, POLLIN},
        {&connector, false, HANDSHAKE_WAITS, HANDSHAKE_RESPONSE, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
        {&acceptor, false, HANDSHAKE_CLAIMED, HANDSHAKE_ADMISSION, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
        {&acceptor, false, HANDSHAKE_CLAIMED, HANDSHAKE_ADMISSION, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
        {&connector, false, HANDSHAKE_WAITS, HANDSHAKE_ADMISSION, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
        {NULL, true, HANDSHAKE_WAITS, HANDSHAKE_CONFIRMATION, HANDSHAKE_CONFIRMATION, POLLOUT, POLLIN},
        {&acceptor, false, HANDSHAKE_DONE, HANDSHAKE_CONFIRMATION, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
        {&connector, false, HANDSHAKE_DONE, HANDSHAKE_CONFIRMATION, HANDSHAKE_CONFIRMATION, POLLIN, POLLIN},
    };
    open_ends(&users[_i]);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].admits)
            handshake_admit(&acceptor);
        if (steps[i].end != NULL)
            ck_assert_int_eq(handshake_advance(steps[i].end), steps[i].result);
        ck_assert_msg(acceptor.state == steps[i].acceptor && connector.state == steps[i].connector,
                      "%s, step %zu: %d, %d", users[_i].name, i, (int)acceptor.state, (int)connector.state);
        ck_assert_int_eq(handshake_poll_events(&acceptor), steps[i].acceptor_events);
        ck_assert_int_eq(handshake_poll_events(&connector), steps[i].connector_events);
    }
    close_ends();
}
END_TEST

START_TEST(the_acceptor_learns_the_claim)
{
    const struct handshake_claim *claim = &users[_i].claim;
    open_ends(&users[_i]);
    advance_to(CONFIRMATION);
    ck_assert_uint_eq(acceptor.claim.purpose, claim->purpose);
    ck_assert_uint_eq(acceptor.claim.tag, claim->tag);
    ck_assert_uint_eq(acceptor.claim.epoch, claim->epoch);
    ck_assert_uint_eq(acceptor.claim.from, claim->from);
    ck_assert_uint_eq(acceptor.claim.to, claim->to);
    ck_assert_uint_eq(acceptor.claim.size, claim->size);
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_DONE);
    ck_assert(!acceptor.foreign && !connector.foreign && !connector.wrong_key);
    close_ends();
}
END_TEST

/* One key a direction, known to both ends, and to no other connection. */
START_TEST(session_keys_belong_to_one_connection)
{
    unsigned char keys[2][2][2][HANDSHAKE_KEY_BYTES]; /* connection; acceptor, connector; send, receive */
    for (int i = 0; i < 2; i++) {
        open_ends(&users[_i]);
        advance_to(CONFIRMATION);
        ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_DONE);
        handshake_session_keys(&acceptor, keys[i][0][0], keys[i][0][1]);
        handshake_session_keys(&connector, keys[i][1][0], keys[i][1][1]);
        ck_assert_mem_eq(keys[i][0][0], keys[i][1][1], HANDSHAKE_KEY_BYTES);
        ck_assert_mem_eq(keys[i][0][1], keys[i][1][0], HANDSHAKE_KEY_BYTES);
        ck_assert_mem_ne(keys[i][0][0], keys[i][0][1], HANDSHAKE_KEY_BYTES);
        close_ends();
    }
    ck_assert_mem_ne(keys[0][0][0], keys[1][0][0], HANDSHAKE_KEY_BYTES);
    ck_assert_mem_ne(keys[0][0][1], keys[1][0][1], HANDSHAKE_KEY_BYTES);
}
END_TEST

START_TEST(the_bytes_are_little_endian)
{
    static const unsigned char head[] = {'h', 'v', 'd',  'a',  9, 0, 2, 0, 9, 0, 0, 0, 7, 0,
                                         0,   0,   0x70, 0x11, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0};
    unsigned char bytes[2 * HANDSHAKE_RESPONSE_BYTES];
    open_ends(&users[0]);
    advance_to(CHALLENGE);
    ck_assert_uint_eq(intercept(&connector, bytes, sizeof(bytes)), HANDSHAKE_CHALLENGE_BYTES);
    ck_assert_mem_eq(bytes, "hvdc\11\0", 6);
    inject(&acceptor, bytes, HANDSHAKE_CHALLENGE_BYTES);
    advance(&connector);
    ck_assert_uint_eq(intercept(&acceptor, bytes, sizeof(bytes)), HANDSHAKE_RESPONSE_BYTES);
    ck_assert_mem_eq(bytes, head, sizeof(head));
    close_ends();
}
END_TEST

/* A stream may deliver byte by byte, and what follows the last message stays in the socket. */
START_TEST(a_stream_may_come_byte_by_byte)
{
    unsigned char bytes[HANDSHAKE_ALL_BYTES];
    char next = 0;
    open_ends(&users[0]);
    advance(&connector);
    for (enum message message = CHALLENGE; message < MESSAGE_COUNT; message++) {
        struct handshake *sender = sender_of(message), *receiver = receiver_of(message);
        if (message == CHALLENGE)
            advance(sender);
        size_t length = intercept(receiver, bytes, sizeof(bytes));
        ck_assert_uint_eq(length, lengths[message]);
        for (size_t i = 0; i + 1 < length; i++) {
            inject(sender, bytes + i, 1);
            advance(receiver);
        }
        inject(sender, bytes + length - 1, 1);
        if (message == CONFIRMATION)
            inject(sender, (const unsigned char *)"y", 1);
        enum handshake_result result = handshake_advance(receiver);
        if (result == HANDSHAKE_CLAIMED) {
            handshake_admit(&acceptor);
            result = handshake_advance(&acceptor);
        }
        ck_assert_int_eq(result, message == CHALLENGE ? HANDSHAKE_WAITS : HANDSHAKE_DONE);
    }
    ck_assert_int_eq(recv(connector.fd, &next, 1, MSG_DONTWAIT), 1);
    ck_assert_int_eq(next, 'y');
    close_ends();
}
END_TEST

/* ---- What is refused ---- */

/* Of the challenge the nonce may be any; the acceptor notices by the response that it sent another. */
START_TEST(every_changed_bit_is_refused)
{
    enum message message = (enum message)(_i % MESSAGE_COUNT);
    for (size_t bit = 0; bit < 8 * lengths[message]; bit++) {
        unsigned char bytes[HANDSHAKE_ALL_BYTES];
        open_ends(&users[_i / MESSAGE_COUNT]);
        struct handshake *victim = receiver_of(message);
        advance_to(message);
        size_t length = intercept(victim, bytes, sizeof(bytes));
        ck_assert_uint_eq(length, lengths[message]);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        inject(sender_of(message), bytes, length);
        if (message == CHALLENGE && bit >= 8 * 6) {
            advance(victim);
            victim = &acceptor;
        }
        ck_assert_int_eq(handshake_advance(victim), HANDSHAKE_FAILED);
        ck_assert(victim->foreign && victim->error == 0);
        ck_assert_uint_eq(acceptor.claim.from, message == CONFIRMATION ? connector.claim.from : 0);
        close_ends();
    }
}
END_TEST

/* A message that is cut off, by the end of the connection or, in a packet, by the packet's. */
START_TEST(cut_messages_are_refused)
{
    enum message message = (enum message)(_i % MESSAGE_COUNT);
    const struct user *user = &users[_i / MESSAGE_COUNT];
    for (size_t cut = 0; cut < lengths[message]; cut++) {
        unsigned char bytes[HANDSHAKE_ALL_BYTES];
        open_ends(user);
        struct handshake *victim = receiver_of(message), *sender = sender_of(message);
        advance_to(message);
        intercept(victim, bytes, sizeof(bytes));
        inject(sender, bytes, cut);
        if (cut == 0 || user->socket_type == SOCK_STREAM) {
            advance(victim);
            shutdown(sender->fd, SHUT_WR);
        }
        ck_assert_int_eq(handshake_advance(victim), HANDSHAKE_FAILED);
        bool ended = cut == 0 || user->socket_type == SOCK_STREAM;
        ck_assert_str_eq(victim->why, ended ? "closed the connection" : "does not speak hvd's protocol");
        ck_assert_int_eq(victim->foreign, !ended);
        close_ends();
    }
}
END_TEST

START_TEST(a_packet_that_is_too_long_is_refused)
{
    unsigned char bytes[HANDSHAKE_ALL_BYTES] = {0};
    open_ends(&users[1]);
    advance_to(RESPONSE);
    intercept(&acceptor, bytes, sizeof(bytes));
    inject(&connector, bytes, HANDSHAKE_RESPONSE_BYTES + 1);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_FAILED);
    ck_assert_str_eq(acceptor.why, "does not speak hvd's protocol");
    close_ends();
}
END_TEST

/* The end that does not hold the key fails, and so does its peer where it gets so far. */
START_TEST(another_key_is_refused)
{
    open_ends(&users[_i]);
    connector.key = other_key;
    advance_to(RESPONSE);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_FAILED);
    ck_assert_str_eq(acceptor.why, "does not hold the key of this job");
    ck_assert(acceptor.foreign && acceptor.wrong_key);
    close_ends();
    /* an acceptor that admits everybody cannot confirm */
    open_ends(&users[_i]);
    advance_to(RESPONSE);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_CLAIMED);
    acceptor.key = other_key;
    handshake_admit(&acceptor);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_DONE);
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_FAILED);
    ck_assert_str_eq(connector.why, "does not hold the key of this job");
    ck_assert(connector.foreign && connector.wrong_key);
    close_ends();
}
END_TEST

/* Between the ends of [user], change the byte at [offset] of [message], and expect its receiver to say [why].
 */
static void expect_refusal_of(int user, enum message message, size_t offset, const char *why)
{
    unsigned char bytes[HANDSHAKE_ALL_BYTES];
    struct handshake *victim = receiver_of(message);
    open_ends(&users[user]);
    advance_to(message);
    size_t length = intercept(victim, bytes, sizeof(bytes));
    bytes[offset]++;
    inject(sender_of(message), bytes, length);
    ck_assert_int_eq(handshake_advance(victim), HANDSHAKE_FAILED);
    ck_assert_str_eq(victim->why, why);
    ck_assert(victim->foreign && victim->error == 0);
    close_ends();
}

START_TEST(what_is_wrong_is_said)
{
    for (enum message message = CHALLENGE; message <= RESPONSE; message++) {
        expect_refusal_of(_i, message, 0, "does not speak hvd's protocol");
        expect_refusal_of(_i, message, 4, "speaks another version of hvd's protocol");
    }
    expect_refusal_of(_i, RESPONSE, 8, "does not hold the key of this job");
    expect_refusal_of(_i, CONFIRMATION, 0, "does not hold the key of this job");
}
END_TEST

/* A recorded response is no answer to the next challenge. */
START_TEST(a_response_cannot_be_replayed)
{
    unsigned char response[HANDSHAKE_RESPONSE_BYTES];
    open_ends(&users[_i]);
    advance_to(RESPONSE);
    ck_assert_uint_eq(intercept(&acceptor, response, sizeof(response)), sizeof(response));
    close_ends();
    open_ends(&users[_i]);
    advance(&acceptor);
    inject(&connector, response, sizeof(response));
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_FAILED);
    ck_assert_str_eq(acceptor.why, "does not hold the key of this job");
    close_ends();
}
END_TEST

/* A recorded acceptor, its challenge and its confirmation, convinces no connector that comes later. */
START_TEST(a_confirmation_cannot_be_replayed)
{
    unsigned char challenge[HANDSHAKE_CHALLENGE_BYTES], confirmation[HANDSHAKE_CONFIRMATION_BYTES];
    open_ends(&users[_i]);
    advance_to(CHALLENGE);
    ck_assert_uint_eq(intercept(&connector, challenge, sizeof(challenge)), sizeof(challenge));
    inject(&acceptor, challenge, sizeof(challenge));
    advance(&connector);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_CLAIMED);
    handshake_admit(&acceptor);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_DONE);
    ck_assert_uint_eq(intercept(&connector, confirmation, sizeof(confirmation)), sizeof(confirmation));
    close_ends();
    open_ends(&users[_i]);
    inject(&acceptor, challenge, sizeof(challenge));
    advance(&connector);
    inject(&acceptor, confirmation, sizeof(confirmation));
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_FAILED);
    ck_assert_str_eq(connector.why, "does not hold the key of this job");
    close_ends();
}
END_TEST

/* The MAC of a response, sent back, is no confirmation. */
START_TEST(a_mac_cannot_be_sent_back)
{
    unsigned char response[HANDSHAKE_RESPONSE_BYTES];
    open_ends(&users[_i]);
    advance_to(RESPONSE);
    intercept(&acceptor, response, sizeof(response));
    inject(&acceptor, response + sizeof(response) - HANDSHAKE_MAC_BYTES, HANDSHAKE_CONFIRMATION_BYTES);
    ck_assert_int_eq(handshake_advance(&connector), HANDSHAKE_FAILED);
    ck_assert(connector.wrong_key);
    close_ends();
}
END_TEST

START_TEST(claims_of_others_are_stray)
{
    const struct handshake_claim claim = {.epoch = 7, .from = 1, .to = 3};
    ck_assert_ptr_null(handshake_stray_reason(&claim, 7, 3));
    ck_assert_str_eq(handshake_stray_reason(&claim, 8, 3), "is of another start of this job");
    ck_assert_str_eq(handshake_stray_reason(&claim, 7, 2), "looked for another rank");
}
END_TEST

/* ---- Who is slow, or leaves ---- */

/* A connector that has lost patience must not count as connected: it will come again. */
START_TEST(who_has_left_is_not_confirmed)
{
    open_ends(&users[_i]);
    advance_to(RESPONSE);
    ck_assert_int_eq(shutdown(connector.fd, SHUT_WR), 0);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_CLAIMED);
    handshake_admit(&acceptor);
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_FAILED);
    ck_assert_str_eq(acceptor.why, "closed the connection");
    ck_assert(!acceptor.foreign && acceptor.error == 0);
    close_ends();
}
END_TEST

START_TEST(a_broken_connection_is_no_stranger)
{
    open_ends(&users[_i]);
    close(connector.fd);
    connector.fd = -1;
    ck_assert_int_eq(handshake_advance(&acceptor), HANDSHAKE_FAILED);
    ck_assert_int_eq(acceptor.error, EPIPE);
    ck_assert(!acceptor.foreign);
    close_ends();
}
END_TEST

/* The owner watches the limit. It is set at both ends. */
START_TEST(time_is_limited)
{
    int64_t begun_us = clock_us();
    open_ends(&users[_i]);
    ck_assert_int_ge(acceptor.deadline_us, begun_us + HANDSHAKE_TIMEOUT_US);
    ck_assert_int_ge(connector.deadline_us, begun_us + HANDSHAKE_TIMEOUT_US);
    ck_assert_int_le(acceptor.deadline_us, clock_us() + HANDSHAKE_TIMEOUT_US);
    close_ends();
}
END_TEST

/* Handshakes lie in larger structs, in any order; the connector's own, and those that are done, do not give
 * way. */
START_TEST(the_oldest_accepted_one_is_found)
{
    struct {
        char before[8];
        struct handshake handshake;
    } peers[5] = {0};
    const int64_t begun_us[] = {30, 10, 20, 5, 40};
    for (int i = 0; i < 5; i++)
        peers[i].handshake = (struct handshake){.fd = 3, .begun_us = begun_us[i], .connector = i == 3};
    ck_assert_int_eq(handshake_oldest(&peers[0].handshake, sizeof(peers[0]), 5), 1);
    peers[1].handshake.fd = -1;
    ck_assert_int_eq(handshake_oldest(&peers[0].handshake, sizeof(peers[0]), 5), 2);
    ck_assert_int_eq(handshake_oldest(&peers[0].handshake, sizeof(peers[0]), 2), 0);
    ck_assert_int_eq(handshake_oldest(&peers[3].handshake, sizeof(peers[0]), 1), -1);
    ck_assert_int_eq(handshake_oldest(&peers[0].handshake, sizeof(peers[0]), 0), -1);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("handshake");
    tcase_add_checked_fixture(tcase, make_keys, NULL);
    tcase_add_loop_test(tcase, the_states_follow_each_other, 0, USER_COUNT);
    tcase_add_loop_test(tcase, the_acceptor_learns_the_claim, 0, USER_COUNT);
    tcase_add_loop_test(tcase, session_keys_belong_to_one_connection, 0, USER_COUNT);
    tcase_add_test(tcase, the_bytes_are_little_endian);
    tcase_add_test(tcase, a_stream_may_come_byte_by_byte);
    tcase_add_loop_test(tcase, every_changed_bit_is_refused, 0, USER_COUNT * MESSAGE_COUNT);
    tcase_add_loop_test(tcase, cut_messages_are_refused, 0, USER_COUNT * MESSAGE_COUNT);
    tcase_add_test(tcase, a_packet_that_is_too_long_is_refused);
    tcase_add_loop_test(tcase, another_key_is_refused, 0, USER_COUNT);
    tcase_add_loop_test(tcase, what_is_wrong_is_said, 0, USER_COUNT);
    tcase_add_loop_test(tcase, a_response_cannot_be_replayed, 0, USER_COUNT);
    tcase_add_loop_test(tcase, a_confirmation_cannot_be_replayed, 0, USER_COUNT);
    tcase_add_loop_test(tcase, a_mac_cannot_be_sent_back, 0, USER_COUNT);
    tcase_add_test(tcase, claims_of_others_are_stray);
    tcase_add_loop_test(tcase, who_has_left_is_not_confirmed, 0, USER_COUNT);
    tcase_add_loop_test(tcase, a_broken_connection_is_no_stranger, 0, USER_COUNT);
    tcase_add_loop_test(tcase, time_is_limited, 0, USER_COUNT);
    tcase_add_test(tcase, the_oldest_accepted_one_is_found);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("handshake", fill);
}
