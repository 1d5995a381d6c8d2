/* property.c: random operations on all ranks of a job, submitted by each rank in its own order and by several
 * threads: `property SEED COUNT [KIND]`. Each result must be the one that a single process computes. The seed
 * decides everything except when threads run. With KIND there are only operations of that kind. In the
 * environment, PROPERTY_LARGE is about how many elements a large tensor has, with PROPERTY_ALLOC most memory
 * is from hvd_alloc, and with PROPERTY_SIGNALS signals come all the time. Exits 0 if all results were right.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/process_signal.h"
#include "gpu_memory.h"
#include "perform.h"

#define LANES         4
#define LARGE         100000
#define LIMIT_SECONDS 30 /* for a round */

/* The purposes of streams of random numbers, besides those of a plan. */
enum { FOR_ROUND = 100, FOR_LANE, FOR_ADD };

/* A thread of a round. To avoid deadlocks, a thread waits for an operation, or blocks in one, only after it
 * has submitted all of its operations of lower numbers. So of the operations that are not done, all ranks
 * will submit the one with the lowest number, however operations are distributed over threads. */
struct lane {
    struct test *test;
    int index;
    pthread_t thread;
    struct random_stream draws;
    struct op_run *works[PLAN_MAX_ROUND]; /* in ascending order of numbers */
    int count;
    struct op_run *waiting[PLAN_MAX_ROUND * 2]; /* submitted, not finished */
    int waiting_count;
    int last; /* the rank that joined last, if ranks join in this round */
};

struct test {
    struct op_plan plan;
    int rank;
    struct op_run works[PLAN_MAX_ROUND];
    struct lane lanes[LANES];
    int lane_count;
    hvd_set highest; /* the highest number that a set has had */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a callback was called or a round has begun */
    int rounds;
    bool over;
};

static struct test test = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void must(const struct op_run *work, enum hvd_status status, const char *what)
{
    if (status != HVD_OK)
        perform_fail(work->plan, work->op, "%s: status %d: %s", what, status, hvd_error_text());
}

/* ---- One operation ---- */

static void on_done(enum hvd_status status, void *arg)
{
    struct op_run *work = arg;
    if (work->next != NULL && work->next_in_callback && status == HVD_OK)
        must(work->next, perform_async(work->next, false, on_done), "submission in a callback");
    pthread_mutex_lock(&test.lock);
    work->status = status;
    work->calls++;
    pthread_cond_broadcast(&test.changed);
    pthread_mutex_unlock(&test.lock);
}

/* Wait for a submitted operation, in one of the possible ways. */
static void wait_for(struct op_run *work, struct random_stream *draws)
{
    if (work->finished)
        return;
    if (work->handle != 0) {
        enum hvd_status seen = HVD_IN_PROGRESS;
        for (int i = (int)random_stream_below(draws, 4); i > 0; i--)
            seen = hvd_test(work->handle);
        if (random_stream_chance(draws, 20)) {
            for (; seen == HVD_IN_PROGRESS; sched_yield())
                seen = hvd_test(work->handle);
        }
        if (seen != HVD_IN_PROGRESS)
            must(work, seen, "hvd_test");
        must(work, hvd_wait(work->handle), "hvd_wait");
        if (work->has_callback && work->calls != 1)
            perform_fail(work->plan, work->op,
                         "hvd_wait came back, and the callback had been called %d times", work->calls);
    } else {
        pthread_mutex_lock(&test.lock);
        while (work->calls == 0)
            pthread_cond_wait(&test.changed, &test.lock);
        pthread_mutex_unlock(&test.lock);
    }
    if (work->has_callback)
        must(work, (enum hvd_status)work->status, "the callback's status");
    perform_finish(work);
}

static void begin(struct lane *lane, struct op_run *work)
{
    int way = (int)random_stream_below(&lane->draws, 3);
    work->has_callback = way != 0 || work->next_in_callback;
    must(work, perform_async(work, way != 1, work->has_callback ? on_done : NULL), "submission");
    lane->waiting[lane->waiting_count++] = work;
    if (work->next_in_callback) {
        for (work = work->next; work != NULL; work = work->next)
            lane->waiting[lane->waiting_count++] = work;
    }
}

static void poll_one(struct lane *lane)
{
    struct op_run *work = lane->waiting[random_stream_below(&lane->draws, lane->waiting_count)];
    if (lane->waiting_count == 0 || work->handle == 0 || work->finished)
        return;
    enum hvd_status status = hvd_test(work->handle);
    if (status != HVD_IN_PROGRESS)
        must(work, status, "hvd_test");
}

/* ---- Sets ---- */

static void check_set(const struct op_plan *plan, const struct plan_op *op, const struct plan_set *set)
{
    int ranks[PLAN_MAX_RANKS];
    int member = op_plan_member(set, test.rank);
    int count = hvd_set_ranks(set->number, ranks, PLAN_MAX_RANKS);
    if (member < 0) {
        if (hvd_set_rank(set->number) != -1)
            perform_fail(plan, op, "set %d: this rank is member %d, and should be none", set->number,
                         hvd_set_rank(set->number));
        return;
    }
    if (hvd_set_rank(set->number) != member || hvd_set_size(set->number) != set->count ||
        count != set->count || memcmp(ranks, set->ranks, (size_t)count * sizeof(ranks[0])) != 0)
        perform_fail(plan, op, "set %d: member %d of %d, expected %d of %d", set->number,
                     hvd_set_rank(set->number), hvd_set_size(set->number), member, set->count);
}

static void check_sets(const struct op_plan *plan)
{
    hvd_set sets[PLAN_MAX_SETS + 1];
    int living = 0;
    int count = hvd_set_list(sets, PLAN_MAX_SETS + 1);
    for (int i = 0; i < PLAN_MAX_SETS; i++) {
        int k = 0;
        if (!plan->sets[i].lives)
            continue;
        living++;
        while (k < count && sets[k] != plan->sets[i].number)
            k++;
        if (k == count)
            perform_fail(plan, NULL, "set %d is not in the list", plan->sets[i].number);
        check_set(plan, NULL, &plan->sets[i]);
    }
    if (count != living || sets[0] != HVD_ALL_RANKS)
        perform_fail(plan, NULL, "%d sets, the first of them %d; expected %d", count, sets[0], living);
}

static void add_set(const struct op_run *work)
{
    const struct plan_op *op = work->op;
    struct plan_set *set = &test.plan.sets[op->set];
    struct random_stream draws =
        random_stream_of(test.plan.seed, FOR_ADD, (uint64_t)(op->number << 8 | test.rank));
    int ranks[PLAN_MAX_RANKS];
    hvd_set number = -1;
    for (int i = 0; i < set->count; i++) { /* each rank lists the members in its own random order */
        int at = (int)random_stream_below(&draws, i + 1);
        ranks[i] = ranks[at];
        ranks[at] = set->ranks[i];
    }
    enum hvd_status status = hvd_set_add(ranks, set->count, &number);
    if (status != (op->twin < 0 ? HVD_OK : HVD_ERR_DUPLICATE))
        perform_fail(work->plan, op, "hvd_set_add: status %d: %s", status, hvd_error_text());
    if (op->twin >= 0 ? number != set->number : number <= test.highest)
        perform_fail(work->plan, op, "hvd_set_add: the set is %d", number);
    if (op->twin < 0)
        set->number = test.highest = number;
    check_set(work->plan, op, set);
}

static void remove_set(const struct op_run *work)
{
    hvd_set number = test.plan.sets[work->op->set].number;
    must(work, hvd_set_remove(number), "hvd_set_remove");
    if (hvd_set_size(number) != -1 || hvd_set_rank(number) != -1)
        perform_fail(work->plan, work->op, "set %d is still there", number);
}

/* ---- Joins ---- */

/* Join, then do the first operation after the join; sometimes submit that before the others have joined. */
static void join_set(struct lane *lane, struct op_run *work)
{
    const struct plan_set *set = &test.plan.sets[work->op->set];
    struct plan_op next_op;
    struct op_run next;
    int last = -1;
    hvd_handle handle = 0;
    plan_step(&test.plan, work->op, work->op->most_steps, &next_op);
    perform_prepare(&next, &test.plan, &next_op, &lane->draws);
    if (random_stream_chance(&lane->draws, 50)) {
        must(work, hvd_join(set->number, &last), "hvd_join");
        must(&next, perform_async(&next, true, NULL), "behind a join");
    } else {
        must(work, hvd_join_async(set->number, &last, NULL, NULL, &handle), "hvd_join_async");
        for (int i = (int)random_stream_below(&lane->draws, 3); i > 0; i--)
            hvd_test(handle);
        must(&next, perform_async(&next, true, NULL), "behind a join");
        must(work, hvd_wait(handle), "hvd_wait of a join");
    }
    if (op_plan_member(set, last) < 0 || plan_steps(&test.plan, work->op, last) != work->op->most_steps)
        perform_fail(work->plan, work->op, "rank %d is said to have joined last", last);
    lane->last = last;
    wait_for(&next, &lane->draws);
}

/* Do this rank's steps, then join. */
static void do_join(struct lane *lane, struct op_run *work)
{
    int steps = plan_steps(&test.plan, work->op, test.rank);
    struct plan_op *ops = calloc((size_t)steps + 1, sizeof(*ops));
    struct op_run *works = calloc((size_t)steps + 1, sizeof(*works));
    for (int i = 0; i < steps; i++) {
        plan_step(&test.plan, work->op, i, &ops[i]);
        perform_prepare(&works[i], &test.plan, &ops[i], &lane->draws);
        if (random_stream_chance(&lane->draws, 50)) {
            must(&works[i], perform_plain(&works[i]), "a step before a join");
            perform_finish(&works[i]);
        } else {
            must(&works[i], perform_async(&works[i], true, NULL), "a step before a join");
        }
    }
    for (int i = steps - 1; i >= 0; i--)
        wait_for(&works[i], &lane->draws);
    join_set(lane, work);
    free(works);
    free(ops);
}

/* ---- A thread of a round ---- */

static bool is_ordered(struct op_run *work)
{
    return work->waits || work->follows || (work->next != NULL && !work->next_in_callback);
}

static void do_ordered(struct lane *lane, struct op_run *work)
{
    switch (work->op->kind) {
    case PLAN_SET_ADD:
        add_set(work);
        break;
    case PLAN_SET_REMOVE:
        remove_set(work);
        break;
    case PLAN_JOIN:
        do_join(lane, work);
        break;
    default:
        if (random_stream_chance(&lane->draws, 70)) {
            must(work, perform_plain(work), "the plain call");
            perform_finish(work);
        } else {
            begin(lane, work);
            if (work->waits || (work->next != NULL && !work->next_in_callback))
                wait_for(work, &lane->draws);
        }
        return;
    }
    work->finished = true;
}

/* Submit some operations of consecutive numbers: first those that need no order, in random order, then the
 * others in ascending order. */
static void do_segment(struct lane *lane, struct op_run **works, int count)
{
    struct op_run *shuffled[PLAN_MAX_ROUND] = {NULL};
    for (int i = 0; i < count; i++) {
        int at = (int)random_stream_below(&lane->draws, i + 1);
        shuffled[i] = shuffled[at];
        shuffled[at] = works[i];
    }
    for (int i = 0; i < count; i++) {
        if (is_ordered(shuffled[i]))
            continue;
        begin(lane, shuffled[i]);
        if (random_stream_chance(&lane->draws, 30))
            poll_one(lane);
        if (random_stream_chance(&lane->draws, 10))
            sched_yield();
    }
    for (int i = 0; i < count; i++) {
        if (is_ordered(works[i]))
            do_ordered(lane, works[i]);
    }
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    bool leave = random_stream_chance(&lane->draws, 30); /* let the main thread wait for the operations */
    for (int from = 0; from < lane->count;) {
        int count = 1 + (int)random_stream_below(&lane->draws, lane->count - from);
        do_segment(lane, &lane->works[from], count);
        for (int i = lane->waiting_count - 1; i >= 0; i--) {
            struct op_run *work = lane->waiting[i];
            if (!work->in_callback && random_stream_chance(&lane->draws, 40))
                wait_for(work, &lane->draws);
        }
        from += count;
    }
    for (int i = 0; i < lane->waiting_count && !leave; i++)
        wait_for(lane->waiting[i], &lane->draws);
    return NULL;
}

/* ---- Rounds ---- */

static void prepare_round(struct random_stream *draws)
{
    test.lane_count = 1 + (int)random_stream_below(draws, LANES);
    for (int i = 0; i < test.lane_count; i++) {
        struct lane *lane = &test.lanes[i];
        lane->index = i;
        lane->count = lane->waiting_count = 0;
        lane->last = -1;
        lane->draws = random_stream_of(test.plan.seed, FOR_LANE, random_stream_next(draws));
    }
    for (int i = 0; i < test.plan.op_count; i++) {
        const struct plan_op *op = &test.plan.ops[i];
        struct op_run *work = &test.works[i];
        bool changes_sets = op->kind == PLAN_SET_ADD || op->kind == PLAN_SET_REMOVE;
        if (!changes_sets && op_plan_member(&test.plan.sets[op->set], test.rank) < 0)
            continue;
        perform_prepare(work, &test.plan, op, draws);
        work->waits = op->kind >= PLAN_SET_ADD || random_stream_chance(draws, 20);
        work->lane = op->kind >= PLAN_SET_ADD ? 0 : (int)random_stream_below(draws, test.lane_count);
        if (op->after >= 0) {
            struct op_run *first = &test.works[op->after];
            first->next = work;
            first->next_in_callback = !first->waits && !first->follows && random_stream_chance(draws, 60);
            first->next_in_callback = first->next_in_callback || first->in_callback;
            work->lane = first->lane;
            work->in_callback = first->next_in_callback;
            work->follows = !work->in_callback;
            work->has_callback = work->in_callback;
        }
        if (!work->in_callback) {
            struct lane *lane = &test.lanes[work->lane];
            lane->works[lane->count++] = work;
        }
    }
}

/* Exchange the members' hashes of their results, which must be equal. */
static void compare_hashes(const struct plan_set *set, uint64_t hash)
{
    uint64_t hashes[PLAN_MAX_RANKS];
    struct hvd_tensor tensor = hvd_vector("hash", NULL, 1, HVD_INT64);
    struct hvd_result result = {0};
    struct hvd_options options = HVD_OPTIONS_INIT;
    tensor.input = &hash;
    options.set = set->number;
    if (hvd_allgather(&tensor, &result, &options) != HVD_OK || result.row_count != set->count)
        perform_fail(&test.plan, NULL, "comparing: %s", hvd_error_text());
    memcpy(hashes, result.data, (size_t)set->count * sizeof(hashes[0]));
    free(result.data);
    for (int i = 1; i < set->count; i++) {
        if (hashes[i] != hashes[0])
            perform_fail(&test.plan, NULL,
                         "round %d: results in set %d have not the same bits on ranks %d and %d", test.rounds,
                         set->number, set->ranks[0], set->ranks[i]);
    }
}

static void compare_ranks(void)
{
    for (int s = 0; s < PLAN_MAX_SETS; s++) {
        const struct plan_set *set = &test.plan.sets[s];
        uint64_t hash = 1;
        if (!set->lives || op_plan_member(set, test.rank) < 0)
            continue;
        for (int i = 0; i < test.plan.op_count; i++) {
            if (test.plan.ops[i].set == s)
                hash = perform_hash(hash, &test.works[i].hash, sizeof(test.works[i].hash));
        }
        if (test.plan.ops[0].kind == PLAN_JOIN && test.plan.ops[0].set == s)
            hash = perform_hash(hash, &test.lanes[0].last, sizeof(test.lanes[0].last));
        compare_hashes(set, hash);
    }
}

static void run_round(void)
{
    struct random_stream draws =
        random_stream_of(test.plan.seed, FOR_ROUND, (uint64_t)(test.rounds << 8 | test.rank));
    struct random_stream agreed =
        random_stream_of(test.plan.seed, FOR_ROUND, (uint64_t)(test.rounds << 8 | 0xff));
    plan_round(&test.plan);
    prepare_round(&draws);
    for (int i = 1; i < test.lane_count; i++) {
        if (pthread_create(&test.lanes[i].thread, NULL, run_lane, &test.lanes[i]) != 0)
            perform_fail(&test.plan, NULL, "no thread");
    }
    run_lane(&test.lanes[0]);
    for (int i = 1; i < test.lane_count; i++)
        pthread_join(test.lanes[i].thread, NULL);
    for (int i = 0; i < test.lane_count; i++) {
        for (int k = 0; k < test.lanes[i].waiting_count; k++)
            wait_for(test.lanes[i].waiting[k], &draws);
    }
    check_sets(&test.plan);
    bool joined = test.plan.op_count > 0 && test.plan.ops[0].kind == PLAN_JOIN;
    if (random_stream_chance(&agreed, 30) || joined)
        compare_ranks();
    memset(test.works, 0, sizeof(test.works));
}

/* ---- The watchdog ---- */

static void report_hang(void)
{
    char text[2000];
    fprintf(stderr, "property: seed %" PRIu64 ", rank %d: round %d did not end in %d s; not finished:\n",
            test.plan.seed, test.rank, test.rounds, LIMIT_SECONDS);
    for (int i = 0; i < test.plan.op_count; i++) {
        const struct op_run *work = &test.works[i];
        if (work->plan == NULL || work->finished)
            continue;
        plan_write(&test.plan, work->op, text, sizeof(text));
        fprintf(stderr, "  rank %d, thread %d%s%s: %s\n", test.rank, work->lane, work->waits ? ", waits" : "",
                work->in_callback ? ", in a callback" : "", text);
    }
    fflush(NULL);
    _exit(3);
}

/* If a round takes too long, print which operations are not finished, and exit. */
static void *watch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&test.lock);
    while (!test.over) {
        struct timespec until;
        int round = test.rounds;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LIMIT_SECONDS;
        int rc = 0;
        while (!test.over && test.rounds == round && rc == 0)
            rc = pthread_cond_timedwait(&test.changed, &test.lock, &until);
        if (!test.over && test.rounds == round)
            report_hang();
    }
    pthread_mutex_unlock(&test.lock);
    return NULL;
}

static void next_round(bool over)
{
    pthread_mutex_lock(&test.lock);
    test.rounds++;
    test.over = over;
    pthread_cond_broadcast(&test.changed);
    pthread_mutex_unlock(&test.lock);
}

/* ---- Signals ---- */

static _Atomic int alarms, others;

/* The other signal goes to whichever thread takes it. */
static void on_signal(int number)
{
    int saved_errno = errno;
    atomic_fetch_add(number == SIGALRM ? &alarms : &others, 1);
    if (number == SIGALRM)
        process_signal_self(SIGUSR2);
    errno = saved_errno;
}

/* From now on system calls are interrupted all the time, by handlers without SA_RESTART. */
static void begin_signals(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void end_signals(void)
{
    static const struct itimerval never;
    setitimer(ITIMER_REAL, &never, NULL);
    if (alarms == 0 || others == 0)
        perform_fail(&test.plan, NULL, "%d and %d signals came; expected some of both", alarms, others);
}

/* ---- The test ---- */

static void init_failed(const char *what)
{
    fprintf(stderr, "property: %s: %s\n", what, hvd_error_text());
    exit(1);
}

/* Start hvd and make the first sets, by hvd_init_with or one by one. */
static void start(uint64_t seed, int size)
{
    struct hvd_ranks lists[PLAN_MAX_SETS];
    struct hvd_start how = {.sets = lists};
    bool with = (seed & 1) != 0;
    plan_init(&test.plan, seed, size);
    for (int i = 1; i < PLAN_MAX_SETS && test.plan.sets[i].lives; i++)
        lists[how.set_count++] = (struct hvd_ranks){test.plan.sets[i].ranks, test.plan.sets[i].count};
    if (getenv("PROPERTY_GPU") != NULL && !gpu_memory_open(gpu_memory_ordinal()))
        exit(1);
    if ((with ? hvd_init_with(&how) : hvd_init()) != HVD_OK)
        init_failed("start");
    test.rank = hvd_rank();
    for (int i = 1; i <= how.set_count; i++) {
        hvd_set number = i;
        if (!with && hvd_set_add(test.plan.sets[i].ranks, test.plan.sets[i].count, &number) != HVD_OK)
            init_failed("hvd_set_add");
        test.plan.sets[i].number = test.highest = number;
    }
    if (hvd_size() != size)
        init_failed("SIZE is not that of the job");
    check_sets(&test.plan);
}

static int find_kind(const char *name)
{
    int kind = 0;
    while (kind < PLAN_BARRIER && strcmp(plan_kind_name((enum plan_kind)kind), name) != 0)
        kind++;
    return kind;
}

int main(int argc, char **argv)
{
    pthread_t watcher;
    const char *large = getenv("PROPERTY_LARGE");
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: property SEED COUNT SIZE [KIND]\n");
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 0);
    int count = (int)strtol(argv[2], NULL, 0);
    bool signals = getenv("PROPERTY_SIGNALS") != NULL;
    if (signals)
        begin_signals();
    start(seed, (int)strtol(argv[3], NULL, 0));
    test.plan.only = argc == 5 ? find_kind(argv[4]) : -1;
    test.plan.add_joins = argc == 4;
    test.plan.large = large == NULL ? LARGE : (int)strtol(large, NULL, 0);
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        init_failed("no thread");
    while (test.plan.next_number < count) {
        run_round();
        next_round(false);
    }
    /* a rank that shuts down ends operations of the others, also in sets that it is not in */
    if (hvd_barrier(HVD_ALL_RANKS) != HVD_OK || hvd_shutdown() != HVD_OK)
        init_failed("leaving");
    if (signals)
        end_signals();
    next_round(true);
    pthread_join(watcher, NULL);
    return 0;
}
