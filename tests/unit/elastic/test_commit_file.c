/* test_commit_file.c: a commit that was written is read; one that was damaged anywhere, cut off or made by
 * another program is refused. */
#include "config.h"
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "elastic/commit_file.h"

enum { COUNT = 3 };

static int64_t steps;
static unsigned char weights[300];
static struct commit_piece pieces[COUNT];
static struct commit_head head;
static struct hvd_error err;
static int fd;
static off_t length;

static void begin(void)
{
    steps = 42;
    for (size_t i = 0; i < sizeof(weights); i++)
        weights[i] = (unsigned char)(i * 7);
    pieces[0] = (struct commit_piece){"steps", sizeof(steps), &steps};
    pieces[1] = (struct commit_piece){"nothing", 0, NULL};
    pieces[2] = (struct commit_piece){"weights", sizeof(weights), weights};
    fd = kernel_memfd_create("commit");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(commit_file_write(fd, 17, pieces, COUNT), 0);
    length = lseek(fd, 0, SEEK_CUR);
    ck_assert_int_gt(length, (off_t)sizeof(weights));
}

static void end(void)
{
    close(fd);
}

/* Read the file as a program with these pieces does. */
static int read_as(const struct commit_piece *others, int count)
{
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    int rc = commit_file_check(fd, others, count, &head, &err);
    return rc == HVD_OK ? commit_file_read(fd, &head, others, count, &err) : rc;
}

static void must_say(const char *words)
{
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
}

START_TEST(what_was_written_is_read)
{
    steps = 0;
    memset(weights, 0, sizeof(weights));
    ck_assert_int_eq(read_as(pieces, COUNT), HVD_OK);
    ck_assert_int_eq(head.number, 17);
    ck_assert_int_eq(head.bytes, (int64_t)(sizeof(steps) + sizeof(weights)));
    ck_assert_int_eq(steps, 42);
    for (size_t i = 0; i < sizeof(weights); i++)
        ck_assert_uint_eq(weights[i], (unsigned char)(i * 7));
}
END_TEST

START_TEST(damage_is_found_at_every_byte)
{
    unsigned char byte = 0;
    for (off_t at = 0; at < length; at++)
        for (int bit = 0; bit < 8; bit += 7) {
            ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
            byte ^= (unsigned char)(1 << bit);
            ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
            ck_assert_msg(read_as(pieces, COUNT) == HVD_ERR_INVALID, "byte %jd: %s", (intmax_t)at, err.text);
            byte ^= (unsigned char)(1 << bit);
            ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        }
    ck_assert_int_eq(read_as(pieces, COUNT), HVD_OK);
}
END_TEST

START_TEST(a_file_that_is_cut_off_or_too_long_is_refused)
{
    ck_assert_int_eq(ftruncate(fd, length + 1), 0);
    ck_assert_int_eq(read_as(pieces, COUNT), HVD_ERR_INVALID);
    must_say("is cut off or damaged");
    while (length-- > 0) {
        ck_assert_int_eq(ftruncate(fd, length), 0);
        ck_assert_int_eq(read_as(pieces, COUNT), HVD_ERR_INVALID);
        must_say("cut off");
    }
}
END_TEST

START_TEST(other_pieces_are_refused_by_name_and_size)
{
    struct commit_piece others[COUNT + 1] = {pieces[0], pieces[1], pieces[2]};
    steps = 5;
    ck_assert_int_eq(read_as(others, COUNT - 1), HVD_ERR_MISMATCH);
    must_say("is of another state: it has 3 parts, and that of this program has 2");
    ck_assert_int_eq(read_as(others, COUNT + 1), HVD_ERR_MISMATCH);
    others[2].bytes--;
    ck_assert_int_eq(read_as(others, COUNT), HVD_ERR_MISMATCH);
    must_say("its part 3 is \"weights\", 300 bytes, and that of this program is \"weights\", 299 bytes");
    others[2] = pieces[2];
    others[1].name[0] = 'N';
    ck_assert_int_eq(read_as(others, COUNT), HVD_ERR_MISMATCH);
    must_say("its part 2 is \"nothing\", 0 bytes, and that of this program is \"Nothing\", 0 bytes");
    ck_assert_int_eq(steps, 5); /* nothing was read */
}
END_TEST

START_TEST(a_lone_piece_may_have_any_size)
{
    struct commit_piece any = {"weights", -1, NULL}, other = {"others", -1, NULL};
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(commit_file_write(fd, 1, &pieces[2], 1), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(commit_file_check(fd, &other, 1, &head, &err), HVD_ERR_MISMATCH);
    must_say("holds \"weights\", and this program has \"others\"");
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(commit_file_check(fd, &any, 1, &head, &err), HVD_OK);
    ck_assert_int_eq(head.bytes, (int64_t)sizeof(weights));
}
END_TEST

START_TEST(large_pieces_are_whole)
{
    enum { BYTES = 5 << 19 }; /* of which hvd takes slices */
    unsigned char *bytes = malloc(BYTES);
    struct commit_piece large[] = {{"large", BYTES, bytes}, pieces[0]};
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i >> 16);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(commit_file_write(fd, 1, large, 2), 0);
    memset(bytes, 77, BYTES);
    steps = 0;
    ck_assert_int_eq(read_as(large, 2), HVD_OK);
    for (int i = 0; i < BYTES; i++)
        ck_assert_uint_eq(bytes[i], (unsigned char)(i >> 16));
    ck_assert_int_eq(steps, 42);
    free(bytes);
}
END_TEST

START_TEST(other_files_are_no_commits)
{
    static const char text[200] = "a file of somebody else, which is long enough to hold a commit";
    ck_assert_int_eq(pwrite(fd, text, sizeof(text), 0), (ssize_t)sizeof(text));
    ck_assert_int_eq(read_as(pieces, COUNT), HVD_ERR_INVALID);
    must_say("is no commit of this version of hvd");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("commit_file");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, what_was_written_is_read);
    tcase_add_test(tcase, damage_is_found_at_every_byte);
    tcase_add_test(tcase, a_file_that_is_cut_off_or_too_long_is_refused);
    tcase_add_test(tcase, other_pieces_are_refused_by_name_and_size);
    tcase_add_test(tcase, a_lone_piece_may_have_any_size);
    tcase_add_test(tcase, large_pieces_are_whole);
    tcase_add_test(tcase, other_files_are_no_commits);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("commit_file", fill);
}
