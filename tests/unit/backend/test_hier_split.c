/* test_hier_split.c: how a team lies on nodes, and how its batches are split for them. */
#include "unit.h"

#include "batches.h"
#include "backend/sched/blocks.h"
#include "backend/hier/hier_split.h"
#include "backend/team.h"

#define MAX_MEMBERS 24
#define MAX_NODES   24

/* A team of members that are dealt out to nodes at random, one block after the other. */
struct spread {
    int node_of_rank[MAX_MEMBERS], ranks[MAX_MEMBERS];
    struct team team;
    struct hier_nodes nodes;
};

static void spread_random(struct spread *spread, uint64_t *random)
{
    int size = 0, nodes = 2 + batch_plan_random_below(random, 4);
    for (int node = 0; node < nodes; node++) {
        int first = size;
        for (int i = 1 + batch_plan_random_below(random, 4); i > 0; i--)
            spread->node_of_rank[size++] = first;
    }
    for (int rank = 0; rank < size; rank++)
        spread->ranks[rank] = rank;
    spread->team =
        (struct team){.rank = batch_plan_random_below(random, size), .size = size, .ranks = spread->ranks};
    ck_assert_int_eq(hier_nodes_init(&spread->nodes, spread->node_of_rank, &spread->team), HVD_OK);
}

START_TEST(nodes_have_their_members)
{
    uint64_t random = (uint64_t)_i + 1;
    struct spread spread;
    spread_random(&spread, &random);
    const struct hier_nodes *nodes = &spread.nodes;
    int smallest = MAX_MEMBERS, largest = 0;
    ck_assert_int_eq(nodes->firsts[0], 0);
    ck_assert_int_eq(nodes->firsts[nodes->count], spread.team.size);
    for (int node = 0; node < nodes->count; node++) {
        int first = nodes->firsts[node], end = nodes->firsts[node + 1];
        smallest = end - first < smallest ? end - first : smallest;
        largest = end - first > largest ? end - first : largest;
        ck_assert_int_lt(first, end);
        for (int member = first; member < end; member++) {
            ck_assert_int_eq(spread.node_of_rank[member], first);
            ck_assert_int_eq(hier_node_of(nodes, member), node);
        }
    }
    ck_assert_int_eq(nodes->slices, smallest);
    ck_assert_int_eq(team_ppn(spread.node_of_rank, &spread.team),
                     smallest == largest && smallest > 1 ? smallest : 0);
    ck_assert_int_eq(nodes->node, hier_node_of(nodes, spread.team.rank));
    hier_nodes_fini(&spread.nodes);
    hier_nodes_fini(&spread.nodes);
}
END_TEST

/* Each element is in one slice, slice 0 has no less than others, and they begin on cache lines of a block. */
static void expect_parts(const struct hier_split *split)
{
    for (int block = 0; block < split->blocks; block++) {
        int64_t at = split->begins[block];
        int64_t most = hier_slice_range(split, block, 0).count;
        for (int slice = 0; slice < split->nodes->slices; slice++) {
            struct range part = hier_slice_range(split, block, slice);
            ck_assert_int_eq(part.begin, at);
            ck_assert_int_le(part.count, most);
            ck_assert(part.count == 0 || (part.begin - split->begins[block]) % 64 == 0);
            at += part.count;
        }
        ck_assert_int_eq(at, split->begins[block + 1]);
    }
}

/* The way through [count] blocks from [first] on is that of the members that carry the slice, see chain.c. */
static void expect_way(const struct hier_split *split, int slice, struct hier_cursor way, int first, int step,
                       int count)
{
    int64_t counts[MAX_NODES];
    int64_t pieces = 0;
    for (int block = 0; block < split->blocks; block++)
        counts[block] = hier_slice_range(split, block, slice).count;
    struct blocks blocks = blocks_of(counts, split->blocks);
    for (int i = 0, block = first; i < count; i++, block = (block + step + split->blocks) % split->blocks)
        pieces += blocks_chunks(&blocks, block, block + 1, split->longest);
    ck_assert_int_eq(hier_chunk_count(split, slice, way), pieces);
    ck_assert_int_le(pieces, hier_chunk_count(split, 0, way));
    struct block_cursor walk = block_cursor_begin(&blocks, first, step);
    struct range piece;
    for (; pieces > 0; pieces--) {
        struct block_segment span = block_cursor_next(&blocks, &walk, split->longest);
        int64_t begin = hier_slice_range(split, span.block, slice).begin + span.offset;
        for (int block = 0; block < span.block; block++)
            begin -= counts[block];
        ck_assert(hier_cursor_next(split, slice, &way, &piece));
        ck_assert_int_eq(piece.begin, begin);
        ck_assert_int_eq(piece.count, span.count);
    }
    ck_assert(!hier_cursor_next(split, slice, &way, &piece));
}

START_TEST(slices_go_the_way_of_those_that_carry_them)
{
    uint64_t random = (uint64_t)_i + 1;
    struct spread spread;
    struct hier_split split;
    int64_t begins[MAX_NODES + 1];
    spread_random(&spread, &random);
    int all = spread.nodes.count, node = spread.nodes.node;
    for (int kind = COLL_ALLREDUCE; kind <= COLL_REDUCESCATTER; kind++) {
        if (kind == COLL_ALLTOALL)
            continue;
        struct batch_plan plan = batch_plan_random(&random, (enum backend_kind)kind, spread.team.size, 2048);
        const struct backend_batch batch = {
            .need = plan.need, .root = plan.root, .count = plan.count, .counts = plan.counts[0]};
        hier_split_batch(&split, &spread.nodes, &batch, 64 * (1 + batch_plan_random_below(&random, 3)),
                         begins);
        ck_assert_int_eq(split.begins[split.blocks], plan.count);
        expect_parts(&split);
        bool scatters = kind == COLL_REDUCESCATTER, gathers = kind == COLL_ALLGATHER;
        bool gives = kind != COLL_BROADCAST || hier_node_of(&spread.nodes, plan.root) == node;
        for (int slice = 0; slice < spread.nodes.slices; slice++) {
            expect_way(&split, slice, hier_input_cursor(&split), gathers ? node : 0, 1,
                       scatters ? all : gives);
            expect_way(&split, slice, hier_output_cursor(&split), scatters || gathers ? node : 0,
                       gathers ? -1 : 1, gathers ? all : 1);
        }
    }
    hier_nodes_fini(&spread.nodes);
}
END_TEST

START_TEST(runs_overlap)
{
    static const struct {
        struct range a, b, both;
    } cases[] = {
        {{0, 5}, {2, 9}, {2, 3}}, {{2, 9}, {0, 5}, {2, 3}}, {{0, 9}, {3, 2}, {3, 2}},
        {{0, 5}, {5, 5}, {5, 0}}, {{7, 3}, {0, 5}, {7, 0}}, {{4, 0}, {0, 9}, {4, 0}},
        {{0, 0}, {0, 9}, {0, 0}}, {{9, 9}, {9, 9}, {9, 9}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct range both = range_overlap(cases[i].a, cases[i].b);
        ck_assert_int_eq(both.begin, cases[i].both.begin);
        ck_assert_int_eq(both.count, cases[i].both.count);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("hier_split");
    unit_add_rounds(tcase, nodes_have_their_members, 0, 30);
    unit_add_rounds(tcase, slices_go_the_way_of_those_that_carry_them, 0, 60);
    tcase_add_test(tcase, runs_overlap);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hier_split", fill);
}
