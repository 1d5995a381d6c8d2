/* errors.c: one case for each mistake that one rank makes alone, run by every rank of a job: `errors CASE`.
 * Exits 0 if this rank got the expected error, nothing stayed in flight, and the job works afterwards;
 * otherwise prints what happened. */
#include <math.h>
#include <stdint.h>

#include "ranks.h"

static double memory[2][64];

/* ---- Groups ---- */

static int callbacks;

static void count_callback(enum hvd_status status, void *arg)
{
    *(enum hvd_status *)arg = status;
    callbacks++;
}

static void case_group(void)
{
    static double data[3][4];
    enum hvd_status seen = HVD_IN_PROGRESS;
    hvd_handle handle = 77;
    struct hvd_tensor tensors[3];
    static const char *const names[3] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        tensors[i] = hvd_vector(names[i], data[i], 4, HVD_FLOAT64);
    /* a tensor of the group is invalid on this rank */
    tensors[1].ndim = 9;
    must_be(hvd_grouped_allreduce_async(tensors, 3, HVD_SUM, NULL, count_callback, &seen, &handle),
            HVD_ERR_INVALID, "a bad member");
    must_say("\"b\"", "a bad member");
    must_say("9", "a bad member");
    tensors[1].ndim = 1;
    /* two tensors of the group have the same name */
    tensors[2].name = "a";
    must_be(hvd_grouped_allreduce_async(tensors, 3, HVD_SUM, NULL, count_callback, &seen, &handle),
            HVD_ERR_DUPLICATE, "a name twice");
    must_say("\"a\"", "a name twice");
    tensors[2].name = "c";
    /* a tensor of the group is in flight: the odd rank submits it only after the barrier */
    hvd_handle flying = 0;
    if (!odd && size > 1) {
        must(hvd_allreduce_async(&tensors[1], HVD_SUM, NULL, NULL, NULL, &flying), "b alone");
        must_be(hvd_grouped_allreduce_async(tensors, 3, HVD_SUM, NULL, count_callback, &seen, &handle),
                HVD_ERR_DUPLICATE, "a member in flight");
        must_say("\"b\"", "a member in flight");
    }
    if (handle != 77 || callbacks != 0 || seen != HVD_IN_PROGRESS)
        ranks_fail("a group that was refused left a trace");
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    if (odd && size > 1)
        must(hvd_allreduce(&tensors[1], HVD_SUM, NULL), "b alone");
    else if (size > 1)
        must(hvd_wait(flying), "b alone");
    /* the refused groups left nothing in flight: each name is free, alone and in a group */
    must(hvd_allreduce(&tensors[2], HVD_SUM, NULL), "c alone");
    must(hvd_allreduce(&tensors[0], HVD_SUM, NULL), "a alone");
    must(hvd_grouped_allreduce_async(tensors, 3, HVD_SUM, NULL, count_callback, &seen, &handle), "the group");
    must(hvd_wait(handle), "the group");
    if (callbacks != 1 || seen != HVD_OK)
        ranks_fail("%d callbacks, the last with %d", callbacks, seen);
}

/* ---- Sets ---- */

static void case_set_removed(void)
{
    int ranks[64];
    hvd_set set = -1;
    hvd_handle handles[2] = {0};
    enum hvd_status seen = HVD_IN_PROGRESS;
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = hvd_vector("pending", memory, 8, HVD_FLOAT64);
    struct hvd_tensor other = hvd_vector("pending", memory[1], 8, HVD_FLOAT64);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    must(hvd_set_add(&ranks[1], size - 1, &set), "hvd_set_add");
    options.set = set;
    if (rank == 0) {
        must_be(hvd_allreduce(&tensor, HVD_SUM, &options), HVD_ERR_SET, "no member");
        must_be(hvd_barrier(set), HVD_ERR_SET, "no member");
        must_be(hvd_join(set, NULL), HVD_ERR_SET, "no member");
        must_say("rank 0", "no member");
    }
    /* the odd rank does not submit, so the others' operations stay pending, a barrier too */
    if (rank != 0 && !odd) {
        must(hvd_allreduce_async(&tensor, HVD_SUM, &options, count_callback, &seen, &handles[0]), "pending");
        must(hvd_barrier_async(set, NULL, NULL, &handles[1]), "pending");
    }
    must(hvd_allreduce(&other, HVD_SUM, NULL), "the same name in all ranks");
    must(hvd_set_remove(set), "hvd_set_remove");
    if (rank != 0 && !odd) {
        must_be(hvd_wait(handles[0]), HVD_ERR_SET, "a set removed with an operation pending");
        must_say("\"pending\"", "a set removed with an operation pending");
        must_say("removed", "a set removed with an operation pending");
        must_be(hvd_wait(handles[1]), HVD_ERR_SET, "a set removed with a barrier pending");
        if (callbacks != 1 || seen != HVD_ERR_SET)
            ranks_fail("%d callbacks, the last with %d", callbacks, seen);
    }
    must_be(hvd_allreduce(&tensor, HVD_SUM, &options), HVD_ERR_SET, "a set that was removed");
    must_be(hvd_set_remove(set), HVD_ERR_SET, "a set that was removed");
    if (hvd_set_rank(set) != -1 || hvd_set_size(set) != -1 || hvd_set_ranks(set, ranks, 64) != -1 ||
        hvd_set_list(NULL, 0) != 1)
        ranks_fail("a set that was removed is still there");
    hvd_set next = -1;
    must(hvd_set_add(&ranks[1], size - 1, &next), "hvd_set_add");
    if (next <= set)
        ranks_fail("set %d was made after %d", next, set);
    options.set = next;
    must_be(hvd_allreduce(&tensor, HVD_SUM, &options), rank == 0 ? HVD_ERR_SET : HVD_OK, "its successor");
}

static void case_set_arguments(void)
{
    const int all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int twice[] = {0, size, 0};
    const int negative[] = {-3};
    hvd_set set = 5;
    must_be(hvd_set_add(all, 0, &set), HVD_ERR_INVALID, "no ranks");
    must_be(hvd_set_add(NULL, 1, &set), HVD_ERR_INVALID, "no list");
    must_be(hvd_set_add(all, 1, NULL), HVD_ERR_INVALID, "nowhere to put it");
    must_be(hvd_set_add(twice, 2, &set), HVD_ERR_INVALID, "a rank that there is not");
    must_be(hvd_set_add(negative, 1, &set), HVD_ERR_INVALID, "a negative rank");
    must_say("-3", "a negative rank");
    const int double_zero[] = {0, 0};
    must_be(hvd_set_add(double_zero, 2, &set), HVD_ERR_INVALID, "a rank twice");
    must_say("0", "a rank twice");
    must_be(hvd_set_remove(HVD_ALL_RANKS), HVD_ERR_INVALID, "the set of all ranks");
    must_be(hvd_set_remove(999), HVD_ERR_SET, "a set that there is not");
    must_say("999", "a set that there is not");
    must_be(hvd_set_remove(-1), HVD_ERR_SET, "a negative set");
    must_be(hvd_barrier(999), HVD_ERR_SET, "a set that there is not");
    must_say("999", "a set that there is not");
    if (set != 5)
        ranks_fail("a refused call wrote %d", set);
    must_be(hvd_set_add(all, size, &set), HVD_ERR_DUPLICATE, "all ranks");
    if (set != HVD_ALL_RANKS)
        ranks_fail("the set of all ranks is %d", set);
    if (size > 1) {
        hvd_set one = -1;
        must(hvd_set_add(&all[1], 1, &one), "hvd_set_add");
        must_be(hvd_set_add(&all[1], 1, &set), HVD_ERR_DUPLICATE, "a set that there is");
        if (set != one)
            ranks_fail("the set that there is, %d, was said to be %d", one, set);
        struct hvd_options options = {sizeof(options), one, 1, 1, HVD_WIRE_EXACT, NULL};
        struct hvd_tensor tensor = hvd_vector("t", memory, 8, HVD_FLOAT32);
        if (rank == 1) {
            must_be(hvd_broadcast(&tensor, 0, &options), HVD_ERR_INVALID, "a root that is no member");
            must_say("0", "a root that is no member");
        }
    }
}

/* ---- Arguments that are wrong on one rank ---- */

#define REFUSED(call, text)                    \
    do {                                       \
        must_be(call, HVD_ERR_INVALID, #call); \
        must_say(text, #call);                 \
    } while (0)

static struct hvd_options with(double prescale, double postscale, enum hvd_wire wire)
{
    return (struct hvd_options){sizeof(struct hvd_options), HVD_ALL_RANKS, prescale, postscale, wire, NULL};
}

static void refuse_reductions(void)
{
    struct hvd_tensor tensor = hvd_vector("t", memory, 8, HVD_FLOAT32);
    struct hvd_tensor bools = hvd_vector("t", memory, 8, HVD_BOOL);
    struct hvd_tensor ints = hvd_vector("t", memory, 8, HVD_INT32);
    struct hvd_tensor scalar = {"t", memory, memory, HVD_FLOAT32, 0, {0}, HVD_MEMORY_ANY, 0};
    struct hvd_options zero = with(0, 1, HVD_WIRE_EXACT);
    struct hvd_options infinite = with(1, (double)INFINITY, HVD_WIRE_EXACT);
    struct hvd_options nan_factor = with((double)NAN, 1, HVD_WIRE_EXACT);
    struct hvd_options bad_wire = with(1, 1, (enum hvd_wire)9);
    struct hvd_options half = with(1, 1, HVD_WIRE_FLOAT16);
    REFUSED(hvd_allreduce(&tensor, (enum hvd_op)9, NULL), "9");
    REFUSED(hvd_allreduce(&bools, HVD_AVERAGE, NULL), "bool");
    REFUSED(hvd_allreduce(&tensor, HVD_SUM, &zero), "prescale is 0");
    REFUSED(hvd_allreduce(&tensor, HVD_SUM, &infinite), "postscale is inf");
    REFUSED(hvd_allreduce(&tensor, HVD_SUM, &nan_factor), "nan");
    REFUSED(hvd_allreduce(&tensor, HVD_SUM, &bad_wire), "9");
    REFUSED(hvd_allreduce(&ints, HVD_SUM, &half), "int32");
    REFUSED(hvd_allreduce(&ints, HVD_ADASUM, NULL), "int32");
    REFUSED(hvd_reducescatter(&tensor, HVD_ADASUM, NULL), "HVD_ADASUM is not supported");
    REFUSED(hvd_reducescatter(&scalar, HVD_SUM, NULL), "scalar");
    if ((size & (size - 1)) != 0) {
        char ranks[16];
        snprintf(ranks, sizeof(ranks), "%d", size);
        REFUSED(hvd_allreduce(&tensor, HVD_ADASUM, NULL), ranks);
    }
    REFUSED(hvd_grouped_allreduce(&tensor, 0, HVD_SUM, NULL), "0");
    REFUSED(hvd_grouped_allreduce(&tensor, HVD_MAX_GROUP + 1, HVD_SUM, NULL), "16385");
    REFUSED(hvd_grouped_allreduce(NULL, 1, HVD_SUM, NULL), "NULL");
    REFUSED(hvd_broadcast(&tensor, size, NULL), "root");
    REFUSED(hvd_broadcast(&tensor, -1, NULL), "-1");
}

static void refuse_rows(void)
{
    int64_t splits[64] = {0};
    struct hvd_result result = {0};
    struct hvd_tensor rows = {"t", memory, NULL, HVD_FLOAT32, 2, {size * 2 + 1, 2}, HVD_MEMORY_ANY, 0};
    struct hvd_tensor scalar = {"t", memory, NULL, HVD_FLOAT32, 0, {0}, HVD_MEMORY_ANY, 0};
    struct hvd_tensor with_output = {"t", memory, memory[1], HVD_FLOAT32, 1, {4}, HVD_MEMORY_ANY, 0};
    struct hvd_tensor no_input = {"t", NULL, NULL, HVD_FLOAT32, 1, {4}, HVD_MEMORY_ANY, 0};
    char text[64];
    REFUSED(hvd_allgather(&scalar, &result, NULL), "scalar");
    REFUSED(hvd_allgather(&rows, NULL, NULL), "result");
    REFUSED(hvd_allgather(&with_output, &result, NULL), "output");
    REFUSED(hvd_allgather(&no_input, &result, NULL), "4 elements");
    REFUSED(hvd_alltoall(&scalar, NULL, &result, NULL), "scalar");
    if (size > 1) {
        snprintf(text, sizeof(text), "%d rows", size * 2 + 1);
        REFUSED(hvd_alltoall(&rows, NULL, &result, NULL), text);
    }
    splits[0] = size;
    snprintf(text, sizeof(text), "is %d, but shape[0] is %d", size, size * 2 + 1);
    REFUSED(hvd_alltoall(&rows, splits, &result, NULL), text);
    splits[size - 1] = -7;
    REFUSED(hvd_alltoall(&rows, splits, &result, NULL), "-7");
    if (size > 1) {
        splits[0] = INT64_MAX;
        splits[size - 1] = INT64_MAX;
        REFUSED(hvd_alltoall(&rows, splits, &result, NULL), "9223372036854775807");
    }
    if (result.data != NULL || result.row_count != 0)
        ranks_fail("a refused call wrote its result");
}

/* A call that is refused for a bad argument leaves nothing in flight: its name is free. */
static void case_arguments(void)
{
    hvd_set list[1] = {77};
    struct hvd_tensor tensor = hvd_vector("t", memory, 8, HVD_FLOAT32);
    refuse_reductions();
    refuse_rows();
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "the name after all that");
    must_be(hvd_wait(0), HVD_ERR_INVALID, "handle 0");
    must_be(hvd_test(0), HVD_ERR_INVALID, "handle 0");
    must_be(hvd_init(), HVD_ERR_STATE, "hvd_init again");
    if (hvd_set_list(list, 0) != 1 || list[0] != 77 || hvd_set_list(list, 1) != 1 || list[0] != 0)
        ranks_fail("hvd_set_list wrote %d", list[0]);
    if (strcmp(hvd_status_text(HVD_ERR_SET), "") == 0 || hvd_status_text((enum hvd_status) - 99) == NULL)
        ranks_fail("a status without a word");
}

/* One rank has no memory for its result. The result of the other ranks is unspecified, but none hangs. */
static void *no_memory(int64_t bytes, void *arg)
{
    *(int64_t *)arg = bytes;
    return NULL;
}

/* The same in a group: it ends with the status of the tensor that failed, whichever it was, and without
 * results. */
static void refuse_memory_in_group(int which)
{
    int64_t asked = 0;
    static const char *const names[3] = {"g0", "g1", "g2"};
    struct hvd_tensor tensors[3];
    struct hvd_result results[3] = {{0}};
    for (int i = 0; i < 3; i++)
        tensors[i] = (struct hvd_tensor){names[i], memory, NULL, HVD_FLOAT32, 1, {5}, HVD_MEMORY_ANY, 0};
    if (odd)
        results[which] = (struct hvd_result){.allocate = no_memory, .arg = &asked};
    enum hvd_status status = hvd_grouped_allgather(tensors, results, 3, NULL);
    must_be(status, odd ? HVD_ERR_NO_MEMORY : HVD_OK, "no memory for a result of a group");
    if (odd)
        must_say(names[which], "no memory for a result of a group");
    for (int i = 0; i < 3; i++) {
        if ((results[i].data == NULL) != odd)
            ranks_fail("no memory for result %d of a group: result %d is %p", which, i, results[i].data);
        free(results[i].data);
    }
}

static void case_allocate(void)
{
    int64_t asked = 0;
    struct hvd_tensor tensor = {"t", memory, NULL, HVD_FLOAT32, 1, {5}, HVD_MEMORY_ANY, 0};
    struct hvd_result result = {.allocate = odd ? no_memory : NULL, .arg = &asked};
    enum hvd_status status = hvd_allgather(&tensor, &result, NULL);
    if (odd) {
        must_be(status, HVD_ERR_NO_MEMORY, "no memory for a result");
        must_say("\"t\"", "no memory for a result");
        if (asked != 20 * (int64_t)size || result.data != NULL)
            ranks_fail("%lld bytes were asked for", (long long)asked);
    } else {
        free(result.data);
    }
    for (int i = 0; i < 3; i++)
        refuse_memory_in_group(i);
    struct hvd_result again = {0};
    must(hvd_allgather(&tensor, &again, NULL), "the job after that");
    free(again.data);
}

/* ---- Leaving ---- */

/* Rank 0 shuts down. The others have operations pending, two of them in a set without rank 0. */
static void case_shutdown(void)
{
    const int members[] = {1, 2};
    hvd_set set = -1;
    hvd_handle handle = 0;
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = hvd_vector("pending", memory, 8, HVD_FLOAT64);
    if (size < 3)
        ranks_fail("this needs 3 ranks");
    must(hvd_set_add(members, 2, &set), "hvd_set_add");
    options.set = set;
    tensor.name = rank == 1 ? "pending" : "pending too";
    if (rank != 0)
        must(hvd_allreduce_async(&tensor, HVD_SUM, rank <= 2 ? &options : NULL, NULL, NULL, &handle),
             "pending");
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
    if (rank != 0) {
        must_be(hvd_wait(handle), HVD_ERR_SHUTDOWN, "pending at shutdown");
        must_say(tensor.name, "pending at shutdown");
        must_say("rank 0", "pending at shutdown");
        must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_SHUTDOWN, "after it");
    }
    must(hvd_shutdown(), "hvd_shutdown");
    must_be(hvd_barrier(HVD_ALL_RANKS), HVD_ERR_STATE, "after hvd_shutdown");
    must_be(hvd_set_add(members, 1, &set), HVD_ERR_STATE, "after hvd_shutdown");
    if (hvd_set_list(NULL, 0) != -1 || hvd_set_size(HVD_ALL_RANKS) != -1)
        ranks_fail("sets after hvd_shutdown");
    exit(0);
}

static const struct ranks_case cases[] = {
    {"group", case_group, false},
    {"set-removed", case_set_removed, false},
    {"set-arguments", case_set_arguments, false},
    {"arguments", case_arguments, false},
    {"allocate", case_allocate, false},
    {"shutdown", case_shutdown, false},
};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
