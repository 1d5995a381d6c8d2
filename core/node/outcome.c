/* outcome.c: how a node's leader and its members tell each other, in the node's memory, how they fared in a
 * step of the start. */
#include "config.h"
#include "node/outcome.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/attach.h"

/* A member looks at this interval whether its leader still lives. */
#define LOOK_US INT64_C(100000)

/* Any rank of the node can write there, so the text is copied with its bound. */
static void copy_reason(const char reason[NODE_REASON_BYTES], struct hvd_error *err)
{
    error_set(err, HVD_OK, "%.*s", NODE_REASON_BYTES - 1, reason);
}

/* Sleep until the number at [word] is no longer [seen], but not longer than until [until_us]. */
static void sleep_while(_Atomic uint32_t *word, uint32_t seen, int64_t until_us)
{
    int64_t left_us = until_us - clock_us();
    if (left_us <= 0)
        return;
    const struct timespec wait = clock_timespec(left_us);
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &wait, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void node_report(struct node *node, int status, const char *reason)
{
    struct node_report *report = &node_member_of(node, node->rank)->report;
    snprintf(report->reason, sizeof(report->reason), "%s", reason);
    atomic_store(&report->status, (uint32_t)(status == HVD_OK ? 1 : status));
    wake_all(&report->status);
}

/* The status that a member reports, or 0. Its fence may have ended before it came to its own
 * (pmix_shim/pmix.c says when PMIx does that), so its report is waited for. */
static int await_report(struct node_report *report, int64_t deadline_us)
{
    while (atomic_load(&report->status) == 0 && clock_us() < deadline_us)
        sleep_while(&report->status, 0, deadline_us);
    return (int)atomic_load(&report->status);
}

int node_first_failure(const struct node *node, int64_t deadline_us, int *rankp, struct hvd_error *err)
{
    for (int i = 0; i < node->attached_count; i++) {
        int rank = node->attached[i];
        struct node_report *report = &node_member_of(node, rank)->report;
        int status = await_report(report, deadline_us);
        if (status > 0)
            continue;
        *rankp = rank;
        if (status == 0)
            return error_set(err, HVD_ERR_TIMEOUT,
                             "it reported nothing to the first rank of its node in time");
        copy_reason(report->reason, err);
        return status < HVD_ERR_SYSTEM ? HVD_ERR_SYSTEM : status;
    }
    return HVD_OK;
}

void node_conclude(struct node *node, int status, int value, const char *reason)
{
    struct node_outcome *outcome = &node->memory->outcome;
    outcome->status = status;
    outcome->value = value;
    snprintf(outcome->reason, sizeof(outcome->reason), "%s", reason);
    atomic_fetch_add(&outcome->step, 1);
    wake_all(&outcome->step);
}

static bool leader_has_ended(const struct node *node)
{
    if (node->watched_count == 0)
        return false;
    const struct watched_process *leader = &node->watched[0];
    struct pollfd ends[] = {{.fd = leader->fd, .events = POLLIN}, {.fd = leader->life_fd, .events = POLLIN}};
    return poll(ends, sizeof(ends) / sizeof(ends[0]), 0) > 0;
}

int node_await_outcome(struct node *node, uint32_t step, int64_t deadline_us, int *valuep,
                       struct hvd_error *err)
{
    struct node_outcome *outcome = &node->memory->outcome;
    for (uint32_t seen = atomic_load(&outcome->step); seen < step; seen = atomic_load(&outcome->step)) {
        int64_t now_us = clock_us();
        if (now_us >= deadline_us)
            return error_set(err, HVD_ERR_TIMEOUT,
                             "rank %d, the first of this node, did not conclude the start in time; "
                             "--hvd-start-timeout gives it longer",
                             node->members[0]);
        /* a leader that has concluded may have ended since */
        if (leader_has_ended(node) && atomic_load(&outcome->step) == seen)
            return error_set(err, HVD_ERR_RANK_LOST,
                             "rank %d, the first of this node, ended during the start", node->members[0]);
        sleep_while(&outcome->step, seen, deadline_us < now_us + LOOK_US ? deadline_us : now_us + LOOK_US);
    }
    int status = outcome->status;
    *valuep = outcome->value;
    copy_reason(outcome->reason, err);
    return status > HVD_OK || status < HVD_ERR_SYSTEM ? HVD_ERR_SYSTEM : status;
}
