/* op_plan.c: the operations of a property test: the same random list on every rank, which follows from a
 * seed.
 */
#include "op_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The purpose of a stream of random numbers; each has its own. */
enum { FOR_ROUND = 1, FOR_NAME, FOR_ROWS, FOR_SPLITS, FOR_STEPS, FOR_STEP, FOR_VALUES, FOR_SHARES };

/* The number of names in a test. They are few, so that names are used again. */
#define NAMES 64

const char *plan_kind_name(enum plan_kind kind)
{
    static const char *const names[PLAN_KIND_COUNT] = {"allreduce",     "broadcast", "allgather",  "alltoall",
                                                       "reducescatter", "reduce",    "gather",     "scatter",
                                                       "barrier",       "set add",   "set remove", "join"};
    return names[kind];
}

bool plan_reduces(const struct plan_op *op)
{
    return op->kind == PLAN_ALLREDUCE || op->kind == PLAN_REDUCESCATTER || op->kind == PLAN_REDUCE;
}

/* Does each rank send rows to members, as plan_split says? */
static bool sends_rows(const struct plan_op *op)
{
    return op->kind == PLAN_ALLTOALL || op->kind == PLAN_GATHER || op->kind == PLAN_SCATTER;
}

bool plan_makes_result(const struct plan_op *op)
{
    return op->kind == PLAN_ALLGATHER || sends_rows(op);
}

bool plan_has_root(const struct plan_op *op)
{
    return op->kind == PLAN_BROADCAST || op->kind == PLAN_REDUCE || op->kind == PLAN_GATHER ||
           op->kind == PLAN_SCATTER;
}

int op_plan_member(const struct plan_set *set, int rank)
{
    for (int i = 0; i < set->count; i++) {
        if (set->ranks[i] == rank)
            return i;
    }
    return -1;
}

/* ---- Sets ---------------------------------------------------------------------------------------------- */

static void draw_members(struct random_stream *draws, int size, struct plan_set *set)
{
    int count = 1 + (int)random_stream_below(draws, size);
    set->count = 0;
    for (int rank = 0; rank < size; rank++) {
        if (random_stream_below(draws, size - rank) < count - set->count)
            set->ranks[set->count++] = rank;
    }
}

/* The existing set that has these members, or -1. */
static int find_twin(const struct op_plan *plan, const struct plan_set *set)
{
    for (int i = 0; i < PLAN_MAX_SETS; i++) {
        const struct plan_set *other = &plan->sets[i];
        if (other->lives && other->count == set->count &&
            memcmp(other->ranks, set->ranks, (size_t)set->count * sizeof(set->ranks[0])) == 0)
            return i;
    }
    return -1;
}

static int find_dead(const struct op_plan *plan)
{
    for (int i = 1; i < PLAN_MAX_SETS; i++) {
        if (!plan->sets[i].lives && !plan->sets[i].leaves)
            return i;
    }
    return -1;
}

void plan_init(struct op_plan *plan, uint64_t seed, int size)
{
    struct random_stream draws = random_stream_of(seed, FOR_ROUND, UINT64_MAX);
    memset(plan, 0, sizeof(*plan));
    plan->seed = seed;
    plan->size = size;
    plan->only = -1;
    for (int i = 0; i < PLAN_MAX_SETS - 3; i++) {
        struct plan_set set = {.lives = true};
        int slot = find_dead(plan);
        draw_members(&draws, i == 0 ? 1 : size, &set);
        for (int rank = 0; i == 0 && rank < size; rank++)
            set.ranks[set.count = rank] = rank;
        set.count += i == 0;
        if (i == 0)
            plan->sets[0] = set;
        else if (find_twin(plan, &set) < 0)
            plan->sets[slot] = set;
    }
}

/* ---- One operation ---- */

/* Choose a name from all characters that a name may have: ASCII without control characters, and UTF-8. */
static void write_name(const struct op_plan *plan, int which, char *name)
{
    static const char *const words[] = {"layer", "\"",   "\\", " ",  "/", ".weight",
                                        "ä",     "梯度", "{}", "%s", "0", "'"};
    struct random_stream draws = random_stream_of(plan->seed, FOR_NAME, (uint64_t)which);
    int longest = random_stream_chance(&draws, 10) ? HVD_MAX_NAME : 1 + (int)random_stream_below(&draws, 30);
    int length = snprintf(name, HVD_MAX_NAME + 1, "%d.", which);
    for (;;) {
        const char *word = words[random_stream_below(&draws, sizeof(words) / sizeof(words[0]))];
        if (length + (int)strlen(word) > longest)
            return;
        length += snprintf(name + length, (size_t)(HVD_MAX_NAME + 1 - length), "%s", word);
    }
}

static bool is_power_of_two(int x)
{
    return (x & (x - 1)) == 0;
}

/* What is in use in this round, by set. */
struct taken {
    bool names[PLAN_MAX_SETS][NAMES];
    bool barrier[PLAN_MAX_SETS];
    bool used[PLAN_MAX_SETS];   /* an operation is in this set */
    bool usable[PLAN_MAX_SETS]; /* it exists during the whole round */
};

static int draw_name(const struct op_plan *plan, struct random_stream *draws, const bool *taken, char *name)
{
    int which = (int)random_stream_below(draws, NAMES);
    while (taken[which])
        which = (which + 1) % NAMES;
    write_name(plan, which, name);
    return which;
}

/* [large]: about how many elements the tensor has, if it is to be large; otherwise 0. */
static void draw_shape(struct random_stream *draws, int least_dims, int large, struct plan_tensor *tensor)
{
    tensor->ndim = least_dims + (int)random_stream_below(draws, 6 - least_dims);
    for (int i = 0; i < tensor->ndim; i++)
        tensor->shape[i] =
            random_stream_chance(draws, 5) ? 0 : 1 + random_stream_below(draws, i == 0 ? 40 : 5);
    while (tensor->ndim < HVD_MAX_DIMS && random_stream_chance(draws, 8))
        tensor->shape[tensor->ndim++] = 1 + random_stream_below(draws, 2);
    if (large > 0 && random_stream_chance(draws, 6)) {
        tensor->ndim = 2;
        tensor->shape[1] = 1 + random_stream_below(draws, 300);
        tensor->shape[0] = large / tensor->shape[1] + random_stream_below(draws, 100);
    }
}

static double draw_factor(struct random_stream *draws)
{
    static const double factors[] = {0.5, 2, -1, 1.0 / 3, 1e-3, 1000, -0.75, 65537};
    return random_stream_chance(draws, 75)
               ? 1
               : factors[random_stream_below(draws, sizeof(factors) / sizeof(factors[0]))];
}

static void draw_reduction(const struct op_plan *plan, struct random_stream *draws, struct plan_op *op)
{
    bool adasum = op->kind == PLAN_ALLREDUCE && is_power_of_two(plan->sets[op->set].count) &&
                  random_stream_chance(draws, 10);
    op->op = adasum ? HVD_ADASUM : (enum hvd_op)random_stream_below(draws, HVD_ADASUM);
    op->prescale = adasum && random_stream_chance(draws, 20) ? 2 : adasum ? 1 : draw_factor(draws);
    op->postscale = adasum && random_stream_chance(draws, 20) ? -0.5 : adasum ? 1 : draw_factor(draws);
    op->wire = adasum                            ? HVD_WIRE_EXACT
               : random_stream_chance(draws, 20) ? (enum hvd_wire)(1 + random_stream_below(draws, 2))
                                                 : HVD_WIRE_EXACT;
    for (int i = 0; i < op->tensor_count; i++) {
        struct plan_tensor *tensor = &op->tensors[i];
        if (op->wire != HVD_WIRE_EXACT)
            tensor->dtype = HVD_FLOAT32;
        while (adasum && !reference_is_float(tensor->dtype))
            tensor->dtype = (enum hvd_dtype)random_stream_below(draws, REFERENCE_DTYPES);
        if (op->op == HVD_AVERAGE && tensor->dtype == HVD_BOOL)
            tensor->dtype = HVD_UINT8;
    }
}

/* Choose the tensors of [op], with new names; the first one's is [first], if that is not NULL. */
static void draw_tensors(const struct op_plan *plan, struct random_stream *draws, bool *taken,
                         const char *first, struct plan_op *op)
{
    bool scalars = !plan_makes_result(op) && op->kind != PLAN_REDUCESCATTER;
    op->grouped = op->kind != PLAN_ALLTOALL && !plan_has_root(op) && random_stream_chance(draws, 25);
    op->tensor_count = op->kind == PLAN_BARRIER ? 0
                       : op->grouped            ? 1 + (int)random_stream_below(draws, PLAN_MAX_GROUP)
                                                : 1;
    for (int i = 0; i < op->tensor_count; i++) {
        struct plan_tensor *tensor = &op->tensors[i];
        if (i == 0 && first != NULL)
            memcpy(tensor->name, first, sizeof(tensor->name));
        else
            taken[draw_name(plan, draws, taken, tensor->name)] = true;
        tensor->dtype = (enum hvd_dtype)random_stream_below(draws, REFERENCE_DTYPES);
        draw_shape(draws, scalars ? 0 : 1, i < 2 ? plan->large : 0, tensor);
    }
}

static void clear_op(struct plan_op *op)
{
    memset(op, 0, sizeof(*op));
    op->prescale = op->postscale = 1;
    op->step = op->after = op->twin = -1;
}

/* Choose a new operation in its set. [first]: the name of its first tensor, or NULL. */
static void draw_op(struct op_plan *plan, struct random_stream *draws, struct taken *taken, const char *first,
                    struct plan_op *op)
{
    int chance = (int)random_stream_below(draws, 100);
    int set = op->set;
    clear_op(op);
    op->set = set;
    op->kind = chance < 40   ? PLAN_ALLREDUCE
               : chance < 49 ? PLAN_BROADCAST
               : chance < 59 ? PLAN_ALLGATHER
               : chance < 69 ? PLAN_ALLTOALL
               : chance < 80 ? PLAN_REDUCESCATTER
               : chance < 86 ? PLAN_REDUCE
               : chance < 91 ? PLAN_GATHER
               : chance < 96 ? PLAN_SCATTER
                             : PLAN_BARRIER;
    if (plan->only >= 0)
        op->kind = (enum plan_kind)plan->only;
    if (op->kind == PLAN_BARRIER && (taken->barrier[set] || first != NULL))
        op->kind = PLAN_ALLREDUCE;
    taken->barrier[set] = taken->barrier[set] || op->kind == PLAN_BARRIER;
    draw_tensors(plan, draws, taken->names[set], first, op);
    if (plan_reduces(op))
        draw_reduction(plan, draws, op);
    op->uneven = op->kind == PLAN_REDUCESCATTER && !op->grouped && random_stream_chance(draws, 50);
    op->root = plan->sets[set].ranks[random_stream_below(draws, plan->sets[set].count)];
}

/* ---- A round ---- */

static struct plan_op *add_op(struct op_plan *plan)
{
    struct plan_op *op = &plan->ops[plan->op_count++];
    clear_op(op);
    op->number = plan->next_number++;
    return op;
}

static int draw_set(const struct op_plan *plan, struct random_stream *draws, const struct taken *taken)
{
    int set = random_stream_chance(draws, 40) ? 0 : (int)random_stream_below(draws, PLAN_MAX_SETS);
    return plan->sets[set].lives && taken->usable[set] ? set : 0;
}

/* Add an earlier operation again, if its names are free. False: none was added. */
static bool repeat_op(struct op_plan *plan, struct random_stream *draws, struct taken *taken)
{
    if (plan->recent_count == 0)
        return false;
    const struct plan_op *recent = &plan->recent[random_stream_below(draws, plan->recent_count)];
    bool *names = taken->names[recent->set];
    int which[PLAN_MAX_GROUP];
    if (!taken->usable[recent->set])
        return false;
    for (int i = 0; i < recent->tensor_count; i++) {
        which[i] = (int)strtol(recent->tensors[i].name, NULL, 10);
        if (names[which[i]])
            return false;
    }
    for (int i = 0; i < recent->tensor_count; i++)
        names[which[i]] = true;
    struct plan_op *op = add_op(plan);
    int number = op->number;
    *op = *recent;
    op->number = number;
    taken->used[op->set] = true;
    return true;
}

static void remember_op(struct op_plan *plan, struct random_stream *draws, const struct plan_op *op)
{
    int room = (int)(sizeof(plan->recent) / sizeof(plan->recent[0]));
    if (op->tensor_count == 0)
        return;
    int at = plan->recent_count < room ? plan->recent_count++ : (int)random_stream_below(draws, room);
    plan->recent[at] = *op;
    plan->recent[at].after = -1;
}

/* Add a new set, or try to add one that exists. */
static void draw_set_add(struct op_plan *plan, struct random_stream *draws)
{
    struct plan_set set = {.lives = true};
    int slot = find_dead(plan);
    draw_members(draws, plan->size, &set);
    int twin = find_twin(plan, &set);
    if (twin < 0 && slot < 0)
        return;
    struct plan_op *op = add_op(plan);
    op->kind = PLAN_SET_ADD;
    op->twin = twin;
    op->set = twin >= 0 ? twin : slot;
    if (twin < 0)
        plan->sets[slot] = set;
}

static void forget_set(struct op_plan *plan, int set)
{
    int left = 0;
    for (int i = 0; i < plan->recent_count; i++) {
        if (plan->recent[i].set != set)
            plan->recent[left++] = plan->recent[i];
    }
    plan->recent_count = left;
    plan->sets[set].lives = false;
    plan->sets[set].leaves = true;
}

static void draw_set_change(struct op_plan *plan, struct random_stream *draws, struct taken *taken)
{
    int set = 1 + (int)random_stream_below(draws, PLAN_MAX_SETS - 1);
    if (random_stream_chance(draws, 60)) {
        draw_set_add(plan, draws);
    } else if (plan->sets[set].lives && !taken->used[set]) {
        add_op(plan)->kind = PLAN_SET_REMOVE;
        plan->ops[plan->op_count - 1].set = set;
        taken->usable[set] = false;
        forget_set(plan, set);
    }
}

/* Add an operation. Sometimes it is one that the callback of the operation before it can submit. */
static void draw_next(struct op_plan *plan, struct random_stream *draws, struct taken *taken)
{
    const struct plan_op *last = plan->op_count == 0 ? NULL : &plan->ops[plan->op_count - 1];
    bool follows =
        last != NULL && last->tensor_count == 1 && last->step < 0 && random_stream_chance(draws, 12);
    if (!follows && random_stream_chance(draws, 5)) {
        draw_set_change(plan, draws, taken);
        return;
    }
    if (!follows && random_stream_chance(draws, 50) && repeat_op(plan, draws, taken))
        return;
    struct plan_op *op = add_op(plan);
    int number = op->number;
    op->set = follows ? last->set : draw_set(plan, draws, taken);
    draw_op(plan, draws, taken, follows ? last->tensors[0].name : NULL, op);
    op->number = number;
    op->after = follows ? plan->op_count - 2 : -1;
    taken->used[op->set] = true;
    remember_op(plan, draws, op);
}

/* Add a join in a set: some ranks join while the others continue. */
static void draw_join(struct op_plan *plan, struct random_stream *draws, struct taken *taken)
{
    int set = draw_set(plan, draws, taken);
    struct plan_op *op = add_op(plan);
    op->kind = PLAN_JOIN;
    op->set = set;
    op->most_steps = 1 + (int)random_stream_below(draws, 6);
    taken->usable[set] = false;
}

/* Are there names left for one more operation, whichever set it is in? */
static bool has_names(const struct taken *taken)
{
    for (int set = 0; set < PLAN_MAX_SETS; set++) {
        int left = 0;
        for (int i = 0; i < NAMES; i++)
            left += !taken->names[set][i];
        if (left < PLAN_MAX_GROUP)
            return false;
    }
    return true;
}

void plan_round(struct op_plan *plan)
{
    struct random_stream draws = random_stream_of(plan->seed, FOR_ROUND, (uint64_t)plan->next_number);
    struct taken taken = {0};
    int count = 1 + (int)random_stream_below(&draws, PLAN_MAX_ROUND - 2);
    for (int i = 0; i < PLAN_MAX_SETS; i++) {
        plan->sets[i].leaves = false;
        taken.usable[i] = plan->sets[i].lives;
    }
    plan->op_count = 0;
    if (plan->add_joins && random_stream_chance(&draws, 40))
        draw_join(plan, &draws, &taken);
    if (!taken.usable[0])
        return; /* if all ranks join, the round can have no other operation */
    while (plan->op_count < count && has_names(&taken))
        draw_next(plan, &draws, &taken);
}

/* ---- What follows from an operation ---- */

/* A number that differs from those of all other operations and steps. */
static uint64_t key_of(const struct plan_op *op)
{
    return (uint64_t)op->number * 256 + (uint64_t)(op->step + 1);
}

int64_t plan_row_elements(const struct plan_tensor *tensor)
{
    int64_t elements = 1;
    for (int i = 1; i < tensor->ndim; i++)
        elements *= tensor->shape[i];
    return elements;
}

bool plan_even(const struct op_plan *plan, const struct plan_op *op, int from)
{
    struct random_stream draws = random_stream_of(plan->seed, FOR_SPLITS, key_of(op) << 8 | (uint64_t)from);
    return random_stream_chance(&draws, 30);
}

int64_t plan_split(const struct op_plan *plan, const struct plan_op *op, int from, int to)
{
    int receiver = plan->sets[op->set].ranks[to];
    if ((op->kind == PLAN_GATHER && receiver != op->root) || (op->kind == PLAN_SCATTER && from != op->root))
        return 0;
    struct random_stream draws = random_stream_of(plan->seed, FOR_ROWS, key_of(op) << 8 | (uint64_t)from);
    int64_t most = 1 + op->tensors[0].shape[0] / 4;
    int64_t rows = random_stream_below(&draws, most);
    bool empty = random_stream_chance(&draws, 15);
    for (int i = 0; i < to && !plan_even(plan, op, from); i++)
        rows = random_stream_below(&draws, most);
    return empty ? 0 : rows;
}

int64_t plan_share(const struct op_plan *plan, const struct plan_op *op, int index, int member)
{
    int members = plan->sets[op->set].count;
    struct random_stream draws = random_stream_of(plan->seed, FOR_SHARES, key_of(op));
    int64_t left = op->tensors[index].shape[0];
    int64_t share = 0;
    for (int row = member; row < left && !op->uneven; row += members) /* as if rows were dealt out in turn */
        share++;
    for (int i = 0; i <= member && op->uneven; i++) {
        share = i == members - 1 ? left : random_stream_below(&draws, left + 1);
        left -= share;
    }
    return share;
}

int64_t plan_rows(const struct op_plan *plan, const struct plan_op *op, int index, int rank)
{
    const struct plan_tensor *tensor = &op->tensors[index];
    const struct plan_set *set = &plan->sets[op->set];
    int64_t rows = 0;
    if (sends_rows(op)) {
        for (int to = 0; to < set->count; to++)
            rows += plan_split(plan, op, rank, to);
        return rows;
    }
    if (op->kind != PLAN_ALLGATHER)
        return tensor->ndim == 0 ? 1 : tensor->shape[0];
    struct random_stream draws =
        random_stream_of(plan->seed, FOR_ROWS, key_of(op) << 16 | (uint64_t)(index << 8 | rank));
    return random_stream_chance(&draws, 20) ? 0 : random_stream_below(&draws, tensor->shape[0] + 2);
}

int64_t plan_count(const struct op_plan *plan, const struct plan_op *op, int index, int rank)
{
    return plan_rows(plan, op, index, rank) * plan_row_elements(&op->tensors[index]);
}

void plan_fill(const struct op_plan *plan, const struct plan_op *op, int index, int rank, void *data)
{
    struct random_stream draws =
        random_stream_of(plan->seed, FOR_VALUES, key_of(op) << 16 | (uint64_t)(index << 8 | rank));
    bool tame = op->op == HVD_ADASUM || random_stream_chance(&draws, 30);
    reference_fill(op->tensors[index].dtype, random_stream_next(&draws), tame, data,
                   plan_count(plan, op, index, rank));
}

/* ---- Joins ---- */

int plan_steps(const struct op_plan *plan, const struct plan_op *join, int rank)
{
    const struct plan_set *set = &plan->sets[join->set];
    struct random_stream draws =
        random_stream_of(plan->seed, FOR_STEPS, (uint64_t)join->number << 8 | (uint64_t)rank);
    if (set->ranks[join->number % set->count] == rank)
        return join->most_steps;
    return (int)random_stream_below(&draws, join->most_steps + 1);
}

bool plan_contributes(const struct op_plan *plan, const struct plan_op *op, int rank)
{
    return op->step < 0 || op->step == op->most_steps || plan_steps(plan, op, rank) > op->step;
}

void plan_step(const struct op_plan *plan, const struct plan_op *join, int step, struct plan_op *op)
{
    struct random_stream draws =
        random_stream_of(plan->seed, FOR_STEP, (uint64_t)join->number << 8 | (uint64_t)step);
    bool taken[NAMES] = {0};
    clear_op(op);
    op->number = join->number;
    op->set = join->set;
    op->most_steps = join->most_steps;
    op->step = step;
    op->kind = step == 1 && random_stream_chance(&draws, 50) ? PLAN_BARRIER : PLAN_ALLREDUCE;
    draw_tensors(plan, &draws, taken, NULL, op);
    for (int i = 0; i < op->tensor_count; i++) /* each step has its own names */
        snprintf(op->tensors[i].name, sizeof(op->tensors[i].name), "step %d, tensor %d", step, i);
    if (op->kind == PLAN_ALLREDUCE)
        draw_reduction(plan, &draws, op);
    if (op->op != HVD_ADASUM && op->op != HVD_AVERAGE)
        op->op = HVD_SUM; /* the others cannot join */
}

/* ---- Words ---- */

void plan_write(const struct op_plan *plan, const struct plan_op *op, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "operation %d, %s%s", op->number,
                                   op->grouped ? "grouped " : "", plan_kind_name(op->kind));
    if (op->step >= 0 && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used, ", step %d before a join", op->step);
    for (int i = 0; i < op->tensor_count && used < text_bytes; i++) {
        const struct plan_tensor *tensor = &op->tensors[i];
        used += (size_t)snprintf(text + used, text_bytes - used, "%s \"%.40s\" %s[", i == 0 ? "" : ",",
                                 tensor->name, reference_dtype(tensor->dtype));
        for (int d = 0; d < tensor->ndim && used < text_bytes; d++)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%" PRId64, d == 0 ? "" : ",",
                                     tensor->shape[d]);
        if (used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "]");
    }
    if (plan_reduces(op) && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used, ", %s, factors %g and %g, wire %d",
                                 reference_op(op->op), op->prescale, op->postscale, op->wire);
    if (plan_has_root(op) && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used, ", root %d", op->root);
    const struct plan_set *set = &plan->sets[op->set];
    for (int i = 0; i < set->count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", i == 0 ? ", ranks " : ",",
                                 set->ranks[i]);
}
