/* worker.c: a program for faults to hit: one rank of a job that does random operations and checks each
 * result. `worker SEED COUNT SIZE FILE [STRIKE]`: about COUNT operations, which follow from SEED as in
 * property.c, on SIZE ranks. FILE has a `struct progress` for each rank, in which the rank says what it does
 * just now. STRIKE is RANK:OPERATION:WHERE:SIGNAL or RANK:OPERATION:WHERE:xSTATUS: this rank gets the signal,
 * or exits, at that operation, where WHERE is before, flight or callback. With CHAOS_FRESH in the environment
 * no name of a tensor comes again. Exits with 0 when all results were
 * right, with 1 where one was wrong, and with 3 where hvd reported a failure, which is written as one line to
 * standard error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../run/perform.h"

#define LARGE   100000
#define PENDING 24

/* The purposes of streams of random numbers, besides those of a plan. */
enum { FOR_PATH = 200, FOR_LEAVING };

/* What a rank is doing; chaos/job.py reads it. */
enum phase { PHASE_NONE, PHASE_START, PHASE_SETS, PHASE_RUN, PHASE_JOIN, PHASE_LEAVE, PHASE_OVER };

struct progress {
    _Atomic int pid;
    _Atomic int phase;
    _Atomic int kind;       /* RUN: 1 + the plan_kind that was submitted last */
    _Atomic int operations; /* that were submitted */
    int unused[12];
};

enum where { WHERE_BEFORE, WHERE_FLIGHT, WHERE_CALLBACK };

struct strike {
    int rank; /* -1: nobody */
    int operation;
    enum where where;
    int signal;
    int exit_status;
};

struct worker {
    struct op_plan plan;
    int rank;
    uint64_t seed;
    struct progress *progress;
    struct strike strike;
    bool fresh; /* no operation has the name of an earlier one */
    struct random_stream draws;
    struct op_run works[PLAN_MAX_ROUND];
    struct op_run *pending[PENDING]; /* submitted, not waited for */
    int pending_count;
};

static struct worker worker;

/* ---- What is told to the driver ---- */

static void enter(enum phase phase)
{
    worker.progress->phase = (int)phase;
}

/* hvd reported a failure: say so as a training script would, and leave, with or without a shutdown. */
static void __attribute__((noreturn)) told(enum hvd_status status, const struct plan_op *op, const char *what)
{
    char text[2000];
    char sentence[1000];
    snprintf(sentence, sizeof(sentence), "%s", hvd_error_text());
    snprintf(text, sizeof(text), "%s", what);
    if (op != NULL)
        plan_write(&worker.plan, op, text, sizeof(text));
    fprintf(stderr, "worker: rank %d: told %d: %s (in %s)\n", worker.rank, status, sentence, text);
    fflush(NULL);
    struct random_stream draws = random_stream_of(worker.seed, FOR_LEAVING, (uint64_t)worker.rank);
    if (random_stream_chance(&draws, 50))
        hvd_shutdown();
    _exit(3);
}

static void must(enum hvd_status status, const struct plan_op *op, const char *what)
{
    if (status != HVD_OK)
        told(status, op, what);
}

/* ---- Faults of its own ---- */

static void strike_at(const struct plan_op *op, enum where where)
{
    const struct strike *strike = &worker.strike;
    if (strike->rank != worker.rank || strike->operation != op->number || strike->where != where)
        return;
    worker.strike.rank = -1;
    if (strike->signal == 0)
        _exit(strike->exit_status);
    raise(strike->signal);
}

static int number_after_colon(char **text)
{
    char *colon = strchr(*text, ':');
    *text = colon == NULL ? *text + strlen(*text) : colon + 1;
    return (int)strtol(*text, NULL, 10);
}

static struct strike read_strike(char *text)
{
    static const char *const words[] = {"before", "flight", "callback"};
    struct strike strike = {.rank = (int)strtol(text, NULL, 10)};
    strike.operation = number_after_colon(&text);
    number_after_colon(&text);
    for (int i = 0; i < 3; i++) {
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            strike.where = (enum where)i;
    }
    strike.signal = number_after_colon(&text);
    if (text[0] == 'x')
        strike.exit_status = (int)strtol(text + 1, NULL, 10);
    return strike;
}

/* ---- Operations ---- */

static void on_done(enum hvd_status status, void *arg)
{
    struct op_run *work = arg;
    strike_at(work->op, WHERE_CALLBACK);
    work->status = status;
    work->calls++;
}

static void wait_for(struct op_run *work)
{
    if (work->finished)
        return;
    must(hvd_wait(work->handle), work->op, "");
    if (work->calls != 1 || work->status != HVD_OK)
        perform_fail(work->plan, work->op, "hvd_wait came back, after %d callbacks with status %d",
                     work->calls, work->status);
    perform_finish(work);
    work->finished = true;
}

static void wait_for_all(void)
{
    for (int i = 0; i < worker.pending_count; i++)
        wait_for(worker.pending[i]);
    worker.pending_count = 0;
}

static void submit(struct op_run *work)
{
    worker.progress->kind = 1 + (int)work->op->kind;
    strike_at(work->op, WHERE_BEFORE);
    must(perform_async(work, true, on_done), work->op, "");
    strike_at(work->op, WHERE_FLIGHT);
    worker.progress->operations++;
}

/* Submit an operation, and sometimes wait for some of those before it. All ranks submit in the same order, so
 * that any may be waited for. */
static void run_operation(struct op_run *work)
{
    if (work->op->after >= 0)
        wait_for(&worker.works[work->op->after]);
    submit(work);
    worker.pending[worker.pending_count++] = work;
    if (worker.pending_count == PENDING || random_stream_chance(&worker.draws, 10))
        wait_for_all();
    else if (random_stream_chance(&worker.draws, 20))
        wait_for(worker.pending[random_stream_below(&worker.draws, worker.pending_count)]);
}

static void add_set(const struct plan_op *op)
{
    struct plan_set *set = &worker.plan.sets[op->set];
    hvd_set number = -1;
    enum hvd_status status = hvd_set_add(set->ranks, set->count, &number);
    if (op->twin < 0 || status != HVD_ERR_DUPLICATE)
        must(status, op, "");
    if (op->twin < 0)
        set->number = number;
    if (number != set->number || hvd_set_size(number) != set->count)
        perform_fail(&worker.plan, op, "hvd_set_add: the set is %d, of %d ranks", number,
                     hvd_set_size(number));
}

/* Do this rank's steps, join, and do the step after the join. */
static void run_join(const struct plan_op *join)
{
    const struct plan_set *set = &worker.plan.sets[join->set];
    int steps = plan_steps(&worker.plan, join, worker.rank);
    int last = -1;
    for (int i = 0; i <= join->most_steps; i++) {
        struct op_run work;
        struct plan_op step;
        if (i == steps) {
            strike_at(join, WHERE_BEFORE);
            must(hvd_join(set->number, &last), join, "");
            i = join->most_steps;
        }
        plan_step(&worker.plan, join, i, &step);
        perform_prepare(&work, &worker.plan, &step, &worker.draws);
        must(perform_plain(&work), &step, "");
        perform_finish(&work);
    }
    if (op_plan_member(set, last) < 0)
        perform_fail(&worker.plan, join, "rank %d is said to have joined last", last);
}

static void run_ordered(struct op_run *work)
{
    const struct plan_op *op = work->op;
    wait_for_all();
    enter(op->kind == PLAN_JOIN ? PHASE_JOIN : PHASE_SETS);
    if (op->kind == PLAN_SET_ADD)
        add_set(op);
    else if (op->kind == PLAN_SET_REMOVE)
        must(hvd_set_remove(worker.plan.sets[op->set].number), op, "");
    else
        run_join(op);
    enter(PHASE_RUN);
}

/* Give each tensor of the round a name that no other one ever has. */
static void name_afresh(void)
{
    for (int i = 0; i < worker.plan.op_count; i++) {
        struct plan_op *op = &worker.plan.ops[i];
        for (int j = 0; j < op->tensor_count; j++)
            snprintf(op->tensors[j].name, sizeof(op->tensors[j].name), "fresh %d.%d", op->number, j);
    }
}

static void run_round(void)
{
    memset(worker.works, 0, sizeof(worker.works));
    plan_round(&worker.plan);
    if (worker.fresh)
        name_afresh();
    for (int i = 0; i < worker.plan.op_count; i++) {
        const struct plan_op *op = &worker.plan.ops[i];
        struct op_run *work = &worker.works[i];
        bool changes_sets = op->kind == PLAN_SET_ADD || op->kind == PLAN_SET_REMOVE;
        if (!changes_sets && op_plan_member(&worker.plan.sets[op->set], worker.rank) < 0)
            continue;
        perform_prepare(work, &worker.plan, op, &worker.draws);
        if (op->kind >= PLAN_SET_ADD)
            run_ordered(work);
        else
            run_operation(work);
    }
    wait_for_all();
}

/* Are there more rounds to do? */
static bool goes_on(int count)
{
    int stop = 0;
    if (count > 0)
        return worker.plan.next_number < count;
    must(hvd_should_stop(&stop), NULL, "hvd_should_stop");
    return stop == 0;
}

/* ---- The program ---- */

static int launcher_rank(void)
{
    static const char *const names[] = {"PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "RANK"};
    for (int i = 0; i < 4; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL)
            return (int)strtol(text, NULL, 10);
    }
    return 0;
}

static struct progress *open_progress(const char *path, int size)
{
    int fd = open(path, O_RDWR);
    size_t bytes = (size_t)size * sizeof(struct progress);
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "worker: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    close(fd);
    return (struct progress *)memory + worker.rank;
}

/* Join the job, and make the first sets, by hvd_init_with or one by one. */
static void start(int size)
{
    struct hvd_ranks lists[PLAN_MAX_SETS];
    struct hvd_start how = {.sets = lists};
    bool with = (worker.seed & 1) != 0;
    enter(PHASE_START);
    plan_init(&worker.plan, worker.seed, size);
    for (int i = 1; i < PLAN_MAX_SETS && worker.plan.sets[i].lives; i++)
        lists[how.set_count++] = (struct hvd_ranks){worker.plan.sets[i].ranks, worker.plan.sets[i].count};
    must(with ? hvd_init_with(&how) : hvd_init(), NULL, "hvd_init");
    if (hvd_rank() != worker.rank || hvd_size() != size)
        perform_fail(&worker.plan, NULL, "rank %d of %d", hvd_rank(), hvd_size());
    enter(PHASE_SETS);
    for (int i = 1; i <= how.set_count; i++) {
        hvd_set number = i;
        if (!with)
            must(hvd_set_add(worker.plan.sets[i].ranks, worker.plan.sets[i].count, &number), NULL,
                 "hvd_set_add");
        worker.plan.sets[i].number = number;
    }
}

int main(int argc, char **argv)
{
    const char *large = getenv("CHAOS_LARGE");
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: worker SEED COUNT SIZE FILE [STRIKE]\n");
        return 2;
    }
    worker.seed = strtoull(argv[1], NULL, 0);
    int count = (int)strtol(argv[2], NULL, 0);
    int size = (int)strtol(argv[3], NULL, 0);
    worker.rank = launcher_rank();
    worker.progress = open_progress(argv[4], size);
    worker.progress->pid = getpid();
    worker.strike = (struct strike){.rank = -1};
    if (argc == 6)
        worker.strike = read_strike(argv[5]);
    start(size);
    worker.plan.only = -1;
    worker.plan.add_joins = true;
    worker.fresh = getenv("CHAOS_FRESH") != NULL;
    worker.plan.large = large == NULL ? LARGE : (int)strtol(large, NULL, 0);
    worker.draws = random_stream_of(worker.seed, FOR_PATH, (uint64_t)worker.rank);
    enter(PHASE_RUN);
    while (goes_on(count))
        run_round();
    /* a rank that shuts down ends operations of the others, also in sets that it is not in */
    enter(PHASE_LEAVE);
    must(hvd_barrier(HVD_ALL_RANKS), NULL, "the last barrier");
    must(hvd_shutdown(), NULL, "hvd_shutdown");
    enter(PHASE_OVER);
    return 0;
}
