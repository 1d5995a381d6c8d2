/* step_reports.c: take the nodes' reports of tasks that ended, and judge a step by them. */
#include "config.h"
#include "spank/step_reports.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "verdict/verdict.h"

#define MOST_REPORTS (2 * SOMAXCONN) /* at once: more than the kernel keeps */

/* ---- Take ------------------------------------------------------------------------------------------- */

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

/* Slurm does not tell srun's plug-ins how many tasks the step has; each report does. */
static bool has_size(struct step_reports *reports, int size)
{
    if (reports->size == 0)
        reports->succeeded = calloc((size_t)size, 1);
    if (reports->size == 0 && reports->succeeded != NULL)
        reports->size = size;
    return reports->size > 0;
}

static void keep(struct step_reports *reports, const struct failure_report *report)
{
    if (!has_size(reports, report->size) || report->rank >= reports->size)
        return;
    if (reports->on_end != NULL)
        reports->on_end(report->rank, reports->arg);
    if (report->end.wait_status == 0)
        reports->succeeded[report->rank] = 1;
    if (report->end.wait_status == 0 && !report->end.stayed)
        return;
    if (reports->count == reports->room) {
        int room = reports->room == 0 ? 16 : 2 * reports->room;
        struct failure_report *more = realloc(reports->kept, (size_t)room * sizeof(*more));
        if (more == NULL)
            return;
        reports->kept = more;
        reports->room = room;
    }
    reports->kept[reports->count++] = *report;
}

void step_reports_take(struct step_reports *reports, int fd, const char token[FAILURE_TOKEN_BYTES],
                       int64_t deadline_us)
{
    unsigned char message[FAILURE_REPORT_BYTES];
    struct failure_report report;
    for (int i = 0; i < MOST_REPORTS; i++) {
        int from = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (from < 0)
            return;
        size_t length = read_message(from, message, deadline_us);
        close(from);
        if (failure_report_decode(message, length, token, &report))
            keep(reports, &report);
    }
}

void step_reports_free(struct step_reports *reports)
{
    free(reports->kept);
    free(reports->succeeded);
    *reports = (struct step_reports){.size = 0};
}

/* ---- Judge ------------------------------------------------------------------------------------------ */

/* What the judgement rests on. */
struct judgement {
    struct verdict *verdict;
    int failed_count;
    const struct failure_report *first;    /* of the rank that is blamed */
    const struct failure_report *deserter; /* of the first that exited with 0 without leaving hvd's job */
};

static void enter(struct judgement *judgement, const struct failure_report *report, uint64_t number)
{
    struct verdict_end end = report->end;
    end.at_us = report->after_us;
    end.sweep = number; /* none is known to have ended with another */
    judgement->failed_count += report->failed_count;
    if (end.wait_status == 0 &&
        (judgement->deserter == NULL || report->after_us < judgement->deserter->after_us))
        judgement->deserter = report;
    verdict_started(judgement->verdict, report->rank, report->node, report->pid, 0);
    verdict_ended(judgement->verdict, report->rank, &end);
    if (verdict_rank(judgement->verdict) == report->rank)
        judgement->first = report;
}

static void print(const struct judgement *judgement, const struct step_judge *judge)
{
    char sentence[2048], line[CRASH_TEXT_BYTES + 32];
    struct verdict *verdict = judgement->verdict;
    bool deserted = verdict_wait_status(verdict) == 0;
    bool is_first = judgement->first != NULL && judgement->first->rank == verdict_rank(verdict);
    const struct failure_report *first = is_first ? judgement->first : judgement->deserter;
    verdict_rest_unknown(verdict, judgement->failed_count - !deserted);
    verdict_sentence(verdict, &first->facts, sentence, sizeof(sentence));
    if (first->crash[0] != 0) {
        snprintf(line, sizeof(line), "hvd: rank %d: %s", first->rank, first->crash);
        judge->print(line);
    }
    judge->print(sentence);
}

int step_reports_judge(const struct step_reports *reports, const struct step_judge *judge)
{
    int status = 0;
    struct judgement judgement = {.verdict = reports->size > 0 ? verdict_create(reports->size) : NULL};
    if (judgement.verdict == NULL)
        return 0;
    verdict_hears_in_any_order(judgement.verdict);
    for (int i = 0; i < reports->count; i++) {
        const struct failure_report *report = &reports->kept[i];
        if (judge->went_on_without == NULL || !judge->went_on_without(report->rank, judge->arg))
            enter(&judgement, report, (uint64_t)i + 1);
    }
    if (verdict_is_failure(judgement.verdict)) {
        print(&judgement, judge);
        status = verdict_exit_status(judgement.verdict);
    }
    verdict_destroy(judgement.verdict);
    return status;
}
