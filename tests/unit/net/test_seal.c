/* test_seal.c: what comes out of a sealed connection, and what is on the wire. */
#include "config.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/record.h"
#include "net/seal.h"

static const unsigned char key[HANDSHAKE_KEY_BYTES] = "the key of a job of these tests";

static struct handshake ends[2];
static struct seal *seals[2];
static int fds[2];

/* Shake hands over a connection, as establishment.c does, and seal both ends. */
static void open_connection(void)
{
    const struct handshake_claim claim = {.from = 1};
    enum handshake_result results[2] = {HANDSHAKE_WAITS, HANDSHAKE_WAITS};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    handshake_connect(&ends[0], key, &claim, fds[0]);
    handshake_accept(&ends[1], key, fds[1]);
    while (results[0] != HANDSHAKE_DONE || results[1] != HANDSHAKE_DONE) {
        for (int i = 0; i < 2; i++)
            if (results[i] != HANDSHAKE_DONE)
                results[i] = handshake_advance(&ends[i]);
        if (results[1] == HANDSHAKE_CLAIMED)
            handshake_admit(&ends[1]);
        ck_assert_int_ne(results[0], HANDSHAKE_FAILED);
    }
    for (int i = 0; i < 2; i++) {
        seals[i] = seal_create(&ends[i]);
        ck_assert_ptr_nonnull(seals[i]);
    }
}

static void close_connection(void)
{
    for (int i = 0; i < 2; i++) {
        seal_free(seals[i]);
        close(fds[i]);
    }
}

static ssize_t send_bytes(int end, const void *bytes, size_t length)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, length};
    return seal_send(seals[end], fds[end], &part, 1);
}

static ssize_t receive_bytes(int end, void *bytes, size_t length)
{
    const struct iovec part = {bytes, length};
    return seal_receive(seals[end], fds[end], &part, 1);
}

static unsigned next_random = 1;

static size_t random_below(size_t limit)
{
    next_random = next_random * 1103515245u + 12345u;
    return (next_random >> 8) % limit;
}

/* Any lengths, in two parts each, with sockets that take little at once. */
START_TEST(what_was_sent_arrives)
{
    enum { TOTAL = 600000 };
    static unsigned char from[TOTAL], to[TOTAL];
    size_t sent = 0, received = 0;
    int small = 8192;
    next_random = (unsigned)_i + 1;
    open_connection();
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    for (size_t i = 0; i < TOTAL; i++)
        from[i] = (unsigned char)random_below(256);
    while (received < TOTAL) {
        size_t offered = 1 + random_below(_i % 2 == 0 ? 100000 : 300), first = random_below(offered);
        if (offered > TOTAL - sent)
            offered = TOTAL - sent;
        if (offered < SEAL_RECORD_BYTES) /* what was offered before must be offered again */
            offered = TOTAL - sent < SEAL_RECORD_BYTES ? TOTAL - sent : SEAL_RECORD_BYTES;
        first = first < offered ? first : offered;
        const struct iovec parts[2] = {{from + sent, first}, {from + sent + first, offered - first}};
        ssize_t count = offered > 0 ? seal_send(seals[0], fds[0], parts, 2) : 0;
        ck_assert(count >= 0 || errno == EAGAIN);
        sent += count > 0 ? (size_t)count : 0;
        size_t wanted = 1 + random_below(50000), head = random_below(wanted);
        if (wanted > TOTAL - received)
            wanted = TOTAL - received;
        head = head < wanted ? head : wanted;
        const struct iovec places[2] = {{to + received, head}, {to + received + head, wanted - head}};
        count = seal_receive(seals[1], fds[1], places, 2);
        ck_assert(count > 0 || (count < 0 && errno == EAGAIN));
        received += count > 0 ? (size_t)count : 0;
    }
    ck_assert_mem_eq(from, to, TOTAL);
    ck_assert(!seal_has_bytes(seals[1]));
    close_connection();
}
END_TEST

/* The last record of a key and the first of the next. */
START_TEST(keys_are_replaced)
{
    unsigned char record[8 + RECORD_EXTRA_BYTES], text[8], first[HANDSHAKE_KEY_BYTES];
    struct record_key from, to, unused[2];
    open_connection();
    ck_assert_int_eq(record_keys(&ends[0], &from, &unused[0], NULL), HVD_OK);
    ck_assert_int_eq(record_keys(&ends[1], &unused[1], &to, NULL), HVD_OK);
    memcpy(first, from.bytes, sizeof(first));
    from.count = to.count = RECORD_KEY_LASTS - 1;
    for (int i = 0; i < 3; i++) {
        ck_assert(record_seal(&from, record, "gradient", 8));
        ck_assert(record_open(&to, record, text, 8));
        ck_assert_mem_eq(text, "gradient", 8);
        ck_assert_int_eq(memcmp(from.bytes, first, sizeof(first)) == 0, i == 0);
    }
    record_keys_wipe(&from, &unused[0]);
    record_keys_wipe(&unused[1], &to);
    close_connection();
}
END_TEST

START_TEST(both_directions_have_keys_of_their_own)
{
    unsigned char wire[2][100], text[100];
    open_connection();
    ck_assert_int_eq(send_bytes(0, "gradient", 8), 8);
    ck_assert_int_eq(send_bytes(1, "gradient", 8), 8);
    ck_assert_int_eq(recv(fds[1], wire[1], sizeof(wire[1]), 0), 4 + 8 + 16);
    ck_assert_int_eq(recv(fds[0], wire[0], sizeof(wire[0]), 0), 4 + 8 + 16);
    ck_assert_mem_ne(wire[0] + 4, wire[1] + 4, 8);
    ck_assert_ptr_null(memmem(wire[0], 28, "gradient", 8));
    ck_assert_ptr_null(memmem(wire[0], 28, "grad", 4));
    /* what one end sent is nothing that it could have received */
    ck_assert_int_eq(send(fds[1], wire[1], 28, 0), 28);
    ck_assert_int_eq(receive_bytes(0, text, sizeof(text)), -1);
    ck_assert_int_eq(errno, EBADMSG);
    close_connection();
}
END_TEST

/* The wire of one record, with one bit changed at a place; or sent twice; or the second record first. */
START_TEST(any_change_is_found_out)
{
    unsigned char wire[2][28], text[8];
    for (size_t place = 0; place < 28 + 2; place++) {
        open_connection();
        ck_assert_int_eq(send_bytes(0, "12345678", 8), 8);
        ck_assert_int_eq(recv(fds[1], wire[0], 28, 0), 28);
        ck_assert_int_eq(send_bytes(0, "abcdefgh", 8), 8);
        ck_assert_int_eq(recv(fds[1], wire[1], 28, 0), 28);
        if (place < 28)
            wire[0][place] ^= 0x10;
        ck_assert_int_eq(send(fds[0], wire[place == 28], 28, 0), 28);
        ck_assert_int_eq(send(fds[0], wire[place == 29 ? 0 : 1], 28, 0), 28);
        ssize_t got = receive_bytes(1, text, sizeof(text));
        if (place == 29) { /* the first one came unchanged */
            ck_assert_int_eq(got, 8);
            got = receive_bytes(1, text, sizeof(text));
        }
        ck_assert_msg(got == -1, "a change at %zu gave %zd bytes", place, got);
        /* a longer length may only say that more is to come */
        ck_assert(errno == EBADMSG || (place < 4 && errno == EAGAIN));
        close_connection();
    }
}
END_TEST

START_TEST(what_poll_does_not_tell_of_is_known)
{
    char text[8];
    open_connection();
    ck_assert(!seal_has_bytes(NULL));
    ck_assert_int_eq(send_bytes(0, "12345678", 8), 8);
    ck_assert_int_eq(send_bytes(0, "9", 1), 1);
    ck_assert(!seal_has_bytes(seals[1]));
    ck_assert_int_eq(receive_bytes(1, text, 5), 5);
    ck_assert(seal_has_bytes(seals[1])); /* the rest of the record */
    ck_assert_int_eq(receive_bytes(1, text, 5), 3);
    ck_assert(seal_has_bytes(seals[1])); /* the next record */
    ck_assert_int_eq(receive_bytes(1, text, 5), 1);
    ck_assert(!seal_has_bytes(seals[1]));
    ck_assert_int_eq(receive_bytes(1, text, 5), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(fds[0]);
    ck_assert_int_eq(receive_bytes(1, text, 5), 0);
    ck_assert_int_eq(send_bytes(1, "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    fds[0] = -1;
    close_connection();
}
END_TEST

START_TEST(bytes_that_were_offered_stay_offered)
{
    static unsigned char bytes[SEAL_RECORD_BYTES];
    int small = 4096;
    open_connection();
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    while (send_bytes(0, bytes, sizeof(bytes)) >= 0)
        continue;
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(send_bytes(0, bytes, 10), -1);
    ck_assert_int_eq(errno, EINVAL);
    close_connection();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("seal");
    tcase_add_loop_test(tcase, what_was_sent_arrives, 0, 6);
    tcase_add_test(tcase, keys_are_replaced);
    tcase_add_test(tcase, both_directions_have_keys_of_their_own);
    tcase_add_test(tcase, any_change_is_found_out);
    tcase_add_test(tcase, what_poll_does_not_tell_of_is_known);
    tcase_add_test(tcase, bytes_that_were_offered_stay_offered);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("seal", fill);
}
