/* waiting.c: what it costs the other ranks to wait for one, run by every rank of a job: `waiting CASE`. Rank
 * 0 prints what it used while the last rank was late. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include "base/process_signal.h"
#include "ranks.h"

#define LATE_MS  400
#define ELEMENTS (8 << 20)

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* What this process has used so far: its CPU time in milliseconds, plus one for each involuntary context
 * switch. A process that keeps yielding to others that never yield has next to no CPU time, but many
 * switches. */
static double taken(void)
{
    struct timespec time;
    struct rusage usage;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    getrusage(RUSAGE_SELF, &usage);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6 + (double)usage.ru_nivcsw;
}

/* The last rank submits later than the others. */
static void case_late(void)
{
    float data[1] = {1};
    struct hvd_tensor tensor = hvd_vector("late", data, 1, HVD_FLOAT32);
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    double before = taken();
    if (odd)
        sleep_ms(LATE_MS);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
    if (rank == 0)
        printf("%.0f\n", taken() - before);
    if (data[0] != (float)size)
        ranks_fail("the sum is %g", (double)data[0]);
}

/* ---- Stopped during an operation ---- */

struct stop {
    pid_t pid; /* of the rank that is stopped */
    bool kills;
    double took;
    _Atomic int carried; /* allreduces that are done */
    _Atomic bool over;
};

static void *stop_and_continue(void *arg)
{
    struct stop *stop = arg;
    for (int i = 0; atomic_load(&stop->carried) < 3; i++) {
        if (i == 20000)
            ranks_fail("three allreduces took too long");
        sleep_ms(1);
    }
    process_signal(stop->pid, SIGSTOP);
    double before = taken();
    sleep_ms(LATE_MS);
    stop->took = taken() - before;
    process_signal(stop->pid, stop->kills ? SIGKILL : SIGCONT);
    atomic_store(&stop->over, true);
    return NULL;
}

static pid_t last_pid(void)
{
    int32_t pid = getpid();
    struct hvd_tensor tensor = {"pids", &pid, NULL, HVD_INT32, 1, {1}, HVD_MEMORY_ANY, 0};
    struct hvd_result all = {0};
    must(hvd_allgather(&tensor, &all, NULL), "hvd_allgather");
    pid_t last = ((const int32_t *)all.data)[size - 1];
    free(all.data);
    return last;
}

/* The last rank is stopped while tensors travel, which they do nearly all the time. */
static void case_stopped(void)
{
    pthread_t thread;
    struct stop stop = {.pid = last_pid()};
    float *data = malloc(ELEMENTS * sizeof(*data));
    bool over = false;
    if (data == NULL || (rank == 0 && pthread_create(&thread, NULL, stop_and_continue, &stop) != 0))
        ranks_fail("no memory, or no thread");
    while (!over) {
        struct hvd_tensor tensor = hvd_vector("travels", data, ELEMENTS, HVD_FLOAT32);
        for (int i = 0; i < ELEMENTS; i++)
            data[i] = 1;
        data[0] = rank == 0 && atomic_load(&stop.over) ? 1 : 0;
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
        over = data[0] != 0;
        for (int i = 1; i < ELEMENTS; i++) {
            if (data[i] != (float)size)
                ranks_fail("element %d is %g", i, (double)data[i]);
        }
        atomic_fetch_add(&stop.carried, 1);
    }
    if (rank == 0) {
        pthread_join(thread, NULL);
        printf("%.0f\n", stop.took);
    }
    free(data);
}

/* The last rank is stopped until the others sleep, and then killed: that must wake them. */
static void case_killed(void)
{
    pthread_t thread;
    struct stop stop = {.pid = last_pid(), .kills = true};
    float *data = calloc(ELEMENTS, sizeof(*data));
    struct hvd_tensor tensor = hvd_vector("travels", data, ELEMENTS, HVD_FLOAT32);
    enum hvd_status status = HVD_OK;
    signal(SIGTERM, SIG_IGN); /* the launcher may end the other ranks before they have printed their error */
    if (data == NULL || (rank == 0 && pthread_create(&thread, NULL, stop_and_continue, &stop) != 0))
        ranks_fail("no memory, or no thread");
    while (status == HVD_OK) {
        status = hvd_allreduce(&tensor, HVD_SUM, NULL);
        atomic_fetch_add(&stop.carried, 1);
    }
    must_be(status, HVD_ERR_RANK_LOST, "hvd_allreduce");
    must_say("was lost", "hvd_allreduce");
    if (rank == 0)
        pthread_join(thread, NULL);
    free(data);
    printf("rank %d was told\n", rank);
    exit(0);
}

static const struct ranks_case cases[] = {
    {"late", case_late, false}, {"stopped", case_stopped, false}, {"killed", case_killed, false}};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
