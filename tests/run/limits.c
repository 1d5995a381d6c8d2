/* limits.c: many sets at once, more than 2^31 elements, sub-jobs, stops and stalls, run by every rank of a
 * job: `limits CASE`. Exits 0 if all is as it should be; otherwise prints what happened. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "ranks.h"

/* ---- Sets that overlap, one thread for each ---- */

/* The seven lines of a plane of seven points: any two lines have one rank in common, and each rank is on
 * three. */
static const int lines[7][3] = {{0, 1, 3}, {1, 2, 4}, {2, 3, 5}, {3, 4, 6}, {0, 4, 5}, {1, 5, 6}, {0, 2, 6}};

#define CROSSINGS 150

struct crossing_set {
    hvd_set set;
    const int *ranks;
    int count;
    pthread_t thread;
};

/* Blocking calls one after the other in each set. If an operation of one set had to wait for one of another
 * set, this would deadlock. */
static void *run_line(void *arg)
{
    const struct crossing_set *line = arg;
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.set = line->set;
    int64_t expected = 0;
    for (int i = 0; i < line->count; i++)
        expected += line->ranks[i] + 1;
    for (int i = 0; i < CROSSINGS; i++) {
        int64_t data[100];
        char name[32];
        for (int k = 0; k < 100; k++)
            data[k] = (rank + 1) * (int64_t)(k + i);
        snprintf(name, sizeof(name), "crossing %d", i % 5);
        struct hvd_tensor tensor = hvd_vector(name, data, 1 + i % 100, HVD_INT64);
        if (i % 7 == 3) {
            must(hvd_barrier(line->set), name);
            continue;
        }
        must(hvd_allreduce(&tensor, HVD_SUM, &options), name);
        for (int k = 0; k < 1 + i % 100; k++) {
            if (data[k] != expected * (k + i))
                ranks_fail("set %d, allreduce %d: element %d is %lld, expected %lld", line->set, i, k,
                           (long long)data[k], (long long)(expected * (k + i)));
        }
    }
    return NULL;
}

static void case_crossing(void)
{
    static const int everybody[] = {0, 1, 2, 3, 4, 5, 6};
    struct crossing_set mine[8];
    int count = 0;
    if (size != 7)
        ranks_fail("this needs 7 ranks");
    for (int i = 0; i < 7; i++) {
        hvd_set set = -1;
        must(hvd_set_add(lines[i], 3, &set), "hvd_set_add");
        mine[count] = (struct crossing_set){.set = set, .ranks = lines[i], .count = 3};
        count += hvd_set_rank(set) >= 0;
    }
    mine[count] = (struct crossing_set){.set = HVD_ALL_RANKS, .ranks = everybody, .count = 7};
    count++;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&mine[i].thread, NULL, run_line, &mine[i]) != 0)
            ranks_fail("no thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(mine[i].thread, NULL);
}

/* ---- More than 2^31 elements ---- */

#define LARGE ((INT64_C(1) << 31) + 5)

/* Elements to check: those that are left out or written twice if a count or an offset is cut to 32 bits, or
 * becomes negative. */
static const int64_t places[] = {
    0, 4, 5, (INT64_C(1) << 30) + 1, (INT64_C(1) << 31) - 1, INT64_C(1) << 31, LARGE - 1};

#define PLACES ((int)(sizeof(places) / sizeof(places[0])))

/* Zeroed memory, whose pages are allocated only when they are written. */
static void *large_memory(size_t element_bytes)
{
    void *memory = mmap(NULL, LARGE * element_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        ranks_fail("mmap: %s", strerror(errno));
    return memory;
}

static void look_at_places(const unsigned char *data, int factor, const char *what)
{
    for (int i = 0; i < PLACES; i++) {
        if (data[places[i]] != factor * (i + 1))
            ranks_fail("%s: element %lld is %d, expected %d", what, (long long)places[i], data[places[i]],
                       factor * (i + 1));
    }
    for (int64_t i = 1000; i < LARGE; i += INT64_C(99999989)) {
        if (data[i] != 0)
            ranks_fail("%s: element %lld is %d, expected 0", what, (long long)i, data[i]);
    }
}

static void case_large_allreduce(void)
{
    unsigned char *data = large_memory(1);
    struct hvd_tensor tensor = hvd_vector("large", data, LARGE, HVD_UINT8);
    for (int i = 0; i < PLACES; i++)
        data[places[i]] = (unsigned char)((rank + 1) * (i + 1));
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a large allreduce");
    look_at_places(data, size * (size + 1) / 2, "a large allreduce");
    munmap(data, LARGE);
}

/* Elements of two bytes, so that there are more than 2^32 bytes. */
static void case_large_broadcast(void)
{
    uint16_t *data = large_memory(sizeof(*data));
    struct hvd_tensor tensor = hvd_vector("large", data, LARGE, HVD_UINT16);
    for (int i = 0; odd && i < PLACES; i++)
        data[places[i]] = (uint16_t)(1000 * (i + 1));
    must(hvd_broadcast(&tensor, size - 1, NULL), "a large broadcast");
    for (int i = 0; i < PLACES; i++) {
        if (data[places[i]] != 1000 * (i + 1))
            ranks_fail("a large broadcast: element %lld is %d", (long long)places[i], data[places[i]]);
    }
    munmap(data, LARGE * sizeof(*data));
}

/* Splits above 2^31: nearly all rows of the first rank go to the last. */
static void case_large_alltoall(void)
{
    unsigned char *data = rank == 0 ? large_memory(1) : NULL;
    int64_t splits[64] = {0};
    int64_t rows[64];
    struct hvd_tensor tensor = {"large",        data, NULL, HVD_UINT8, 1, {rank == 0 ? LARGE : 0},
                                HVD_MEMORY_ANY, 0};
    struct hvd_result result = {.rows = rows};
    splits[size - 1] = tensor.shape[0];
    for (int i = 0; rank == 0 && i < PLACES; i++)
        data[places[i]] = (unsigned char)(i + 1);
    must(hvd_alltoall(&tensor, splits, &result, NULL), "a large alltoall");
    if (result.row_count != (odd ? LARGE : 0) || rows[0] != result.row_count)
        ranks_fail("a large alltoall: %lld rows", (long long)result.row_count);
    if (odd)
        look_at_places(result.data, 1, "a large alltoall");
    free(result.data);
    if (data != NULL)
        munmap(data, LARGE);
}

/* ---- The largest group ---- */

/* As many tensors as a group may have, with names of the greatest length. */
static void case_group(void)
{
    struct hvd_tensor *tensors = calloc(HVD_MAX_GROUP, sizeof(*tensors));
    float *data = calloc(HVD_MAX_GROUP, sizeof(*data));
    char(*names)[HVD_MAX_NAME + 1] = calloc(HVD_MAX_GROUP, sizeof(*names));
    if (tensors == NULL || data == NULL || names == NULL)
        ranks_fail("no memory");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < HVD_MAX_GROUP; i++) {
            snprintf(names[i], sizeof(names[i]), "%0*d", HVD_MAX_NAME, i);
            data[i] = (float)(i * (rank + 1));
            tensors[i] =
                (struct hvd_tensor){names[i], &data[i], &data[i], HVD_FLOAT32, 0, {0}, HVD_MEMORY_ANY, 0};
        }
        must(hvd_grouped_allreduce(tensors, HVD_MAX_GROUP, HVD_SUM, NULL), "the largest group");
        for (int i = 0; i < HVD_MAX_GROUP; i++) {
            if (data[i] != (float)(i * size * (size + 1) / 2))
                ranks_fail("the largest group: tensor %d is %g", i, (double)data[i]);
        }
    }
    if (size > 1) {
        tensors[HVD_MAX_GROUP - 1].dtype = odd ? HVD_INT32 : HVD_FLOAT32;
        must_be(hvd_grouped_allreduce(tensors, HVD_MAX_GROUP, HVD_SUM, NULL), HVD_ERR_MISMATCH,
                "the last of the largest group");
        must_say("int32[]", "the last of the largest group");
        must_agree("the last of the largest group");
    }
    free(names);
    free(data);
    free(tensors);
}

/* Operations that are all in flight at once; the odd rank submits them in reverse order. */
#define MANY 5000

static void case_many(void)
{
    static float data[MANY];
    static hvd_handle handles[MANY];
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < MANY; k++) {
            int i = odd ? MANY - 1 - k : k;
            char name[32];
            snprintf(name, sizeof(name), "many %d", i);
            data[i] = (float)(i + rank);
            struct hvd_tensor tensor = hvd_vector(name, &data[i], 1, HVD_FLOAT32);
            must(hvd_allreduce_async(&tensor, HVD_MAX, NULL, NULL, NULL, &handles[i]), name);
        }
        for (int i = 0; i < MANY; i++) {
            must(hvd_wait(handles[i]), "one of many");
            if (data[i] != (float)(i + size - 1))
                ranks_fail("one of many: %d is %g", i, (double)data[i]);
        }
    }
}

/* ---- Sub-jobs ---- */

static int launcher_rank(void)
{
    const char *text = getenv("PMIX_RANK");
    if (text == NULL)
        ranks_fail("PMIX_RANK is not set");
    return (int)strtol(text, NULL, 10);
}

/* Seven processes become two jobs, with ranks in the order of the lists. */
static void case_part(void)
{
    static const int three[] = {6, 1, 3};
    static const int four[] = {5, 0, 4, 2};
    static const int pair[] = {2, 0};
    static const struct hvd_ranks sets[] = {{pair, 2}};
    int me = launcher_rank();
    int place = -1;
    int64_t sum[1] = {me};
    int64_t here[1] = {me};
    int64_t first[1] = {me};
    bool in_three = me == 6 || me == 1 || me == 3;
    struct hvd_start start = {.job = {four, 4}, .sets = sets, .set_count = 1};
    if (in_three)
        start.job = (struct hvd_ranks){three, 3};
    for (int i = 0; i < start.job.count; i++)
        place = start.job.ranks[i] == me ? i : place;
    must(hvd_init_with(&start), "hvd_init_with");
    ranks_know();
    if (rank != place || size != start.job.count || hvd_local_size() != size || hvd_local_rank() != rank)
        ranks_fail("launcher's rank %d is rank %d of %d, local rank %d of %d", me, rank, size,
                   hvd_local_rank(), hvd_local_size());
    struct hvd_tensor tensor = hvd_vector("sum", sum, 1, HVD_INT64);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum in a part");
    tensor = hvd_vector("first", first, 1, HVD_INT64);
    must(hvd_broadcast(&tensor, 0, NULL), "a broadcast in a part");
    if (sum[0] != (in_three ? 10 : 11) || first[0] != start.job.ranks[0])
        ranks_fail("launcher's rank %d: the sum is %lld, the first is %lld", me, (long long)sum[0],
                   (long long)first[0]);
    if (hvd_set_list(NULL, 0) != 2 || hvd_set_rank(1) != (rank == 0 ? 0 : rank == 2 ? 1 : -1))
        ranks_fail("member %d of set 1", hvd_set_rank(1));
    if (hvd_set_rank(1) >= 0) {
        struct hvd_options options = {sizeof(options), 1, 1, 1, HVD_WIRE_EXACT, NULL};
        tensor = hvd_vector("pair", here, 1, HVD_INT64);
        must(hvd_allreduce(&tensor, HVD_SUM, &options), "a sum in a set of a part");
        if (here[0] != start.job.ranks[0] + start.job.ranks[2])
            ranks_fail("the sum in a set of a part is %lld", (long long)here[0]);
    }
}

/* One rank passes an invalid set: the start fails on all. That rank and rank 0 say why. */
static void case_part_sets(void)
{
    static const int far[] = {0, 99};
    static const int near[] = {0, 1};
    bool wrong = launcher_rank() == 1;
    const struct hvd_ranks sets[] = {{near, 1}, {wrong ? far : near, 2}};
    struct hvd_start start = {.sets = sets, .set_count = 2};
    if (hvd_init_with(&start) == HVD_OK || hvd_is_initialized())
        ranks_fail("initialised with an invalid set");
    bool knows = launcher_rank() <= 1;
    must_say(knows ? "sets[1]" : "rank 0 (", "an invalid set");
    must_say(knows ? "99" : "says why", "an invalid set");
    exit(0);
}

/* Each process is a job by itself. */
static void case_alone(void)
{
    int me = launcher_rank();
    struct hvd_start start = {.job = {&me, 1}};
    float data[2] = {1, 2};
    struct hvd_tensor tensor = hvd_vector("alone", data, 2, HVD_FLOAT32);
    must(hvd_init_with(&start), "hvd_init_with");
    ranks_know();
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "a sum alone");
    if (size != 1 || rank != 0 || data[1] != 2)
        ranks_fail("rank %d of %d", rank, size);
}

/* Each rank refuses an invalid list of ranks at once, without the others. */
static void case_part_arguments(void)
{
    static const int twice[] = {0, 1, 0};
    static const int far[] = {0, 99};
    int other = launcher_rank() + 1;
    struct hvd_start starts[] = {
        {.job = {twice, 3}}, {.job = {far, 2}}, {.job = {&other, 1}}, {.job = {far, -1}}};
    static const char *const words[] = {"0", "99", "", ""};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        must_be(hvd_init_with(&starts[i]), HVD_ERR_INVALID, "a list that is none");
        must_say(words[i], "a list that is none");
        if (hvd_is_initialized())
            ranks_fail("initialised by a list that is none");
    }
}

/* ---- Stops ---- */

static void must_stop(int expected, const char *what)
{
    int stop = -1;
    must(hvd_should_stop(&stop), what);
    if (stop != expected)
        ranks_fail("%s: hvd_should_stop says %d, expected %d", what, stop, expected);
}

static void case_stop(void)
{
    must_stop(0, "nobody asked");
    must_stop(0, "nobody asked");
    if (odd)
        hvd_request_stop();
    must_stop(1, "one rank asked");
}

/* The signal of option stop-signal, on one rank. */
static void case_stop_signal(void)
{
    must_stop(0, "no signal yet");
    if (odd)
        raise(SIGUSR1);
    must_stop(1, "one rank got the signal");
}

#define START_AGAIN 85 /* the exit status of a job that has saved its work and is to be queued again */

/* Go on until the signal comes from outside. */
static void case_stop_later(void)
{
    int stop = 0, steps = 0;
    for (; stop == 0; steps++) {
        must(hvd_should_stop(&stop), "hvd_should_stop");
        if (steps == 10) {
            printf("rank %d goes on\n", rank);
            fflush(stdout);
        }
    }
    must(hvd_shutdown(), "hvd_shutdown");
    printf("rank %d stopped after step %d\n", rank, steps);
    exit(START_AGAIN);
}

/* ---- Names that never come again ---- */

#define NEW_NAMES 60000

static int64_t resident_bytes(void)
{
    long long pages = 0;
    long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lld %lld", &pages, &resident) != 2)
        ranks_fail("no /proc/self/statm");
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void submit_new_names(int first)
{
    enum { AT_ONCE = 500 };
    static float data[AT_ONCE];
    static char names[AT_ONCE][32];
    hvd_handle handles[AT_ONCE];
    for (int begin = first; begin < first + NEW_NAMES; begin += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            snprintf(names[i], sizeof(names[i]), "new %d", begin + i);
            struct hvd_tensor tensor = hvd_vector(names[i], &data[i], 1, HVD_FLOAT32);
            must(hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &handles[i]), names[i]);
        }
        for (int i = 0; i < AT_ONCE; i++)
            must(hvd_wait(handles[i]), names[i]);
    }
}

/* Once as many are remembered as may be, memory grows no more. Without a limit these would take 39 MB. */
static void case_names(void)
{
    submit_new_names(0);
    int64_t before = resident_bytes();
    submit_new_names(NEW_NAMES);
    int64_t grown = resident_bytes() - before;
    if (grown > (INT64_C(8) << 20))
        ranks_fail("%d new names took %lld bytes", NEW_NAMES, (long long)grown);
}

/* ---- Stalls ---- */

/* Let the odd rank be later than the stall options allow. This test needs real time to pass. */
static void be_late(void)
{
    struct timespec late = {.tv_sec = 3};
    if (odd)
        nanosleep(&late, NULL);
}

static void case_stall(void)
{
    float data[4] = {0};
    struct hvd_tensor early = hvd_vector("early", data, 4, HVD_FLOAT32);
    struct hvd_tensor late = hvd_vector("late", data, 4, HVD_FLOAT32);
    must(hvd_allreduce(&early, HVD_SUM, NULL), "early");
    be_late();
    must(hvd_allreduce(&late, HVD_SUM, NULL), "late");
}

static void case_stall_abort(void)
{
    float data[4] = {0};
    struct hvd_tensor early = hvd_vector("early", data, 4, HVD_FLOAT32);
    struct hvd_tensor late = hvd_vector("late", data, 4, HVD_FLOAT32);
    signal(SIGTERM,
           SIG_IGN); /* a launcher sends it to the other ranks once one has ended: let them print first */
    must(hvd_allreduce(&early, HVD_SUM, NULL), "early");
    be_late();
    if (hvd_allreduce(&late, HVD_SUM, NULL) == HVD_OK)
        ranks_fail("the late one went well");
    must_say("late", "a stall");
    printf("rank %d: %s\n", rank, hvd_error_text());
    fflush(stdout);
    if (hvd_shutdown() == HVD_OK)
        ranks_fail("hvd_shutdown went well");
    exit(7);
}

/* ---- Flight record ---- */

static void case_record(void)
{
    float data[4] = {0};
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof(name), "record \"%d\"", i);
        struct hvd_tensor tensor = hvd_vector(name, data, 4, HVD_FLOAT32);
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), name);
    }
    if (odd)
        raise(SIGUSR2);
    must(hvd_barrier(HVD_ALL_RANKS), "after the signal");
}

/* One rank dies while the others wait for it. */
static void case_lost(void)
{
    float data[4] = {0};
    struct hvd_tensor tensor = hvd_vector("waits", data, 4, HVD_FLOAT32);
    signal(SIGTERM, SIG_IGN); /* a launcher may end the other ranks before they have printed */
    must_or_lose(hvd_allreduce(&tensor, HVD_SUM, NULL), "before");
    if (odd)
        raise(SIGKILL);
    must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_RANK_LOST, "a lost rank");
    exit(7);
}

/* A timeline that is started and stopped while the job runs has only the operations between. */
static void case_timeline(void)
{
    const char *folder = getenv("LIMITS_DIR");
    float data[4] = {0};
    static const char *const names[] = {"before", "\"inside\" \\ it", "behind"};
    for (int i = 0; i < 3; i++) {
        struct hvd_tensor tensor = hvd_vector(names[i], data, 4, HVD_FLOAT32);
        if (i == 1) {
            must_be(hvd_timeline_stop(), HVD_ERR_STATE, "none is written");
            must(hvd_timeline_start(folder), "hvd_timeline_start");
            must_be(hvd_timeline_start(folder), HVD_ERR_STATE, "one is written");
        }
        if (i == 2)
            must(hvd_timeline_stop(), "hvd_timeline_stop");
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
        must(hvd_allreduce(&tensor, HVD_SUM, NULL), names[i]);
        must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    }
}

static const struct ranks_case cases[] = {
    {"crossing", case_crossing, false},
    {"group", case_group, false},
    {"many", case_many, false},
    {"large-allreduce", case_large_allreduce, false},
    {"large-broadcast", case_large_broadcast, false},
    {"large-alltoall", case_large_alltoall, false},
    {"part", case_part, true},
    {"alone", case_alone, true},
    {"part-arguments", case_part_arguments, true},
    {"part-sets", case_part_sets, true},
    {"stop", case_stop, false},
    {"stop-signal", case_stop_signal, false},
    {"stop-later", case_stop_later, false},
    {"names", case_names, false},
    {"stall", case_stall, false},
    {"stall-abort", case_stall_abort, false},
    {"record", case_record, false},
    {"lost", case_lost, false},
    {"timeline", case_timeline, false},
};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
