/* backend_mpi.c: one rank of a job that mpirun starts. It carries batches over the backend mpi. The argument
 * says what else it does:
 *
 *     hvd        leave MPI_Init and MPI_Finalize to the backend
 *     level N    first MPI_Init_thread with level N, and MPI_Finalize at the end
 *     finalized  MPI_Init and MPI_Finalize first
 *     world      use a job that is not MPI_COMM_WORLD
 *     give-up    rank 0 begins a batch that the others never begin, and closes the backend
 *     give-up-alltoall  the same
 *
 * It is built with MPI (HAVE_MPI_PROBE) and, for hvd, world and give-up, also without MPI, which hvd's module
 * then loads. */
#ifdef HAVE_MPI_PROBE
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/batches.h"
#include "base/clock.h"
#include "options/parse.h"
#include "base/dtype.h"
#include "backend/backend_env.h"

#define SECOND_US 1000000

/* Ranks that were refused end here too, with status 0: with another status mpirun would kill the other ranks
 * before they have printed theirs. */
static int say(const struct backend_env *env, const char *text)
{
    printf("rank %d: %s\n", env->job->rank, text);
    return EXIT_SUCCESS;
}

static int carry(void *state, void *team, const struct backend_batch *batch, struct hvd_error *err)
{
    int64_t end_us = clock_us() + 30 * SECOND_US;
    int lost = -1;
    int status = backend_mpi.start(state, team, batch, err);
    while (status >= 0) {
        bool moved = false;
        status = backend_mpi.test(state, team, &moved, &lost, err);
        if (status != HVD_IN_PROGRESS)
            break;
        if (clock_us() > end_us)
            return error_set(err, HVD_ERR_TIMEOUT, "the batch takes too long");
    }
    return status;
}

/* The sets: all ranks; the first and the last; every other rank; all but the first. They overlap, and in a
 * small job some have the same members. */
#define SETS 4

struct set {
    struct team members; /* rank is -1 if this rank is no member */
    int ranks[BATCHES_MAX_RANKS];
    void *team;
};

static bool is_member(int which, int rank, int size)
{
    if (which == 1)
        return rank == 0 || rank == size - 1;
    if (which == 2)
        return rank % 2 == 0;
    return which == 0 || rank > 0;
}

static bool add_set(const struct backend_env *env, void *state, int which, struct set *set)
{
    struct hvd_error err = {""};
    memset(set, 0, sizeof(*set));
    set->members = (struct team){.set = which, .rank = -1, .ranks = set->ranks};
    for (int rank = 0; rank < env->job->size; rank++) {
        if (!is_member(which, rank, env->job->size))
            continue;
        if (rank == env->job->rank)
            set->members.rank = set->members.size;
        set->ranks[set->members.size++] = rank;
    }
    if (set->members.size < 2)
        set->members.rank = -1;
    if (set->members.rank < 0)
        return true;
    bool added = backend_mpi.add_team(state, &set->members, 0, &set->team, &err) == HVD_OK;
    if (!added)
        printf("rank %d: no team %d: %s\n", env->job->rank, which, err.text);
    return added;
}

static bool check_batch(const struct backend_env *env, void *state, const struct set *set,
                        const struct batch_plan *plan)
{
    struct hvd_error err = {""};
    struct batch_part part;
    int place = set->members.rank;
    batch_part_open(&part, plan, place);
    bool good =
        backend_mpi.supports(&part.batch.need) && carry(state, set->team, &part.batch, &err) == HVD_OK;
    good = batch_part_close(&part, plan, place) && good;
    if (!good)
        printf("rank %d: kind %d of %s, team %d is wrong %s\n", env->job->rank, (int)plan->need.kind,
               dtype_name(plan->need.dtype), set->members.set, err.text);
    return good;
}

static int run_batches(const struct backend_env *env, void *state)
{
    uint64_t random = 2026;
    struct set sets[SETS];
    bool good = true;
    for (int i = 0; i < SETS; i++)
        good = good && add_set(env, state, i, &sets[i]);
    for (int i = 0; i < 200 && good; i++) {
        const struct set *set = &sets[batch_plan_random_below(&random, SETS)];
        enum backend_kind kind = (enum backend_kind)batch_plan_random_below(&random, COLL_REDUCESCATTER + 1);
        struct batch_plan plan =
            batch_plan_random(&random, kind, set->members.size, i % 4 == 0 ? 256 * 1024 : 64);
        if (set->members.rank >= 0)
            good = check_batch(env, state, set, &plan);
    }
    for (int i = 0; i < SETS; i++)
        if (sets[i].members.rank >= 0)
            backend_mpi.remove_team(state, sets[i].team);
    return good ? say(env, "all sums are right") : EXIT_FAILURE;
}

/* Rank 0 waits for data that never comes. Giving up must end soon all the same. */
static int give_up(const struct backend_env *env, void *state, enum backend_kind kind)
{
    static float data[2][1 << 20];
    const int64_t counts[2] = {0, 1 << 20};
    struct backend_batch batch = {.need = {kind, HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, env->job->size},
                                  .sequence = 1,
                                  .input = data[0],
                                  .output = data[1],
                                  .prescale = 1,
                                  .postscale = 1,
                                  .count = 1 << 20,
                                  .counts = counts,
                                  .receive_counts = counts};
    int lost = -1;
    bool moved = false;
    struct set set;
    add_set(env, state, 0, &set);
    if (env->job->rank == 0) {
        backend_mpi.start(state, set.team, &batch, NULL);
        for (int i = 0; i < 100; i++)
            backend_mpi.test(state, set.team, &moved, &lost, NULL);
    }
    int64_t begin_us = clock_us();
    backend_mpi.remove_team(state, set.team);
    backend_mpi.close(state);
    return say(env, clock_us() - begin_us < 3 * SECOND_US ? "closed in time" : "closed too late");
}

static int use_backend(const struct backend_env *env, const char *mode)
{
    const char *why = NULL;
    void *state = NULL;
    struct hvd_error err;
    if (!backend_mpi.available(env, &why))
        return say(env, why);
    if (backend_mpi.open(env, clock_us() + 20 * SECOND_US, &state, &err) != HVD_OK)
        return say(env, err.text);
    if (strcmp(mode, "give-up") == 0)
        return give_up(env, state, COLL_ALLREDUCE);
    if (strcmp(mode, "give-up-alltoall") == 0)
        return give_up(env, state, COLL_ALLTOALL);
    int status = run_batches(env, state);
    backend_mpi.close(state);
    return status;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "hvd";
    bool other_world = strcmp(mode, "world") == 0;
    struct hvd_job job = {.rank = (int)parse_count_or(getenv("OMPI_COMM_WORLD_RANK"), -1),
                          .size = (int)parse_count_or(getenv("OMPI_COMM_WORLD_SIZE"), -1) + other_world};
    struct hvd_config config = {.backends = BACKEND_MPI + 1};
    struct tree_shape shape = {.node_count = 1};
    struct backend_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
#ifdef HAVE_MPI_PROBE
    int level = 0;
    int wanted = argc > 2 ? (int)parse_count_or(argv[2], -1) : MPI_THREAD_SERIALIZED;
    bool finalized = strcmp(mode, "finalized") == 0;
    if (strcmp(mode, "level") == 0 || finalized)
        MPI_Init_thread(NULL, NULL, wanted, &level);
    if (finalized)
        MPI_Finalize();
#endif
    int status = use_backend(&env, mode);
#ifdef HAVE_MPI_PROBE
    if (strcmp(mode, "level") == 0)
        MPI_Finalize();
#endif
    return status;
}
