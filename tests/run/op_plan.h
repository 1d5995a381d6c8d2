/* op_plan.h: what a property test does: the same random list of operations on every rank, drawn from a seed.
 */
#ifndef TESTS_RUN_OP_PLAN_H
#define TESTS_RUN_OP_PLAN_H

#include "reference.h"

#define PLAN_MAX_RANKS 64
#define PLAN_MAX_GROUP 5
#define PLAN_MAX_SETS  8
#define PLAN_MAX_ROUND 48 /* operations of a round */

enum plan_kind {
    PLAN_ALLREDUCE,
    PLAN_BROADCAST,
    PLAN_ALLGATHER,
    PLAN_ALLTOALL,
    PLAN_REDUCESCATTER,
    PLAN_BARRIER,
    PLAN_SET_ADD,
    PLAN_SET_REMOVE,
    PLAN_JOIN,
    PLAN_KIND_COUNT
};

struct plan_set {
    int ranks[PLAN_MAX_RANKS]; /* ascending */
    int count;
    bool lives;
    bool leaves;    /* is removed in this round: its place is free in the next */
    hvd_set number; /* whoever makes it fills it in */
};

struct plan_tensor {
    char name[HVD_MAX_NAME + 1];
    enum hvd_dtype dtype;
    int ndim;
    int64_t shape[HVD_MAX_DIMS]; /* allgather, alltoall: the first dimension is that of plan_rows */
};

struct plan_op {
    int number; /* counts operations of the whole test */
    enum plan_kind kind;
    int set; /* in the plan's sets. SET_ADD, SET_REMOVE: which */
    enum hvd_op op;
    enum hvd_wire wire;
    double prescale, postscale;
    int root; /* a rank of the job */
    bool grouped;
    int tensor_count;
    struct plan_tensor tensors[PLAN_MAX_GROUP];
    int twin;       /* SET_ADD: the set that has these ranks already, or -1 */
    int most_steps; /* JOIN: steps of the ranks that have most data */
    int step;       /* of a JOIN, which this operation is; otherwise -1 */
    int after;      /* in the round: submitted when that one is done, under the same name; or -1 */
};

struct op_plan {
    uint64_t seed;
    int size;       /* ranks */
    int only;       /* an enum plan_kind, or -1: all */
    int large;      /* elements of a tensor that is large, about */
    bool add_joins; /* also rounds in which ranks join */
    int next_number;
    struct plan_set sets[PLAN_MAX_SETS]; /* the first is all ranks */
    struct plan_op recent[32];           /* operations that come again */
    int recent_count;
    struct plan_op ops[PLAN_MAX_ROUND]; /* of this round, in the order in which calls that wait may wait */
    int op_count;
};

const char *plan_kind_name(enum plan_kind kind);

void plan_init(struct op_plan *plan, uint64_t seed, int size);

/* Draw the next round. Sets that it adds live, sets that it removes do not from then on. */
void plan_round(struct op_plan *plan);

/* Rank's place in the set, or -1. */
int op_plan_member(const struct plan_set *set, int rank);

/* Elements of tensor [index] that [rank] hands in; and those of a row. */
int64_t plan_count(const struct op_plan *plan, const struct plan_op *op, int index, int rank);
int64_t plan_row_elements(const struct plan_tensor *tensor);

/* Its first dimension there. */
int64_t plan_rows(const struct op_plan *plan, const struct plan_op *op, int index, int rank);

/* alltoall: rows from a member to another; whether [from] leaves splits to the library. */
int64_t plan_split(const struct op_plan *plan, const struct plan_op *op, int from, int to);
bool plan_even(const struct op_plan *plan, const struct plan_op *op, int from);

/* What [rank] hands in. */
void plan_fill(const struct op_plan *plan, const struct plan_op *op, int index, int rank, void *data);

/* JOIN: steps that [rank] does before it joins; and the operation of step [step], that of step most_steps
 * being one that all ranks do behind the join. */
int plan_steps(const struct op_plan *plan, const struct plan_op *join, int rank);
void plan_step(const struct op_plan *plan, const struct plan_op *join, int step, struct plan_op *op);

/* Does [rank] hand in something? Not where it has joined before. */
bool plan_contributes(const struct op_plan *plan, const struct plan_op *op, int rank);

/* "operation 17, grouped allreduce \"a\" and 2 more of float16[2,3], sum, in set 3 {0,2,5}". */
void plan_write(const struct op_plan *plan, const struct plan_op *op, char *text, size_t text_bytes);

#endif
