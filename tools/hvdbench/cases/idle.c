/* idle.c: the CPU time of a job that is initialised and submits nothing. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/report.h"

struct usage {
    double cpu_us; /* of this process */
    double wakes;  /* of its other threads; the calling thread's own are caused by the sleeps in here */
};

/* Voluntary context switches of a thread of this process: it is woken as often. */
static long long switches_of(const char *thread)
{
    char path[64];
    char line[128];
    long long count = 0;
    if (snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread) >= (int)sizeof(path))
        return 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %lld", &count) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return count;
}

/* NAN if /proc does not tell. */
static double count_wakes(void)
{
    char own[32];
    double wakes = 0;
    DIR *folder = opendir("/proc/self/task");
    snprintf(own, sizeof(own), "%ld", (long)syscall(SYS_gettid));
    if (folder == NULL)
        return NAN;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, own) != 0)
            wakes += (double)switches_of(entry->d_name);
    closedir(folder);
    return wakes;
}

static void sleep_for(int64_t seconds)
{
    struct timespec left = {.tv_sec = seconds};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

static void print_usage(const struct bench *bench, const struct usage *worst)
{
    char cpu[REPORT_TEXT_BYTES];
    char ranks[2 * REPORT_TEXT_BYTES];
    if (bench->rank != 0)
        return;
    if (bench->options->json) {
        struct json json = report_open(bench);
        json_count(&json, "seconds", bench->options->seconds);
        json_number(&json, "cpu_us", worst->cpu_us);
        json_number(&json, "wakes", worst->wakes);
        json_close_line(&json);
        return;
    }
    printf("idle: %s, %lld second%s; of the rank with the most:\n"
           "  CPU time    %12s\n  wake-ups    %12.0f\n",
           report_ranks(bench, ranks), (long long)bench->options->seconds, report_s(bench->options->seconds),
           report_time(worst->cpu_us, cpu), worst->wakes);
    fflush(stdout);
}

int case_idle(struct bench *bench, struct hvd_error *err)
{
    int status = hvd_barrier(HVD_ALL_RANKS);
    if (status != HVD_OK)
        return bench_hvd_error(status, "hvd_barrier", err);
    /* Wait, so that the end of the barrier, and messages of ranks that finish it earlier, are not counted.
     * The files in /proc are read outside the timed interval, because reading them costs more than an idle
     * job. */
    sleep_for(1);
    double wakes = count_wakes();
    double cpu_us = bench_cpu_us();
    sleep_for(bench->options->seconds);
    cpu_us = bench_cpu_us() - cpu_us;
    wakes = count_wakes() - wakes;
    sleep_for(1);
    double used[] = {cpu_us, wakes};
    status = bench_max(used, 2, err);
    if (status == HVD_OK)
        print_usage(bench, &(struct usage){used[0], used[1]});
    return status;
}
