/* disagree.c: one case for each way in which ranks can disagree, run by every rank of a job: `disagree CASE`.
 * Exits 0 if all ranks got the same sentence, with the tensor, two ranks and both values, and the job works
 * afterwards; otherwise prints what happened. */
#include <stdint.h>

#include "ranks.h"

#define ROWS 24 /* divisible by every number of ranks that the cases run with */

/* ---- Calls ---- */

enum kind { ALLREDUCE, BROADCAST, ALLGATHER, ALLTOALL, REDUCESCATTER, REDUCE, GATHER, SCATTER };

struct call {
    enum kind kind;
    enum hvd_dtype dtype;
    int ndim;
    int64_t shape[3];
    enum hvd_op op;
    enum hvd_wire wire;
    double prescale, postscale; /* 0 means 1 */
    int root;
    bool splits;        /* reducescatter: the first member gets all rows */
    int group;          /* number of tensors of a group; 0: not a group */
    const char *second; /* name of the group's second tensor, or NULL for the usual one */
    enum hvd_dtype second_dtype;
};

#define MAX_GROUP 3

static double memory[MAX_GROUP][ROWS * 16];

/* Make the blocking call under that name. Its results are not checked. */
static enum hvd_status make_call(const char *name, const struct call *call, hvd_set set)
{
    char names[MAX_GROUP][64];
    struct hvd_tensor tensors[MAX_GROUP];
    struct hvd_result results[MAX_GROUP] = {{0}};
    struct hvd_options options = HVD_OPTIONS_INIT;
    int count = call->group == 0 ? 1 : call->group;
    bool results_are_made =
        call->kind == ALLGATHER || call->kind == ALLTOALL || call->kind == GATHER || call->kind == SCATTER;
    enum hvd_status status = HVD_OK;
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), i == 0 ? "%s" : "%s.%d", name, i);
        tensors[i] =
            (struct hvd_tensor){names[i],       memory[i],  memory[i],
                                call->dtype,    call->ndim, {call->shape[0], call->shape[1], call->shape[2]},
                                HVD_MEMORY_ANY, 0};
        if (results_are_made)
            tensors[i].output = NULL;
    }
    if (call->second != NULL)
        tensors[1].name = call->second;
    if (call->second_dtype != 0)
        tensors[1].dtype = call->second_dtype;
    options.set = set;
    options.wire = call->wire;
    options.prescale = call->prescale == 0 ? 1 : call->prescale;
    options.postscale = call->postscale == 0 ? 1 : call->postscale;
    switch (call->kind) {
    case ALLREDUCE:
        status = call->group == 0 ? hvd_allreduce(tensors, call->op, &options)
                                  : hvd_grouped_allreduce(tensors, count, call->op, &options);
        break;
    case BROADCAST:
        status = hvd_broadcast(tensors, call->root, &options);
        break;
    case ALLGATHER:
        status = call->group == 0 ? hvd_allgather(tensors, results, &options)
                                  : hvd_grouped_allgather(tensors, results, count, &options);
        break;
    case ALLTOALL:
        status = hvd_alltoall(tensors, NULL, results, &options);
        break;
    case REDUCE:
        status = hvd_reduce(tensors, call->op, call->root, &options);
        break;
    case GATHER:
        status = hvd_gather(tensors, call->root, results, &options);
        break;
    case SCATTER:
        status = hvd_scatter(tensors, NULL, call->root, results, &options);
        break;
    case REDUCESCATTER:
        if (call->splits)
            return hvd_reducescatterv(tensors, (int64_t[64]){call->shape[0]}, call->op, &options);
        status = call->group == 0 ? hvd_reducescatter(tensors, call->op, &options)
                                  : hvd_grouped_reducescatter(tensors, count, call->op, &options);
        break;
    }
    for (int i = 0; i < count; i++)
        free(results[i].data);
    return status;
}

/* ---- Disagreements ---- */

/* Does the sentence contain "rank 2 (host) has VALUE"? */
static bool says_has(const char *sentence, int who, const char *value)
{
    char begin[32];
    char end[400];
    snprintf(begin, sizeof(begin), "rank %d (", who);
    snprintf(end, sizeof(end), ") has %s", value);
    for (const char *at = strstr(sentence, begin); at != NULL; at = strstr(at + 1, begin)) {
        const char *close = strchr(at, ')');
        const char *after = close == NULL ? NULL : close + strlen(end);
        if (close != NULL && close > at + strlen(begin) && strncmp(close, end, strlen(end)) == 0 &&
            (*after == ',' || *after == ';' || *after == 0))
            return true;
    }
    return false;
}

/* Check that the sentence names the tensor, the odd rank and another one, their hosts and both values. */
static void must_differ(const char *what, const char *title, const char *odd_value, const char *even_value)
{
    const char *sentence = hvd_error_text();
    bool other = false;
    for (int i = 0; i < size - 1; i++)
        other = other || says_has(sentence, i, even_value);
    if (strncmp(sentence, title, strlen(title)) != 0 || !other || !says_has(sentence, size - 1, odd_value))
        ranks_fail("%s: \"%s\"; expected \"%s\", rank %d with %s, another with %s", what, sentence, title,
                   size - 1, odd_value, even_value);
    must_agree(what);
}

#define SAME .ndim = 2, .shape = {ROWS, 3}
#define F32  .dtype = HVD_FLOAT32

static const struct disagreement {
    const char *what;
    const char *title; /* the text before the name in the sentence */
    struct call odd, even;
    const char *odd_value, *even_value;
} disagreements[] = {
    {"dtype", "allreduce", {SAME, .dtype = HVD_FLOAT64}, {SAME, F32}, "float64[24,3]", "float32[24,3]"},
    {"kind", "", {SAME, F32, .kind = BROADCAST}, {SAME, F32}, "broadcast", "allreduce"},
    {"kind of rows",
     "",
     {SAME, F32, .kind = ALLTOALL},
     {SAME, F32, .kind = ALLGATHER},
     "alltoall",
     "allgather"},
    {"shape",
     "allreduce",
     {F32, .ndim = 2, .shape = {2, 3}},
     {F32, .ndim = 2, .shape = {2, 4}},
     "float32[2,3]",
     "float32[2,4]"},
    {"dimensions", "allreduce", {F32, .ndim = 1, .shape = {1}}, {F32}, "float32[1]", "float32[]"},
    {"prescale", "allreduce", {SAME, F32, .prescale = 0.1}, {SAME, F32}, "prescale 0.1", "prescale 1"},
    {"postscale",
     "allreduce",
     {SAME, F32, .postscale = 2},
     {SAME, F32, .postscale = -0.5},
     "postscale 2",
     "postscale -0.5"},
    {"op", "allreduce", {SAME, F32, .op = HVD_MIN}, {SAME, F32, .op = HVD_AVERAGE}, "min", "average"},
    {"wire", "allreduce", {SAME, F32, .wire = HVD_WIRE_BFLOAT16}, {SAME, F32}, "wire bfloat16", "wire exact"},
    {"shape of a broadcast",
     "broadcast",
     {SAME, F32, .kind = BROADCAST},
     {F32, .kind = BROADCAST, .ndim = 2, .shape = {3, ROWS}},
     "float32[24,3]",
     "float32[3,24]"},
    {"root",
     "broadcast",
     {SAME, F32, .kind = BROADCAST, .root = 1},
     {SAME, F32, .kind = BROADCAST},
     "root 1",
     "root 0"},
    {"root of a reduce",
     "reduce",
     {SAME, F32, .kind = REDUCE, .root = 1},
     {SAME, F32, .kind = REDUCE},
     "root 1",
     "root 0"},
    {"root of a gather",
     "gather",
     {SAME, F32, .kind = GATHER, .root = 1},
     {SAME, F32, .kind = GATHER},
     "root 1",
     "root 0"},
    {"root of a scatter",
     "scatter",
     {SAME, F32, .kind = SCATTER, .root = 1},
     {SAME, F32, .kind = SCATTER},
     "root 1",
     "root 0"},
    {"op of a reduce",
     "reduce",
     {SAME, F32, .kind = REDUCE, .op = HVD_MIN},
     {SAME, F32, .kind = REDUCE},
     "min",
     "sum"},
    {"row of a gather",
     "gather",
     {F32, .kind = GATHER, .ndim = 3, .shape = {2, 3, 4}},
     {F32, .kind = GATHER, .ndim = 3, .shape = {1, 3, 5}},
     "4 in dimension 2",
     "5 in dimension 2"},
    {"dtype of a scatter",
     "scatter",
     {SAME, .kind = SCATTER, .dtype = HVD_INT8},
     {SAME, F32, .kind = SCATTER},
     "int8",
     "float32"},
    {"row of an allgather",
     "allgather",
     {F32, .kind = ALLGATHER, .ndim = 3, .shape = {2, 3, 4}},
     {F32, .kind = ALLGATHER, .ndim = 3, .shape = {1, 3, 5}},
     "4 in dimension 2",
     "5 in dimension 2"},
    {"dimensions of an allgather",
     "allgather",
     {F32, .kind = ALLGATHER, .ndim = 1, .shape = {2}},
     {SAME, F32, .kind = ALLGATHER},
     "1 dimension",
     "2 dimensions"},
    {"dtype of an allgather",
     "allgather",
     {SAME, .kind = ALLGATHER, .dtype = HVD_INT8},
     {SAME, F32, .kind = ALLGATHER},
     "int8",
     "float32"},
    {"row of an alltoall",
     "alltoall",
     {SAME, F32, .kind = ALLTOALL},
     {F32, .kind = ALLTOALL, .ndim = 2, .shape = {ROWS, 2}},
     "3 in dimension 1",
     "2 in dimension 1"},
    {"dtype of an alltoall",
     "alltoall",
     {SAME, .kind = ALLTOALL, .dtype = HVD_BOOL},
     {SAME, F32, .kind = ALLTOALL},
     "bool",
     "float32"},
    {"shape of a reducescatter",
     "reducescatter",
     {SAME, F32, .kind = REDUCESCATTER},
     {F32, .kind = REDUCESCATTER, .ndim = 2, .shape = {ROWS - 1, 3}},
     "float32[24,3]",
     "float32[23,3]"},
    {"op of a reducescatter",
     "reducescatter",
     {SAME, F32, .kind = REDUCESCATTER, .op = HVD_PRODUCT},
     {SAME, F32, .kind = REDUCESCATTER},
     "product",
     "sum"},
    {"splits",
     "reducescatter",
     {SAME, F32, .kind = REDUCESCATTER, .splits = true},
     {SAME, F32, .kind = REDUCESCATTER},
     "splits",
     "no splits"},
    {"prescale of a reducescatter",
     "reducescatter",
     {SAME, F32, .kind = REDUCESCATTER, .prescale = 3},
     {SAME, F32, .kind = REDUCESCATTER},
     "prescale 3",
     "prescale 1"},
    {"a group or not",
     "allreduce",
     {SAME, F32, .group = 1},
     {SAME, F32},
     "a group of 1 tensor",
     "a tensor alone"},
    {"size of a group",
     "allreduce",
     {SAME, F32, .group = 3},
     {SAME, F32, .group = 2},
     "a group of 3 tensors",
     "a group of 2 tensors"},
    {"members of a group",
     "grouped allreduce",
     {SAME, F32, .group = 2, .second = "other"},
     {SAME, F32, .group = 2, .second = "another"},
     "\"other\" as tensor 2 of the group",
     "\"another\" as tensor 2 of the group"},
    {"dtype in a group",
     "grouped allreduce",
     {SAME, F32, .group = 2, .second = "s", .second_dtype = HVD_FLOAT64},
     {SAME, F32, .group = 2, .second = "s"},
     "float64[24,3] as \"s\"",
     "float32[24,3] as \"s\""},
    {"dtype in a group of allgathers",
     "grouped allgather",
     {SAME, F32, .kind = ALLGATHER, .group = 2, .second = "s", .second_dtype = HVD_FLOAT64},
     {SAME, F32, .kind = ALLGATHER, .group = 2, .second = "s"},
     "float64 as \"s\"",
     "float32 as \"s\""},
    {"size of a group of reducescatters",
     "reducescatter",
     {SAME, F32, .kind = REDUCESCATTER, .group = 1},
     {SAME, F32, .kind = REDUCESCATTER, .group = 2},
     "a group of 1 tensor",
     "a group of 2 tensors"},
};

/* Disagree once under a name that is new, or was agreed on as another operation, and once when it is cached.
 */
static void disagree(const struct disagreement *one, const char *name)
{
    char title[200];
    char what[200];
    snprintf(title, sizeof(title), "%s%s\"%s\"%s: ", one->title, one->title[0] == 0 ? "" : " ", name,
             strncmp(one->title, "grouped", 7) == 0 ? " and 1 more" : "");
    for (int known = 0; known < 2; known++) {
        snprintf(what, sizeof(what), "%s that differs%s", one->what, known ? " under a known name" : "");
        must_be(make_call(name, odd ? &one->odd : &one->even, HVD_ALL_RANKS), HVD_ERR_MISMATCH, what);
        must_differ(what, title, one->odd_value, one->even_value);
        must(make_call(name, &one->even, HVD_ALL_RANKS), "the same name after a mismatch");
        must(make_call(name, &one->odd, HVD_ALL_RANKS), "the name of the other description");
    }
}

static void case_mismatch(void)
{
    for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "x%d", (int)i);
        disagree(&disagreements[i], "x");
        disagree(&disagreements[i], name);
    }
}

/* The same in a set without rank 0: errors name ranks by their numbers in the job. */
static void case_set_mismatch(void)
{
    int ranks[64];
    hvd_set set = -1;
    for (int i = 1; i < size; i++)
        ranks[i - 1] = i;
    must(hvd_set_add(ranks, size - 1, &set), "hvd_set_add");
    struct call even = {SAME, F32};
    struct call other = {SAME, F32, .op = HVD_MAX};
    if (rank != 0) {
        char title[100];
        must_be(make_call("x", odd ? &other : &even, set), HVD_ERR_MISMATCH, "a mismatch in a set");
        snprintf(title, sizeof(title), "allreduce \"x\" in process set %d: ", set);
        if (strncmp(hvd_error_text(), title, strlen(title)) != 0 ||
            !says_has(hvd_error_text(), size - 1, "max") || says_has(hvd_error_text(), 0, "sum"))
            ranks_fail("a mismatch in a set: \"%s\"", hvd_error_text());
        must(make_call("x", &even, set), "after a mismatch in a set");
    }
    must(make_call("x", &even, HVD_ALL_RANKS), "the same name in another set");
    must(hvd_set_remove(set), "hvd_set_remove");
}

static void case_set_lists(void)
{
    const int pair[] = {1, 0};
    const int one[] = {0};
    const int another[] = {size - 1};
    hvd_set set = -1;
    hvd_set second = -1;
    must_be(hvd_set_add(odd ? another : one, 1, &set), HVD_ERR_MISMATCH, "members that differ");
    char value[32];
    snprintf(value, sizeof(value), "process set %d", size - 1);
    must_differ("members that differ", "hvd_set_add: ", value, "process set 0");
    if (set != -1)
        ranks_fail("a set was made: %d", set);
    if (size > 2) {
        must_be(hvd_set_add(pair, odd ? 2 : 1, &set), HVD_ERR_MISMATCH, "counts that differ");
        must_differ("counts that differ", "hvd_set_add: ", "process set 0,1", "process set 1");
    }
    must(hvd_set_add(one, 1, &set), "hvd_set_add");
    must(hvd_set_add(another, 1, &second), "hvd_set_add");
    must_be(hvd_set_remove(odd ? set : second), HVD_ERR_MISMATCH, "sets that differ");
    must_say("rank ", "sets that differ");
    must_agree("sets that differ");
    if (hvd_set_list(NULL, 0) != 3)
        ranks_fail("%d sets after a refused removal", hvd_set_list(NULL, 0));
    must(hvd_set_remove(second), "hvd_set_remove");
    must(hvd_set_remove(set), "hvd_set_remove");
}

/* ---- Joined ranks ---- */

static const struct call unjoinable[] = {
    {SAME, F32, .kind = ALLGATHER},
    {SAME, F32, .kind = ALLTOALL},
    {SAME, F32, .kind = BROADCAST},
    {SAME, F32, .kind = REDUCESCATTER},
    {SAME, F32, .kind = REDUCE},
    {SAME, F32, .kind = GATHER},
    {SAME, F32, .kind = SCATTER},
    {SAME, F32, .op = HVD_MIN},
    {SAME, F32, .op = HVD_MAX},
    {SAME, F32, .op = HVD_PRODUCT},
    {SAME, F32, .kind = ALLGATHER, .group = 2},
};

/* The odd rank has joined. Operations that need its data fail on all others, with an error that names it. */
static void case_joined(void)
{
    char who[32];
    int last = -1;
    hvd_handle handle = 0;
    struct call sum = {SAME, F32};
    snprintf(who, sizeof(who), "rank %d (", size - 1);
    for (int known = 0; known < 2; known++) {
        if (odd)
            must(hvd_join_async(HVD_ALL_RANKS, &last, NULL, NULL, &handle), "hvd_join_async");
        for (size_t i = 0; !odd && i < sizeof(unjoinable) / sizeof(unjoinable[0]); i++) {
            char name[32];
            snprintf(name, sizeof(name), "joined %d", (int)i);
            must_be(make_call(name, &unjoinable[i], HVD_ALL_RANKS), HVD_ERR_MISMATCH,
                    "without a joined rank");
            must_say(name, "without a joined rank");
            must_say(who, "without a joined rank");
            must_say("joined", "without a joined rank");
        }
        if (!odd) {
            must(make_call("sum", &sum, HVD_ALL_RANKS), "a sum without a joined rank");
            must(hvd_barrier(HVD_ALL_RANKS), "a barrier without a joined rank");
            must(hvd_join(HVD_ALL_RANKS, &last), "hvd_join");
        } else {
            must(hvd_wait(handle), "hvd_wait of a join");
        }
        if (last < 0 || last >= size - (size > 1))
            ranks_fail("rank %d is said to have joined last", last);
        for (size_t i = 0; i < sizeof(unjoinable) / sizeof(unjoinable[0]); i++) {
            char name[32];
            snprintf(name, sizeof(name), "joined %d", (int)i);
            must(make_call(name, &unjoinable[i], HVD_ALL_RANKS), "after a join");
        }
    }
}

/* The other ranks wait for a rank, which then joins instead of submitting. */
static void case_joins_late(void)
{
    char who[32];
    struct hvd_tensor tensor = hvd_vector("late", memory, 8, HVD_FLOAT64);
    hvd_handle handle = 0;
    snprintf(who, sizeof(who), "rank %d (", size - 1);
    if (!odd)
        must(hvd_allreduce_async(&tensor, HVD_MAX, NULL, NULL, NULL, &handle), "hvd_allreduce_async");
    must(hvd_barrier(HVD_ALL_RANKS), "all others wait");
    if (!odd) {
        must_be(hvd_wait(handle), HVD_ERR_MISMATCH, "a rank that joins instead");
        must_say(who, "a rank that joins instead");
        must_say("\"late\"", "a rank that joins instead");
    }
    must(hvd_join(HVD_ALL_RANKS, NULL), "hvd_join");
    must(hvd_allreduce(&tensor, HVD_MAX, NULL), "after it");
}

/* ---- Groups ------------------------------------------------------------------------------------------ */

static int callbacks;

static void count_callback(enum hvd_status status, void *arg)
{
    *(enum hvd_status *)arg = status;
    callbacks++;
}

/* The second of three tensors differs on the odd rank: the whole group fails on all ranks, nothing is
 * written, and its callback is called once. */
static void case_group_mismatch(void)
{
    double data[3][4];
    struct hvd_tensor tensors[3];
    enum hvd_status seen = HVD_IN_PROGRESS;
    hvd_handle handle = 0;
    static const char *const names[3] = {"a", "b", "c"};
    for (int i = 0; i < 12; i++)
        data[i / 4][i % 4] = 1;
    for (int i = 0; i < 3; i++)
        tensors[i] = hvd_vector(names[i], data[i], 4, HVD_FLOAT64);
    for (int known = 0; known < 2; known++) {
        tensors[1].shape[0] = odd ? 3 : 4;
        callbacks = 0;
        must(hvd_grouped_allreduce_async(tensors, 3, HVD_SUM, NULL, count_callback, &seen, &handle),
             "submission");
        must_be(hvd_wait(handle), HVD_ERR_MISMATCH, "a group of which one member differs");
        must_differ("a group of which one member differs",
                    "grouped allreduce \"a\" and 2 more: ", "float64[3] as \"b\"", "float64[4] as \"b\"");
        if (callbacks != 1 || seen != HVD_ERR_MISMATCH)
            ranks_fail("%d callbacks, the last with %d", callbacks, seen);
        for (int i = 0; i < 12; i++) {
            if (data[i / 4][i % 4] != 1)
                ranks_fail("a member of a failed group was written");
        }
        tensors[1].shape[0] = 4;
        must(hvd_allreduce(&tensors[2], HVD_MAX, NULL), "a member alone");
        must(hvd_grouped_allreduce(tensors, 3, HVD_MAX, NULL), "the group after all");
    }
}

static const struct ranks_case cases[] = {
    {"mismatch", case_mismatch, false},     {"set-mismatch", case_set_mismatch, false},
    {"set-lists", case_set_lists, false},   {"joined", case_joined, false},
    {"joins-late", case_joins_late, false}, {"group", case_group_mismatch, false},
};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
