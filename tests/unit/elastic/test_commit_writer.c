/* test_commit_writer.c: commits reach the disk beside training, and a disk that is slow or full costs only
 * commits. The disk is what fsync says here, which the writer calls twice for each commit. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/commit_writer.h"
#include "temp_folder.h"

enum { WAIT_MS = 20000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool waits; /* for the test */
    int error;  /* what comes of it; 0: success */
    int calls;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* In place of the system's. */
int fsync(int fd)
{
    (void)fd;
    pthread_mutex_lock(&disk.lock);
    disk.calls++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.waits)
        pthread_cond_wait(&disk.changed, &disk.lock);
    errno = disk.error;
    pthread_mutex_unlock(&disk.lock);
    return errno == 0 ? 0 : -1;
}

static void set_disk(bool waits, int error)
{
    pthread_mutex_lock(&disk.lock);
    disk.waits = waits;
    disk.error = error;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_call(void)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.calls == 0)
        pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

static int64_t steps;
static struct commit_piece piece;
static struct commit_folder commits;
static struct commit_writer *writer;
static struct hvd_error err;

static void begin(void)
{
    folder_empty();
    set_disk(false, 0);
    piece = (struct commit_piece){"steps", sizeof(steps), &steps};
    ck_assert_int_eq(commit_folder_init(&commits, folder, 1, &err), HVD_OK);
    ck_assert_int_eq(commit_writer_create(&writer, &commits, -1, &err), HVD_OK);
}

/* Of commits that were handed over, those that the writer still has. */
static _Atomic int held;

static void release(void *arg)
{
    *(int64_t *)arg = -1; /* nobody reads it any more */
    free(arg);
    held--;
}

/* Hand over a commit of [value]. */
static void hand_value(int64_t number, int64_t value)
{
    int64_t *memory = malloc(sizeof(*memory));
    struct commit_piece lent = piece;
    ck_assert_ptr_nonnull(memory);
    *memory = value;
    lent.data = memory;
    held++;
    commit_writer_hand(writer, number, &lent, 1, release, memory);
}

static void hand(int64_t number)
{
    hand_value(number, number * 10);
}

static void end(void)
{
    commit_writer_destroy(writer);
    ck_assert_int_eq(held, 0);
}

static void must_have(int64_t first, int64_t second)
{
    struct commit_found found[COMMIT_SLOTS];
    commit_folder_look(&commits, &piece, 1, found);
    ck_assert_int_eq(found[0].number, first);
    ck_assert_int_eq(found[1].number, second);
    for (int slot = 0; slot < COMMIT_SLOTS; slot++)
        if (found[slot].number > 0) {
            ck_assert_int_eq(commit_folder_read(&commits, slot, &piece, 1, &err), HVD_OK);
            ck_assert_int_eq(steps, found[slot].number * 10);
        }
}

START_TEST(each_commit_replaces_the_older_one)
{
    for (int64_t i = 1; i <= 5; i++) {
        hand(i);
        ck_assert(commit_writer_wait(writer, WAIT_MS));
    }
    must_have(5, 4);
    ck_assert(!commit_writer_problem(writer, &err));
}
END_TEST

START_TEST(the_newest_one_takes_the_place_of_those_that_wait)
{
    set_disk(true, 0);
    hand(1);
    await_call();
    ck_assert(!commit_writer_wait(writer, 1)); /* it is not on the disk */
    for (int64_t i = 2; i <= 100; i++)
        hand(i); /* does not wait for the disk */
    ck_assert_int_eq(held, 2);
    ck_assert(!commit_writer_wait(writer, 1));
    set_disk(false, 0);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    must_have(1, 100);
    ck_assert_int_eq(disk.calls, 4); /* the others were not written */
}
END_TEST

START_TEST(the_end_waits_for_the_disk)
{
    set_disk(true, 0);
    hand(1);
    await_call();
    hand(2);
    set_disk(false, 0);
    commit_writer_destroy(writer);
    writer = NULL;
    must_have(1, 2);
}
END_TEST

START_TEST(a_full_disk_is_told_once_and_leaves_the_commits_there)
{
    hand(1);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    set_disk(false, ENOSPC);
    for (int64_t i = 2; i <= 4; i++) {
        hand(i);
        ck_assert(commit_writer_wait(writer, WAIT_MS));
        ck_assert_int_eq(commit_writer_problem(writer, &err), i == 2);
    }
    ck_assert_msg(strstr(err.text, "a commit cannot be written into the folder ") != NULL, "%s", err.text);
    ck_assert_msg(strstr(err.text, ": No space left on device") != NULL, "%s", err.text);
    must_have(1, 0);
    set_disk(false, 0); /* there is room again */
    hand(5);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    must_have(1, 5);
    set_disk(false, EIO); /* another problem is told again */
    hand(6);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    ck_assert(commit_writer_problem(writer, &err));
}
END_TEST

START_TEST(the_commit_that_was_read_is_left_as_it_is)
{
    hand(1);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    hand(2);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    commit_writer_destroy(writer);
    /* commit 2, in the second file, proved to be damaged */
    ck_assert_int_eq(commit_writer_create(&writer, &commits, 0, &err), HVD_OK);
    hand_value(2, 30);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    must_have(1, 3); /* a number that is newer than all that were there */
}
END_TEST

START_TEST(a_successor_leaves_the_newest_commit)
{
    for (int64_t i = 1; i <= 2; i++) {
        hand(i);
        ck_assert(commit_writer_wait(writer, WAIT_MS));
    }
    commit_writer_destroy(writer);
    ck_assert_int_eq(commit_writer_create(&writer, &commits, -1, &err), HVD_OK);
    hand(3);
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    must_have(3, 2);
}
END_TEST

/* Hand over a commit of another size. */
static void hand_longer(int64_t number, char *memory, int64_t bytes)
{
    const struct commit_piece longer = {"steps", bytes, memory};
    held++;
    commit_writer_hand(writer, number, &longer, 1, release, memory);
}

/* [last]: what the successor knows. */
static void must_go_on_with_another_size(int last)
{
    struct commit_found found[COMMIT_SLOTS];
    const struct commit_piece any = {"steps", -1, NULL};
    for (int64_t i = 1; i <= 3; i++) {
        hand(i);
        ck_assert(commit_writer_wait(writer, WAIT_MS));
    }
    commit_writer_destroy(writer);
    ck_assert_int_eq(commit_writer_create(&writer, &commits, last, &err), HVD_OK);
    hand_longer(1, calloc(2, sizeof(int64_t)), 2 * sizeof(int64_t));
    ck_assert(commit_writer_wait(writer, WAIT_MS));
    commit_folder_look(&commits, &any, 1, found);
    ck_assert_int_eq(found[0].number, 3);
    ck_assert_int_eq(found[1].number, 4);
}

START_TEST(commits_of_another_size_are_older_too)
{
    must_go_on_with_another_size(-1);
}
END_TEST

START_TEST(the_one_that_was_read_may_have_another_size)
{
    must_go_on_with_another_size(0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("commit_writer");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, each_commit_replaces_the_older_one);
    tcase_add_test(tcase, the_newest_one_takes_the_place_of_those_that_wait);
    tcase_add_test(tcase, the_end_waits_for_the_disk);
    tcase_add_test(tcase, a_full_disk_is_told_once_and_leaves_the_commits_there);
    tcase_add_test(tcase, the_commit_that_was_read_is_left_as_it_is);
    tcase_add_test(tcase, a_successor_leaves_the_newest_commit);
    tcase_add_test(tcase, commits_of_another_size_are_older_too);
    tcase_add_test(tcase, the_one_that_was_read_may_have_another_size);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("commit_writer", fill);
}
