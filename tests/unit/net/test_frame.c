/* test_frame.c: frames, and what a hostile peer may send in their place. */
#include "config.h"
#include "unit.h"

#include <string.h>

#include "net/frame.h"

#define ALL (FRAME_ALLOW(FRAME_MESSAGE) | FRAME_ALLOW(FRAME_ABORT) | FRAME_ALLOW(FRAME_FAREWELL))

/* A good header of a message of 3 bytes in epoch 7, in which [at] is replaced by [bytes]. */
static const struct {
    int at;
    size_t count;
    const char *bytes;
    unsigned allowed;
    const char *why; /* NULL: it is fine, or goes on */
} headers[] = {
    {0, 0, "", ALL, NULL},
    {0, 1, "H", ALL, "no frame"},
    {0, 4, "\0\0\0\0", ALL, "no frame: they begin with 0x00000000"},
    {0, 4, "GET ", ALL, "no frame"},
    {4, 2, "\2\0", ALL, "protocol version 2, expected 1"},
    {4, 2, "\0\0", ALL, "protocol version 0, expected 1"},
    {4, 2, "\1\1", ALL, "protocol version 257"},
    {6, 2, "\0\0", ALL, "type 0, which is not allowed here"},
    {6, 2, "\4\0", ALL, "type 4, which is not allowed here"},
    {6, 2, "\5\0", ALL | FRAME_ALLOW(5), "type 5, which is not allowed here"},
    {6, 2, "\1\1", ALL, "type 257, which is not allowed here"},
    {6, 2, "\1\0", FRAME_ALLOW(FRAME_ABORT), "type 1, which is not allowed here"},
    {6, 2, "\3\0", ALL & ~FRAME_ALLOW(FRAME_FAREWELL), "type 3, which is not allowed here"},
    {6, 2, "\3\0", ALL, "type 3 and 3 bytes, expected at most 0"},
    {6, 2, "\4\0", ALL | FRAME_ALLOW(FRAME_BEAT), "type 4 and 3 bytes, expected at most 0"},
    {8, 4, "\377\377\377\377", ALL, NULL},
    {12, 1, "\1", ALL, "where zero was expected"},
    {15, 1, "\200", ALL, "where zero was expected"},
    {16, 8, "\1\0\0\100\0\0\0\0", ALL, "1073741825 bytes, expected at most 1073741824"},
    {16, 8, "\377\377\377\377\377\377\377\377", ALL, "18446744073709551615 bytes"},
    {16, 8, "\0\0\0\0\0\0\0\200", ALL, "9223372036854775808 bytes"},
    {16, 8, "\0\0\0\100\0\0\0\0", ALL, NULL}, /* exactly 1 GiB goes on */
};

START_TEST(refuses_hostile_headers)
{
    unsigned char bytes[FRAME_HEADER_BYTES + 3];
    struct frame frame = {.length = 77};
    struct hvd_error err = {""};
    frame_encode(bytes, FRAME_MESSAGE, 7, 3);
    memcpy(bytes + FRAME_HEADER_BYTES, "abc", 3);
    memcpy(bytes + headers[_i].at, headers[_i].bytes, headers[_i].count);
    int status = frame_decode(bytes, sizeof(bytes), headers[_i].allowed, &frame, &err);
    if (headers[_i].why == NULL) {
        ck_assert_int_ge(status, HVD_OK);
        return;
    }
    ck_assert_int_eq(status, HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, headers[_i].why));
    ck_assert_uint_eq(frame.length, 77);
}
END_TEST

START_TEST(reads_no_further_than_it_may)
{
    unsigned char whole[FRAME_HEADER_BYTES + 300];
    memset(whole, 'x', sizeof(whole));
    frame_encode(whole, FRAME_MESSAGE, 0x01020304, 300);
    for (size_t have = 0; have <= sizeof(whole); have++) {
        /* exactly as large as what is there, so that the sanitizer sees a step too far */
        unsigned char *part = malloc(have > 0 ? have : 1);
        memcpy(part, whole, have);
        struct frame frame;
        int status = frame_decode(part, have, ALL, &frame, NULL);
        ck_assert_int_eq(status, have == sizeof(whole) ? HVD_OK : HVD_IN_PROGRESS);
        if (status == HVD_OK) {
            ck_assert_int_eq(frame.type, FRAME_MESSAGE);
            ck_assert_uint_eq(frame.epoch, 0x01020304);
            ck_assert_uint_eq(frame.length, 300);
            ck_assert_ptr_eq(frame.payload, part + FRAME_HEADER_BYTES);
        }
        free(part);
    }
}
END_TEST

START_TEST(layout_is_little_endian)
{
    unsigned char header[FRAME_HEADER_BYTES];
    static const unsigned char expected[FRAME_HEADER_BYTES] = {'h', 'v', 'd', 'F', 1, 0, 2, 0, 4, 3, 2, 1,
                                                               0,   0,   0,   0,   9, 0, 0, 0, 0, 0, 0, 0};
    frame_encode(header, FRAME_ABORT, 0x01020304, 9);
    ck_assert_mem_eq(header, expected, sizeof(expected));
}
END_TEST

START_TEST(abort_comes_back_as_it_went)
{
    struct frame_abort sent, got;
    unsigned char payload[FRAME_ABORT_BYTES];
    frame_abort_set(&sent, HVD_ERR_RANK_LOST, 3, "rank 3 (n\303\274, pid 9) was lost");
    size_t length = frame_abort_encode(payload, &sent);
    ck_assert_int_eq(frame_abort_decode(payload, length, 4, &got, NULL), HVD_OK);
    ck_assert_int_eq(got.status, HVD_ERR_RANK_LOST);
    ck_assert_int_eq(got.rank, 3);
    ck_assert_str_eq(got.sentence, "rank 3 (n\303\274, pid 9) was lost");
}
END_TEST

START_TEST(abort_is_made_harmless)
{
    struct frame_abort abort;
    unsigned char payload[FRAME_ABORT_BYTES];
    char longest[2 * FRAME_SENTENCE_BYTES];
    frame_abort_set(&abort, 5, 0, "a\nb\033[2Jc\177");
    ck_assert_int_eq(abort.status, HVD_ERR_SYSTEM);
    ck_assert_str_eq(abort.sentence, "a?b?[2Jc?");
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    frame_abort_set(&abort, HVD_ERR_INVALID, 0, longest);
    ck_assert_uint_eq(strlen(abort.sentence), FRAME_SENTENCE_BYTES);
    ck_assert_str_eq(abort.sentence + FRAME_SENTENCE_BYTES - 4, "x...");
    ck_assert_uint_eq(frame_abort_encode(payload, &abort), FRAME_ABORT_BYTES);
    ck_assert_int_eq(frame_abort_decode(payload, FRAME_ABORT_BYTES, 1, &abort, NULL), HVD_OK);
}
END_TEST

/* Payloads of aborts in a job of 4 ranks. */
static const struct {
    size_t length;
    const char *bytes;
    const char *why;
} aborts[] = {
    {0, "", "0 bytes, expected 8 to 519"},
    {7, "\370\377\377\377\0\0\0", "7 bytes"},
    {520, "\370\377\377\377\0\0\0", "520 bytes"},
    {8, "\0\0\0\0\0\0\0\0", "status 0"},
    {8, "\1\0\0\0\0\0\0\0", "status 1"},
    {8, "\365\377\377\377\0\0\0\0", "status -11"},
    {8, "\370\377\377\377\4\0\0\0", "rank 4, expected 0 to 3"},
    {8, "\370\377\377\377\377\377\377\377", "rank -1"},
    {10, "\370\377\377\377\0\0\0\0a\n", "the byte 0x0a"},
    {10, "\370\377\377\377\0\0\0\0\0a", "the byte 0x00"},
    {9, "\370\377\377\377\0\0\0\0\033", "the byte 0x1b"},
    {8, "\370\377\377\377\3\0\0\0", NULL},
};

START_TEST(refuses_hostile_aborts)
{
    unsigned char payload[1024] = {0};
    struct frame_abort abort = {.rank = 77};
    struct hvd_error err = {""};
    memcpy(payload, aborts[_i].bytes, aborts[_i].length < 16 ? aborts[_i].length : 8);
    int status = frame_abort_decode(payload, aborts[_i].length, 4, &abort, &err);
    if (aborts[_i].why == NULL) {
        ck_assert_int_eq(status, HVD_OK);
        ck_assert_str_eq(abort.sentence, "");
        return;
    }
    ck_assert_int_eq(status, HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, aborts[_i].why));
    ck_assert_int_eq(abort.rank, 77);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("frame");
    unit_add_rounds(tcase, refuses_hostile_headers, 0, sizeof(headers) / sizeof(headers[0]));
    tcase_add_test(tcase, reads_no_further_than_it_may);
    tcase_add_test(tcase, layout_is_little_endian);
    tcase_add_test(tcase, abort_comes_back_as_it_went);
    tcase_add_test(tcase, abort_is_made_harmless);
    unit_add_rounds(tcase, refuses_hostile_aborts, 0, sizeof(aborts) / sizeof(aborts[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("frame", fill);
}
