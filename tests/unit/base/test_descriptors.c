/* test_descriptors.c: the limit of descriptors is raised as far as it goes, and named where it stands in the
 * way. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"

static void set_limits(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {soft, hard};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

START_TEST(the_soft_limit_becomes_the_hard_one)
{
    struct rlimit limit;
    set_limits(64, 300);
    descriptors_raise();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, 300);
    ck_assert_uint_eq(limit.rlim_max, 300);
}
END_TEST

START_TEST(the_limit_and_the_number_are_named)
{
    struct hvd_error err;
    set_limits(64, 300);
    ck_assert_int_eq(descriptors_error(&err, EMFILE, "cannot do this", 10), HVD_ERR_NO_MEMORY);
    ck_assert_str_eq(err.text,
                     "cannot do this: all 64 descriptors that this process may have are open; raise "
                     "`ulimit -n` to at least 74, the hard limit too");
    ck_assert_int_eq(descriptors_error(&err, ENFILE, "cannot do this", 10), HVD_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.text, "fs.file-max"));
    ck_assert(descriptors_are_used_up(EMFILE));
    ck_assert(!descriptors_are_used_up(ENOMEM));
}
END_TEST

/* Also where it is many. */
START_TEST(what_is_left_is_counted)
{
    struct hvd_error err = {""};
    int lowest = dup(0);
    close(lowest);
    set_limits((rlim_t)lowest + 5, 300);
    ck_assert_int_eq(descriptors_check(5, "cannot do this", &err), HVD_OK);
    ck_assert_int_eq(descriptors_check(5, "cannot do this", &err), HVD_OK); /* it keeps none */
    ck_assert_int_eq(descriptors_check(7, "cannot do this", &err), HVD_ERR_NO_MEMORY);
    char wanted[40];
    snprintf(wanted, sizeof(wanted), "to at least %d,", lowest + 7);
    ck_assert_msg(strstr(err.text, wanted) != NULL, "%s", err.text);
    set_limits((rlim_t)lowest + 200, 300);
    ck_assert_int_eq(descriptors_check(190, "cannot do this", &err), HVD_OK);
    ck_assert_int_eq(descriptors_check(201, "cannot do this", &err), HVD_ERR_NO_MEMORY);
}
END_TEST

/* More than a pipe holds, so that several writes are needed. */
START_TEST(all_is_written_and_read)
{
    static char bytes[1 << 20], back[sizeof(bytes) + 100];
    int ends[2];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(descriptors_write(ends[1], bytes, sizeof(bytes)) ? 0 : 1);
    close(ends[1]);
    ck_assert_int_eq(descriptors_read(ends[0], back, 100), 100);
    ck_assert_int_eq(descriptors_read(ends[0], back + 100, sizeof(back)), (ssize_t)sizeof(bytes) - 100);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(memcmp(bytes, back, sizeof(bytes)) == 0);
    close(ends[0]);
    ck_assert_int_eq(descriptors_read(ends[0], back, 1), -1);
    ck_assert_int_eq(errno, EBADF);
}
END_TEST

START_TEST(a_place_in_a_file_is_read)
{
    char back[10] = "";
    FILE *file = tmpfile();
    ck_assert_int_eq(fputs("0123456789", file), 1);
    ck_assert_int_eq(fflush(file), 0);
    ck_assert_int_eq(descriptors_read_at(fileno(file), back, 3, 4), 3);
    ck_assert_str_eq(back, "456");
    ck_assert_int_eq(descriptors_read_at(fileno(file), back, sizeof(back), 8), 2);
    ck_assert_int_eq(descriptors_read_at(fileno(file), back, 1, 10), 0);
    ck_assert_int_eq(fclose(file), 0);
}
END_TEST

START_TEST(a_closed_pipe_takes_nothing)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    ck_assert(descriptors_write(ends[1], NULL, 0));
    ck_assert(!descriptors_write(ends[1], ends, sizeof(ends)));
    ck_assert_int_eq(errno, EPIPE);
    close(ends[1]);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("descriptors");
    tcase_add_test(tcase, the_soft_limit_becomes_the_hard_one);
    tcase_add_test(tcase, the_limit_and_the_number_are_named);
    tcase_add_test(tcase, what_is_left_is_counted);
    tcase_add_test(tcase, all_is_written_and_read);
    tcase_add_test(tcase, a_place_in_a_file_is_read);
    tcase_add_test(tcase, a_closed_pipe_takes_nothing);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("descriptors", fill);
}
