/* test_kernel.c: descriptors are closed wherever they are, and ends of processes are seen, if the kernel can
 * tell. */
#include "config.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(a_range_is_closed_and_nothing_else)
{
    for (int fd = 60; fd <= 70; fd++)
        ck_assert_int_eq(dup2(STDERR_FILENO, fd), fd);
    kernel_close_range(62, 65);
    for (int fd = 60; fd <= 70; fd++)
        ck_assert_int_eq(is_open(fd), fd < 62 || fd > 65);
    kernel_close_range(66, 65); /* none */
    ck_assert(is_open(66));
    kernel_close_range(60, 70);
}
END_TEST

/* They stay open when the limit is lowered below them. */
START_TEST(descriptors_above_the_limit_are_closed)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(dup2(STDERR_FILENO, 200), 200);
    struct rlimit low = {.rlim_cur = 100, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    kernel_close_range(80, ~0U);
    ck_assert(!is_open(200));
    ck_assert(is_open(STDERR_FILENO));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

START_TEST(the_end_of_a_process_makes_its_descriptor_readable)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(0);
    int fd = kernel_pidfd_open(pid);
    if (fd >= 0) {
        struct pollfd end = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(poll(&end, 1, 20000), 1);
        close(fd);
    } else {
        ck_assert(errno == ENOSYS || errno == EPERM);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("kernel");
    tcase_add_test(tcase, a_range_is_closed_and_nothing_else);
    tcase_add_test(tcase, descriptors_above_the_limit_are_closed);
    tcase_add_test(tcase, the_end_of_a_process_makes_its_descriptor_readable);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("kernel", fill);
}
