/* step_reports.c: take the nodes' reports of a step, and judge it by them. */
#include "config.h"
#include "spank/step_reports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "options/node_list.h"
#include "verdict/node_names.h"
#include "verdict/verdict.h"

/* ---- Take ------------------------------------------------------------------------------------------- */

/* A connection, and what has come of its report. */
struct receipt {
    int fd;
    size_t used;
    unsigned char message[FAILURE_REPORT_BYTES];
};

/* Read what is there. Has it all come? More than fits is cut, and then no report. */
static bool receive(struct receipt *receipt)
{
    ssize_t count = 1;
    while (count > 0 && receipt->used < sizeof(receipt->message)) {
        count = recv(receipt->fd, receipt->message + receipt->used, sizeof(receipt->message) - receipt->used,
                     MSG_DONTWAIT);
        receipt->used += count > 0 ? (size_t)count : 0;
    }
    return count >= 0 || (errno != EAGAIN && errno != EINTR);
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

/* Write the address of the other end of a connection as a number; "": it is not known. */
static void peer_address(int fd, char text[FAILURE_ANSWER_BYTES])
{
    union {
        struct sockaddr any;
        struct sockaddr_in old;
        struct sockaddr_in6 new;
    } peer = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t length = sizeof(peer);
    text[0] = 0;
    if (getpeername(fd, &peer.any, &length) < 0)
        return;
    if (peer.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &peer.old.sin_addr, text, FAILURE_ANSWER_BYTES);
    else if (IN6_IS_ADDR_V4MAPPED(&peer.new.sin6_addr))
        inet_ntop(AF_INET, &peer.new.sin6_addr.s6_addr[12], text, FAILURE_ANSWER_BYTES);
    else
        inet_ntop(AF_INET6, &peer.new.sin6_addr, text, FAILURE_ANSWER_BYTES);
}

static void note_begin(struct step_reports *reports, const struct failure_report *report, int fd)
{
    int node = report->node_index;
    if (node >= reports->node_count)
        return;
    if (node == 0 && reports->first_address[0] == 0)
        peer_address(fd, reports->first_address);
    if (reports->node_states == NULL)
        reports->node_states = calloc((size_t)reports->node_count, 1);
    if (reports->node_states == NULL || reports->node_states[node])
        return;
    reports->node_states[node] = report->other_version ? NODE_OTHER_VERSION : NODE_BEGUN;
    reports->begun_count++;
    reports->begun_us = clock_us();
    if (report->nodes[0] != 0)
        memcpy(reports->nodes, report->nodes, sizeof(reports->nodes));
}

/* The end of a wait may be read before its begin. */
static void note_wait(struct step_reports *reports, const struct failure_report *report)
{
    if (!has_size(reports, report->size) || report->rank >= reports->size)
        return;
    reports->waiting += report->kind == FAILURE_WAITS ? 1 : -1;
    if (report->kind == FAILURE_WAITS)
        reports->waiting_rank = report->rank;
}

static void note_absent(struct step_reports *reports, const struct failure_report *report)
{
    if (reports->has_absent || report->end.joined)
        return;
    reports->has_absent = true;
    reports->absent = *report;
}

bool step_reports_wait_in_vain(const struct step_reports *reports)
{
    return reports->waiting > 0 && reports->has_absent;
}

void step_reports_blame_absent(struct step_reports *reports)
{
    reports->blames_absent = true;
}

static void keep_end(struct step_reports *reports, const struct failure_report *report)
{
    if (!has_size(reports, report->size) || report->rank >= reports->size)
        return;
    if (reports->on_end != NULL)
        reports->on_end(report, reports->arg);
    if (report->end.wait_status == 0) {
        reports->succeeded[report->rank] = 1;
        note_absent(reports, report);
    }
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

void step_reports_lose(struct step_reports *reports, int rank, int size)
{
    const struct failure_report report = {
        .rank = rank,
        .size = size,
        .failed_count = 1,
        .end = {.wait_status = SIGKILL, .joined = true, .stayed = true, .host_lost = true}};
    keep_end(reports, &report);
}

/* The kernel takes so short an answer at once. */
static void answer(const struct step_reports *reports, int fd)
{
    const char *text = reports->first_address[0] != 0 ? reports->first_address : FAILURE_LATER;
    if (reports->node_count > 0)
        send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* False: it is no report of this step. */
static bool keep(struct step_reports *reports, const struct receipt *receipt, const char *token)
{
    struct failure_report report;
    if (!failure_report_decode(receipt->message, receipt->used, token, &report))
        return false;
    switch (report.kind) {
    case FAILURE_BEGINS:
        note_begin(reports, &report, receipt->fd);
        break;
    case FAILURE_ASKS:
        answer(reports, receipt->fd);
        break;
    case FAILURE_WAITS:
    case FAILURE_WAITED:
        note_wait(reports, &report);
        break;
    default:
        keep_end(reports, &report);
        break;
    }
    return true;
}

/* Returns how many connections there are now. */
static int accept_more(int fd, struct receipt *receipts, int count)
{
    while (count < STEP_CONNECTIONS) {
        int from = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (from < 0)
            break;
        receipts[count].fd = from;
        receipts[count++].used = 0;
    }
    return count;
}

/* Wait until something has come on one of the connections, of which there is one at least. */
static void await(const struct receipt *receipts, int count, int64_t deadline_us)
{
    struct pollfd ready[STEP_CONNECTIONS];
    for (int i = 0; i < count; i++)
        ready[i] = (struct pollfd){.fd = receipts[i].fd, .events = POLLIN};
    poll(ready, (nfds_t)count, clock_ms_until(deadline_us));
}

bool step_reports_take(struct step_reports *reports, int fd, const char token[FAILURE_TOKEN_BYTES],
                       int64_t deadline_us)
{
    struct receipt *receipts = malloc(STEP_CONNECTIONS * sizeof(*receipts));
    int count = receipts == NULL ? 0 : accept_more(fd, receipts, 0);
    bool any = false;
    int64_t accept_us = clock_us() + (deadline_us - clock_us()) / 2;
    while (count > 0) {
        int64_t now_us = clock_us();
        bool late = now_us >= deadline_us;
        for (int i = count - 1; i >= 0; i--) {
            if (!receive(&receipts[i]) && !late)
                continue;
            any |= keep(reports, &receipts[i], token);
            close(receipts[i].fd);
            receipts[i] = receipts[--count];
        }
        count = now_us < accept_us ? accept_more(fd, receipts, count) : count;
        if (count > 0)
            await(receipts, count, deadline_us);
    }
    free(receipts);
    return any;
}

/* The name of a node of the step, in memory that the caller frees; NULL: no memory. */
static char *name_of_node(const struct step_reports *reports, int node)
{
    char name[FAILURE_NODE_BYTES];
    if (!node_list_at(reports->nodes, node, name, sizeof(name)))
        snprintf(name, sizeof(name), "node %d of the step", node);
    return strdup(name);
}

int step_reports_nodes(const struct step_reports *reports, enum node_state state, char *text,
                       size_t text_bytes)
{
    int count = 0;
    text[0] = 0;
    char **names =
        reports->node_states == NULL ? NULL : calloc((size_t)reports->node_count + 1, sizeof(*names));
    for (int node = 0; names != NULL && node < reports->node_count; node++)
        if (reports->node_states[node] == state && (names[count] = name_of_node(reports, node)) != NULL)
            count++;
    if (count > 0)
        node_names_text((const char **)names, count, text, text_bytes);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return count;
}

void step_reports_free(struct step_reports *reports)
{
    free(reports->kept);
    free(reports->succeeded);
    free(reports->node_states);
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

static void enter(struct judgement *judgement, const struct failure_report *report, uint64_t number,
                  bool job_ended)
{
    struct verdict_end end = report->end;
    end.at_us = report->after_us;
    end.sweep = number; /* none is known to have ended with another */
    end.job_ended = job_ended && report->facts.memory[0] == 0;
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
    char sentence[VERDICT_LINE_BYTES], line[CRASH_TEXT_BYTES + 32];
    struct verdict *verdict = judgement->verdict;
    bool deserted = verdict_wait_status(verdict) == 0;
    bool is_first = judgement->first != NULL && judgement->first->rank == verdict_rank(verdict);
    const struct failure_report *first = is_first ? judgement->first : judgement->deserter;
    verdict_rest_unknown(verdict, judgement->failed_count - !deserted);
    verdict_sentence(verdict, &first->facts, sentence);
    if (first->crash[0] != 0) {
        snprintf(line, sizeof(line), "hvd: rank %d: %s", first->rank, first->crash);
        judge->print(line);
    }
    judge->print(sentence);
}

/* Was each task killed with all others of its node, or ended as others had? A node may report a task that was
 * killed alone after one that ended because of that. */
static bool all_are_killed(const struct step_reports *reports)
{
    bool all = true, any = false;
    for (int i = 0; i < reports->count; i++) {
        const struct failure_report *report = &reports->kept[i];
        bool killed = verdict_is_sigkill(report->end.wait_status);
        any = any || report->node_killed;
        all = all && (report->node_killed || report->end.told || (report->follows && !killed));
    }
    return all && any;
}

int step_reports_judge(const struct step_reports *reports, const struct step_judge *judge)
{
    int status = 0;
    struct judgement judgement = {.verdict = reports->size > 0 ? verdict_create(reports->size) : NULL};
    if (judgement.verdict == NULL)
        return 0;
    verdict_hears_in_any_order(judgement.verdict);
    bool ended = reports->job_ended || all_are_killed(reports);
    if (reports->blames_absent) {
        verdict_connected(judgement.verdict, reports->waiting_rank);
        enter(&judgement, &reports->absent, 0, false);
    }
    for (int i = 0; i < reports->count; i++) {
        const struct failure_report *report = &reports->kept[i];
        if (judge->went_on_without == NULL || !judge->went_on_without(report->rank, judge->arg))
            enter(&judgement, report, (uint64_t)i + 1, ended);
    }
    if (verdict_is_failure(judgement.verdict)) {
        print(&judgement, judge);
        status = verdict_exit_status(judgement.verdict);
    }
    verdict_destroy(judgement.verdict);
    return status;
}
