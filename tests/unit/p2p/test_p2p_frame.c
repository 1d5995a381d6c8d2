/* test_p2p_frame.c: frames of messages, and what a hostile peer may send in their place. */
#include "config.h"
#include "unit.h"

#include <string.h>

#include "p2p/p2p_frame.h"

static const struct p2p_frame good = {.type = P2P_EAGER,
                                      .set = 3,
                                      .tag = 70000,
                                      .dtype = HVD_FLOAT32,
                                      .other_dtype = HVD_INT8,
                                      .id = UINT64_C(0x1122334455667788),
                                      .bytes = P2P_EAGER_BYTES,
                                      .other_bytes = 12,
                                      .address = UINT64_C(0xfedcba9876543210)};

START_TEST(a_frame_is_read_as_it_was_written)
{
    unsigned char bytes[P2P_FRAME_BYTES];
    struct p2p_frame read;
    p2p_frame_encode(bytes, &good);
    ck_assert_int_eq(p2p_frame_decode(bytes, P2P_FROM_SENDER, &read, NULL), HVD_OK);
    ck_assert_int_eq(read.type, good.type);
    ck_assert_int_eq(read.set, good.set);
    ck_assert_int_eq(read.tag, good.tag);
    ck_assert_int_eq(read.dtype, good.dtype);
    ck_assert_int_eq(read.other_dtype, good.other_dtype);
    ck_assert_uint_eq(read.id, good.id);
    ck_assert_int_eq(read.bytes, good.bytes);
    ck_assert_int_eq(read.other_bytes, good.other_bytes);
    ck_assert_uint_eq(read.address, good.address);
}
END_TEST

/* The good frame, in which [at] is replaced by [bytes]. */
static const struct {
    int at;
    size_t count;
    const char *bytes, *why;
} frames[] = {
    {0, 1, "x", "no frame"},
    {4, 1, "\0", "type 0, which must not come there"},
    {4, 1, "\7", "type 7, which must not come there"},
    {4, 1, "\15", "type 13, which must not come there"},
    {4, 1, "\377", "type 255, which must not come there"},
    {5, 1, "\15", "out of range"},
    {6, 1, "\15", "out of range"},
    {7, 1, "\1", "out of range"},
    {7, 1, "\2", "out of range"},
    {8, 4, "\0\0\0\200", "out of range"},
    {12, 4, "\0\0\0\200", "out of range"},
    {24, 8, "\1\200\0\0\0\0\0\0", "out of range"},
    {24, 8, "\377\377\377\377\377\377\377\377", "out of range"},
    {32, 8, "\0\0\0\0\0\0\0\200", "out of range"},
};

START_TEST(a_bad_frame_is_refused)
{
    unsigned char bytes[P2P_FRAME_BYTES];
    struct p2p_frame read = {.tag = -5};
    struct hvd_error err;
    p2p_frame_encode(bytes, &good);
    memcpy(bytes + frames[_i].at, frames[_i].bytes, frames[_i].count);
    ck_assert_int_eq(p2p_frame_decode(bytes, P2P_FROM_SENDER, &read, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, frames[_i].why) != NULL, "%s", err.text);
    ck_assert_int_eq(read.tag, -5);
}
END_TEST

/* Each type but a card comes from one end only. */
START_TEST(no_other_type_comes_from_both_ends)
{
    unsigned char bytes[P2P_FRAME_BYTES];
    struct p2p_frame read, frame = good;
    frame.type = (enum p2p_frame_type)_i;
    p2p_frame_encode(bytes, &frame);
    int from_sender = p2p_frame_decode(bytes, P2P_FROM_SENDER, &read, NULL);
    int from_receiver = p2p_frame_decode(bytes, P2P_FROM_RECEIVER, &read, NULL);
    ck_assert_int_eq(from_sender, _i < P2P_TAKE || _i == P2P_CARD ? HVD_OK : HVD_ERR_SYSTEM);
    ck_assert_int_eq(from_receiver, _i < P2P_TAKE ? HVD_ERR_SYSTEM : HVD_OK);
}
END_TEST

START_TEST(only_bytes_are_direct)
{
    unsigned char bytes[P2P_FRAME_BYTES];
    struct p2p_frame read, frame = good;
    bool may_be = _i == P2P_OFFER || _i == P2P_TAKE || _i == P2P_DATA;
    frame.type = (enum p2p_frame_type)_i;
    frame.direct = true;
    p2p_frame_encode(bytes, &frame);
    int rc = p2p_frame_decode(bytes, P2P_FROM_SENDER | P2P_FROM_RECEIVER, &read, NULL);
    ck_assert_int_eq(rc, may_be ? HVD_OK : HVD_ERR_SYSTEM);
    ck_assert(rc != HVD_OK || read.direct);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("p2p_frame");
    tcase_add_test(tcase, a_frame_is_read_as_it_was_written);
    tcase_add_loop_test(tcase, a_bad_frame_is_refused, 0, sizeof(frames) / sizeof(frames[0]));
    tcase_add_loop_test(tcase, no_other_type_comes_from_both_ends, P2P_EAGER, P2P_FRAME_TYPES);
    tcase_add_loop_test(tcase, only_bytes_are_direct, P2P_EAGER, P2P_FRAME_TYPES);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("p2p_frame", fill);
}
