/* bound.c: prints on which CPUs each thread of the program may run after hvd_init, and the variables that
 * placement has set. With an argument its second thread binds itself to that CPU before hvd_init. */
#include "config.h"

#include <hvd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Where threads meet: before hvd_init, and after it. */
static pthread_barrier_t ready, placed;

static void say(const char *who)
{
    cpu_set_t cpus;
    const char *comma = "";
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return;
    flockfile(stdout);
    printf("rank %d %s ", hvd_rank(), who);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &cpus))
            continue;
        printf("%s%d", comma, cpu);
        comma = ",";
    }
    printf("\n");
    funlockfile(stdout);
}

static void *run_beside(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&placed);
    say("beside");
    return NULL;
}

static void *run_apart(void *arg)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(strtoul(arg, NULL, 10), &cpus);
    int rc = sched_setaffinity(0, sizeof(cpus), &cpus);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&placed);
    if (rc == 0)
        say("apart");
    return NULL;
}

static void *run_later(void *arg)
{
    (void)arg;
    say("later");
    return NULL;
}

static void tell(const char *name)
{
    const char *value = getenv(name);
    printf("rank %d %s=%s\n", hvd_rank(), name, value == NULL ? "-" : value);
}

int main(int argc, char **argv)
{
    pthread_t beside, apart, later;
    unsigned count = argc > 1 ? 3 : 2;
    pthread_barrier_init(&ready, NULL, count);
    pthread_barrier_init(&placed, NULL, count);
    pthread_create(&beside, NULL, run_beside, NULL);
    if (argc > 1)
        pthread_create(&apart, NULL, run_apart, argv[1]);
    pthread_barrier_wait(&ready);
    enum hvd_status status = hvd_init();
    if (status != HVD_OK)
        printf("hvd_init: %s\n", hvd_error_text());
    pthread_barrier_wait(&placed);
    pthread_join(beside, NULL);
    if (argc > 1)
        pthread_join(apart, NULL);
    if (status != HVD_OK)
        return EXIT_FAILURE;
    say("main");
    pthread_create(&later, NULL, run_later, NULL);
    pthread_join(later, NULL);
    tell("HVD_PLACED");
    tell("OMP_NUM_THREADS");
    tell("OMP_PLACES");
    hvd_shutdown();
    if (hvd_init() == HVD_OK)
        say("again");
    return hvd_shutdown() == HVD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
