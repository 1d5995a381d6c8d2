/* backends.c: which backend carries the operations of which sets, run by every rank of a job: `backends
 * CASE`. Exits 0 if results are right; --hvd-log=debug prints which backend carried them. */
#include <sys/stat.h>

#include "ranks.h"

#define COUNT     70000 /* more than one chunk of shared memory */
#define MAX_RANKS 16

/* Sum something that each member of the set has, in place. */
static enum hvd_status add_up(hvd_set set, const int *members, int member_count)
{
    static int64_t data[COUNT];
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = hvd_vector("sum", data, COUNT, HVD_INT64);
    int64_t expected = 0;
    options.set = set;
    for (int i = 0; i < member_count; i++)
        expected += members[i] + 1;
    for (int i = 0; i < COUNT; i++)
        data[i] = (rank + 1) * (int64_t)(i + set);
    enum hvd_status status = hvd_allreduce(&tensor, HVD_SUM, &options);
    for (int i = 0; status == HVD_OK && i < COUNT; i++) {
        if (data[i] != expected * (i + set))
            ranks_fail("set %d: element %d is %lld, expected %lld", set, i, (long long)data[i],
                       (long long)(expected * (i + set)));
    }
    return status;
}

/* Sets 1 to 3 of four ranks; with two ranks on each of two nodes the third is on both. */
static void case_sets(void)
{
    static const int pairs[3][2] = {{0, 1}, {2, 3}, {1, 2}}, all[] = {0, 1, 2, 3};
    if (size != 4)
        ranks_fail("this needs 4 ranks");
    for (int i = 0; i < 3; i++) {
        hvd_set set = -1;
        must(hvd_set_add(pairs[i], 2, &set), "hvd_set_add");
        if (set != i + 1)
            ranks_fail("the set has number %d, expected %d", set, i + 1);
        if (hvd_set_rank(set) >= 0)
            must(add_up(set, pairs[i], 2), "allreduce of a pair");
    }
    must(add_up(HVD_ALL_RANKS, all, 4), "allreduce of all");
}

static int list_members(int bits, int *members)
{
    int count = 0;
    for (int i = 0; bits >> i != 0; i++) {
        if ((bits >> i & 1) != 0)
            members[count++] = i;
    }
    return count;
}

/* Add all possible sets, more than a node's shared memory has room for, and use each. Returns for how many of
 * them no backend was left. */
static int use_all_sets(void)
{
    int members[7], refused = 0;
    if (size != 7)
        ranks_fail("this needs 7 ranks");
    for (int bits = 1; bits < 127; bits++) {
        hvd_set set = -1;
        int count = list_members(bits, members);
        if (count < 2)
            continue;
        must(hvd_set_add(members, count, &set), "hvd_set_add");
        if (hvd_set_rank(set) < 0)
            continue;
        enum hvd_status status = add_up(set, members, count);
        if (status == HVD_ERR_UNSUPPORTED)
            must_say("see the option backends", "allreduce of a set without room");
        else
            must(status, "allreduce of a set");
        refused += status != HVD_OK;
    }
    return refused;
}

static void case_windows(void)
{
    static const int all[] = {0, 1, 2, 3, 4, 5, 6};
    if (use_all_sets() != 0)
        ranks_fail("another backend should have carried what has no room");
    must(add_up(HVD_ALL_RANKS, all, 7), "allreduce of all");
}

/* There is no backend besides shm. */
static void case_no_windows(void)
{
    static const int all[] = {0, 1, 2, 3, 4, 5, 6};
    if (use_all_sets() == 0)
        ranks_fail("there was room for all sets");
    must(add_up(HVD_ALL_RANKS, all, 7), "allreduce of all");
}

static int count_sockets(void)
{
    struct stat status;
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    return count;
}

/* Each rank sends COUNT plus r rows to rank r; the rows contain the sender's number. */
static void send_to_each(void)
{
    int64_t splits[MAX_RANKS], row_count = 0;
    struct hvd_result result = {0};
    for (int to = 0; to < size; to++)
        row_count += splits[to] = COUNT + to;
    int64_t *rows = malloc((size_t)row_count * sizeof(*rows));
    for (int64_t i = 0; rows != NULL && i < row_count; i++)
        rows[i] = rank;
    struct hvd_tensor tensor = hvd_vector("rows", rows, row_count, HVD_INT64);
    tensor.output = NULL;
    must(hvd_alltoall(&tensor, splits, &result, NULL), "alltoall");
    if (result.row_count != (int64_t)size * (COUNT + rank))
        ranks_fail("%lld rows came", (long long)result.row_count);
    for (int64_t i = 0; i < result.row_count; i++) {
        if (((const int64_t *)result.data)[i] != i / (COUNT + rank))
            ranks_fail("row %lld is of rank %lld", (long long)i,
                       (long long)((const int64_t *)result.data)[i]);
    }
    free(result.data);
    free(rows);
}

/* Print how many connections the first alltoall makes beyond those of the first allreduce. */
static void case_alltoall(void)
{
    int all[MAX_RANKS];
    if (size > MAX_RANKS)
        ranks_fail("this needs %d ranks at most", MAX_RANKS);
    for (int i = 0; i < size; i++)
        all[i] = i;
    must(add_up(HVD_ALL_RANKS, all, size), "allreduce of all");
    int before = count_sockets();
    send_to_each();
    printf("rank %d has %d more connections\n", rank, count_sockets() - before);
    must(add_up(HVD_ALL_RANKS, all, size), "allreduce of all");
}

static const struct ranks_case cases[] = {
    {"alltoall", case_alltoall, false},
    {"sets", case_sets, false},
    {"rooms", case_windows, false},
    {"no-rooms", case_no_windows, false},
};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
