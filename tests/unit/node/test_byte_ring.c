/* test_byte_ring.c: the byte ring: short and long commits, wrap-around, a full ring, spoilt stamps and
 * positions, and two threads at it. */
#include "config.h"
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "node/byte_ring.h"

static struct byte_ring *ring_new(struct byte_ring_end *writer, struct byte_ring_end *reader)
{
    struct byte_ring *ring = aligned_alloc(CACHE_LINE_BYTES, sizeof(*ring));
    ck_assert_ptr_nonnull(ring);
    memset(ring, 0, sizeof(*ring));
    *writer = (struct byte_ring_end){.ring = ring};
    *reader = (struct byte_ring_end){.ring = ring};
    return ring;
}

/* The byte at [position] of a stream that repeats with no period of the ring's. */
static unsigned char stream_byte(uint64_t position)
{
    return (unsigned char)(position * 31 + position / 251);
}

/* A small generator of its own, so that runs repeat. */
static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

START_TEST(bytes_come_out_as_they_went_in)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    unsigned char in[BYTE_RING_BYTES + 100], out[BYTE_RING_BYTES + 100];
    uint64_t put = 0, taken = 0;
    uint32_t state = 1;
    while (taken < 5 * BYTE_RING_BYTES) {
        size_t length = draw(&state) % sizeof(in);
        for (size_t i = 0; i < length; i++)
            in[i] = stream_byte(put + i);
        ssize_t count = byte_ring_write(&writer, in, length);
        ck_assert_int_ge(count, 0);
        put += (uint64_t)count;
        byte_ring_commit(&writer);
        ck_assert_uint_le(put - taken, BYTE_RING_BYTES + BYTE_RING_ENTRIES * BYTE_RING_SHORT_BYTES);
        count = byte_ring_read(&reader, out, draw(&state) % sizeof(out));
        ck_assert_int_ge(count, 0);
        for (ssize_t i = 0; i < count; i++)
            ck_assert_uint_eq(out[i], stream_byte(taken + (uint64_t)i));
        taken += (uint64_t)count;
        byte_ring_release(&reader);
    }
    free(ring);
}
END_TEST

START_TEST(nothing_is_seen_before_it_is_published)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    char out[8];
    ck_assert_int_eq(byte_ring_write(&writer, "abc", 3), 3);
    ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), 0);
    byte_ring_commit(&writer);
    ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), 3);
    free(ring);
}
END_TEST

/* Commits as short as these never touch the place of long ones, and all lengths around the limit arrive. */
START_TEST(a_short_commit_lies_beside_its_stamp)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    unsigned char in[2 * BYTE_RING_SHORT_BYTES], out[sizeof(in) + 1];
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = stream_byte(i);
    for (size_t length = 1; length <= sizeof(in); length++) {
        size_t first = length / 3; /* in two parts */
        ck_assert_int_eq(byte_ring_write(&writer, in, first), (ssize_t)first);
        ck_assert_int_eq(byte_ring_write(&writer, in + first, length - first), (ssize_t)(length - first));
        byte_ring_commit(&writer);
        ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), (ssize_t)length);
        ck_assert_mem_eq(out, in, length);
        byte_ring_release(&reader);
        ck_assert_int_eq(writer.position > 0, length > BYTE_RING_SHORT_BYTES);
    }
    free(ring);
}
END_TEST

/* A long commit needs room for more than a short one: less is not used, as it would look like a short one. */
START_TEST(a_long_commit_needs_more_room_than_a_short_one)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    static unsigned char in[BYTE_RING_BYTES + BYTE_RING_SHORT_BYTES], out[sizeof(in)];
    size_t long_bytes = BYTE_RING_BYTES - BYTE_RING_SHORT_BYTES;
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = stream_byte(i);
    ck_assert_int_eq(byte_ring_write(&writer, in, long_bytes), (ssize_t)long_bytes);
    byte_ring_commit(&writer);
    ck_assert_int_eq(byte_ring_write(&writer, in + long_bytes, 1), 1);
    ck_assert_int_eq(byte_ring_write(&writer, in + long_bytes + 1, 2 * BYTE_RING_SHORT_BYTES),
                     BYTE_RING_SHORT_BYTES - 1);
    ck_assert_int_eq(byte_ring_write(&writer, in, 1), 0);
    byte_ring_commit(&writer);
    ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), BYTE_RING_BYTES);
    ck_assert_mem_eq(out, in, BYTE_RING_BYTES);
    free(ring);
}
END_TEST

START_TEST(entries_are_full_until_released)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    char out[2];
    for (int i = 0; i < BYTE_RING_ENTRIES; i++) {
        ck_assert_int_eq(byte_ring_write(&writer, "ab", 2), 2);
        byte_ring_commit(&writer);
    }
    ck_assert_int_eq(byte_ring_write(&writer, "c", 1), 0);
    byte_ring_request_room(&writer);
    ck_assert_int_eq(byte_ring_read(&reader, out, 1), 1);
    ck_assert(byte_ring_release(&reader)); /* of nothing: half a commit keeps its room */
    ck_assert_int_eq(byte_ring_write(&writer, "c", 1), 0);
    ck_assert_int_eq(byte_ring_read(&reader, out, 1), 1);
    ck_assert(!byte_ring_release(&reader));
    ck_assert_int_eq(byte_ring_write(&writer, "c", 1), 1);
    free(ring);
}
END_TEST

START_TEST(full_is_full_until_released)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    static unsigned char bytes[BYTE_RING_BYTES + 1];
    ck_assert_int_eq(byte_ring_write(&writer, bytes, sizeof(bytes)), BYTE_RING_BYTES);
    ck_assert_int_eq(byte_ring_write(&writer, bytes, 1), 0);
    byte_ring_commit(&writer);
    ck_assert(!byte_ring_release(&reader)); /* nobody waits */
    byte_ring_request_room(&writer);
    ck_assert_int_eq(byte_ring_read(&reader, bytes, 1000), 1000);
    ck_assert_int_eq(byte_ring_write(&writer, bytes, 2000), BYTE_RING_SHORT_BYTES);
    byte_ring_commit(&writer);
    ck_assert(byte_ring_release(&reader));
    ck_assert(!byte_ring_release(&reader)); /* told once */
    ck_assert_int_eq(byte_ring_write(&writer, bytes, 2000), 1000);
    free(ring);
}
END_TEST

START_TEST(ends_behind_the_last_byte)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    char out[8];
    ck_assert(!byte_ring_at_end(&reader));
    byte_ring_write(&writer, "ab", 2);
    byte_ring_commit(&writer);
    byte_ring_close(&writer);
    ck_assert(!byte_ring_at_end(&reader));
    ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), 2);
    ck_assert(byte_ring_at_end(&reader));
    free(ring);
}
END_TEST

/* Of the first commit: how a reader must see its stamp. */
static const struct {
    uint64_t number, count;
    ssize_t read;
} stamps[] = {
    {BYTE_RING_ENTRIES, 1, 1},
    {BYTE_RING_ENTRIES, BYTE_RING_BYTES, 10},
    {BYTE_RING_ENTRIES, BYTE_RING_BYTES + 1, -1}, /* more than there can be */
    {BYTE_RING_ENTRIES, 0, -1},
    {BYTE_RING_ENTRIES + 1, 1, -1}, /* ahead */
    {BYTE_RING_ENTRIES - 1, 1, -1}, /* of no earlier lap */
    {0, 0, 0},
};

START_TEST(spoilt_stamps_are_seen)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    char out[10];
    atomic_store(&ring->entries[0].stamp, stamps[_i].number << 20 | stamps[_i].count);
    ck_assert_int_eq(byte_ring_is_empty(&reader), stamps[_i].read == 0);
    ck_assert_int_eq(byte_ring_read(&reader, out, sizeof(out)), stamps[_i].read);
    free(ring);
}
END_TEST

START_TEST(spoilt_positions_are_seen)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    static unsigned char bytes[BYTE_RING_BYTES];
    atomic_store(&ring->entry_tail, 1); /* ahead of the writer */
    ck_assert_int_eq(byte_ring_write(&writer, bytes, 1), -1);
    atomic_store(&ring->entry_tail, 0);
    atomic_store(&ring->byte_tail, 1);
    ck_assert_int_eq(byte_ring_write(&writer, bytes, 1), 1);
    ck_assert_int_eq(byte_ring_write(&writer, bytes, sizeof(bytes)), -1);
    free(ring);
}
END_TEST

START_TEST(reset_empties_what_was_used)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    char out[2];
    memset(ring, 0xa5, sizeof(*ring));
    byte_ring_reset(ring);
    ck_assert(byte_ring_is_empty(&reader) && !byte_ring_at_end(&reader));
    ck_assert_int_eq(byte_ring_write(&writer, "ab", 2), 2);
    byte_ring_commit(&writer);
    ck_assert_int_eq(byte_ring_read(&reader, out, 2), 2);
    free(ring);
}
END_TEST

#define THREAD_BYTES (UINT64_C(4) << 20)

static void *write_stream(void *arg)
{
    struct byte_ring_end *writer = arg;
    unsigned char bytes[3000];
    uint32_t state = 2;
    uint64_t put = 0;
    while (put < THREAD_BYTES) {
        size_t length = draw(&state) % sizeof(bytes) + 1;
        if (length > THREAD_BYTES - put)
            length = (size_t)(THREAD_BYTES - put);
        for (size_t i = 0; i < length; i++)
            bytes[i] = stream_byte(put + i);
        ssize_t count = byte_ring_write(writer, bytes, length);
        if (count < 0)
            return (void *)1;
        put += (uint64_t)count;
        byte_ring_commit(writer);
        if (count == 0)
            sched_yield();
    }
    byte_ring_close(writer);
    return NULL;
}

START_TEST(two_threads_pass_a_stream)
{
    struct byte_ring_end writer, reader;
    struct byte_ring *ring = ring_new(&writer, &reader);
    unsigned char bytes[5000];
    uint32_t state = 3;
    uint64_t taken = 0, wrong = 0;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, write_stream, &writer), 0);
    while (!byte_ring_at_end(&reader)) {
        ssize_t count = byte_ring_read(&reader, bytes, draw(&state) % sizeof(bytes) + 1);
        ck_assert_int_ge(count, 0);
        for (ssize_t i = 0; i < count; i++)
            wrong += bytes[i] != stream_byte(taken + (uint64_t)i);
        taken += (uint64_t)count;
        byte_ring_release(&reader);
        if (count == 0)
            sched_yield();
    }
    void *failed = NULL;
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_uint_eq(taken, THREAD_BYTES);
    ck_assert_uint_eq(wrong, 0);
    free(ring);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("byte_ring");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, bytes_come_out_as_they_went_in);
    tcase_add_test(tcase, nothing_is_seen_before_it_is_published);
    tcase_add_test(tcase, a_short_commit_lies_beside_its_stamp);
    tcase_add_test(tcase, a_long_commit_needs_more_room_than_a_short_one);
    tcase_add_test(tcase, entries_are_full_until_released);
    tcase_add_test(tcase, full_is_full_until_released);
    tcase_add_test(tcase, ends_behind_the_last_byte);
    tcase_add_loop_test(tcase, spoilt_stamps_are_seen, 0, sizeof(stamps) / sizeof(stamps[0]));
    tcase_add_test(tcase, spoilt_positions_are_seen);
    tcase_add_test(tcase, reset_empties_what_was_used);
    tcase_add_test(tcase, two_threads_pass_a_stream);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("byte_ring", fill);
}
