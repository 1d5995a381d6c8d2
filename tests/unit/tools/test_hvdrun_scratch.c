/* test_hvdrun_scratch.c: hvdrun's temporary folders: who may remove those of a hvdrun that was killed. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_signal.h"
#include "tools/hvdrun/scratch.h"

static char parent[64];

static void set_up(void)
{
    snprintf(parent, sizeof(parent), "/tmp/test_scratch.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(parent));
    ck_assert_int_eq(setenv("TMPDIR", parent, 1), 0);
}

static void tear_down(void)
{
    scratch_remove(parent);
}

static void name(char path[PATH_MAX])
{
    struct hvd_error err;
    ck_assert_int_eq(scratch_make_name(path, PATH_MAX, &err), HVD_OK);
}

/* A process that makes the folder, with a file in it, and lives until it is killed. */
static pid_t start_owner(const char *path)
{
    int ends[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char file[PATH_MAX + 8];
        snprintf(file, sizeof(file), "%s/file", path);
        bool made = scratch_make(path) == 0 && open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0;
        if (made && write(ends[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static void kill_owner(pid_t pid)
{
    ck_assert_int_eq(process_signal(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(a_folder_is_abandoned_when_its_process_has_ended)
{
    char own[PATH_MAX], other[PATH_MAX];
    name(own);
    name(other);
    pid_t pid = start_owner(other);
    scratch_remove_abandoned(own);
    ck_assert_int_eq(access(other, F_OK), 0);
    kill_owner(pid);
    ck_assert_int_eq(access(other, F_OK), 0);
    scratch_remove_abandoned(own);
    ck_assert_int_ne(access(other, F_OK), 0);
}
END_TEST

/* What is not this program's, another user's, another host's, or only seems to be a folder, stays. */
START_TEST(what_belongs_to_others_stays)
{
    char own[PATH_MAX], foreign[PATH_MAX], elsewhere[PATH_MAX], plain[PATH_MAX + 8], link[PATH_MAX];
    name(own);
    name(foreign);
    name(elsewhere);
    name(link);
    elsewhere[strlen(parent) + strlen("/hvdrun.")] = 'x';
    snprintf(plain, sizeof(plain), "%s/hvdrun", parent);
    ck_assert_int_eq(mkdir(plain, 0700) + mkdir(elsewhere, 0700) + mkdir(foreign, 0700), 0);
    ck_assert_int_eq(symlink(plain, link), 0);
    bool changes_owner = geteuid() == 0 && chown(foreign, 65534, 65534) == 0;
    scratch_remove_abandoned(own);
    scratch_remove_abandoned("");
    ck_assert_int_eq(access(plain, F_OK) + access(link, F_OK) + access(elsewhere, F_OK), 0);
    ck_assert(!changes_owner || access(foreign, F_OK) == 0);
}
END_TEST

/* Another hvdrun may look for abandoned folders at any moment, also before a new one is locked. */
START_TEST(a_folder_is_made_while_another_hvdrun_removes_abandoned_ones)
{
    enum { FOLDERS = 1000 };
    char own[PATH_MAX];
    name(own);
    pid_t remover = fork();
    while (remover == 0)
        scratch_remove_abandoned(own);
    for (int i = 0; i < FOLDERS; i++) {
        char path[PATH_MAX];
        name(path);
        ck_assert_int_eq(scratch_make(path), 0);
        ck_assert_int_eq(access(path, F_OK), 0);
        scratch_remove(path);
    }
    kill_owner(remover);
}
END_TEST

START_TEST(a_name_that_exists_is_refused)
{
    char path[PATH_MAX];
    name(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(scratch_make(path), -1);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("scratch");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_folder_is_abandoned_when_its_process_has_ended);
    tcase_add_test(tcase, what_belongs_to_others_stays);
    tcase_add_test(tcase, a_folder_is_made_while_another_hvdrun_removes_abandoned_ones);
    tcase_add_test(tcase, a_name_that_exists_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_scratch", fill);
}
