/* elastic_state.c: training by hvd_elastic_run: `elastic_state INTERVAL SLOT@STEP:WORD...`.
 *
 * Integers are trained, so that the sums over any number of ranks are exact, and each step is compared with
 * what a single process computes. All ranks commit after every INTERVAL steps. WORD is what the process with
 * rank SLOT at the start does in step STEP, unless it was started again:
 *
 * - kill: it kills itself before the step's allreduce;
 * - commit: it kills itself instead of the commit after the step, while the others save theirs;
 * - split: the same, but of the others only the first rank saves a commit;
 * - reset: it kills itself at the start of the second epoch, before the state is synchronised (in any step);
 * - forget: it loses its state when the ranks part (in any step), and joins again like a new process;
 * - grow: all ranks part before the step, as for new ranks (name each of them);
 * - hostsN: before the step it writes "localhost:N" into the file that ELASTIC_HOSTS names;
 * - news: all ranks wait before the step until new ranks have come, or one is lost (name each of them);
 * - part: it adds a part to the state that the others do not have (in step 0);
 * - written: it waits before the step until a commit is on disk: of later ones only the last may be written;
 * - fail: it returns an error of its own (name each of them);
 * - leave: it kills itself in place of leaving the job (in step 40, after the last);
 * - launcher: it kills hvdrun, whose process id is in the file that ELASTIC_LAUNCHER names, as soon as two
 *   commits are on disk, and waits to be ended.
 *
 * Rank 0 prints where each epoch begins, the longest time from the end of one to the first step of the next,
 * and the end. */
#include <signal.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "ranks.h"

enum { STEPS = 40, ELEMENTS = 100, BATCH = 24, MOST_EVENTS = 8 };

static struct event {
    int step;
    char word[16];
    bool over;
} events[MOST_EVENTS]; /* of this process */
static int event_count;

/* The state. Elements of weights depend on all earlier steps. */
static int64_t weights[ELEMENTS];
static int64_t steps;

static int slot;
static int interval; /* steps between commits */
static int64_t expected[STEPS + 1][ELEMENTS];
static int commit_step = -1, split_step = -1; /* of any rank, in its first epoch */
static int epochs;                            /* that have begun */
static int64_t parted_us;                     /* when the last one has ended; 0: a step was done since */
static int64_t longest_us;

static void read_events(int argc, char **argv)
{
    interval = (int)strtol(argc > 1 ? argv[1] : "0", NULL, 10);
    if (interval < 1)
        ranks_fail("expected the steps between commits");
    for (int i = 2; i < argc; i++) {
        int victim = -1, at = -1;
        char word[16] = "";
        if (sscanf(argv[i], "%d@%d:%15s", &victim, &at, word) != 3 || event_count == MOST_EVENTS)
            ranks_fail("%s: expected SLOT@STEP:WORD", argv[i]);
        if (is_started_again())
            continue;
        if (strcmp(word, "commit") == 0)
            commit_step = at;
        if (strcmp(word, "split") == 0)
            split_step = at;
        if (victim == slot) {
            events[event_count] = (struct event){.step = at};
            snprintf(events[event_count++].word, sizeof(word), "%s", word);
        }
    }
}

/* Does this process do [word] in the step that comes next? Once. */
static bool does(const char *word)
{
    for (int i = 0; i < event_count; i++)
        if (!events[i].over && events[i].step == steps && strcmp(events[i].word, word) == 0)
            return events[i].over = true;
    return false;
}

/* A step of the model: the gradient is a sum over samples. */
static int64_t gradient_of(int64_t weight, int64_t step, int element, int sample)
{
    return (weight * (sample + 1) + step * 31 + element) % 1009;
}

static void add_samples(int first, int end, int64_t *gradient)
{
    memset(gradient, 0, ELEMENTS * sizeof(*gradient));
    for (int i = 0; i < ELEMENTS; i++)
        for (int sample = first; sample < end; sample++)
            gradient[i] += gradient_of(weights[i], steps, i, sample);
}

static void descend(const int64_t *gradient)
{
    for (int i = 0; i < ELEMENTS; i++)
        weights[i] = (weights[i] * 3 + gradient[i]) % 1000003;
    steps++;
}

static void begin_weights(int64_t seed)
{
    steps = 0;
    for (int i = 0; i < ELEMENTS; i++)
        weights[i] = (i + 1) * seed;
}

/* What a single process computes. */
static void train_alone(void)
{
    int64_t gradient[ELEMENTS];
    begin_weights(17);
    memcpy(expected[0], weights, sizeof(weights));
    while (steps < STEPS) {
        add_samples(0, BATCH, gradient);
        descend(gradient);
        memcpy(expected[steps], weights, sizeof(weights));
    }
}

static void check_state(const char *when)
{
    if (steps < 0 || steps > STEPS)
        ranks_fail("%s: %d steps are done", when, (int)steps);
    for (int i = 0; i < ELEMENTS; i++)
        if (weights[i] != expected[steps][i])
            ranks_fail("%s: after step %d weight %d is %d, expected %d", when, (int)steps, i, (int)weights[i],
                       (int)expected[steps][i]);
}

/* Wait until the folder of commits has the file of this slot, 'a' or 'b'. */
static void await_commit(char commit_slot)
{
    char path[4096];
    int tries = 0;
    snprintf(path, sizeof(path), "%s/hvd-state.1.%c", hvd_state_dir(), commit_slot);
    while (access(path, F_OK) < 0 && tries++ < 20000)
        usleep(1000);
    if (access(path, F_OK) < 0)
        ranks_fail("%s is not there", path);
}

static void kill_launcher(void)
{
    int launcher = 0;
    FILE *file = fopen(getenv("ELASTIC_LAUNCHER"), "re");
    if (file == NULL || fscanf(file, "%d", &launcher) != 1 || launcher <= 1)
        ranks_fail("there is no process to be killed");
    fclose(file);
    await_commit('b');
    if (process_signal(launcher, SIGKILL) < 0)
        ranks_fail("process %d is not there", launcher);
    sleep(20);
    ranks_fail("it lives on after hvdrun");
}

static enum hvd_status take_step(void)
{
    static int64_t gradient[ELEMENTS];
    if (does("kill"))
        process_signal_self(SIGKILL);
    if (does("written"))
        await_commit('a');
    if (does("launcher"))
        kill_launcher();
    if (getenv("ELASTIC_STEP_US") != NULL) /* work, during which a test strikes */
        usleep((useconds_t)strtoul(getenv("ELASTIC_STEP_US"), NULL, 10));
    add_samples(BATCH * hvd_rank() / hvd_size(), BATCH * (hvd_rank() + 1) / hvd_size(), gradient);
    struct hvd_tensor tensor = hvd_vector("gradient", gradient, ELEMENTS, HVD_INT64);
    enum hvd_status status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    if (status != HVD_OK)
        return status;
    descend(gradient);
    check_state("training");
    return HVD_OK;
}

/* The hosts have another number of slots from now on. */
static void change_hosts(void)
{
    const char *path = getenv("ELASTIC_HOSTS");
    for (int i = 0; i < event_count; i++) {
        int count = 0;
        char news[1024];
        if (events[i].over || events[i].step != steps || sscanf(events[i].word, "hosts%d", &count) != 1)
            continue;
        events[i].over = true;
        snprintf(news, sizeof(news), "%s.new", path);
        FILE *file = fopen(news, "we");
        if (file == NULL || fprintf(file, "localhost:%d\n", count) < 0 || fclose(file) != 0 ||
            rename(news, path) < 0)
            ranks_fail("%s cannot be written", path);
    }
}

/* A commit in which a rank kills itself as soon as it knows that the others have done the step: for that they
 * submit a sign, and do not wait for it. With [alone] only rank 0 saves the commit, the others wait for the
 * loss. */
static enum hvd_status commit_with_loss(hvd_state state, bool alone, bool dies)
{
    static int32_t sign;
    hvd_handle handle = 0;
    struct hvd_tensor tensor = hvd_vector("sign", &sign, 1, HVD_INT32);
    enum hvd_status status = hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handle);
    if (status == HVD_OK && dies) {
        status = hvd_wait(handle);
        if (status != HVD_ERR_RANK_LOST)
            must(status, "waiting for the others");
        process_signal_self(SIGKILL);
    }
    if (status == HVD_OK && alone && hvd_rank() > 0)
        return hvd_barrier(HVD_ALL_RANKS);
    return status == HVD_OK ? hvd_state_commit(state) : status;
}

/* Is this the job's first epoch, and not only that of a process that has joined later? A spare's rank is not
 * its place at the start, and newcomers of hvdrun are told that they are; all tasks of a step of Slurm are.
 */
static bool is_first_epoch(void)
{
    return epochs == 1 && hvd_rank() == slot && (!is_newcomer() || getenv("SLURM_STEP_ID") != NULL);
}

static enum hvd_status commit(hvd_state state)
{
    bool dies = does("commit") || does("split");
    if (is_first_epoch() && (steps == commit_step || steps == split_step))
        return commit_with_loss(state, steps == split_step, dies);
    return hvd_state_commit(state);
}

/* Ask until new ranks have come, or one is lost; the test ends this if they never do. */
static enum hvd_status wait_for_news(hvd_state state)
{
    enum hvd_status status;
    while ((status = hvd_state_check(state)) == HVD_OK)
        usleep(1000);
    return status;
}

/* After each step. */
static void note_time(void)
{
    int64_t apart_us = parted_us > 0 ? clock_us() - parted_us : 0;
    longest_us = apart_us > longest_us ? apart_us : longest_us;
    parted_us = 0;
}

static enum hvd_status train_epoch(hvd_state state)
{
    if (hvd_rank() == 0)
        printf("epoch of %d ranks from step %d\n", hvd_size(), (int)steps);
    check_state("an epoch begins");
    while (steps < STEPS) {
        if (does("grow"))
            return HVD_NEW_RANKS;
        change_hosts();
        if (does("news"))
            return wait_for_news(state);
        if (does("fail"))
            return hvd_error_set(HVD_ERR_UNSUPPORTED, "this was not meant to be");
        enum hvd_status status = take_step();
        if (status == HVD_OK)
            note_time();
        if (status == HVD_OK)
            status = steps % interval == 0 ? commit(state) : hvd_state_check(state);
        if (status != HVD_OK)
            return status;
    }
    return HVD_OK;
}

static enum hvd_status train(hvd_state state, void *arg)
{
    (void)arg;
    enum hvd_status status = train_epoch(state);
    parted_us = clock_us();
    return status;
}

/* As train, but what it returns when the ranks part makes hvd_elastic_run return. */
static enum hvd_status train_and_forget(hvd_state state, void *arg)
{
    enum hvd_status status = train(state, arg);
    return status == HVD_NEW_RANKS || status == HVD_ERR_RANK_LOST ? HVD_ERR_SYSTEM : status;
}

static void reset(void *arg)
{
    (void)arg;
    epochs++;
    for (int i = 0; i < event_count; i++)
        if (!events[i].over && strcmp(events[i].word, "reset") == 0 && epochs > 1)
            process_signal_self(SIGKILL);
}

static hvd_state make_state(int64_t seed)
{
    hvd_state state = 0;
    begin_weights(seed);
    must(hvd_state_create(&state), "hvd_state_create");
    must(hvd_state_add(state, "weights", weights, sizeof(weights)), "hvd_state_add");
    must(hvd_state_add(state, "steps", &steps, sizeof(steps)), "hvd_state_add");
    if (does("part"))
        must(hvd_state_add(state, "more", &slot, sizeof(slot)), "hvd_state_add");
    must(hvd_state_on_reset(state, reset, NULL), "hvd_state_on_reset");
    return state;
}

/* Train until this process loses its state; then it is like a new one. */
static hvd_state forget(hvd_state state)
{
    enum hvd_status status;
    must_be(hvd_elastic_run(train_and_forget, state, NULL), HVD_ERR_SYSTEM, "training until the ranks part");
    must(hvd_state_free(state), "hvd_state_free");
    do
        hvd_shutdown();
    while ((status = hvd_init()) == HVD_ERR_RANK_LOST);
    must(status, "hvd_init");
    return make_state(1000003 - 5);
}

int main(int argc, char **argv)
{
    bool forgets = false;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a rank that kills itself has printed all */
    const char *place = getenv("RANK");
    slot = place != NULL ? (int)strtol(place, NULL, 10) : 0;
    read_events(argc, argv);
    for (int i = 0; i < event_count; i++)
        forgets = forgets || strcmp(events[i].word, "forget") == 0;
    train_alone();
    hvd_state state = make_state(slot == 0 || is_started_again() ? 17 : 4); /* that of rank 0 counts */
    if (forgets)
        state = forget(state);
    enum hvd_status status = hvd_elastic_run(train, state, NULL);
    ranks_know();
    if (status != HVD_OK) {
        fprintf(stderr, "rank %d ended with status %d: %s\n", rank, status, hvd_error_text());
        if (status != HVD_ERR_RANK_LOST)
            must(hvd_shutdown(), "hvd_shutdown");
        return 3;
    }
    if (steps != STEPS)
        ranks_fail("%d of %d steps are done", (int)steps, STEPS);
    if (rank == 0)
        printf("rank 0 of %d, once rank %d: all steps are right\nat most %.1f ms from an epoch to the next\n",
               size, slot, (double)longest_us / 1000);
    must(hvd_state_free(state), "hvd_state_free");
    if (does("leave"))
        process_signal_self(SIGKILL);
    must(hvd_shutdown(), "hvd_shutdown");
    return 0;
}
