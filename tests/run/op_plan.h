/* op_plan.h: the operations of a property test: the same random list on every rank, which follows from a
 * seed.
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
    PLAN_REDUCE,
    PLAN_GATHER,
    PLAN_SCATTER,
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
    bool leaves;    /* it is removed in this round, and its entry is free in the next */
    hvd_set number; /* written by the thread that adds the set */
};

struct plan_tensor {
    char name[HVD_MAX_NAME + 1];
    enum hvd_dtype dtype;
    int ndim;
    int64_t shape[HVD_MAX_DIMS]; /* plan_makes_result: plan_rows says the first dimension */
};

struct plan_op {
    int number; /* among all operations of the test */
    enum plan_kind kind;
    int set; /* its set, as an index into the plan's sets; SET_ADD, SET_REMOVE: the set itself */
    enum hvd_op op;
    enum hvd_wire wire;
    double prescale, postscale;
    int root; /* a rank of the job */
    bool grouped;
    bool uneven; /* reducescatter: splits say the shares */
    int tensor_count;
    struct plan_tensor tensors[PLAN_MAX_GROUP];
    int twin;       /* SET_ADD: the set that has these ranks already, or -1 */
    int most_steps; /* JOIN: steps of the ranks that have the most data */
    int step;       /* if this is a step before or after a JOIN, its number; otherwise -1 */
    int after;      /* the operation of the round after which it is submitted, under the same name; or -1 */
};

struct op_plan {
    uint64_t seed;
    int size;       /* ranks */
    int only;       /* the only kind of operations, or -1: all kinds */
    int large;      /* about how many elements a large tensor has */
    bool add_joins; /* have rounds in which ranks join */
    int next_number;
    struct plan_set sets[PLAN_MAX_SETS]; /* the first is all ranks */
    struct plan_op recent[32];           /* earlier operations, to be repeated */
    int recent_count;
    struct plan_op ops[PLAN_MAX_ROUND]; /* of this round; blocking calls may only come in this order */
    int op_count;
};

const char *plan_kind_name(enum plan_kind kind);
bool plan_reduces(const struct plan_op *op);
bool plan_makes_result(const struct plan_op *op);
bool plan_has_root(const struct plan_op *op);

void plan_init(struct op_plan *plan, uint64_t seed, int size);

/* Choose the operations of the next round. From then on sets that it adds exist, and sets that it removes do
 * not. */
void plan_round(struct op_plan *plan);

/* The number of [rank] among the members of the set, or -1. */
int op_plan_member(const struct plan_set *set, int rank);

/* The number of elements of tensor [index] that [rank] submits, and the number of elements in a row. */
int64_t plan_count(const struct op_plan *plan, const struct plan_op *op, int index, int rank);
int64_t plan_row_elements(const struct plan_tensor *tensor);

/* The first dimension of tensor [index] on [rank]. */
int64_t plan_rows(const struct op_plan *plan, const struct plan_op *op, int index, int rank);

/* alltoall, gather, scatter: how many rows rank [from] sends to member [to], and whether it passes no
 * splits. */
int64_t plan_split(const struct op_plan *plan, const struct plan_op *op, int from, int to);
bool plan_even(const struct op_plan *plan, const struct plan_op *op, int from);

/* reducescatter: how many rows of tensor [index] are the share of [member]. */
int64_t plan_share(const struct op_plan *plan, const struct plan_op *op, int index, int member);

/* Write the input of [rank]. */
void plan_fill(const struct op_plan *plan, const struct plan_op *op, int index, int rank, void *data);

/* JOIN: how many steps [rank] does before it joins, and the operation of step [step]. All ranks do step
 * most_steps after the join. */
int plan_steps(const struct op_plan *plan, const struct plan_op *join, int rank);
void plan_step(const struct op_plan *plan, const struct plan_op *join, int step, struct plan_op *op);

/* Does [rank] submit the operation? Not if it has joined before. */
bool plan_contributes(const struct op_plan *plan, const struct plan_op *op, int rank);

/* "operation 17, grouped allreduce \"a\" and 2 more of float16[2,3], sum, in set 3 {0,2,5}". */
void plan_write(const struct op_plan *plan, const struct plan_op *op, char *text, size_t text_bytes);

#endif
