/* test_placement.c: placement by the plug-in: what a child process may answer, what a task does with it;
 * the test stands in for Slurm. */
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

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "spank/placement_state.h"
#include "topo/apply.h"

#define TASKS      3
#define SECOND_MS  1000
#define PATIENT_MS 20000

/* ---- The child's answer ----------------------------------------------------------------------------- */

static void set_cpus(struct bitmap *cpus, int count)
{
    *cpus = (struct bitmap){{0}};
    for (int i = 0; i < count; i++)
        bitmap_set(cpus, i);
}

/* A plan for TASKS, one CPU each. */
static void write_good(struct planner_reply *head, struct plan_task *tasks)
{
    memset(head, 0, sizeof(*head));
    memset(tasks, 0, TASKS * sizeof(*tasks));
    head->task_count = TASKS;
    set_cpus(&head->cpus, TASKS);
    head->gpu_count = 1;
    for (int i = 0; i < TASKS; i++) {
        bitmap_set(&tasks[i].cpus, i);
        tasks[i].bound = true;
        tasks[i].threads = tasks[i].core_count = 1;
    }
}

static void spoil_nothing(struct planner_reply *head, struct plan_task *tasks)
{
    (void)head;
    (void)tasks;
}

static void spoil_count(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->task_count = 1 << 30;
}

static void spoil_status(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->status = 1;
}

static void spoil_sentence(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->status = HVD_ERR_INVALID;
    memset(head->sentence, 'a', sizeof(head->sentence));
}

static void spoil_escape(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    snprintf(head->note, sizeof(head->note), "\033[2J");
}

static void spoil_granted(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->cpus = (struct bitmap){{0}};
}

static void spoil_gpu_count(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->gpu_count = MACHINE_MAX_GPUS + 1;
}

static void spoil_gpu_file(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    memset(head->gpus[0].file, 'a', sizeof(head->gpus[0].file));
}

static void spoil_visible(struct planner_reply *head, struct plan_task *tasks)
{
    (void)tasks;
    head->visible_count = -1;
}

static void spoil_outside(struct planner_reply *head, struct plan_task *tasks)
{
    (void)head;
    bitmap_set(&tasks[TASKS - 1].cpus, TASKS);
}

static void spoil_why(struct planner_reply *head, struct plan_task *tasks)
{
    (void)head;
    memset(tasks[1].why, 'a', sizeof(tasks[1].why));
}

static void spoil_bool(struct planner_reply *head, struct plan_task *tasks)
{
    (void)head;
    memset(&tasks[1].gpu_amd, 0x55, 1);
}

static void (*const spoilers[])(struct planner_reply *, struct plan_task *) = {
    spoil_count,    spoil_status,  spoil_sentence, spoil_escape, spoil_granted, spoil_gpu_count,
    spoil_gpu_file, spoil_visible, spoil_outside,  spoil_why,    spoil_bool};
static void (*spoil)(struct planner_reply *, struct plan_task *);
static size_t cut; /* so many bytes are left out */

/* In the child. */
static void answer_spoilt(const struct planner_request *question, int fd)
{
    static struct {
        struct planner_reply head;
        struct plan_task tasks[TASKS];
    } all;
    (void)question;
    write_good(&all.head, all.tasks);
    spoil(&all.head, all.tasks);
    const char *at = (const char *)&all;
    for (size_t left = sizeof(all) - cut; left > 0;) {
        ssize_t written = write(fd, at, left);
        if (written <= 0)
            _exit(1);
        at += written;
        left -= (size_t)written;
    }
}

static void answer_never(const struct planner_request *question, int fd)
{
    (void)question;
    (void)fd;
    for (;;)
        pause();
}

/* A byte now and then is no answer either. */
static void answer_slowly(const struct planner_request *question, int fd)
{
    (void)question;
    while (write(fd, "", 1) == 1)
        usleep(1000);
    _exit(1);
}

static int ask_for(planner_work_f *work, int timeout_ms, struct planner_result **answerp,
                   struct hvd_error *err)
{
    struct planner_request question = {.placement = {.task_count = TASKS},
                                       .owner = {.uid = geteuid(), .gid = getegid()}};
    int rc = planner_run(&question, work, timeout_ms, answerp, err);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    ck_assert_int_eq(errno, ECHILD);
    return rc;
}

START_TEST(a_good_answer_is_taken)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    spoil = spoil_nothing;
    ck_assert_msg(ask_for(answer_spoilt, PATIENT_MS, &answer, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(answer->head.task_count, TASKS);
    ck_assert(bitmap_is_set(&answer->tasks[2].cpus, 2));
    planner_result_destroy(answer);
    planner_result_destroy(NULL);
}
END_TEST

START_TEST(hostile_bytes_are_refused)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    spoil = spoilers[_i];
    ck_assert_int_eq(ask_for(answer_spoilt, PATIENT_MS, &answer, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "is no plan") != NULL, "%s", err.text);
    ck_assert_ptr_null(answer);
}
END_TEST

static const size_t cuts[] = {1, sizeof(struct plan_task), sizeof(struct plan_task) * TASKS,
                              sizeof(struct plan_task) * TASKS + 1,
                              sizeof(struct plan_task) * TASKS + sizeof(struct planner_reply)};

START_TEST(half_an_answer_is_none)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    spoil = spoil_nothing;
    cut = cuts[_i];
    ck_assert_int_eq(ask_for(answer_spoilt, PATIENT_MS, &answer, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "ended before it had answered") != NULL, "%s", err.text);
    ck_assert_ptr_null(answer);
}
END_TEST

static planner_work_f *const dawdlers[] = {answer_never, answer_slowly};

START_TEST(a_child_that_does_not_answer_is_ended)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    int64_t began_us = clock_us();
    ck_assert_int_eq(ask_for(dawdlers[_i], 50, &answer, &err), HVD_ERR_TIMEOUT);
    ck_assert_int_lt((clock_us() - began_us) / 1000, 10 * SECOND_MS);
    ck_assert_msg(strstr(err.text, "topology=FILE") != NULL, "%s", err.text);
    ck_assert_ptr_null(answer);
}
END_TEST

/* What the child, its tracer and the test tell each other. */
static struct {
    _Atomic pid_t child;
    atomic_bool traced;
} * hanging;

/* A process that is traced stays its parent's child after SIGKILL until the tracer looks, as one stays that
 * hangs in a driver. */
static void answer_and_hang(const struct planner_request *question, int fd)
{
    static struct planner_reply nonsense;
    (void)question;
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    hanging->child = getpid();
    while (!hanging->traced)
        usleep(1000);
    if (write(fd, &nonsense, sizeof(nonsense)) < 0)
        _exit(1);
    for (;;)
        pause();
}

static pid_t start_tracer(void)
{
    pid_t tracer = fork();
    ck_assert_int_ge(tracer, 0);
    if (tracer != 0)
        return tracer;
    while (hanging->child == 0)
        usleep(1000);
    hanging->traced = ptrace(PTRACE_SEIZE, hanging->child, NULL, NULL) == 0;
    for (;;)
        pause();
}

START_TEST(a_child_that_hangs_in_the_kernel_is_left_behind)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    int status = 0;
    struct planner_request question = {.placement = {.task_count = TASKS},
                                       .owner = {.uid = geteuid(), .gid = getegid()}};
    hanging = mmap(NULL, sizeof(*hanging), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(hanging, MAP_FAILED);
    pid_t tracer = start_tracer();
    int64_t began_us = clock_us();
    int rc = planner_run(&question, answer_and_hang, PATIENT_MS, &answer, &err);
    int64_t took_us = clock_us() - began_us;
    bool traced = hanging->traced;
    user_child_reap(); /* it still hangs, so this does nothing, and does not wait */
    process_signal(tracer, SIGKILL);
    ck_assert_int_eq(waitpid(tracer, &status, 0), tracer);
    if (traced) { /* where nobody may trace, there is nothing to see */
        ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
        ck_assert_int_lt(took_us / 1000, 10 * SECOND_MS);
        siginfo_t child;
        for (int i = 0; i < 10000 && waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0; i++) {
            usleep(1000);
            user_child_reap();
        }
    }
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(too_many_tasks_are_refused)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    struct planner_request question = {.placement = {.task_count = PLAN_MAX_TASKS + 1}};
    ck_assert_int_eq(planner_run(&question, answer_never, 50, &answer, &err), HVD_ERR_INVALID);
    question.placement.task_count = 0;
    ck_assert_int_eq(planner_run(&question, answer_never, 50, &answer, &err), HVD_ERR_INVALID);
}
END_TEST

/* ---- The child itself ------------------------------------------------------------------------------- */

static int secret_fd; /* open in the parent, above its limit */

/* Says by a sentence what is wrong with the process it is in. */
static void answer_about_itself(const struct planner_request *question, int fd)
{
    static struct planner_reply answer = {.status = HVD_ERR_STATE};
    sigset_t blocked;
    struct sigaction action;
    const char *wrong = "nothing";
    gid_t groups[64];
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    sigaction(SIGUSR1, NULL, &action);
    if (getuid() != question->owner.uid || geteuid() != question->owner.uid ||
        getgid() != question->owner.gid || getegid() != question->owner.gid)
        wrong = "user";
    else if (getuid() != 0 && (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0))
        wrong = "way back";
    else if (getuid() != 0 && getgroups(64, groups) != question->owner.group_count)
        wrong = "groups";
    else if (write(secret_fd, "", 0) == 0)
        wrong = "descriptor";
    else if (sigismember(&blocked, SIGTERM) || action.sa_handler != SIG_DFL)
        wrong = "signals";
    else if (prctl(PR_GET_DUMPABLE) != 0)
        wrong = "debuggers";
    snprintf(answer.sentence, sizeof(answer.sentence), "%s", wrong);
    if (write(fd, &answer, sizeof(answer)) < 0)
        _exit(1);
}

static void ignore_signal(int number)
{
    (void)number;
}

/* As slurmstepd is when it calls: root that acts as the user. */
START_TEST(the_child_is_the_user_and_nobody_else)
{
    struct planner_result *answer = NULL;
    struct hvd_error err = {""};
    gid_t groups[] = {65533};
    struct planner_request question = {.placement = {.task_count = TASKS},
                                       .owner = {.uid = geteuid(), .gid = getegid()}};
    secret_fd = dup(STDOUT_FILENO);
    ck_assert_int_gt(secret_fd, 2);
    ck_assert_int_eq(dup2(secret_fd, 100), 100);
    secret_fd = 100;
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit below = {64, limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &below), 0);
    signal(SIGUSR1, ignore_signal);
    if (geteuid() == 0) {
        question.owner = (struct step_user){65534, 65534, groups, 1};
        ck_assert_int_eq(seteuid(65534), 0);
    }
    planner_run(&question, answer_about_itself, PATIENT_MS, &answer, &err);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(seteuid(getuid()), 0); /* a sanitizer looks at this process in its end */
    ck_assert_str_eq(err.text, "nothing");
}
END_TEST

START_TEST(cores_are_those_of_the_machine_in_its_order)
{
    struct machine_core cores[] = {{.cpu_count = 2, .cpus = {0, 4}}, {.cpu_count = 2, .cpus = {2, 6}}};
    struct machine machine = {.core_count = 2, .cores = cores};
    struct bitmap cpus = {{0}};
    char text[64];
    static const char *const refused[] = {"2", "0-2", "", "x", "1-0", "0,", "-1", "99999999999"};
    ck_assert(planner_cpus_of_cores(&machine, "1", &cpus));
    ck_assert_str_eq(bitmap_text(&cpus, text, sizeof(text)), "2,6");
    ck_assert(planner_cpus_of_cores(&machine, "0-1", &cpus));
    ck_assert_str_eq(bitmap_text(&cpus, text, sizeof(text)), "0,2,4,6");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        ck_assert_msg(!planner_cpus_of_cores(&machine, refused[i], &cpus), "%s", refused[i]);
    ck_assert(!planner_cpus_of_cores(&machine, NULL, &cpus));
    ck_assert_str_eq(bitmap_text(&cpus, text, sizeof(text)), "0,2,4,6");
}
END_TEST

/* ---- What is wanted --------------------------------------------------------------------------------- */

static const struct {
    const char *cli; /* of --hvd-bind */
    const char *fusion;
    const char *variables[3];
    const char *site;
    bool placed, required;
    enum bind_policy policy;
} wishes[] = {
    {.policy = BIND_AUTO},
    {.fusion = "8M", .placed = true, .policy = BIND_AUTO},
    {.cli = "core", .placed = true, .required = true, .policy = BIND_CORE},
    {.variables = {"HVD_BIND=numa"}, .placed = true, .required = true, .policy = BIND_NUMA},
    {.variables = {"HVD_FUSION=64Q", "HVD_CONFIG=/dev/zero"}, .policy = BIND_AUTO},
    {.variables = {"HVD_NICS=eth0"}, .policy = BIND_AUTO},
    {.variables = {"HVD_GPU_VISIBLE=one"}, .placed = true, .required = true, .policy = BIND_AUTO},
    {.variables = {"HVD_RS=tasks:1,cpus:1"}, .placed = true, .required = true, .policy = BIND_AUTO},
    {.site = "bind=l3", .placed = true, .required = true, .policy = BIND_L3},
    {.site = "bind=l3",
     .variables = {"HVD_BIND=numa"},
     .cli = "core",
     .placed = true,
     .required = true,
     .policy = BIND_CORE},
    {.site = "bind=l3", .variables = {"HVD_BIND=none"}, .placed = true, .policy = BIND_NONE},
    {.site = "bind=none", .placed = true, .policy = BIND_NONE},
    {.cli = "none,verbose", .placed = true, .required = true, .policy = BIND_NONE},
    {.variables = {"HVD_BIND=none", "HVD_GPU_VISIBLE=one"},
     .placed = true,
     .required = true,
     .policy = BIND_NONE},
};

START_TEST(the_wish_is_that_of_the_highest_authority)
{
    struct placement_options options;
    struct site site = {.list = ""};
    struct hvd_error err = {""};
    if (wishes[_i].cli != NULL)
        give_option("bind", wishes[_i].cli, 1);
    if (wishes[_i].fusion != NULL)
        give_option("fusion", wishes[_i].fusion, 1);
    snprintf(site.list, sizeof(site.list), "%s", wishes[_i].site == NULL ? "" : wishes[_i].site);
    int rc = placement_read_options(&options, &site, (char *const *)wishes[_i].variables, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.placed, wishes[_i].placed);
    ck_assert_int_eq(options.required, wishes[_i].required);
    ck_assert_int_eq(options.bind.policy, wishes[_i].policy);
}
END_TEST

START_TEST(a_bad_variable_that_does_not_ask_places_nothing)
{
    struct placement_options options;
    struct site site = {.list = ""};
    struct hvd_error err = {""};
    const char *environment[] = {"HVD_NICS=,", NULL};
    ck_assert_int_eq(placement_read_options(&options, &site, (char *const *)environment, &err),
                     HVD_ERR_INVALID);
    ck_assert(!options.placed);
}
END_TEST

START_TEST(a_bad_variable_fails_the_step)
{
    struct placement_options options;
    struct site site = {.list = ""};
    struct hvd_error err = {""};
    const char *environment[] = {"HVD_BIND=zap", NULL};
    ck_assert_int_eq(placement_read_options(&options, &site, (char *const *)environment, &err),
                     HVD_ERR_INVALID);
    ck_assert(options.placed && options.required);
    ck_assert_ptr_nonnull(strstr(err.text, "HVD_BIND=zap: the value has an unknown word"));
}
END_TEST

/* ---- What a task does with it ----------------------------------------------------------------------- */

static const struct {
    const char *planned, *now, *granted;
    struct placement_options options;
    bool kept;
    const char *cpus;
} choices[] = {
    {"0-1", "0-7", "0-7", {.bind = {.policy = BIND_AUTO}}, false, "0-1"},
    {"0-1", "4-5", "0-7", {.bind = {.policy = BIND_AUTO}}, true, "4-5"},
    {"0-1", "1-2", "0-7", {.bind = {.policy = BIND_AUTO}}, true, "1-2"},
    {"0-1", "4-5", "0-7", {.bind = {.policy = BIND_AUTO, .force = true}}, false, "0-1"},
    {"0-1", "0-63", "0-7", {.bind = {.policy = BIND_AUTO}}, false, "0-1"},
    {"0-1", "1-9", "0-7", {.bind = {.policy = BIND_AUTO}}, false, "1"},
    {"0-1", "8-9", "0-7", {.bind = {.policy = BIND_AUTO}}, true, "8-9"},
    {"0-7", "0-7", "0-7", {.bind = {.policy = BIND_NONE, .force = true}}, false, "0-7"},
    {"0-7", "1", "0-7", {.bind = {.policy = BIND_NONE, .force = true}}, true, "1"},
    {"0-1", "0-7", "0-7", {.bind = {.policy = BIND_NONE}, .rs = {.given = true}}, false, "0-1"},
};

START_TEST(what_slurm_bound_is_kept_unless_forced)
{
    struct plan_task task = {.why = ""};
    struct bitmap now, granted;
    const char *why;
    char text[64];
    ck_assert_int_eq(bitmap_parse(choices[_i].planned, &task.cpus, &why), 0);
    ck_assert_int_eq(bitmap_parse(choices[_i].now, &now, &why), 0);
    ck_assert_int_eq(bitmap_parse(choices[_i].granted, &granted, &why), 0);
    struct task_cpus chosen = placement_choose_cpus(&choices[_i].options, &task, &now, &granted);
    ck_assert_int_eq(chosen.kept, choices[_i].kept);
    ck_assert_str_eq(bitmap_text(&chosen.cpus, text, sizeof(text)), choices[_i].cpus);
    if (chosen.kept)
        ck_assert_int_eq(strncmp(chosen.why, "kept", 4), 0);
}
END_TEST

/* Planned: GPU 1 of 4, as device 1. */
static const struct {
    struct visible_gpus visible;
    int index;
    int count, device;
    const char *id;
} sights[] = {
    {{.count = 4, .gpus = {0, 1, 2, 3}}, 1, 1, 1, "0000:01:00.0"},
    {{.count = 2, .gpus = {3, 1}}, 1, 1, 1, "0000:01:00.0"},
    {{.count = 1, .gpus = {1}}, 1, 1, 0, "0000:01:00.0"},
    {{.count = 1, .gpus = {2}}, 1, 1, 0, "0000:02:00.0"},
    {{.count = 2, .gpus = {2, 3}}, 1, 1, 0, "0000:02:00.0"},
    {{.count = 2, .gpus = {2, 3}}, 2, 1, 1, "0000:03:00.0"},
    {{.count = 0}, 1, 0, 0, ""},
};

START_TEST(gpus_are_told_as_the_task_sees_them)
{
    static struct planner_reply head = {.task_count = TASKS, .gpu_count = 4};
    struct plan_task task = {.gpu_count = 1, .gpus = {1}, .devices = {1}, .gpu_ids = {"0000:01:00.0"}};
    for (int i = 0; i < 4; i++)
        snprintf(head.gpus[i].pci.id, PCI_ID_BYTES, "0000:%02d:00.0", i);
    placement_correct_gpus(&task, sights[_i].index, &head, &sights[_i].visible);
    ck_assert_int_eq(task.gpu_count, sights[_i].count);
    if (task.gpu_count == 0)
        return;
    ck_assert_int_eq(task.devices[0], sights[_i].device);
    ck_assert_str_eq(task.gpu_ids[0], sights[_i].id);
}
END_TEST

/* As after placement_prepare, in a process that may run on CPU 0 and perhaps others. */
static void prepare(struct planner_result *answer, struct plan_task *tasks)
{
    write_good(&answer->head, tasks);
    answer->head.gpu_count = 0;
    answer->tasks = tasks;
    ck_assert_int_eq(apply_read_cpus(0, &answer->head.cpus, NULL), HVD_OK);
    for (int i = 0; i < TASKS; i++) {
        tasks[i].cpus = (struct bitmap){{0}};
        bitmap_set(&tasks[i].cpus, bitmap_find_next(&answer->head.cpus, 0));
    }
    placement_state.options =
        (struct placement_options){.placed = true, .required = true, .bind = {.verbose = true}};
    placement_state.answer = answer;
}

static const struct task_id who = {.node = "n1", .rank = 7};

START_TEST(a_task_is_bound_and_told)
{
    static struct planner_result answer;
    static struct plan_task tasks[TASKS];
    struct hvd_error err = {""};
    struct bitmap now;
    const char *const after[] = {"HVD_PLACED=srun,OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES=1",
                                 "OMP_NUM_THREADS=1", NULL};
    prepare(&answer, tasks);
    user_setenv("HVD_PLACED", "srun,OMP_NUM_THREADS,OMP_PLACES,CUDA_VISIBLE_DEVICES");
    user_setenv("OMP_NUM_THREADS", "5");
    user_setenv("CUDA_VISIBLE_DEVICES", "1");
    user_setenv("OMP_PLACES", "threads");
    ck_assert_msg(placement_apply(NULL, &who, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(apply_read_cpus(0, &now, NULL), HVD_OK);
    ck_assert(bitmap_is_equal(&now, &tasks[0].cpus));
    expect_variables(after);
    ck_assert_msg(strstr(slurm.last, "hvd: n1: task 7: cpus ") != NULL, "%s", slurm.last);
    ck_assert_int_eq(slurm.lines, 1);
}
END_TEST

START_TEST(where_there_is_nothing_to_do_that_is_said)
{
    struct hvd_error err = {""};
    placement_state.options = (struct placement_options){.placed = true, .bind = {.policy = BIND_NONE}};
    ck_assert_int_eq(placement_apply(NULL, &who, &err), HVD_OK);
    expect_variables((const char *const[]){"HVD_PLACED=srun", NULL});
    ck_assert_int_eq(slurm.errors + slurm.lines + slurm.asides, 0);
}
END_TEST

START_TEST(a_failure_is_said_by_one_task_and_fails_all)
{
    struct hvd_error err = {""};
    placement_state.options = (struct placement_options){.placed = true, .required = true};
    placement_state.status = HVD_ERR_TIMEOUT;
    error_set(&placement_state.failure, HVD_ERR_TIMEOUT, "took too long");
    ck_assert_int_eq(placement_apply(NULL, &who, &err), HVD_ERR_TIMEOUT);
    ck_assert_str_eq(err.text, "took too long");
    slurm.local_task = 1;
    ck_assert_int_eq(placement_apply(NULL, &who, &err), HVD_ERR_TIMEOUT);
    ck_assert_str_eq(err.text, "");
}
END_TEST

START_TEST(who_did_not_ask_goes_on_unplaced)
{
    struct hvd_error err = {""};
    placement_state.options = (struct placement_options){.placed = true};
    placement_state.status = HVD_ERR_UNSUPPORTED;
    error_set(&placement_state.failure, HVD_ERR_UNSUPPORTED, "built without hwloc");
    for (slurm.local_task = 0; slurm.local_task < TASKS; slurm.local_task++)
        ck_assert_int_eq(placement_apply(NULL, &who, &err), HVD_OK);
    ck_assert_int_eq(slurm.asides, 1);
    ck_assert_ptr_nonnull(strstr(slurm.last, "built without hwloc"));
    ck_assert_int_eq(slurm.errors + slurm.lines, 0);
    expect_variables((const char *const[]){NULL});
}
END_TEST

START_TEST(a_task_that_was_not_planned_is_refused)
{
    static struct planner_result answer;
    static struct plan_task tasks[TASKS];
    struct hvd_error err = {""};
    prepare(&answer, tasks);
    slurm.local_task = TASKS;
    ck_assert_int_eq(placement_apply(NULL, &who, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "task 3 of this node was not expected"));
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("place");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_good_answer_is_taken);
    tcase_add_loop_test(tcase, hostile_bytes_are_refused, 0, COUNT(spoilers));
    tcase_add_loop_test(tcase, half_an_answer_is_none, 0, COUNT(cuts));
    tcase_add_loop_test(tcase, a_child_that_does_not_answer_is_ended, 0, COUNT(dawdlers));
    tcase_add_test(tcase, a_child_that_hangs_in_the_kernel_is_left_behind);
    tcase_add_test(tcase, too_many_tasks_are_refused);
    tcase_add_test(tcase, the_child_is_the_user_and_nobody_else);
    tcase_add_test(tcase, cores_are_those_of_the_machine_in_its_order);
    tcase_add_loop_test(tcase, the_wish_is_that_of_the_highest_authority, 0, COUNT(wishes));
    tcase_add_test(tcase, a_bad_variable_that_does_not_ask_places_nothing);
    tcase_add_test(tcase, a_bad_variable_fails_the_step);
    tcase_add_loop_test(tcase, what_slurm_bound_is_kept_unless_forced, 0, COUNT(choices));
    tcase_add_loop_test(tcase, gpus_are_told_as_the_task_sees_them, 0, COUNT(sights));
    tcase_add_test(tcase, a_task_is_bound_and_told);
    tcase_add_test(tcase, where_there_is_nothing_to_do_that_is_said);
    tcase_add_test(tcase, a_failure_is_said_by_one_task_and_fails_all);
    tcase_add_test(tcase, who_did_not_ask_goes_on_unplaced);
    tcase_add_test(tcase, a_task_that_was_not_planned_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("placement", fill);
}

#endif
