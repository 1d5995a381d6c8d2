/* plane_mpi.c: one rank of a job that mpirun starts: batches over the plane mpi, as its argument says.
 *
 *     hvd        leave MPI_Init and MPI_Finalize to the plane
 *     level N    first MPI_Init_thread with level N, and MPI_Finalize at the end
 *     finalized  MPI_Init and MPI_Finalize first
 *     world      a job that is not MPI_COMM_WORLD
 *     give-up    rank 0 begins a batch that the others do not, and closes
 *
 * Built with MPI (HAVE_MPI_PROBE) and, for hvd, world and give-up, without: there the module brings it. */
#ifdef HAVE_MPI_PROBE
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/sums.h"
#include "base/clock.h"
#include "base/parse.h"

#define SECOND_US 1000000

/* Also the end of a rank that was refused: a status that is not 0 would make mpirun kill the others before
 * they have spoken. */
static int say(const struct plane_env *env, const char *text)
{
    printf("rank %d: %s\n", env->job->rank, text);
    return EXIT_SUCCESS;
}

static int carry(void *state, const struct plane_batch *batch, struct hvd_error *err)
{
    int64_t end_us = clock_us() + 30 * SECOND_US;
    int lost = -1;
    int status = plane_mpi.start(state, batch, err);
    while (status >= 0) {
        bool moved = false;
        status = plane_mpi.test(state, &moved, &lost, err);
        if (status != HVD_IN_PROGRESS)
            break;
        if (clock_us() > end_us)
            return error_set(err, HVD_ERR_TIMEOUT, "the batch takes too long");
    }
    return status;
}

static bool check_batch(const struct plane_env *env, void *state, struct plane_batch batch, bool in_place)
{
    struct hvd_error err = {""};
    size_t bytes = (size_t)batch.count * dtype_bytes(batch.need.dtype);
    char *input = calloc(1, bytes);
    char *output = in_place ? input : malloc(bytes);
    void *expected = sums_expected(&batch, env->job->size);
    sums_input(&batch, env->job->rank, input);
    batch.input = input;
    batch.output = output;
    bool good = carry(state, &batch, &err) == HVD_OK && memcmp(output, expected, bytes) == 0;
    if (!in_place) {
        sums_input(&batch, env->job->rank, expected);
        good = good && memcmp(input, expected, bytes) == 0;
        free(output);
    }
    if (!good)
        printf("rank %d: batch %llu is wrong %s\n", env->job->rank, (unsigned long long)batch.sequence,
               err.text);
    free(input);
    free(expected);
    return good;
}

static int run_batches(const struct plane_env *env, void *state)
{
    static const int64_t counts[] = {1, 3, 65535, 65536, 65537, 1000003};
    for (int i = 0; i < 48; i++) {
        struct plane_batch batch = {
            .need = {i % 5 == 4 ? PLANE_BROADCAST : PLANE_ALLREDUCE, (enum hvd_dtype)(i % SUMS_DTYPES),
                     i & 4 ? HVD_SUM : HVD_AVERAGE},
            .root = i % env->job->size,
            .sequence = (uint64_t)i + 1,
            .count = counts[i % 6],
        };
        if (!check_batch(env, state, batch, i & 1))
            return EXIT_FAILURE;
    }
    return say(env, "all sums are right");
}

/* What rank 0 is waiting for never comes; closing must end nevertheless, and soon. */
static int give_up(const struct plane_env *env, void *state)
{
    static float data[1 << 20];
    struct plane_batch batch = {{PLANE_ALLREDUCE, HVD_FLOAT32, HVD_SUM}, 0, 1, data, data, 1 << 20};
    int lost = -1;
    bool moved = false;
    if (env->job->rank == 0) {
        plane_mpi.start(state, &batch, NULL);
        for (int i = 0; i < 100; i++)
            plane_mpi.test(state, &moved, &lost, NULL);
    }
    int64_t begin_us = clock_us();
    plane_mpi.close(state);
    return say(env, clock_us() - begin_us < 3 * SECOND_US ? "closed in time" : "closed too late");
}

static int use_plane(const struct plane_env *env, const char *mode)
{
    const char *why = NULL;
    void *state = NULL;
    struct hvd_error err;
    if (!plane_mpi.available(env, &why))
        return say(env, why);
    if (plane_mpi.open(env, clock_us() + 20 * SECOND_US, &state, &err) != HVD_OK)
        return say(env, err.text);
    if (strcmp(mode, "give-up") == 0)
        return give_up(env, state);
    int status = run_batches(env, state);
    plane_mpi.close(state);
    return status;
}

static int64_t number(const char *text)
{
    const char *why = NULL;
    int64_t value = -1;
    if (text == NULL || parse_count(text, &value, &why) < 0)
        return -1;
    return value;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "hvd";
    bool other_world = strcmp(mode, "world") == 0;
    struct hvd_job job = {.rank = (int)number(getenv("OMPI_COMM_WORLD_RANK")),
                          .size = (int)number(getenv("OMPI_COMM_WORLD_SIZE")) + other_world};
    struct hvd_config config = {.planes = PLANE_MPI + 1};
    struct shape shape = {.node_count = 1};
    struct plane_env env = {.config = &config, .job = &job, .shape = &shape, .epoll_fd = -1};
#ifdef HAVE_MPI_PROBE
    int level = 0;
    int wanted = argc > 2 ? (int)number(argv[2]) : MPI_THREAD_SERIALIZED;
    bool finalized = strcmp(mode, "finalized") == 0;
    if (strcmp(mode, "level") == 0 || finalized)
        MPI_Init_thread(NULL, NULL, wanted, &level);
    if (finalized)
        MPI_Finalize();
#endif
    int status = use_plane(&env, mode);
#ifdef HAVE_MPI_PROBE
    if (strcmp(mode, "level") == 0)
        MPI_Finalize();
#endif
    return status;
}
