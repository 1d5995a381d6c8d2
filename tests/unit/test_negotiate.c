/* test_negotiate.c: what is ready on every rank, in one agreed order: hundreds of simulated ranks over
 * mailboxes. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "control/local.h"
#include "control/shape.h"
#include "flow/negotiate.h"

#define MAX_NAMES 64

/* What one simulated rank did and was told. */
struct player {
    struct control *control;
    struct negotiate *negotiate;
    int order[4096]; /* names in the order of decisions; MAX_NAMES + name for a mismatch; -1 for leaving */
    int message_ends[4096]; /* how many decisions there were when a message ended */
    int decided, messages;
    int submitted[MAX_NAMES];
    int left; /* rank that left first, or -1 */
    char difference[256];
};

struct game {
    struct local_world *world;
    struct player *players;
    int size;
};

static struct desc describe(int name, int64_t extent)
{
    struct desc desc = {.kind = DESC_ALLREDUCE,
                        .dtype = HVD_FLOAT32,
                        .ndim = 1,
                        .shape = {extent},
                        .planes = 1u << PLANE_TCP};
    snprintf(desc.name, sizeof(desc.name), "t%d", name);
    return desc;
}

static void begin(struct game *game, int size, int ranks_per_node)
{
    int *node_of_rank = calloc((size_t)size, sizeof(int));
    for (int rank = 0; rank < size; rank++)
        node_of_rank[rank] = rank - rank % ranks_per_node;
    ck_assert_int_eq(local_world_open(&game->world, node_of_rank, size, NULL), HVD_OK);
    free(node_of_rank);
    game->size = size;
    game->players = calloc((size_t)size, sizeof(struct player));
    for (int rank = 0; rank < size; rank++) {
        struct player *player = &game->players[rank];
        player->control = local_world_rank(game->world, rank);
        player->left = -1;
        struct negotiate_place place = {.rank = rank,
                                        .size = size,
                                        .root = player->control->parent < 0,
                                        .child_count = player->control->child_count,
                                        .child_ranks = player->control->child_ranks,
                                        .plane_order = {PLANE_MPI, PLANE_TCP, -1}};
        ck_assert_int_eq(negotiate_create(&player->negotiate, &place, NULL), HVD_OK);
    }
}

static void end(struct game *game)
{
    for (int rank = 0; rank < game->size; rank++)
        negotiate_destroy(game->players[rank].negotiate);
    local_world_close(game->world);
    free(game->players);
}

static void submit(struct game *game, int rank, const struct desc *desc)
{
    struct hvd_error err = {""};
    int name = (int)strtol(desc->name + 1, NULL, 10);
    game->players[rank].submitted[name]++;
    int rc =
        negotiate_submit(game->players[rank].negotiate, desc, &game->players[rank].submitted[name], &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
}

static void take_decisions(struct player *player)
{
    struct decision decision;
    while (negotiate_next(player->negotiate, &decision)) {
        int what = -1;
        if (decision.kind == DECISION_LEAVING)
            player->left = decision.rank;
        else if (strcmp(decision.desc->name, DESC_SHUTDOWN_NAME) == 0)
            what = -2;
        else
            what = (int)strtol(decision.desc->name + 1, NULL, 10) +
                   (decision.kind == DECISION_MISMATCH ? MAX_NAMES : 0);
        if (what >= 0)
            ck_assert_ptr_eq(decision.user, &player->submitted[what % MAX_NAMES]);
        if (decision.kind == DECISION_RUN && what >= 0)
            ck_assert_int_eq(decision.plane, PLANE_TCP);
        if (decision.kind == DECISION_MISMATCH) {
            struct desc_difference difference;
            desc_compare(decision.desc, decision.other, &difference);
            snprintf(player->difference, sizeof(player->difference), "%.60s: rank %d %.60s, rank %d %.60s",
                     difference.what, decision.other_rank, difference.b, decision.rank, difference.a);
        }
        player->order[player->decided++] = what;
        if (decision.last)
            player->message_ends[player->messages++] = player->decided;
    }
}

/* What a rank's loop does with its messages, without its data. Returns whether anything happened. */
static bool turn(struct player *player)
{
    struct control_event event;
    struct hvd_error err = {""};
    struct control *control = player->control;
    const void *bytes = NULL;
    size_t length = 0;
    bool moved = false;
    while (control->ops->receive(control, &event, &err) == HVD_OK) {
        int rc = HVD_OK;
        moved = true;
        ck_assert_int_eq(event.kind, CONTROL_MESSAGE);
        if (event.link == CONTROL_PARENT) {
            for (int link = 1; link <= control->child_count; link++)
                control->ops->send(control, link, event.bytes, event.length, NULL);
            rc = negotiate_from_parent(player->negotiate, event.bytes, event.length, &err);
            take_decisions(player);
        } else {
            rc = negotiate_from_child(player->negotiate, event.link - 1, event.bytes, event.length, &err);
        }
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
    }
    ck_assert_int_eq(negotiate_say(player->negotiate, &bytes, &length, &err), HVD_OK);
    if (length == 0)
        return moved;
    if (control->parent >= 0)
        control->ops->send(control, CONTROL_PARENT, bytes, length, NULL);
    for (int link = 1; control->parent < 0 && link <= control->child_count; link++)
        control->ops->send(control, link, bytes, length, NULL);
    take_decisions(player);
    return true;
}

/* Let everybody have turns until nothing happens any more. */
static void settle(struct game *game)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int rank = 0; rank < game->size; rank++)
            moved |= turn(&game->players[rank]);
    }
}

static void everybody_saw_the_same(const struct game *game)
{
    const struct player *first = &game->players[0];
    for (int rank = 1; rank < game->size; rank++) {
        const struct player *player = &game->players[rank];
        ck_assert_int_eq(player->decided, first->decided);
        ck_assert_int_eq(player->messages, first->messages);
        ck_assert_mem_eq(player->order, first->order, (size_t)first->decided * sizeof(int));
        ck_assert_mem_eq(player->message_ends, first->message_ends, (size_t)first->messages * sizeof(int));
    }
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static const struct {
    int size, ranks_per_node;
} layouts[] = {{1, 1}, {2, 2}, {3, 1}, {7, 3}, {40, 40}, {64, 8}, {200, 4}, {512, 8}};

/* Every rank submits the same names in an order of its own, thrice, with turns in between at random. */
START_TEST(all_ranks_agree_on_one_order)
{
    struct game game;
    unsigned seed = 17u + (unsigned)_i;
    int names = 20;
    begin(&game, layouts[_i].size, layouts[_i].ranks_per_node);
    for (int step = 0; step < 3; step++) {
        int *next = calloc((size_t)game.size, sizeof(int));
        for (int left = game.size * names; left > 0;) {
            int rank = (int)(next_random(&seed) % (unsigned)game.size);
            if (next[rank] == names) {
                turn(&game.players[rank]);
                rank = 0;
                while (next[rank] == names)
                    rank++;
            }
            struct desc desc = describe((next[rank]++ * 7 + rank) % names, 10);
            submit(&game, rank, &desc);
            left--;
            if (next_random(&seed) % 4 == 0)
                turn(&game.players[next_random(&seed) % (unsigned)game.size]);
        }
        free(next);
        settle(&game);
        ck_assert_int_eq(game.players[0].decided, (step + 1) * names);
    }
    everybody_saw_the_same(&game);
    end(&game);
}
END_TEST

START_TEST(nothing_is_decided_before_the_last_rank)
{
    struct game game;
    struct desc desc = describe(1, 4);
    begin(&game, 20, 4);
    for (int rank = 0; rank < 19; rank++)
        submit(&game, rank, &desc);
    settle(&game);
    ck_assert_int_eq(game.players[0].decided, 0);
    submit(&game, 19, &desc);
    settle(&game);
    ck_assert_int_eq(game.players[7].decided, 1);
    end(&game);
}
END_TEST

/* [culprit] has another shape, in the first round or when the operation is known already. */
START_TEST(a_mismatch_names_both_ranks_and_values_everywhere)
{
    static const int culprits[] = {0, 1, 5, 23};
    int culprit = culprits[_i / 2];
    struct game game;
    struct desc good = describe(3, 64);
    struct desc bad = describe(3, 65);
    char expected[256];
    begin(&game, 24, 4);
    if (_i % 2 == 1) {
        for (int rank = 0; rank < 24; rank++)
            submit(&game, rank, &good);
        settle(&game);
    }
    for (int rank = 0; rank < 24; rank++)
        submit(&game, rank, rank == culprit ? &bad : &good);
    settle(&game);
    for (int rank = 0; rank < 24; rank++) {
        const struct player *player = &game.players[rank];
        ck_assert_int_eq(player->order[player->decided - 1], MAX_NAMES + 3);
        ck_assert_str_eq(player->difference, game.players[0].difference);
    }
    /* rank 0 is one of the two, whoever the culprit is: the lowest that disagrees is named */
    snprintf(expected, sizeof(expected), "rank %d float32[65]", culprit);
    ck_assert_ptr_nonnull(strstr(game.players[0].difference, expected));
    snprintf(expected, sizeof(expected), "rank 0 float32[%d]", culprit == 0 ? 65 : 64);
    ck_assert_ptr_nonnull(strstr(game.players[0].difference, expected));
    /* the name can be used again, and agreed on */
    for (int rank = 0; rank < 24; rank++)
        submit(&game, rank, &good);
    settle(&game);
    ck_assert_int_eq(game.players[23].order[game.players[23].decided - 1], 3);
    everybody_saw_the_same(&game);
    end(&game);
}
END_TEST

START_TEST(a_new_shape_on_all_ranks_is_no_mismatch)
{
    struct game game;
    begin(&game, 12, 4);
    for (int64_t extent = 1; extent < 6; extent++) {
        struct desc desc = describe(2, extent);
        for (int rank = 0; rank < 12; rank++)
            submit(&game, rank, &desc);
        settle(&game);
    }
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(game.players[11].order[i], 2);
    ck_assert_int_eq(game.players[11].decided, 5);
    end(&game);
}
END_TEST

START_TEST(planes_without_a_common_one_are_a_mismatch)
{
    struct game game;
    struct desc tcp = describe(1, 4);
    struct desc mpi = describe(1, 4);
    mpi.planes = 1u << PLANE_MPI;
    begin(&game, 8, 2);
    for (int rank = 0; rank < 8; rank++)
        submit(&game, rank, rank == 6 ? &mpi : &tcp);
    settle(&game);
    ck_assert_str_eq(game.players[3].difference, "allreduce \"t1\": rank 6 planes mpi, rank 0 planes tcp");
    /* a rank that has both finds the common one */
    mpi.planes |= 1u << PLANE_TCP;
    for (int rank = 0; rank < 8; rank++)
        submit(&game, rank, rank == 6 ? &mpi : &tcp);
    settle(&game);
    ck_assert_int_eq(game.players[3].order[1], 1);
    end(&game);
}
END_TEST

START_TEST(a_leaver_ends_what_is_undecided_at_the_same_place_everywhere)
{
    struct game game;
    struct desc done = describe(1, 4);
    struct desc pending = describe(2, 4);
    struct desc shutdown = {.kind = DESC_SHUTDOWN, .name = DESC_SHUTDOWN_NAME};
    begin(&game, 30, 4);
    for (int rank = 0; rank < 30; rank++)
        submit(&game, rank, &done);
    for (int rank = 0; rank < 29; rank++)
        submit(&game, rank, &pending);
    negotiate_leave(game.players[29].negotiate);
    ck_assert_int_eq(negotiate_submit(game.players[29].negotiate, &shutdown, NULL, NULL), HVD_OK);
    settle(&game);
    /* too late: the others were told that it will not run */
    submit(&game, 29, &pending);
    settle(&game);
    for (int rank = 0; rank < 30; rank++)
        ck_assert_int_eq(game.players[rank].left, 29);
    for (int rank = 0; rank < 29; rank++) {
        negotiate_leave(game.players[rank].negotiate);
        ck_assert_int_eq(negotiate_submit(game.players[rank].negotiate, &shutdown, NULL, NULL), HVD_OK);
    }
    settle(&game);
    ck_assert_int_eq(game.players[0].decided, 3);
    ck_assert_int_eq(game.players[0].order[0], 1);
    ck_assert_int_eq(game.players[0].order[1], -1);
    ck_assert_int_eq(game.players[0].order[2], -2);
    everybody_saw_the_same(&game);
    end(&game);
}
END_TEST

/* A steady round costs no rank more than its neighbours' messages, and the first round's bytes at the root do
 * not grow. */
START_TEST(the_roots_work_does_not_grow_with_the_ranks)
{
    static const int sizes[] = {64, 1024, 4096};
    uint64_t first_bytes[3];
    for (int i = 0; i < 3; i++) {
        struct game game;
        uint64_t before = 0;
        uint64_t after = 0;
        begin(&game, sizes[i], 8);
        for (int round = 0; round < 2; round++) {
            local_world_counts(game.world, 0, &before, &after);
            uint64_t messages_before = before;
            for (int name = 0; name < 50; name++) {
                struct desc desc = describe(name, 100);
                for (int rank = 0; rank < game.size; rank++)
                    submit(&game, rank, &desc);
            }
            /* children before parents, so that each says its round in one message */
            for (int rank = game.size - 1; rank >= 0; rank--)
                turn(&game.players[rank]);
            settle(&game);
            local_world_counts(game.world, 0, &before, &after);
            ck_assert_uint_le(before - messages_before, SHAPE_TREE_RADIX + 7);
            if (round == 0)
                first_bytes[i] = after;
        }
        ck_assert_int_eq(game.players[sizes[i] - 1].decided, 100);
        end(&game);
    }
    /* 64 ranks on 8 nodes fill 7 of the 8 remote places; after that it does not grow at all */
    ck_assert_uint_le(first_bytes[1], first_bytes[0] * 8 / 7);
    ck_assert_uint_eq(first_bytes[2], first_bytes[1]);
}
END_TEST

START_TEST(a_peer_that_breaks_the_protocol_is_found_out)
{
    struct negotiate *negotiate = NULL;
    int child = 1;
    struct negotiate_place place = {.rank = 0,
                                    .size = 2,
                                    .root = true,
                                    .child_count = 1,
                                    .child_ranks = &child,
                                    .plane_order = {PLANE_TCP, -1}};
    struct wire_writer writer = {0};
    uint32_t id = 5;
    struct hvd_error err = {""};
    ck_assert_int_eq(negotiate_create(&negotiate, &place, NULL), HVD_OK);
    wire_put_ids(&writer, &id, 1);
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "never agreed"));
    wire_reset(&writer);
    struct wire_record record = {.type = WIRE_NEW, .rank = 1, .plane = -1, .desc = describe(1, 4)};
    wire_put(&writer, &record);
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_OK);
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "says twice"));
    ck_assert_int_eq(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "not ready here"));
    wire_free(&writer);
    negotiate_destroy(negotiate);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("negotiate");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, all_ranks_agree_on_one_order, 0, sizeof(layouts) / sizeof(layouts[0]));
    tcase_add_test(tcase, nothing_is_decided_before_the_last_rank);
    tcase_add_loop_test(tcase, a_mismatch_names_both_ranks_and_values_everywhere, 0, 8);
    tcase_add_test(tcase, a_new_shape_on_all_ranks_is_no_mismatch);
    tcase_add_test(tcase, planes_without_a_common_one_are_a_mismatch);
    tcase_add_test(tcase, a_leaver_ends_what_is_undecided_at_the_same_place_everywhere);
    tcase_add_test(tcase, the_roots_work_does_not_grow_with_the_ranks);
    tcase_add_test(tcase, a_peer_that_breaks_the_protocol_is_found_out);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("negotiate", fill);
}
