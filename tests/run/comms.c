/* comms.c: jobs and process sets made from MPI communicators: `comms CASE`, started by mpirun. */
#include <hvd_mpi.h>

#include "ranks.h"

static int world_rank, world_size;

static void begin_mpi(void)
{
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

static MPI_Comm split(MPI_Comm comm, int colour, int key)
{
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(comm, colour, key, &part);
    return part;
}

/* Check that the job is [comm]: the same size and order of ranks, and the same sum as MPI's. */
static void must_be_job(MPI_Comm comm)
{
    int comm_rank = -1, comm_size = -1;
    int64_t own = 1000 + world_rank, expected = 0;
    struct hvd_tensor tensor = hvd_vector("sum", &own, 1, HVD_INT64);
    MPI_Comm_rank(comm, &comm_rank);
    MPI_Comm_size(comm, &comm_size);
    ranks_know();
    if (rank != comm_rank || size != comm_size)
        ranks_fail("the communicator says %d of %d", comm_rank, comm_size);
    MPI_Allreduce(&own, &expected, 1, MPI_INT64_T, MPI_SUM, comm);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
    if (own != expected)
        ranks_fail("the sum is %lld, by MPI %lld", (long long)own, (long long)expected);
}

/* Check that [comm] is the process set [expected], and that a sum in it is the same as MPI's. */
static void must_be_set(MPI_Comm comm, hvd_set expected)
{
    hvd_set set = -1;
    struct hvd_options options = HVD_OPTIONS_INIT;
    float own[3] = {(float)world_rank, 1, 0.5F}, sum[3] = {0};
    struct hvd_tensor tensor = hvd_vector("in a set", own, 3, HVD_FLOAT32);
    must(hvd_set_of_comm(comm, &set), "hvd_set_of_comm");
    if (set != expected)
        ranks_fail("a communicator is set %d, expected %d", set, expected);
    options.set = set;
    MPI_Allreduce(own, sum, 3, MPI_FLOAT, MPI_SUM, comm);
    must(hvd_allreduce(&tensor, HVD_SUM, &options), "in a set");
    if (memcmp(own, sum, sizeof(sum)) != 0)
        ranks_fail("set %d: another sum than that of MPI", set);
}

/* The processes of even rank are one job, the last of them first; each of the others is a job by itself. */
static void case_job(void)
{
    begin_mpi();
    bool alone = world_rank % 2 == 1;
    MPI_Comm comm = split(MPI_COMM_WORLD, alone ? 1 : 0, -world_rank);
    must(hvd_init_comm(alone ? MPI_COMM_SELF : comm), "hvd_init_comm");
    must_be_job(alone ? MPI_COMM_SELF : comm);
    MPI_Comm_free(&comm);
}

/* Sets from communicators: two halves, one that only some ranks have, all ranks, and a half once more. */
static void case_sets(void)
{
    begin_mpi();
    MPI_Comm parts = split(MPI_COMM_WORLD, world_rank % 2, -world_rank);
    MPI_Comm few = split(MPI_COMM_WORLD, world_rank < 2 ? 0 : MPI_UNDEFINED, world_rank);
    MPI_Comm comms[] = {MPI_COMM_WORLD, parts, MPI_COMM_WORLD, few, parts};
    hvd_set none = 77;
    must(hvd_init_comms(comms, 5), "hvd_init_comms");
    must_be_job(MPI_COMM_WORLD);
    if (hvd_set_list(NULL, 0) != 4)
        ranks_fail("%d sets", hvd_set_list(NULL, 0));
    must_be_set(MPI_COMM_WORLD, HVD_ALL_RANKS);
    /* the half whose first member has the lower rank has the lower number; that of the even half is last_even
     */
    int last_even = (world_size - 1) / 2 * 2, last_odd = (world_size - 2) / 2 * 2 + 1;
    must_be_set(parts, world_rank % 2 == 0 ? 1 + (last_even > last_odd) : 1 + (last_odd > last_even));
    if (few != MPI_COMM_NULL)
        must_be_set(few, 3);
    must_be(hvd_set_of_comm(MPI_COMM_SELF, &none), HVD_ERR_SET, "a set that there is not");
    must_be(hvd_set_of_comm(MPI_COMM_NULL, &none), HVD_ERR_SET, "no communicator");
    if (none != 77)
        ranks_fail("a failed search left %d", none);
}

/* Two jobs, each with a set. */
static void case_halves(void)
{
    begin_mpi();
    MPI_Comm half = split(MPI_COMM_WORLD, world_rank < world_size / 2, -world_rank);
    int half_rank = -1;
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm pair = split(half, half_rank < 2 ? 0 : MPI_UNDEFINED, half_rank);
    MPI_Comm comms[] = {half, pair};
    hvd_set none = 77;
    must(hvd_init_comms(comms, 2), "hvd_init_comms");
    must_be_job(half);
    must_be_set(half, HVD_ALL_RANKS);
    if (pair != MPI_COMM_NULL)
        must_be_set(pair, 1);
    must_be(hvd_set_of_comm(MPI_COMM_WORLD, &none), HVD_ERR_SET, "more than the job");
}

/* On some ranks comms[2] is larger than the job. All ranks get the error, and can start without comms[2]. */
static void case_outside(void)
{
    begin_mpi();
    MPI_Comm half = split(MPI_COMM_WORLD, world_rank < world_size / 2, world_rank);
    MPI_Comm comms[] = {half, half, world_rank % 2 == 1 ? MPI_COMM_WORLD : half};
    must_be(hvd_init_comms(comms, 3), HVD_ERR_INVALID, "a communicator that is no part");
    must_say("hvd_init_comms: comms[2] has ranks that are not in comms[0]", "a communicator that is no part");
    must(hvd_init_comms(comms, 2), "hvd_init_comms");
    must_be_job(half);
}

static void case_counts(void)
{
    begin_mpi();
    MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    must_be(hvd_init_comms(comms, world_rank == 1 ? 1 : 2), HVD_ERR_MISMATCH, "numbers that differ");
    must_say("others give 1 to 2; give all ranks the same number", "numbers that differ");
    must(hvd_init_comms(comms, 2), "hvd_init_comms");
    must_be_job(MPI_COMM_WORLD);
    must_be_set(MPI_COMM_SELF, 1 + world_rank);
}

static void case_early(void)
{
    hvd_set set = 77;
    must_be(hvd_init_comm(MPI_COMM_WORLD), HVD_ERR_STATE, "before MPI_Init");
    must_say("hvd_init_comm: MPI is not initialised; call MPI_Init_thread first", "before MPI_Init");
    begin_mpi();
    must_be(hvd_set_of_comm(MPI_COMM_WORLD, &set), HVD_ERR_STATE, "before hvd_init");
    must_be(hvd_init_comm(MPI_COMM_NULL), HVD_ERR_INVALID, "no communicator");
    must_say("MPI_COMM_NULL; a process that has no part gives MPI_COMM_SELF", "no communicator");
    must_be(hvd_init_comms(NULL, 0), HVD_ERR_INVALID, "no communicators");
    must(hvd_init_comm(MPI_COMM_SELF), "hvd_init_comm");
}

int main(int argc, char **argv)
{
    static const struct ranks_case cases[] = {
        {"job", case_job, true},         {"sets", case_sets, true},     {"halves", case_halves, true},
        {"outside", case_outside, true}, {"counts", case_counts, true}, {"early", case_early, true},
    };
    int status = ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    MPI_Finalize();
    return status;
}
