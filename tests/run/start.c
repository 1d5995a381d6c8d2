/* start.c: sub-jobs, process sets that hvd_init_with makes, and stopping: `start CASE`. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>

#include "ranks.h"

/* The rank of this process in the launcher's job, as its PMIx or PMI server says. */
static int launcher_rank(void)
{
    const char *text = getenv("PMIX_RANK") != NULL ? getenv("PMIX_RANK") : getenv("PMI_RANK");
    if (text == NULL)
        ranks_fail("neither PMIX_RANK nor PMI_RANK is set");
    return (int)strtol(text, NULL, 10);
}

static void start_with(const int *ranks, int count, const struct hvd_ranks *sets, int set_count)
{
    struct hvd_start start = {.job = {ranks, count}, .sets = sets, .set_count = set_count};
    must(hvd_init_with(&start), "hvd_init_with");
    ranks_know();
}

/* Check that the launcher's ranks of all processes of this job, in the order of ranks, are [list]. */
static void must_be_job(const int *list, int count)
{
    int own = launcher_rank(), known[16] = {0};
    struct hvd_tensor tensor = {"launcher's", &own, NULL, HVD_INT32, 1, {1}, HVD_MEMORY_ANY, 0};
    struct hvd_result all = {0};
    if (size != count || list[rank] != own)
        ranks_fail("rank %d of %d is the launcher's %d, expected %d", rank, size, own, list[rank]);
    must(hvd_allgather(&tensor, &all, NULL), "hvd_allgather");
    if (all.row_count != count || memcmp(all.data, list, (size_t)count * sizeof(int)) != 0)
        ranks_fail("the ranks are others");
    free(all.data);
    if (hvd_launcher_ranks(known, 16) != count || memcmp(known, list, (size_t)count * sizeof(int)) != 0)
        ranks_fail("hvd_launcher_ranks says something else");
}

/* Seven processes become jobs of four, two and one. */
static void case_parts(void)
{
    static const int large[] = {6, 0, 2, 3}, small[] = {1, 5}, alone[] = {4};
    static const struct hvd_ranks parts[] = {{large, 4}, {small, 2}, {alone, 1}};
    int own = launcher_rank();
    const struct hvd_ranks *mine = own == 4 ? &parts[2] : own == 1 || own == 5 ? &parts[1] : &parts[0];
    start_with(mine->ranks, mine->count, NULL, 0);
    must_be_job(mine->ranks, mine->count);
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
}

/* Sets that overlap; one has all ranks except one. Each rank reduces in all of its sets at once. */
static void case_sets(void)
{
    static const int evens[] = {0, 2}, low[] = {1, 0}, most[] = {3, 2, 1};
    static const struct hvd_ranks sets[] = {{evens, 2}, {low, 2}, {most, 3}};
    static const int sums[] = {2, 1, 6};
    hvd_set known[8];
    int32_t values[4];
    hvd_handle handles[4];
    start_with(NULL, 0, sets, 3);
    if (hvd_set_list(known, 8) != 4 || known[0] != HVD_ALL_RANKS || known[1] != 1 || known[3] != 3)
        ranks_fail("%d sets", hvd_set_list(NULL, 0));
    for (int i = 1; i < 4; i++) {
        struct hvd_options options = HVD_OPTIONS_INIT;
        struct hvd_tensor tensor = hvd_vector("x", &values[i], 1, HVD_INT32);
        options.set = i;
        values[i] = rank;
        handles[i] = 0;
        if (hvd_set_rank(i) >= 0)
            must(hvd_allreduce_async(&tensor, HVD_SUM, &options, NULL, NULL, &handles[i]), "in a set");
        else
            must_be(hvd_allreduce(&tensor, HVD_SUM, &options), HVD_ERR_SET, "no member");
        if (hvd_set_size(i) != sets[i - 1].count)
            ranks_fail("set %d has %d members", i, hvd_set_size(i));
    }
    for (int i = 1; i < 4; i++) {
        if (handles[i] == 0)
            continue;
        must(hvd_wait(handles[i]), "hvd_wait");
        if (values[i] != sums[i - 1])
            ranks_fail("set %d: the sum is %d", i, values[i]);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
}

/* Sets of a sub-job: their lists have the ranks of the sub-job. */
static void case_sets_of_a_part(void)
{
    static const int job[] = {2, 1, 0}, last[] = {2};
    static const int alone[] = {3}, none[] = {0};
    static const struct hvd_ranks set = {last, 1}, whole = {none, 1};
    hvd_set found = -1;
    struct hvd_start start = {.job = {alone, 1}, .sets = &whole, .set_count = 1};
    if (launcher_rank() == 3) {
        must_be(hvd_init_with(&start), HVD_ERR_DUPLICATE, "the only rank as a set");
        must_say("hvd_init_with: sets[0]: process set 0 already has these ranks", "the only rank as a set");
        return;
    }
    start_with(job, 3, &set, 1);
    must_be_job(job, 3);
    if (hvd_set_rank(1) != (launcher_rank() == 0 ? 0 : -1))
        ranks_fail("the set is another");
    must_be(hvd_set_add(last, 1, &found), HVD_ERR_DUPLICATE, "the same again");
    if (found != 1)
        ranks_fail("it is said to be set %d", found);
}

static void case_sets_that_differ(void)
{
    static const int one[] = {0}, another[] = {1};
    struct hvd_ranks set = {launcher_rank() == 1 ? another : one, 1};
    struct hvd_start start = {.sets = &set, .set_count = 1};
    must_be(hvd_init_with(&start), HVD_ERR_MISMATCH, "sets that differ");
    must_say("rank 1 (", "sets that differ");
    if (hvd_is_initialized() || hvd_size() != -1)
        ranks_fail("something is left");
}

/* One rank adds a list that is a set already; others add a new one, or another set that exists. */
static void case_sets_that_exist(void)
{
    static const int one[] = {0}, two[] = {1}, three[] = {2};
    hvd_set set = 77, first = -1, second = -1;
    start_with(NULL, 0, NULL, 0);
    must(hvd_set_add(one, 1, &first), "hvd_set_add");
    must(hvd_set_add(two, 1, &second), "hvd_set_add");
    must_be(hvd_set_add(odd ? three : one, 1, &set), HVD_ERR_MISMATCH, "one that exists, one that does not");
    must_agree("one that exists, one that does not");
    must_be(hvd_set_add(odd ? two : one, 1, &set), HVD_ERR_MISMATCH, "two that exist");
    must_agree("two that exist");
    if (set != 77)
        ranks_fail("a failed call left %d", set);
    must_be(hvd_set_add(two, 1, &set), HVD_ERR_DUPLICATE, "one that exists");
    if (set != second)
        ranks_fail("it is said to be set %d", set);
    must(hvd_set_add(three, 1, &set), "hvd_set_add");
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
}

/* One job after another, the first of which failed. Sets are numbered anew, and memory stays. */
static void case_again(void)
{
    static const int none[] = {0};
    static const struct hvd_ranks set = {none, 1};
    double *kept = NULL;
    case_sets_that_differ();
    for (int i = 1; i <= 5; i++) {
        start_with(NULL, 0, i % 2 == 0 ? &set : NULL, i % 2 == 0);
        if (hvd_set_list(NULL, 0) != (i % 2 == 0 ? 2 : 1))
            ranks_fail("start %d has %d process sets", i, hvd_set_list(NULL, 0));
        if (kept == NULL)
            must(hvd_alloc(sizeof(*kept), (void **)&kept), "hvd_alloc");
        *kept = i * (rank + 1);
        struct hvd_tensor tensor = hvd_vector("kept", kept, 1, HVD_FLOAT64);
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
        if (*kept != i * size * (size + 1) / 2.0)
            ranks_fail("start %d gives the sum %g", i, *kept);
        must(hvd_shutdown(), "hvd_shutdown");
        must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_STATE, "after hvd_shutdown");
    }
    must(hvd_free(kept), "hvd_free");
}

/* However many ranks a node has, none of them has more descriptors than its neighbours in the tree need: a
 * doorbell, a pidfd and a life pipe for each of 32 children. */
static void case_many(void)
{
    int count = 0;
    start_with(NULL, 0, NULL, 0);
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        ranks_fail("/proc/self/fd cannot be read");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    if (count > 140)
        ranks_fail("rank %d has %d descriptors", rank, count);
    int32_t sum = 1;
    struct hvd_tensor tensor = hvd_vector("sum", &sum, 1, HVD_INT32);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
    if (sum != size)
        ranks_fail("the sum is %d, expected %d", sum, size);
}

/* What this process holds. */
struct holdings {
    long pages; /* resident */
    int descriptors;
};

static struct holdings holdings_now(void)
{
    struct holdings now = {0, 0};
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%*d %ld", &now.pages) != 1)
        ranks_fail("/proc/self/statm cannot be read");
    fclose(statm);
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        ranks_fail("/proc/self/fd cannot be read");
    while (readdir(folder) != NULL)
        now.descriptors++;
    closedir(folder);
    return now;
}

/* A process has PTHREAD_KEYS_MAX thread keys, and each thing that is lost at each start uses something up. So
 * jobs follow each other with few keys left, and memory and descriptors stay as they were after some. LIVES
 * says how many jobs. */
static void case_lives(void)
{
    enum { KEYS_LEFT = 20, SETTLED = 40, MOST_PAGES = 256 };
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    const char *lives = getenv("LIVES");
    long count = lives != NULL ? strtol(lives, NULL, 10) : 150;
    struct holdings before = {0, 0};
    int taken = 0;
    while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&keys[taken], NULL) == 0)
        taken++;
    for (int i = 0; i < KEYS_LEFT && taken > 0; i++)
        pthread_key_delete(keys[--taken]);
    for (long i = 0; i < count; i++) {
        int32_t sum = 1;
        struct hvd_tensor tensor = hvd_vector("sum", &sum, 1, HVD_INT32);
        start_with(NULL, 0, NULL, 0);
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
        if (sum != size)
            ranks_fail("life %ld gives the sum %d", i, sum);
        must(hvd_shutdown(), "hvd_shutdown");
        if (i == SETTLED)
            before = holdings_now();
    }
    struct holdings after = holdings_now();
    printf("rank %d: %ld lives, %d to %d descriptors, %ld to %ld pages\n", rank, count, before.descriptors,
           after.descriptors, before.pages, after.pages);
    if (after.descriptors != before.descriptors || after.pages > before.pages + MOST_PAGES)
        ranks_fail("what this process holds has grown");
}

/* One rank requests a stop; all ranks get the same answer at the same call. */
static void case_stop(void)
{
    int stop = 7, rounds = 0;
    start_with(NULL, 0, NULL, 0);
    must_be(hvd_should_stop(NULL), HVD_ERR_INVALID, "no room for the answer");
    for (stop = 0; !stop; rounds++) {
        if (rounds == 5 && odd)
            hvd_request_stop();
        must(hvd_should_stop(&stop), "hvd_should_stop");
        if (rounds > 5)
            ranks_fail("nobody stops");
    }
    if (rounds != 6)
        ranks_fail("it stopped after %d rounds", rounds);
    must(hvd_should_stop(&stop), "hvd_should_stop");
    if (!stop)
        ranks_fail("it goes on");
}

static void *ask_to_stop(void *arg)
{
    int stop = 1;
    for (int i = 0; i < 50; i++)
        must(hvd_should_stop(&stop), "hvd_should_stop");
    if (stop)
        ranks_fail("it stopped");
    return arg;
}

/* Threads that call hvd_should_stop at the same time take turns, in any order. */
static void case_stop_threads(void)
{
    pthread_t threads[3];
    start_with(NULL, 0, NULL, 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, ask_to_stop, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* Run this program once more with the environment of this rank, and return its exit status. */
static int run_child(const char *name)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "start", name, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        ranks_fail("the child %s has not ended by itself", name);
    return WEXITSTATUS(status);
}

/* A program that a rank starts is refused at once while the rank is in the job; the job goes on, and after it
 * the rank may be the other program's. */
static void case_child(void)
{
    if (run_child("tool") != 0)
        ranks_fail("the child has not been refused as it should");
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier after the child");
    if (size > 1)
        return;
    must(hvd_shutdown(), "hvd_shutdown");
    if (run_child("tool-alone") != 0)
        ranks_fail("after hvd_shutdown a child may have the rank");
}

static void case_tool(void)
{
    char expected[64];
    must_be(hvd_init(), HVD_ERR_STATE, "hvd_init in a program that a rank has started");
    snprintf(expected, sizeof(expected), "of this job is process %d,", (int)getppid());
    must_say(expected, "hvd_init in a program that a rank has started");
    must_say("from its environment, so that it is a job of its own", "the same");
}

static void case_tool_alone(void)
{
    must(hvd_init(), "hvd_init in a program that a process has started which left the job");
}

int main(int argc, char **argv)
{
    static const struct ranks_case cases[] = {
        {"parts", case_parts, true},
        {"sets", case_sets, true},
        {"part-sets", case_sets_of_a_part, true},
        {"set-lists", case_sets_that_differ, true},
        {"set-exists", case_sets_that_exist, true},
        {"again", case_again, true},
        {"lives", case_lives, true},
        {"child", case_child, false},
        {"tool", case_tool, true},
        {"tool-alone", case_tool_alone, true},
        {"many", case_many, true},
        {"stop", case_stop, true},
        {"stop-threads", case_stop_threads, true},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
