/* srun_verdict.c: name in srun the rank that failed first, as the last thing that a step prints. */
#include "config.h"
#include "spank/srun_verdict.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "spank/failure_report.h"

/* Reports have arrived before srun learns that their tasks have ended. What has not is waited for this long,
 * over all connections, so that one that says nothing cannot hold up srun. */
#define READ_US INT64_C(300000)

#define MOST_REPORTS (2 * SOMAXCONN) /* more than the kernel keeps */

/* Global, because SPANK passes no data of a plug-in from one call to the next. */
static struct {
    int fd; /* -1: srun does not listen */
    char token[FAILURE_TOKEN_BYTES];
} listener = {.fd = -1};

/* ---- Listen ----------------------------------------------------------------------------------------- */

static int try_listen(int family, int port)
{
    const int off = 0;
    struct sockaddr_in6 new = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in old = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = INADDR_ANY};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    bool bound = family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
                                          bind(fd, (struct sockaddr *)&new, sizeof(new)) == 0
                                    : bind(fd, (struct sockaddr *)&old, sizeof(old)) == 0;
    if (bound && listen(fd, SOMAXCONN) == 0)
        return fd;
    close(fd);
    return -1;
}

static int listen_at(int port)
{
    int fd = try_listen(AF_INET6, port);
    return fd >= 0 ? fd : try_listen(AF_INET, port);
}

/* Slurm's library is in srun. The plug-in is not linked with it. */
static const uint16_t *find_port_range(void)
{
    const slurm_conf_t *conf = dlsym(RTLD_DEFAULT, "slurm_conf");
    return conf == NULL ? NULL : conf->srun_port_range;
}

/* Sruns side by side begin at different ports, as their numbers differ. */
static int listen_in(const uint16_t range[2])
{
    int count = range[1] - range[0] + 1;
    int fd = -1;
    for (int i = 0; fd < 0 && i < count; i++)
        fd = listen_at(range[0] + (int)((getpid() + i) % count));
    return fd;
}

static bool read_port(int fd, int *portp)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);
    if (getsockname(fd, (struct sockaddr *)&own, &length) < 0)
        return false;
    *portp = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                             : ((struct sockaddr_in *)&own)->sin_port);
    return true;
}

void srun_verdict_listen(void)
{
    const uint16_t *range = find_port_range();
    char variable[FAILURE_VARIABLE_BYTES];
    int port = 0;
    unsetenv(FAILURE_REPORT_VARIABLE); /* of an outer step */
    if (random_hex_draw(listener.token) < 0)
        return;
    listener.fd = range == NULL ? listen_at(0) : listen_in(range);
    if (listener.fd < 0 || !read_port(listener.fd, &port))
        return;
    snprintf(variable, sizeof(variable), "%d:%s", port, listener.token);
    setenv(FAILURE_REPORT_VARIABLE, variable, 1);
}

/* ---- Read ------------------------------------------------------------------------------------------- */

/* Read until the sender has closed. Returns the length; more than fits is cut, and then no report. */
static size_t read_message(int fd, unsigned char message[FAILURE_REPORT_BYTES], int64_t deadline_us)
{
    size_t used = 0;
    while (used < FAILURE_REPORT_BYTES) {
        ssize_t count = recv(fd, message + used, FAILURE_REPORT_BYTES - used, MSG_DONTWAIT);
        if (count > 0) {
            used += (size_t)count;
            continue;
        }
        if (count == 0 || (errno != EAGAIN && errno != EINTR))
            break;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, clock_ms_until(deadline_us)) == 0)
            break;
    }
    return used;
}

static bool next_report(struct failure_report *report, int64_t deadline_us)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    for (int i = 0; i < MOST_REPORTS; i++) {
        int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return false;
        size_t length = read_message(fd, message, deadline_us);
        close(fd);
        if (failure_report_decode(message, length, listener.token, report))
            return true;
    }
    return false;
}

/* ---- Judge ------------------------------------------------------------------------------------------ */

/* What is kept of the reports. */
struct judgement {
    struct verdict *verdict; /* NULL: there was no report */
    int size;                /* of the step, as the first report says */
    uint64_t count;
    int failed_count;
    struct failure_report first;    /* of the rank that is blamed */
    struct failure_report deserter; /* of the first that exited with 0 without leaving hvd's job */
};

/* Slurm does not tell srun's plug-ins how many tasks the step has; each report does. */
static void judge(struct judgement *judgement, const struct failure_report *report)
{
    struct verdict_end end = report->end;
    bool deserts = end.wait_status == 0;
    end.at_us = report->after_us;
    end.sweep = ++judgement->count; /* none is known to have ended with another */
    if (judgement->verdict == NULL) {
        judgement->verdict = verdict_create(report->size);
        judgement->size = report->size;
    }
    judgement->failed_count += report->failed_count;
    if (judgement->verdict == NULL || report->rank >= judgement->size)
        return;
    verdict_hears_in_any_order(judgement->verdict);
    bool earlier = judgement->deserter.size == 0 || report->after_us < judgement->deserter.after_us;
    if (deserts && earlier)
        judgement->deserter = *report;
    verdict_started(judgement->verdict, report->rank,
                    deserts ? judgement->deserter.node : judgement->first.node, report->pid, 0);
    verdict_ended(judgement->verdict, report->rank, &end);
    if (verdict_rank(judgement->verdict) == report->rank)
        judgement->first = *report;
}

static void print(struct judgement *judgement)
{
    char sentence[2048];
    struct verdict *verdict = judgement->verdict;
    if (!verdict_is_failure(verdict))
        return;
    bool deserted = verdict_wait_status(verdict) == 0;
    bool is_first = judgement->first.rank == verdict_rank(verdict);
    const struct failure_report *first = is_first ? &judgement->first : &judgement->deserter;
    verdict_rest_unknown(verdict, judgement->failed_count - !deserted);
    verdict_sentence(verdict, &first->facts, sentence, sizeof(sentence));
    if (first->crash[0] != 0)
        slurm_spank_log("hvd: rank %d: %s", first->rank, first->crash);
    slurm_spank_log("%s", sentence);
}

void srun_verdict_print(void)
{
    if (listener.fd < 0)
        return;
    int64_t deadline_us = clock_us() + READ_US;
    struct judgement *judgement = calloc(1, sizeof(*judgement));
    struct failure_report *report = malloc(sizeof(*report));
    if (judgement != NULL && report != NULL) {
        while (next_report(report, deadline_us))
            judge(judgement, report);
        if (judgement->verdict != NULL)
            print(judgement);
        verdict_destroy(judgement->verdict);
    }
    free(report);
    free(judgement);
    close(listener.fd);
    listener.fd = -1;
}
