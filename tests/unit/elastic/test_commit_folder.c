/* test_commit_folder.c: the last two commits in a folder: which is the newest, what is left when a write
 * fails, and whose files are read. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/commit_folder.h"
#include "temp_folder.h"

static int64_t steps;
static struct commit_piece piece;
static struct commit_folder commits;
static struct commit_found found[COMMIT_SLOTS];
static struct hvd_error err;
static char path[100]; /* of the commits' folder, which is not there yet */

static void begin(void)
{
    folder_empty();
    snprintf(path, sizeof(path), "%s/state", folder);
    piece = (struct commit_piece){"steps", sizeof(steps), &steps};
    ck_assert_int_eq(commit_folder_init(&commits, path, 1, &err), HVD_OK);
}

static int write_commit(int slot, int64_t number)
{
    steps = 10 * number;
    int rc = commit_folder_write(&commits, slot, number, &piece, 1, &err);
    steps = 0;
    return rc;
}

static void must_write(int slot, int64_t number)
{
    ck_assert_msg(write_commit(slot, number) == HVD_OK, "%s", err.text);
}

static int newest(void)
{
    commit_folder_look(&commits, &piece, 1, found);
    return commit_found_newest(found);
}

static void must_read(int slot, int64_t number)
{
    ck_assert_msg(commit_folder_read(&commits, slot, &piece, 1, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(steps, 10 * number);
}

static void file_of(int slot, char name[200])
{
    snprintf(name, 200, "%s/hvd-state.1.%c", path, 'a' + slot);
}

START_TEST(the_newest_of_two_counts)
{
    ck_assert_int_eq(newest(), -1); /* no folder */
    ck_assert_int_eq(found[0].status, HVD_OK);
    must_write(1, 5);
    ck_assert_int_eq(newest(), 1);
    must_write(0, 6);
    ck_assert_int_eq(newest(), 0);
    must_read(0, 6);
    must_read(1, 5);
    must_write(1, 7);
    ck_assert_int_eq(newest(), 1);
    ck_assert_int_eq(found[0].number, 6);
    ck_assert_int_eq(found[1].number, 7);
    ck_assert_int_ne(found[0].identity, found[1].identity);
    ck_assert_int_ge(found[0].identity, 0);
}
END_TEST

START_TEST(states_have_files_of_their_own)
{
    struct commit_folder other;
    must_write(0, 3);
    ck_assert_int_eq(commit_folder_init(&other, path, 2, &err), HVD_OK);
    commit_folder_look(&other, &piece, 1, found);
    ck_assert_int_eq(commit_found_newest(found), -1);
    ck_assert_int_eq(commit_folder_read(&other, 0, &piece, 1, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "hvd-state.2.a is gone") != NULL, "%s", err.text);
}
END_TEST

START_TEST(only_this_user_may_read_them)
{
    char name[200];
    struct stat about;
    must_write(0, 1);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_int_eq(about.st_mode & 0777, 0700);
    file_of(0, name);
    ck_assert_int_eq(stat(name, &about), 0);
    ck_assert_int_eq(about.st_mode & 0777, 0600);
}
END_TEST

static void damage(int slot, off_t at)
{
    char name[200], byte = 0;
    file_of(slot, name);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    at = at < 0 ? lseek(fd, 0, SEEK_END) + at : at;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

START_TEST(damage_leaves_the_one_before)
{
    must_write(0, 1);
    must_write(1, 2);
    damage(1, 20); /* its number */
    ck_assert_int_eq(newest(), 0);
    ck_assert_int_eq(found[1].status, HVD_ERR_INVALID);
    ck_assert_msg(strstr(found[1].why.text, "/hvd-state.1.b is damaged: ") != NULL, "%s", found[1].why.text);
    must_write(1, 2);
    damage(1, -1); /* its contents, which are looked at when they are read */
    ck_assert_int_eq(newest(), 1);
    ck_assert_int_eq(commit_folder_read(&commits, 1, &piece, 1, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "/hvd-state.1.b is damaged: ") != NULL, "%s", err.text);
    must_read(0, 1);
}
END_TEST

START_TEST(bytes_of_any_number_get_memory)
{
    char bytes[] = "some bytes";
    struct commit_piece any = {"bytes", sizeof(bytes), bytes};
    ck_assert_int_eq(commit_folder_write(&commits, 0, 1, &any, 1, &err), HVD_OK);
    any = (struct commit_piece){"bytes", -1, NULL};
    ck_assert_int_eq(commit_folder_read(&commits, 0, &any, 1, &err), HVD_OK);
    ck_assert_int_eq(any.bytes, (int64_t)sizeof(bytes));
    ck_assert_str_eq(any.data, bytes);
    free(any.data);
    damage(0, -40);
    any = (struct commit_piece){"bytes", -1, NULL};
    ck_assert_int_eq(commit_folder_read(&commits, 0, &any, 1, &err), HVD_ERR_INVALID);
    ck_assert_ptr_null(any.data);
}
END_TEST

START_TEST(symbolic_links_in_the_folder_are_not_followed)
{
    char name[200], target[200];
    must_write(0, 1);
    file_of(0, target);
    file_of(1, name);
    ck_assert_int_eq(symlink(target, name), 0);
    ck_assert_int_eq(newest(), 0);
    ck_assert_int_eq(found[1].status, HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(found[1].why.text, "hvd-state.1.b cannot be opened: ") != NULL, "%s",
                  found[1].why.text);
    must_write(1, 2); /* replaces the link, and not what it leads to */
    must_read(0, 1);
    must_read(1, 2);
}
END_TEST

START_TEST(files_and_links_of_others_are_refused)
{
    char name[200], link[100];
    if (geteuid() != 0)
        return; /* only root can make them */
    must_write(0, 1);
    file_of(0, name);
    ck_assert_int_eq(chown(name, 12345, (gid_t)-1), 0);
    ck_assert_int_eq(newest(), -1);
    ck_assert_msg(strstr(found[0].why.text, "is no file of this user, but of user 12345") != NULL, "%s",
                  found[0].why.text);
    snprintf(link, sizeof(link), "%s/link", folder);
    ck_assert_int_eq(symlink("state", link), 0);
    ck_assert_int_eq(commit_folder_init(&commits, link, 1, &err), HVD_OK);
    must_write(0, 2); /* root's own link is followed */
    ck_assert_int_eq(lchown(link, 12345, (gid_t)-1), 0);
    ck_assert_int_eq(newest(), -1);
    ck_assert_msg(strstr(found[0].why.text, "/link is a symbolic link of user 12345") != NULL, "%s",
                  found[0].why.text);
    ck_assert_int_ne(write_commit(0, 3), HVD_OK);
}
END_TEST

START_TEST(what_is_no_folder_is_named)
{
    char deep[200];
    folder_put("state", "a file");
    ck_assert_int_ne(write_commit(0, 1), HVD_OK);
    ck_assert_msg(strstr(err.text, "/state cannot be opened: Not a directory") != NULL, "%s", err.text);
    ck_assert_int_eq(newest(), -1);
    ck_assert_int_ne(found[0].status, HVD_OK);
    snprintf(deep, sizeof(deep), "%s/none/deep", folder);
    ck_assert_int_eq(commit_folder_init(&commits, deep, 1, &err), HVD_OK);
    ck_assert_int_ne(write_commit(0, 1), HVD_OK);
    ck_assert_msg(strstr(err.text, "none/deep cannot be made: No such file") != NULL, "%s", err.text);
}
END_TEST

START_TEST(files_of_killed_writers_are_removed)
{
    must_write(0, 1);
    folder_put("state/hvd-state.1.new.0123456789abcdef", "half of a commit");
    folder_put("state/hvd-state.2.new.0123456789abcdef", "that of another state");
    commit_folder_tidy(&commits);
    ck_assert_ptr_null(folder_read("state/hvd-state.1.new.0123456789abcdef"));
    char *other = folder_read("state/hvd-state.2.new.0123456789abcdef");
    ck_assert_ptr_nonnull(other);
    free(other);
    must_read(0, 1);
}
END_TEST

START_TEST(names_are_absolute)
{
    char here[PATH_MAX], far[PATH_MAX];
    ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(commit_folder_init(&commits, "state", 1, &err), HVD_OK);
    ck_assert_int_eq(chdir(here), 0);
    must_write(0, 4);
    ck_assert_int_eq(newest(), 0);
    ck_assert_int_eq(access(path, F_OK), 0);
    memset(far, 'x', sizeof(far) - 1);
    far[sizeof(far) - 1] = 0;
    ck_assert_int_eq(commit_folder_init(&commits, far, 1, &err), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("commit_folder");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, the_newest_of_two_counts);
    tcase_add_test(tcase, states_have_files_of_their_own);
    tcase_add_test(tcase, only_this_user_may_read_them);
    tcase_add_test(tcase, damage_leaves_the_one_before);
    tcase_add_test(tcase, bytes_of_any_number_get_memory);
    tcase_add_test(tcase, symbolic_links_in_the_folder_are_not_followed);
    tcase_add_test(tcase, files_and_links_of_others_are_refused);
    tcase_add_test(tcase, what_is_no_folder_is_named);
    tcase_add_test(tcase, files_of_killed_writers_are_removed);
    tcase_add_test(tcase, names_are_absolute);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("commit_folder", fill);
}
