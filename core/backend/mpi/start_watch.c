/* start_watch.c: watches the start of MPI from a thread of its own. */
#include "backend/mpi/start_watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/process_stat.h"
#include "base/stack.h"
#include "net/peer_table.h"
#include "options/parse.h"

#define SLICE_US    INT64_C(250000)
#define FOLLOW_US   INT64_C(1000000) /* how much later the others end than the rank that says why */
#define NAMED_RANKS 4

struct start_watch {
    const struct backend_env *env;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    /* of the thread alone */
    int64_t waited_us;    /* not counting the time that this process was stopped itself */
    struct repeat repeat; /* of the warnings */
    struct process_end end;
};

/* ---- Who keeps the others waiting ---- */

static bool is_stopped(const struct peer_table *peer_table, int rank)
{
    struct process_stat stat;
    return process_stat_read(peer_table->peers[rank].pid, &stat) && (stat.state == 'T' || stat.state == 't');
}

struct rank_list {
    int count;
    size_t used;
    char names[1200]; /* of the first NAMED_RANKS, each with what is said of it */
};

static void add_rank(struct rank_list *list, const struct peer_table *peer_table, int rank, const char *what)
{
    char name[300];
    size_t room = sizeof(list->names) - list->used;
    if (list->count++ >= NAMED_RANKS)
        return;
    peer_table_rank_name(peer_table, rank, name, sizeof(name));
    list->used += (size_t)snprintf(list->names + list->used, room, "%s%.260s %s", list->used == 0 ? "" : "; ",
                                   name, what);
}

/* The ranks of this node that are stopped. Returns whether this rank is the first one that is not. */
static bool find_stopped(const struct peer_table *peer_table, struct rank_list *stopped)
{
    int first = -1, node = peer_table->node_of_rank[peer_table->rank];
    *stopped = (struct rank_list){.count = 0};
    for (int rank = 0; rank < peer_table->size; rank++) {
        if (peer_table->node_of_rank[rank] != node)
            continue;
        if (rank != peer_table->rank && is_stopped(peer_table, rank))
            add_rank(stopped, peer_table, rank, "is stopped");
        else if (first < 0)
            first = rank;
    }
    return first == peer_table->rank;
}

static bool is_alone(const struct peer_table *peer_table, int rank)
{
    int node = peer_table->node_of_rank[rank], count = 0;
    for (int other = 0; other < peer_table->size && count < 2; other++)
        count += peer_table->node_of_rank[other] == node;
    return count == 1;
}

/* The others that are alone on their nodes: nobody sees whether they are stopped. */
static void find_unseen(const struct peer_table *peer_table, struct rank_list *unseen)
{
    *unseen = (struct rank_list){.count = 0};
    for (int rank = 0; rank < peer_table->size; rank++)
        if (rank != peer_table->rank && is_alone(peer_table, rank))
            add_rank(unseen, peer_table, rank, "may be, alone on its node");
}

/* The node of rank 0, and the next one: all ranks of the first may be stopped. */
static bool is_on_first_nodes(const struct peer_table *peer_table)
{
    int rank = 0;
    while (rank < peer_table->rank && peer_table->node_of_rank[rank] == peer_table->node_of_rank[0])
        rank++;
    int node = peer_table->node_of_rank[peer_table->rank];
    return node == peer_table->node_of_rank[0] || node == peer_table->node_of_rank[rank];
}

static void report(const struct start_watch *start_watch, const struct rank_list *stopped,
                   enum log_level level, const char *option)
{
    struct rank_list unseen = {.count = 0};
    char waited[32], more[32] = "";
    bool seen = stopped->count > 0;
    if (!seen)
        find_unseen(start_watch->env->peer_table, &unseen);
    const struct rank_list *listed = seen ? stopped : &unseen;
    format_time(start_watch->waited_us / 1000000 * 1000000, waited, sizeof(waited));
    if (listed->count > NAMED_RANKS)
        snprintf(more, sizeof(more), "; and %d more", listed->count - NAMED_RANKS);
    log_write(start_watch->env->log, level, "stall",
              "%sthe start of MPI has waited %s for a rank that does not come to it: %s%s%s%s", option,
              waited, seen ? "" : "no rank of this node is stopped", seen || unseen.count == 0 ? "" : "; ",
              listed->names, more);
}

/* ---- The thread ---- */

static void check_start(struct start_watch *start_watch)
{
    const struct hvd_config *config = start_watch->env->config;
    const struct peer_table *peer_table = start_watch->env->peer_table;
    struct rank_list stopped;
    int64_t abort_us = config->kill_wait_us > 0 ? config_hang_limit(config) : 0;
    bool ending = start_watch->end.at_us != INT64_MAX || start_watch->end.signal_number != SIGTERM;
    bool aborts = !ending && abort_us > 0 && start_watch->waited_us >= abort_us;
    bool warns = !ending && config->stall_warn_us > 0 &&
                 repeat_tell(&start_watch->repeat, config->stall_warn_us, start_watch->waited_us);
    if (aborts || warns) {
        /* one rank of each node on which ranks are stopped reports it, and one of each of the first two nodes
         */
        bool says_it =
            find_stopped(peer_table, &stopped) && (stopped.count > 0 || is_on_first_nodes(peer_table));
        if (says_it)
            report(start_watch, &stopped, aborts ? LOG_ERROR : LOG_WARN,
                   !aborts                             ? ""
                   : abort_us == config->hang_abort_us ? "hang-abort: "
                                                       : "stall-abort: ");
        if (aborts)
            start_watch->end.at_us = clock_us() + (says_it ? 0 : FOLLOW_US);
    }
    process_end_check(&start_watch->end, start_watch->env->log, "MPI's start cannot be given up");
}

static void *watch(void *opaque)
{
    struct start_watch *start_watch = opaque;
    pthread_mutex_lock(&start_watch->lock);
    while (!start_watch->over) {
        int64_t begin_us = clock_us(), until_us = begin_us + SLICE_US;
        const struct timespec until = clock_timespec(until_us);
        pthread_cond_timedwait(&start_watch->changed, &start_watch->lock, &until);
        int64_t slept_us = clock_us() - begin_us;
        start_watch->waited_us += slept_us < 2 * SLICE_US ? slept_us : 2 * SLICE_US;
        if (!start_watch->over)
            check_start(start_watch);
    }
    pthread_mutex_unlock(&start_watch->lock);
    return NULL;
}

struct start_watch *start_watch_begin(const struct backend_env *env)
{
    pthread_condattr_t monotonic;
    if (env->config->stall_warn_us == 0 && config_hang_limit(env->config) == 0)
        return NULL;
    struct start_watch *start_watch = calloc(1, sizeof(*start_watch));
    if (start_watch == NULL)
        return NULL;
    start_watch->env = env;
    process_end_init(&start_watch->end);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&start_watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&start_watch->lock, NULL);
    if (stack_create_thread(&start_watch->thread, watch, start_watch) == 0)
        return start_watch;
    log_write(env->log, LOG_WARN, "stall", "no thread to watch the start of MPI");
    pthread_cond_destroy(&start_watch->changed);
    pthread_mutex_destroy(&start_watch->lock);
    free(start_watch);
    return NULL;
}

void start_watch_end(struct start_watch *start_watch)
{
    if (start_watch == NULL)
        return;
    pthread_mutex_lock(&start_watch->lock);
    start_watch->over = true;
    pthread_cond_signal(&start_watch->changed);
    pthread_mutex_unlock(&start_watch->lock);
    pthread_join(start_watch->thread, NULL);
    pthread_cond_destroy(&start_watch->changed);
    pthread_mutex_destroy(&start_watch->lock);
    free(start_watch);
}
