/* find.c: find the ranks of this node: processes that keep a flight record, and those that a launcher started
 * as ranks and that keep none yet. */
#include "config.h"
#include "tools/hvdinfo/ps/find.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/env.h"
#include "base/launch_variables.h"
#include "base/process_stat.h"
#include "options/parse.h"
#include "options/slurm_step.h"
#include "tools/hvdinfo/ps/pace.h"
#include "tools/hvdinfo/ps/process.h"

/* Slurm's name of the node. */
#define NODE_VARIABLE "SLURMD_NODENAME"

#define CUT_OFF_US INT64_C(1000000)

/* A process that may be a rank. */
struct rank_candidate {
    struct rank rank;
    pid_t parent;
    char mark[PROCESS_MARK_BYTES];
    bool has_record;
};

struct rank_search {
    const char *job;
    bool slurm; /* it is no process */
    char node[RANK_NODE_BYTES];
    struct rank_candidate *list;
    int count, capacity;
    struct stuck_sockets *stuck;
};

/* ---- Of which job -------------------------------------------------------------------------------- */

static void copy_printable(const char *from, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", from);
    for (char *at = text; *at != 0; at++)
        *at = is_printable_byte((unsigned char)*at) ? *at : '?';
}

static bool is_named(pid_t pid, const char *name)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(text, sizeof(text), file) != NULL;
    if (file != NULL)
        fclose(file);
    text[strcspn(text, "\n")] = 0;
    return read && strcmp(text, name) == 0;
}

static pid_t parent_of(pid_t pid)
{
    struct process_stat stat;
    return process_stat_read(pid, &stat) ? stat.parent : 0;
}

/* The hvdrun that started it, which has a child between; 0: none. */
static pid_t hvdrun_of(pid_t pid)
{
    pid_t found = 0;
    for (int depth = 0; pid > 1 && depth < 64; depth++, pid = parent_of(pid)) {
        bool is_hvdrun = is_named(pid, "hvdrun");
        if (found != 0 && !is_hvdrun)
            break;
        if (is_hvdrun)
            found = pid;
    }
    return found;
}

static bool descends_from(pid_t pid, int64_t ancestor)
{
    for (int depth = 0; pid > 0 && depth < 64; depth++, pid = parent_of(pid)) {
        if (pid == ancestor)
            return true;
    }
    return false;
}

/* The job as its launcher knows it. Only Slurm's steps have a name that their user has seen. */
static void name_job(const struct ps_process *process, struct rank *rank)
{
    const char *nspace = process_variable(process, "PMIX_NAMESPACE");
    const char *slurm_job = process_variable(process, "SLURM_JOB_ID");
    const char *step = process_variable(process, "SLURM_STEP_ID");
    const char *address = process_variable(process, MASTER_ADDR_VARIABLE);
    const char *port = process_variable(process, MASTER_PORT_VARIABLE);
    pid_t launcher = hvdrun_of(process->pid);
    if (slurm_job != NULL && step != NULL && slurm_step_is_users(process->environment)) {
        snprintf(rank->key, sizeof(rank->key), RANK_STEP_KEY "%s.%s", slurm_job, step);
        copy_printable(rank->key + strlen(RANK_STEP_KEY), rank->job, sizeof(rank->job));
        return;
    }
    if (nspace != NULL)
        snprintf(rank->key, sizeof(rank->key), "pmix %s", nspace);
    else if (rank->size > 1 && address != NULL && port != NULL)
        snprintf(rank->key, sizeof(rank->key), "at %s %s", address, port);
    else
        snprintf(rank->key, sizeof(rank->key), "alone %d", (int)process->pid);
    if (launcher == 0)
        launcher = rank->size > 1 ? process->parent : process->pid;
    snprintf(rank->job, sizeof(rank->job), "%d", (int)launcher);
}

/* Several nodes may show each other's processes, as with several slurmd on one machine. */
static bool is_of_other_node(const struct rank_search *search, const struct ps_process *process)
{
    const char *own = environment_value(NULL, NODE_VARIABLE);
    const char *node = process_variable(process, NODE_VARIABLE);
    return search->slurm && own != NULL && node != NULL && strcmp(own, node) != 0;
}

/* Is it of the job that was asked for? */
static bool is_wanted(const struct rank_search *search, const struct ps_process *process,
                      const struct rank *rank)
{
    const char *job = search->job;
    if (is_of_other_node(search, process))
        return false;
    const char *slurm_job = process_variable(process, "SLURM_JOB_ID");
    if (job == NULL || strcmp(job, rank->job) == 0 || (slurm_job != NULL && strcmp(job, slurm_job) == 0))
        return true;
    int64_t pid = search->slurm ? -1 : parse_count_or(job, -1);
    return pid > 0 && descends_from(process->pid, pid);
}

/* ---- One process --------------------------------------------------------------------------------- */

static int variable_number(const struct ps_process *process, const char *const *names)
{
    for (; *names != NULL; names++) {
        int64_t number = parse_count_or(process_variable(process, *names), -1);
        if (number >= 0 && number <= INT_MAX)
            return (int)number;
    }
    return -1;
}

/* Before it has a record, its launcher says which rank it is. */
static void read_place(const struct ps_process *process, struct rank *rank)
{
    static const char *const ranks[] = {"PMIX_RANK",    "PMI_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID", "RANK",     NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS", NULL};
    static const char *const restarts[] = {RESTART_VARIABLE, NULL};
    int number = variable_number(process, ranks);
    int size = variable_number(process, sizes);
    rank->rank = number < 0 ? 0 : number;
    rank->size = size < 1 ? 1 : size;
    rank->is_newcomer = launch_is_newcomer(process->environment);
    int again = variable_number(process, restarts);
    rank->restarts = again < 0 ? 0 : again;
}

static int read_flight(struct flight *flight, struct rank *rank)
{
    rank->phase_us = atomic_load(&flight->phase_us);
    rank->phase = (enum flight_phase)atomic_load(&flight->phase);
    if (rank->phase > FLIGHT_LEAVES)
        rank->phase = FLIGHT_NO_PHASE;
    rank->left = atomic_load(&flight->left) != 0;
    rank->waits = atomic_load(&flight->waiting) > 0;
    rank->submitted = atomic_load(&flight->last);
    for (int i = 0; i < FLIGHT_SET_WORDS; i++)
        rank->sets[i] = atomic_load(&flight->sets[i]);
    if (flight->rank.rank >= 0 && flight->rank.size > flight->rank.rank) {
        rank->rank = flight->rank.rank;
        rank->size = flight->rank.size;
        rank->first = flight->rank.first;
        rank->epoch = flight->rank.epoch;
        memcpy(rank->host, flight->rank.host, sizeof(flight->rank.host));
    }
    flight_read_totals(&flight->sums, &rank->totals);
    rank->operations = calloc(FLIGHT_SLOTS, sizeof(*rank->operations));
    if (rank->operations == NULL)
        return HVD_ERR_NO_MEMORY;
    rank->operation_count = flight_read(flight, rank->operations);
    return HVD_OK;
}

/* Times that no clock shows, as a program may write them, are now. */
static void check_times(struct rank *rank)
{
    if (rank->phase_us < 0 || rank->phase_us > rank->read_us)
        rank->phase_us = rank->read_us;
}

/* Does it wait for longer than a connection that works may take? */
static bool may_be_cut_off(const struct rank *rank)
{
    if (rank->phase == FLIGHT_STARTS)
        return rank->read_us - rank->phase_us > CUT_OFF_US;
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *operation = &rank->operations[i];
        if (operation->step != TRACE_DONE && rank->read_us - flight_step_us(operation) > CUT_OFF_US)
            return true;
    }
    return false;
}

static struct rank_candidate *add_candidate(struct rank_search *search)
{
    if (search->count == search->capacity) {
        int capacity = search->capacity == 0 ? 16 : 2 * search->capacity;
        struct rank_candidate *list = realloc(search->list, (size_t)capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        search->list = list;
        search->capacity = capacity;
    }
    struct rank_candidate *candidate = &search->list[search->count++];
    memset(candidate, 0, sizeof(*candidate));
    return candidate;
}

/* It was started as a rank, but is only the one who asks, here or on another node that shows its processes,
 * or a shell around it. */
static bool is_asking(pid_t pid)
{
    return is_named(pid, "hvdinfo") || descends_from(getpid(), pid);
}

static int look_at(struct rank_search *search, const struct ps_process *process)
{
    char mark[PROCESS_MARK_BYTES];
    struct flight *flight = process_read_flight(process);
    process_mark(process, mark);
    if (flight == NULL && (mark[0] == 0 || is_asking(process->pid)))
        return HVD_OK;
    struct rank_candidate *candidate = add_candidate(search);
    int rc = candidate == NULL ? HVD_ERR_NO_MEMORY : HVD_OK;
    if (rc == HVD_OK) {
        struct rank *rank = &candidate->rank;
        read_place(process, rank);
        rank->phase_us = process_start_us(process);
        if (flight != NULL)
            rc = read_flight(flight, rank);
        rank->read_us = clock_us();
        check_times(rank);
        rank->pace = pace_of(rank, flight == NULL ? NULL : &flight->sums);
        const char *node = process_variable(process, NODE_VARIABLE);
        copy_printable(node == NULL ? search->node : node, rank->node, sizeof(rank->node));
        process_describe(process, rank);
        if (may_be_cut_off(rank))
            stuck_sockets_find(search->stuck, process->pid, rank->unreached, sizeof(rank->unreached));
        name_job(process, rank);
        candidate->has_record = flight != NULL;
        candidate->parent = process->parent;
        memcpy(candidate->mark, mark, sizeof(mark));
        if (!is_wanted(search, process, rank)) {
            free(rank->operations);
            search->count--;
        }
    }
    free(flight);
    return rc;
}

/* ---- All processes ------------------------------------------------------------------------------- */

/* Is it a rank? Of the processes of a rank without a record, the one that the launcher started stands for
 * them. */
static bool is_rank(const struct rank_search *search, const struct rank_candidate *candidate)
{
    if (candidate->has_record)
        return true;
    for (int i = 0; i < search->count; i++) {
        const struct rank_candidate *other = &search->list[i];
        if (other == candidate || strcmp(other->mark, candidate->mark) != 0)
            continue;
        if (other->has_record || other->rank.pid == candidate->parent)
            return false;
    }
    return true;
}

static int collect(struct rank_search *search, struct ranks *ranks)
{
    for (int i = 0; i < search->count; i++) {
        struct rank_candidate *candidate = &search->list[i];
        if (!is_rank(search, candidate))
            continue;
        struct rank *rank = ranks_add(ranks);
        if (rank == NULL)
            return HVD_ERR_NO_MEMORY;
        *rank = candidate->rank;
        candidate->rank.operations = NULL; /* taken */
    }
    return HVD_OK;
}

static int look_at_number(struct rank_search *search, pid_t pid)
{
    struct ps_process process;
    if (!process_open(&process, pid))
        return HVD_OK;
    int rc = look_at(search, &process);
    process_close(&process);
    return rc;
}

static int look_at_all(struct rank_search *search, struct hvd_error *err)
{
    int rc = HVD_OK;
    pid_t own = getpid();
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return error_set_errno(err, "/proc cannot be read");
    const struct dirent *entry = readdir(dir);
    for (; rc == HVD_OK && entry != NULL; entry = readdir(dir)) {
        int64_t pid = parse_count_or(entry->d_name, 0);
        if (pid > 0 && pid <= INT_MAX && pid != own)
            rc = look_at_number(search, (pid_t)pid);
    }
    closedir(dir);
    return rc;
}

/* ---- Again and again ----------------------------------------------------------------------------- */

/* Where memory ran out, all are looked at the next time too. */
static void remember(struct find_memory *memory, const struct rank_search *search)
{
    free(memory->pids);
    memory->count = 0;
    memory->pids = calloc((size_t)search->count + 1, sizeof(*memory->pids));
    if (memory->pids == NULL)
        return;
    for (int i = 0; i < search->count; i++)
        memory->pids[memory->count++] = search->list[i].rank.pid;
    memory->looked_us = clock_us();
}

static int look_again(struct rank_search *search, const struct find_memory *memory)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < memory->count; i++)
        rc = look_at_number(search, memory->pids[i]);
    return rc;
}

void find_memory_free(struct find_memory *memory)
{
    free(memory->pids);
    stuck_sockets_free(&memory->stuck);
    *memory = (struct find_memory){0};
}

int find_ranks(const char *job, bool slurm, struct find_memory *memory, struct ranks *ranks,
               struct hvd_error *err)
{
    struct rank_search search = {.job = job, .slurm = slurm, .stuck = &memory->stuck};
    bool again = memory->pids != NULL && clock_us() - memory->looked_us < FIND_MEMORY_US;
    gethostname(search.node, sizeof(search.node) - 1);
    int rc = again ? look_again(&search, memory) : look_at_all(&search, err);
    if (rc == HVD_OK && !again)
        remember(memory, &search);
    if (rc == HVD_OK)
        rc = collect(&search, ranks);
    for (int i = 0; i < search.count; i++)
        free(search.list[i].rank.operations);
    free(search.list);
    ranks->now_us = clock_us();
    return rc == HVD_ERR_NO_MEMORY ? error_set(err, rc, "no memory for the ranks of this node") : rc;
}
