/* test_ps_find.c: who looks for ranks again and again looks at those that it knows, and anew after a second.
 */
#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "tools/hvdinfo/ps/find.h"
#include "trace/flight_memory.h"

static pid_t child;
static char job[32];

/* A process with a flight record, which is a rank to who looks. */
static void setup(void)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct flight_memory memory;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (flight_memory_create(&memory, NULL) != HVD_OK || write(ready[1], "r", 1) != 1)
            _exit(1);
        while (true)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    snprintf(job, sizeof(job), "%d", (int)child);
}

static void end_child(void)
{
    if (child <= 0)
        return;
    process_signal(child, SIGKILL);
    waitpid(child, NULL, 0);
    child = 0;
}

static int count_found(struct find_memory *memory)
{
    struct ranks ranks = {0};
    struct hvd_error err = {""};
    ck_assert_msg(find_ranks(job, false, memory, &ranks, &err) == HVD_OK, "%s", err.text);
    int count = ranks.count;
    ck_assert(count == 0 || ranks.list[0].pid == child);
    ranks_free(&ranks);
    return count;
}

START_TEST(others_than_the_known_are_looked_at_after_a_second)
{
    struct find_memory memory = {0};
    memory.looked_us = clock_us();
    memory.pids = calloc(1, sizeof(*memory.pids)); /* and none of them is a rank */
    ck_assert_int_eq(count_found(&memory), 0);
    memory.looked_us -= FIND_MEMORY_US;
    ck_assert_int_eq(count_found(&memory), 1);
    ck_assert_int_eq(memory.count, 1);
    ck_assert_int_eq(memory.pids[0], child);
    memory.looked_us = clock_us();
    ck_assert_int_eq(count_found(&memory), 1);
    end_child(); /* at once, also if it is known */
    memory.looked_us = clock_us();
    ck_assert_int_eq(count_found(&memory), 0);
    find_memory_free(&memory);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("find");
    tcase_add_checked_fixture(tcase, setup, end_child);
    tcase_add_test(tcase, others_than_the_known_are_looked_at_after_a_second);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("ps_find", fill);
}
