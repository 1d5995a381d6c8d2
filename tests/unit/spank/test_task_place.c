/* test_task_place.c: what tasks of a step are told of their places; the test stands in for Slurm. */
#include "config.h"

#ifndef HAVE_SLURM

#include <stdio.h>

int main(void)
{
    puts("1..0 # SKIP built without Slurm's header slurm/spank.h");
    return 0;
}

#else

#include "fake_slurm.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/launch_variables.h"
#include "base/listener.h"
#include "base/process_signal.h"
#include "spank/failure_reporter.h"
#include "spank/task_place.h"

START_TEST(ports_of_neighbours_differ)
{
    static const struct site no_site, firewalled = {.first_port = 60001, .port_count = 10};
    for (uint32_t step = 0; step < 100; step++) {
        int port = task_place_port(&no_site, 4711, step);
        ck_assert_int_ge(port, MASTER_PORT_FIRST);
        ck_assert_int_lt(port, MASTER_PORT_FIRST + MASTER_PORT_COUNT);
        ck_assert_int_ne(port, task_place_port(&no_site, 4711, step + 1));
        ck_assert_int_ne(port, task_place_port(&no_site, 4712, step));
        ck_assert_int_ge(task_place_port(&firewalled, 4711, step), 60001);
        ck_assert_int_le(task_place_port(&firewalled, 4711, step), 60010);
    }
    ck_assert_int_lt(task_place_port(&no_site, UINT32_MAX, UINT32_MAX),
                     MASTER_PORT_FIRST + MASTER_PORT_COUNT);
}
END_TEST

static void describe_task(void)
{
    slurm.local_tasks = 2;
    user_setenv("SLURM_PROCID", "3");
    user_setenv("SLURM_STEP_NUM_TASKS", "6");
    user_setenv("SLURM_LOCALID", "1");
    user_setenv("SLURM_NODEID", "1");
    user_setenv("SLURM_STEP_NUM_NODES", "3");
    user_setenv("SLURM_STEP_NODELIST", "n[1-3]");
    user_setenv("SLURM_JOB_ID", "4711");
}

START_TEST(a_task_is_told_its_place)
{
    static const struct site no_site;
    char port[8];
    describe_task();
    task_place_init(NULL, &no_site);
    ck_assert_ptr_null(variable("RANK"));
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    task_place_init(NULL, &no_site);
    ck_assert_str_eq(variable("RANK"), "3");
    ck_assert_str_eq(variable("WORLD_SIZE"), "6");
    ck_assert_str_eq(variable("LOCAL_RANK"), "1");
    ck_assert_str_eq(variable("LOCAL_WORLD_SIZE"), "2");
    ck_assert_str_eq(variable("NODE_RANK"), "1");
    ck_assert_str_eq(variable("HOROVOD_CROSS_SIZE"), "3");
    ck_assert_str_eq(variable("MASTER_ADDR"), "n1");
    snprintf(port, sizeof(port), "%d", task_place_port(&no_site, 4711, 0));
    ck_assert_str_eq(variable("MASTER_PORT"), port);
}
END_TEST

START_TEST(the_users_meeting_place_stays_and_an_outer_steps_goes)
{
    static const struct site no_site;
    describe_task();
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    user_setenv("MASTER_ADDR", "mine");
    user_setenv("MASTER_PORT", "4711");
    task_place_init(NULL, &no_site);
    ck_assert_str_eq(variable("MASTER_ADDR"), "mine");
    ck_assert_str_eq(variable("MASTER_PORT"), "4711");
    user_setenv("HVD_MASTER_SET", "mine 4711");
    task_place_init(NULL, &no_site);
    ck_assert_str_eq(variable("MASTER_ADDR"), "n1");
    ck_assert_str_eq(variable("HVD_MASTER_SET") + strlen("n1 "), variable("MASTER_PORT"));
}
END_TEST

static const struct {
    const char *step, *first, *second; /* the nodes of the step, and of the components */
    const char *form;
    const char *master;
} steps_of_components[] = {
    {"n[1,3]", "n3", "n1", "SLURM_JOB_NODELIST_HET_GROUP_", "n3"},
    {"n[1,3]", "n3", "n1", "SLURM_JOB_NODELIST_PACK_GROUP_", "n3"},
    {"n[1-3]", "n[2-3]", "n1", "SLURM_JOB_NODELIST_HET_GROUP_", "n2"},
    {"n[1,3]", "n[2-3]", "n1", "SLURM_JOB_NODELIST_HET_GROUP_", "n3"}, /* not on all nodes of the first */
    {"n1", "n[2-3]", "n1", "SLURM_JOB_NODELIST_HET_GROUP_", "n1"},     /* of the second alone */
};

START_TEST(ranks_of_several_components_meet_at_that_of_rank_0)
{
    static const struct site no_site;
    const char *lists[] = {steps_of_components[_i].first, steps_of_components[_i].second};
    describe_task();
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    user_setenv("SLURM_STEP_NODELIST", steps_of_components[_i].step);
    for (int component = 0; component < 2; component++) {
        char name[64];
        snprintf(name, sizeof(name), "%s%d", steps_of_components[_i].form, component);
        user_setenv(name, lists[component]);
    }
    task_place_init(NULL, &no_site);
    ck_assert_str_eq(variable("MASTER_ADDR"), steps_of_components[_i].master);
}
END_TEST

/* ---- Where the name of rank 0's node is not good ---- */

static const struct {
    const char *answers[2]; /* of srun, to the first question and to all others */
    uint32_t node;
    const char *master; /* what tasks of that node are told */
    bool holds;         /* srun does not close the connection */
} questions[] = {
    {{"10.1.2.3", "10.1.2.3"}, 1, "10.1.2.3", false},
    {{FAILURE_LATER, "fd00::7"}, 1, "fd00::7", false},
    {{"10.1.2.3", "10.1.2.3"}, 0, "localhost", false}, /* rank 0's node itself: it does not ask */
    {{"127.0.0.1", "127.0.0.1"}, 1, "localhost", false},
    {{"", ""}, 1, "localhost", false}, /* an older plug-in */
    {{FAILURE_LATER, ""}, 1, "localhost", false},
    {{"10.1.2.3;reboot", ""}, 1, "localhost", false},
    {{"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", ""}, 1, "localhost", false},
    {{"10.1.2.3\n", ""}, 1, "localhost", false},
    {{"\xff\xfe\x01", ""}, 1, "localhost", false},
    {{"10.1.2.3", ""}, 1, "localhost", true}, /* may have been cut */
};

static const char token[] = "0123456789abcdef0123456789abcdef";

/* Stand in for srun, which answers questions and no other report. */
_Noreturn static void answer(int listener, const char *const answers[2], bool holds)
{
    int asked = 0;
    for (;;) {
        unsigned char message[FAILURE_REPORT_BYTES];
        struct failure_report report;
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        poll(&ready, 1, -1);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        ssize_t length = recv(fd, message, sizeof(message), MSG_WAITALL);
        if (length > 0 && failure_report_decode(message, (size_t)length, token, &report) &&
            report.kind == FAILURE_ASKS) {
            const char *text = answers[asked > 0];
            send(fd, text, strlen(text), MSG_NOSIGNAL);
            asked++;
        }
        if (!holds)
            close(fd);
    }
}

/* Everywhere this name leads back to the node itself, so for any other node it is no answer. */
START_TEST(where_the_name_does_not_lead_there_srun_is_asked)
{
    static const struct site no_site;
    char variable_of_srun[FAILURE_VARIABLE_BYTES];
    int listener = listener_open(0);
    ck_assert_int_ge(listener, 0);
    pid_t srun = fork();
    if (srun == 0)
        answer(listener, questions[_i].answers, questions[_i].holds);
    snprintf(variable_of_srun, sizeof(variable_of_srun), "%d:%s", listener_port(listener), token);
    describe_task();
    user_setenv("SLURM_STEP_NODELIST", "localhost,n2");
    user_setenv(FAILURE_REPORT_VARIABLE, variable_of_srun);
    user_setenv("SLURM_SRUN_COMM_HOST", "127.0.0.1");
    slurm.node_index = questions[_i].node;
    slurm.uid = getuid();
    slurm.gid = getgid();
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    failure_reporter_begin(NULL);
    task_place_prepare(NULL);
    task_place_init(NULL, &no_site);
    process_signal(srun, SIGKILL);
    waitpid(srun, NULL, 0);
    close(listener);
    ck_assert_str_eq(variable("MASTER_ADDR"), questions[_i].master);
    ck_assert_int_eq(strncmp(variable("HVD_MASTER_SET"), questions[_i].master, strlen(questions[_i].master)),
                     0);
}
END_TEST

START_TEST(where_srun_does_not_listen_the_name_stays)
{
    static const struct site no_site;
    describe_task();
    user_setenv("SLURM_STEP_NODELIST", "localhost,n2");
    slurm.node_index = 1;
    slurm.uid = getuid();
    slurm.gid = getgid();
    ck_assert_int_eq(give_switch(NULL, 1), 0);
    task_place_prepare(NULL);
    task_place_init(NULL, &no_site);
    ck_assert_str_eq(variable("MASTER_ADDR"), "localhost");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("task_place");
    tcase_add_test(tcase, ports_of_neighbours_differ);
    tcase_add_test(tcase, a_task_is_told_its_place);
    tcase_add_test(tcase, the_users_meeting_place_stays_and_an_outer_steps_goes);
    tcase_add_loop_test(tcase, ranks_of_several_components_meet_at_that_of_rank_0, 0,
                        sizeof(steps_of_components) / sizeof(steps_of_components[0]));
    tcase_add_loop_test(tcase, where_the_name_does_not_lead_there_srun_is_asked, 0,
                        sizeof(questions) / sizeof(questions[0]));
    tcase_add_test(tcase, where_srun_does_not_listen_the_name_stays);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("task_place", fill);
}

#endif
