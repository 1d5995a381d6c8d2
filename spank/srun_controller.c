/* srun_controller.c: in srun: what is asked of Slurm's controller, which may not answer for long.
 *
 * Functions of Slurm's library are looked up in srun, as the plug-in is not linked with it. */
#include "config.h"
#include "spank/srun_controller.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/stack.h"

#define ANSWER_US INT64_C(1000000)
#define ENDED_S   2 /* a job that ends by itself may do so before its last report is read */

/* Global, because a thread that is given up may still use it. */
static struct {
    int answer[2]; /* the second is closed when [ended] is known; -1: nobody has asked */
    int64_t due_us;
    _Atomic bool ended;
} question = {.answer = {-1, -1}};

/* What a thread does, in memory that it frees. */
struct errand {
    void (*run)(const struct errand *errand);
    struct controlled_step step;
    int signal_number;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;
    errand->run(errand);
    free(errand);
    return NULL;
}

/* srun unloads its plug-ins at its end, and a thread may return into this one later. */
static void stay_loaded(void)
{
    Dl_info info;
    if (dladdr((void *)stay_loaded, &info) != 0)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static int start(const struct errand *errand)
{
    pthread_t thread;
    struct errand *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return -1;
    *copy = *errand;
    stay_loaded();
    if (stack_create_thread(&thread, run_errand, copy) != 0) {
        free(copy);
        return -1;
    }
    pthread_detach(thread);
    return 0;
}

/* ---- Ending the step -------------------------------------------------------------------------------- */

static void end_step(const struct errand *errand)
{
    int (*signal_step)(uint32_t, uint32_t, uint32_t) =
        (int (*)(uint32_t, uint32_t, uint32_t))dlsym(RTLD_DEFAULT, "slurm_signal_job_step");
    int (*terminate_step)(uint32_t, uint32_t) =
        (int (*)(uint32_t, uint32_t))dlsym(RTLD_DEFAULT, "slurm_terminate_job_step");
    for (int i = 0; i < errand->step.components; i++) {
        uint32_t job = errand->step.job + (uint32_t)i;
        if (errand->signal_number == SIGKILL && terminate_step != NULL)
            terminate_step(job, errand->step.number);
        if (errand->signal_number != SIGKILL && signal_step != NULL)
            signal_step(job, errand->step.number, (uint32_t)errand->signal_number);
    }
}

void srun_controller_end_step(const struct controlled_step *step, bool kill)
{
    start(&(struct errand){.run = end_step, .step = *step, .signal_number = kill ? SIGKILL : SIGTERM});
}

/* ---- The question ----------------------------------------------------------------------------------- */

/* At its time limit or when it is cancelled, a job ends for the controller long before Slurm kills what
 * ignores SIGTERM. */
static bool job_has_ended(uint32_t job)
{
    time_t end = 0;
    int (*get_end_time)(uint32_t, time_t *) =
        (int (*)(uint32_t, time_t *))dlsym(RTLD_DEFAULT, "slurm_get_end_time");
    return get_end_time != NULL && get_end_time(job, &end) == 0 && end != 0 && end + ENDED_S <= time(NULL);
}

/* A step that is over its own limit runs on for the controller until its tasks have ended. */
static bool step_is_over_limit(uint32_t job, uint32_t number)
{
    job_step_info_response_msg_t *found = NULL;
    int (*get_steps)(time_t, uint32_t, uint32_t, job_step_info_response_msg_t **, uint16_t) =
        (int (*)(time_t, uint32_t, uint32_t, job_step_info_response_msg_t **, uint16_t))dlsym(
            RTLD_DEFAULT, "slurm_get_job_steps");
    void (*free_steps)(job_step_info_response_msg_t *) = (void (*)(job_step_info_response_msg_t *))dlsym(
        RTLD_DEFAULT, "slurm_free_job_step_info_response_msg");
    if (get_steps == NULL || free_steps == NULL || get_steps(0, job, number, &found, SHOW_ALL) != 0)
        return false;
    bool over = false;
    for (uint32_t i = 0; i < found->job_step_count; i++) {
        const job_step_info_t *step = &found->job_steps[i];
        if (step->time_limit != INFINITE && step->time_limit != NO_VAL)
            over |= (int64_t)step->run_time >= (int64_t)step->time_limit * 60;
    }
    free_steps(found);
    return over;
}

static void ask(const struct errand *errand)
{
    question.ended =
        job_has_ended(errand->step.job) || step_is_over_limit(errand->step.job, errand->step.number);
    descriptors_close(&question.answer[1]);
}

void srun_controller_ask_ended(const struct controlled_step *step)
{
    if (question.answer[0] >= 0 || pipe2(question.answer, O_CLOEXEC) < 0)
        return;
    question.due_us = clock_us() + ANSWER_US;
    if (start(&(struct errand){.run = ask, .step = *step}) < 0)
        descriptors_close(&question.answer[1]);
}

bool srun_controller_has_ended(void)
{
    if (question.answer[0] < 0)
        return false;
    struct pollfd answered = {.fd = question.answer[0], .events = POLLIN};
    bool known = poll(&answered, 1, clock_ms_until(question.due_us)) == 1;
    descriptors_close(&question.answer[0]);
    return known && question.ended;
}
