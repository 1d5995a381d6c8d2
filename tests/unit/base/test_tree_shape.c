/* test_tree_shape.c: the control tree: one root, both ends agree, few links, little depth. */
#include "unit.h"

#include <string.h>

#include "base/tree_shape.h"

#define MAX_SIZE 16384

/* Layouts: the node of a rank, by number; the leader follows from it. */
static int node_block(int rank, int size)
{
    return rank / (size < 4 ? 1 : size / 4);
}

static int node_cyclic(int rank, int size)
{
    return rank % (size < 5 ? size : 5);
}

static int node_uneven(int rank, int size)
{
    return (int)((int64_t)rank * 3 / size);
}

static int node_alone(int rank, int size)
{
    (void)size;
    return rank;
}

static int node_shared(int rank, int size)
{
    (void)rank;
    (void)size;
    return 0;
}

static int node_first_alone(int rank, int size)
{
    (void)size;
    return rank == 0 ? 0 : 2 - rank % 2;
}

static int (*const layouts[])(int rank, int size) = {node_block, node_cyclic, node_uneven,
                                                     node_alone, node_shared, node_first_alone};
#define LAYOUT_COUNT ((int)(sizeof(layouts) / sizeof(layouts[0])))

static void fill_table(int (*layout)(int rank, int size), int *table, int size)
{
    int *leader_of_node = malloc((size_t)size * sizeof(int));
    ck_assert_ptr_nonnull(leader_of_node);
    memset(leader_of_node, 0xff, (size_t)size * sizeof(int));
    for (int rank = 0; rank < size; rank++) {
        int node = layout(rank, size);
        if (leader_of_node[node] < 0)
            leader_of_node[node] = rank;
        table[rank] = leader_of_node[node];
    }
    free(leader_of_node);
}

static bool has_child(const struct tree_shape *shape, int rank)
{
    for (int i = 0; i < shape->child_count; i++)
        if (shape->child_ranks[i] == rank)
            return true;
    return false;
}

static void check_rank(const struct tree_shape *shapes, const int *table, int size, int rank)
{
    const struct tree_shape *shape = &shapes[rank];
    ck_assert_int_eq(shape->leader, table[rank]);
    ck_assert_int_eq(shape->node, shapes[shape->leader].node);
    ck_assert_int_eq(shapes[shape->leader].local_rank, 0);
    ck_assert_int_le(shape->child_count, TREE_MAX_RADIX);
    ck_assert_int_lt(shape->local_rank, shape->local_size);
    ck_assert_int_lt(shape->node, shape->node_count);
    for (int i = 0; i < shape->child_count; i++) {
        int child = shape->child_ranks[i];
        ck_assert_int_gt(child, i == 0 ? rank : shape->child_ranks[i - 1]);
        ck_assert_int_lt(child, size);
        ck_assert_int_eq(shapes[child].parent, rank);
    }
    if (rank == 0) {
        ck_assert_int_eq(shape->parent, -1);
        return;
    }
    ck_assert_int_ge(shape->parent, 0);
    ck_assert_int_lt(shape->parent, rank);
    ck_assert(has_child(&shapes[shape->parent], rank));
    /* only leaders have relatives elsewhere */
    if (shape->leader != rank)
        ck_assert_int_eq(table[shape->parent], shape->leader);
}

/* All ranks of one job; returns the depth of the tree. */
static int check_job(int (*layout)(int rank, int size), int size)
{
    int *table = malloc((size_t)size * sizeof(int));
    int *depth = calloc((size_t)size, sizeof(int));
    struct tree_shape *shapes = malloc((size_t)size * sizeof(*shapes));
    ck_assert(table != NULL && depth != NULL && shapes != NULL);
    int deepest = 0;
    fill_table(layout, table, size);
    for (int rank = 0; rank < size; rank++)
        ck_assert_int_eq(tree_shape_of_rank(table, size, rank, &shapes[rank], NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        check_rank(shapes, table, size, rank);
        if (rank > 0)
            depth[rank] = depth[shapes[rank].parent] + 1;
        if (depth[rank] > deepest)
            deepest = depth[rank];
    }
    free(table);
    free(depth);
    free(shapes);
    return deepest;
}

START_TEST(both_ends_agree_in_every_job)
{
    for (int size = 1; size <= 200; size++)
        check_job(layouts[_i], size);
}
END_TEST

START_TEST(depth_is_logarithmic)
{
    /* the powers of the radix are full */
    int depth = 0;
    for (int size = 1; size <= MAX_SIZE; size *= TREE_LEADER_RADIX, depth++) {
        ck_assert_int_eq(check_job(node_alone, size), depth);
        if (size > 1)
            ck_assert_int_eq(check_job(node_alone, size + 1), depth + 1);
    }
    ck_assert_int_eq(check_job(node_shared, TREE_NODE_RADIX), 1);
    ck_assert_int_eq(check_job(node_shared, TREE_NODE_RADIX + 1), 2);
    ck_assert_int_eq(check_job(node_alone, MAX_SIZE), 5);
    ck_assert_int_eq(check_job(node_shared, MAX_SIZE), 3);
}
END_TEST

START_TEST(numbers_follow_the_leaders)
{
    static const int table[] = {0, 1, 1, 3, 0, 1, 3};
    struct tree_shape shape;
    ck_assert_int_eq(tree_shape_of_rank(table, 7, 6, &shape, NULL), HVD_OK);
    ck_assert_int_eq(shape.node, 2);
    ck_assert_int_eq(shape.node_count, 3);
    ck_assert_int_eq(shape.local_rank, 1);
    ck_assert_int_eq(shape.local_size, 2);
    ck_assert_int_eq(shape.parent, 3);
    ck_assert_int_eq(tree_shape_of_rank(table, 7, 0, &shape, NULL), HVD_OK);
    static const int children[] = {1, 3, 4};
    ck_assert_int_eq(shape.child_count, 3);
    ck_assert_mem_eq(shape.child_ranks, children, sizeof(children));
}
END_TEST

static const struct {
    int table[3];
    int rank;
    const char *expect;
} bad[] = {
    {{0, 2, 2}, 0, "rank 1 names 2"}, /* not the lowest */
    {{0, 0, 1}, 0, "rank 2 names 1"}, /* a leader that follows another */
    {{-1, 0, 0}, 0, "rank 0 names -1"}, {{0, 0, 3}, 0, "rank 2 names 3"},
    {{0, 0, 0}, 3, "shape of rank 3"},  {{0, 0, 0}, -1, "shape of rank -1"},
};

START_TEST(bad_tables_are_refused)
{
    struct tree_shape shape = {.node = 77};
    struct hvd_error err = {""};
    ck_assert_int_eq(tree_shape_of_rank(bad[_i].table, 3, bad[_i].rank, &shape, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(shape.node, 77);
    ck_assert_msg(strstr(err.text, bad[_i].expect) != NULL, "%s", err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tree_shape");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, both_ends_agree_in_every_job, 0, LAYOUT_COUNT);
    tcase_add_test(tcase, depth_is_logarithmic);
    tcase_add_test(tcase, numbers_follow_the_leaders);
    tcase_add_loop_test(tcase, bad_tables_are_refused, 0, sizeof(bad) / sizeof(bad[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tree_shape", fill);
}
