/* forked_ranks.h: ranks as forked processes, with peer tables and tree shapes made by hand; socket pairs
 * replace the network. */
#ifndef TESTS_UNIT_FORKED_RANKS_H
#define TESTS_UNIT_FORKED_RANKS_H

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "control/tree.h"
#include "node/node.h"
#include "open_descriptors.h"
#include "unit.h"

#define FORKED_RANKS_MAX     64
#define FORKED_RANKS_WAIT_US INT64_C(20000000) /* no step of a test takes longer */

/* What a rank reports to the test, in memory that both share. */
struct rank_report {
    char complaint[600]; /* "" while all is well */
    _Atomic int64_t at_us;
    _Atomic int stage;
    int status, lost_rank;
    char sentence[600];
    char log[2000];
};

struct forked_ranks {
    int size;
    const int *node_of_rank;
    int sockets[FORKED_RANKS_MAX][2]; /* by leader: its own end, its parent's end; -1: none */
    pid_t pids[FORKED_RANKS_MAX];
    _Atomic int go; /* the stage up to which the test lets the ranks go */
    struct rank_report reports[FORKED_RANKS_MAX];
};

/* The state of one rank, in its own process. */
struct forked_rank {
    struct forked_ranks *team;
    struct rank_report *report;
    struct peer_table peer_table;
    struct tree_shape shape;
    struct hvd_log log;
    struct control *control;
    int epoll_fd;
};

/* In a rank: report the failure and exit. */
__attribute__((format(printf, 2, 3), noreturn)) static inline void forked_rank_fail(struct forked_rank *place,
                                                                                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(place->report->complaint, sizeof(place->report->complaint), format, args);
    va_end(args);
    _exit(1);
}

#define FORKED_RANK_CHECK(place, condition)                                                             \
    do {                                                                                                \
        if (!(condition))                                                                               \
            forked_rank_fail(place, "rank %d, %s:%d: %s", (place)->peer_table.rank, __FILE__, __LINE__, \
                             #condition);                                                               \
    } while (0)

/* The ranks of the node that [leader] leads, without those for which [absent] has a bit. */
static inline int forked_ranks_members(const struct forked_ranks *team, int leader, int *members)
{
    int count = 0;
    for (int rank = 0; rank < team->size; rank++) {
        if (team->node_of_rank[rank] == leader)
            members[count++] = rank;
    }
    return count;
}

static inline int forked_ranks_leaders(const struct forked_ranks *team, int *leaders)
{
    int count = 0;
    for (int rank = 0; rank < team->size; rank++) {
        if (team->node_of_rank[rank] == rank)
            leaders[count++] = rank;
    }
    return count;
}

/* Add the parent and the children of [ranks][index] to the shape; [ranks] is a heap of that [radix]. */
static inline void tree_shape_add(struct tree_shape *shape, const int *ranks, int count, int index, int radix)
{
    if (index > 0)
        shape->parent = ranks[index / radix];
    for (int i = 1; i < count; i++) {
        if (i / radix == index)
            shape->child_ranks[shape->child_count++] = ranks[i];
    }
}

static inline int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static inline void make_tree_shape(const struct forked_ranks *team, int rank, struct tree_shape *shape)
{
    int ranks[FORKED_RANKS_MAX] = {0};
    *shape = (struct tree_shape){.leader = team->node_of_rank[rank], .parent = -1};
    shape->local_size = forked_ranks_members(team, shape->leader, ranks);
    while (ranks[shape->local_rank] != rank)
        shape->local_rank++;
    tree_shape_add(shape, ranks, shape->local_size, shape->local_rank, TREE_NODE_RADIX);
    shape->node_count = forked_ranks_leaders(team, ranks);
    while (ranks[shape->node] != shape->leader)
        shape->node++;
    if (rank == shape->leader)
        tree_shape_add(shape, ranks, shape->node_count, shape->node, TREE_LEADER_RADIX);
    qsort(shape->child_ranks, (size_t)shape->child_count, sizeof(int), compare_ints);
}

static inline void make_peer_table(struct forked_ranks *team, int rank, struct peer_table *peer_table)
{
    static struct peer peers[FORKED_RANKS_MAX];
    *peer_table = (struct peer_table){.rank = rank, .size = team->size, .epoch = 7, .peers = peers};
    memset(peer_table->key, 0x5a, sizeof(peer_table->key));
    /* The names of abstract sockets contain the key. Tests that run at the same time need different ones. */
    pid_t test = getpgrp();
    memcpy(peer_table->key, &test, sizeof(test));
    peer_table->node_of_rank = (int *)team->node_of_rank;
    for (int i = 0; i < team->size; i++) {
        snprintf(peers[i].host, sizeof(peers[i].host), "n%d", team->node_of_rank[i]);
        peers[i].pid = team->pids[i];
        peers[i].leader = team->node_of_rank[i];
    }
}

static inline void forked_rank_log(void *arg, enum log_level level, const char *component, const char *line)
{
    struct rank_report *report = arg;
    size_t used = strlen(report->log);
    (void)level;
    snprintf(report->log + used, sizeof(report->log) - used, "%s: %s\n", component, line);
}

/* In the test: a team whose ranks are on the nodes that [node_of_rank] names. */
static inline struct forked_ranks *forked_ranks_new(int size, const int *node_of_rank)
{
    struct forked_ranks *team =
        mmap(NULL, sizeof(*team), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(team, MAP_FAILED);
    team->size = size;
    team->node_of_rank = node_of_rank;
    for (int rank = 0; rank < size; rank++) {
        team->sockets[rank][0] = team->sockets[rank][1] = -1;
        if (rank > 0 && node_of_rank[rank] == rank)
            ck_assert_int_eq(
                socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, team->sockets[rank]), 0);
    }
    return team;
}

/* Keep the ends of sockets that belong to [rank], in [link_fds], and close all others. */
static inline void forked_ranks_take_sockets(struct forked_ranks *team, const struct tree_shape *shape,
                                             int rank, int *link_fds)
{
    for (int i = 0; i <= shape->child_count; i++)
        link_fds[i] = -1;
    for (int other = 0; other < team->size; other++) {
        int *pair = team->sockets[other];
        if (pair[0] < 0)
            continue;
        int link = 0;
        for (int i = 0; i < shape->child_count; i++) {
            if (shape->child_ranks[i] == other)
                link = i + 1;
        }
        if (other == rank)
            link_fds[TREE_PARENT] = pair[0];
        else
            close(pair[0]);
        if (link > 0)
            link_fds[link] = pair[1];
        else
            close(pair[1]);
    }
}

/* Start rank [rank]: [body] runs in a process of its own. */
static inline void forked_ranks_start_rank(struct forked_ranks *team, int rank,
                                           void (*body)(struct forked_rank *place))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) {
        team->pids[rank] = pid;
        return;
    }
    struct forked_rank place = {.team = team, .report = &team->reports[rank], .epoll_fd = -1};
    team->pids[rank] = getpid();
    place.log = (struct hvd_log){LOG_WARN, forked_rank_log, place.report};
    make_tree_shape(team, rank, &place.shape);
    make_peer_table(team, rank, &place.peer_table);
    place.peer_table.log = &place.log;
    body(&place);
    if (__lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0)
        forked_rank_fail(&place, "rank %d leaked memory", rank);
    _exit(0);
}

static inline void forked_ranks_start(struct forked_ranks *team, void (*body)(struct forked_rank *place))
{
    for (int rank = 0; rank < team->size; rank++)
        forked_ranks_start_rank(team, rank, body);
    for (int rank = 0; rank < team->size; rank++) {
        for (int i = 0; i < 2; i++) {
            if (team->sockets[rank][i] >= 0)
                close(team->sockets[rank][i]);
        }
    }
}

/* In the test: the wait status of a rank. A rank that does not end in time is killed. */
static inline int forked_ranks_reap(struct forked_ranks *team, int rank)
{
    int status = -1;
    int64_t deadline_us = clock_us() + 2 * FORKED_RANKS_WAIT_US;
    /* cppcheck-suppress negativeIndex ; it takes forked_ranks_end's exception for a rank */
    while (waitpid(team->pids[rank], &status, WNOHANG) == 0) {
        if (clock_us() >= deadline_us)
            process_signal(team->pids[rank], SIGKILL);
        poll(NULL, 0, 2);
    }
    return status;
}

/* In the test: all ranks except [except] (-1: none) exit with 0 and without a complaint. */
static inline void forked_ranks_end(struct forked_ranks *team, int except)
{
    char complaint[600] = "";
    int bad = -1;
    for (int rank = 0; rank < team->size; rank++) {
        int status = forked_ranks_reap(team, rank);
        if (rank != except && (status != 0 || team->reports[rank].complaint[0] != 0) && bad < 0) {
            bad = rank;
            snprintf(complaint, sizeof(complaint), "status 0x%x: %s", status, team->reports[rank].complaint);
        }
    }
    ck_assert_msg(bad < 0, "rank %d: %s", bad, complaint);
}

/* Run [size] ranks on the nodes of these leaders, which must all end well. */
static inline void forked_ranks_run(int size, const int *node_of_rank,
                                    void (*live)(struct forked_rank *place))
{
    struct forked_ranks *team = forked_ranks_new(size, node_of_rank);
    forked_ranks_start(team, live);
    forked_ranks_end(team, -1);
}

/* In the test: wait until a rank reports that it has reached [stage]. */
static inline void forked_ranks_await_stage(struct forked_ranks *team, int rank, int stage)
{
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    while (atomic_load(&team->reports[rank].stage) < stage) {
        ck_assert_msg(clock_us() < deadline_us, "rank %d did not come to stage %d: %s", rank, stage,
                      team->reports[rank].complaint);
        poll(NULL, 0, 1);
    }
}

static inline void forked_ranks_await_all(struct forked_ranks *team, int stage)
{
    for (int rank = 0; rank < team->size; rank++)
        forked_ranks_await_stage(team, rank, stage);
}

/* ---- In a rank ---- */

static inline void forked_rank_attach(struct forked_rank *place, struct node **nodep)
{
    int members[FORKED_RANKS_MAX];
    struct hvd_error err = {""};
    int count = forked_ranks_members(place->team, place->shape.leader, members);
    if (node_attach(nodep, &place->peer_table, members, count, clock_us() + FORKED_RANKS_WAIT_US, &err) !=
        HVD_OK)
        forked_rank_fail(place, "node_attach: %s", err.text);
}

/* Ranks are forked one after the other, so their pids are known only once all have started. */
static inline void forked_rank_learn_pids(struct forked_rank *place)
{
    for (int rank = 0; rank < place->team->size; rank++)
        place->peer_table.peers[rank].pid = place->team->pids[rank];
}

/* Wait until all ranks are forked, so that none receives a frame from a rank whose pid it does not know. Some
 * tests start a rank late on purpose, so do not wait for long. */
static inline void forked_rank_await_others(const struct forked_rank *place)
{
    int64_t end_us = clock_us() + 500000;
    for (int rank = 0; rank < place->team->size; rank++) {
        while (__atomic_load_n(&place->team->pids[rank], __ATOMIC_ACQUIRE) == 0 && clock_us() < end_us)
            sched_yield();
    }
}

/* Attach to the node's memory and open the control object, watched and armed. */
static inline void forked_rank_open(struct forked_rank *place)
{
    int link_fds[TREE_MAX_LINKS];
    struct node *node = NULL;
    struct hvd_error err = {""};
    forked_rank_await_others(place);
    forked_ranks_take_sockets(place->team, &place->shape, place->peer_table.rank, link_fds);
    if (place->shape.local_size > 1)
        forked_rank_attach(place, &node);
    if (control_open(&place->control, &place->peer_table, &place->shape, node, link_fds, &err) != HVD_OK)
        forked_rank_fail(place, "control_open: %s", err.text);
    place->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (place->control->ops->watch(place->control, place->epoll_fd, &err) != HVD_OK)
        forked_rank_fail(place, "watch: %s", err.text);
    place->control->ops->arm(place->control, true);
}

static inline void forked_rank_close(struct forked_rank *place)
{
    place->control->ops->close(place->control);
    close(place->epoll_fd);
}

/* Sleep until there is an event, and return it. False after [limit_us]. */
static inline bool forked_rank_try_receive(struct forked_rank *place, struct control_event *event,
                                           int64_t limit_us)
{
    struct hvd_error err = {""};
    int64_t deadline_us = clock_us() + limit_us;
    for (;;) {
        forked_rank_learn_pids(place);
        int status = place->control->ops->receive(place->control, event, &err);
        if (status == HVD_OK)
            return true;
        if (status != HVD_IN_PROGRESS)
            forked_rank_fail(place, "receive: %s", err.text);
        struct epoll_event woken;
        int ready = epoll_wait(place->epoll_fd, &woken, 1, clock_ms_until(deadline_us));
        if (ready == 0)
            return false;
    }
}

static inline void forked_rank_receive(struct forked_rank *place, struct control_event *event)
{
    if (!forked_rank_try_receive(place, event, FORKED_RANKS_WAIT_US))
        forked_rank_fail(place, "rank %d received nothing in time", place->peer_table.rank);
}

static inline void forked_rank_send(struct forked_rank *place, int link, const void *bytes, size_t length)
{
    struct hvd_error err = {""};
    if (place->control->ops->send(place->control, link, bytes, length, &err) != HVD_OK)
        forked_rank_fail(place, "send: %s", err.text);
}

/* Flush all messages that wait to be sent. A message that arrives meanwhile is an error; an abort is not. */
static inline void forked_rank_flush(struct forked_rank *place)
{
    struct control_event event;
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    while (!place->control->ops->flushed(place->control)) {
        struct hvd_error err = {""};
        struct epoll_event woken;
        if (place->control->ops->receive(place->control, &event, &err) == HVD_OK &&
            event.kind == CONTROL_MESSAGE)
            forked_rank_fail(place, "rank %d got a message while it flushed", place->peer_table.rank);
        if (!place->control->ops->flushed(place->control) &&
            epoll_wait(place->epoll_fd, &woken, 1, clock_ms_until(deadline_us)) == 0)
            forked_rank_fail(place, "rank %d could not flush in time", place->peer_table.rank);
    }
}

/* Report that this rank has reached [stage], and wait until the test lets the ranks go on to it. */
static inline void forked_rank_stage(struct forked_rank *place, int stage)
{
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    atomic_store(&place->report->stage, stage);
    while (atomic_load(&place->team->go) < stage) {
        if (clock_us() > deadline_us)
            forked_rank_fail(place, "rank %d was kept at stage %d", place->peer_table.rank, stage);
        poll(NULL, 0, 1);
    }
}

/* Byte [i] of the message of [length] bytes from [rank]; other ranks' messages differ. */
static inline unsigned char message_byte(int rank, size_t length, size_t i)
{
    return (unsigned char)((size_t)rank * 37 + length + i * 13 + i / 251);
}

static inline unsigned char *message_new(int rank, size_t length)
{
    unsigned char *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = message_byte(rank, length, i);
    return bytes;
}

static inline bool message_is(const struct control_event *event, int rank, size_t length)
{
    const unsigned char *bytes = event->bytes;
    if (event->kind != CONTROL_MESSAGE || event->length != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != message_byte(rank, length, i))
            return false;
    }
    return true;
}

#endif
