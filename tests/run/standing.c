/* standing.c: jobs that stand still, for who asks them why: `standing CASE`, run by every rank. All ranks do
 * an allreduce "first"; then each case has the last rank do something else than the others, which goes on
 * until it is killed. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "ranks.h"

static float data[1000];

static void reduce(const char *name)
{
    struct hvd_tensor tensor = hvd_vector(name, data, 1000, HVD_FLOAT32);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), name);
}

static void sleep_on(void)
{
    while (true)
        pause();
}

static void compute(void)
{
    if (odd)
        for (volatile long i = 0;; i++)
            continue;
    reduce("second");
}

static void order(void)
{
    reduce(odd ? "b" : "a");
    reduce(odd ? "a" : "b");
}

/* Inside a set of the first two ranks, of which the second one does not come. */
static void in_a_set(void)
{
    static const int members[] = {0, 1};
    hvd_set set = -1;
    must(hvd_set_add(members, 2, &set), "hvd_set_add");
    if (rank == 0) {
        struct hvd_tensor tensor = hvd_vector("of the set", data, 1000, HVD_FLOAT32);
        struct hvd_options options = HVD_OPTIONS_INIT;
        options.set = set;
        must(hvd_allreduce(&tensor, HVD_SUM, &options), "of the set");
    }
    sleep_on();
}

/* Without end, so that it works whenever somebody looks. */
static void work(void)
{
    while (true)
        reduce("step");
}

static void commit(void)
{
    hvd_state state = 0;
    must(hvd_state_create(&state), "hvd_state_create");
    must(hvd_state_add(state, "data", data, sizeof(data)), "hvd_state_add");
    must(hvd_state_sync(state), "hvd_state_sync");
    must(hvd_state_commit(state), "hvd_state_commit");
    sleep_on();
}

/* Who has called vfork waits in the kernel as for a disk. */
static void wait_for_disk(void)
{
    if (odd && vfork() == 0)
        sleep_on();
    reduce("second");
}

static void leave(void)
{
    if (odd)
        sleep_on();
    must(hvd_shutdown(), "hvd_shutdown");
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"compute", compute}, {"order", order},   {"set", in_a_set},      {"work", work},
             {"leave", leave},     {"commit", commit}, {"disk", wait_for_disk}};

int main(int argc, char **argv)
{
    must(hvd_init(), "hvd_init");
    rank = hvd_rank();
    size = hvd_size();
    odd = rank == size - 1;
    reduce("first");
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    }
    return 0;
}
