/* test_negotiate.c: what is ready on every rank, in one agreed order: hundreds of simulated ranks over
 * mailboxes. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "negotiate/state.h"
#include "negotiation_sim.h"

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
            struct desc *desc = describe((next[rank]++ * 7 + rank) % names, 10);
            submit(&game, rank, desc);
            desc_release(desc);
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
    struct desc *desc = describe(1, 4);
    begin(&game, 20, 4);
    for (int rank = 0; rank < 19; rank++)
        submit(&game, rank, desc);
    settle(&game);
    ck_assert_int_eq(game.players[0].decided, 0);
    submit(&game, 19, desc);
    settle(&game);
    ck_assert_int_eq(game.players[7].decided, 1);
    desc_release(desc);
    end(&game);
}
END_TEST

/* [culprit] has another shape, in the first round or when the operation is known already. */
START_TEST(a_mismatch_names_both_ranks_and_values_everywhere)
{
    static const int culprits[] = {0, 1, 5, 23};
    int culprit = culprits[_i / 2];
    struct game game;
    struct desc *good = describe(3, 64);
    struct desc *bad = describe(3, 65);
    char expected[256];
    begin(&game, 24, 4);
    if (_i % 2 == 1) {
        for (int rank = 0; rank < 24; rank++)
            submit(&game, rank, good);
        settle(&game);
    }
    for (int rank = 0; rank < 24; rank++)
        submit(&game, rank, rank == culprit ? bad : good);
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
    submit_all(&game, good);
    settle(&game);
    ck_assert_int_eq(game.players[23].order[game.players[23].decided - 1], 3);
    everybody_saw_the_same(&game);
    desc_release(bad);
    end(&game);
}
END_TEST

START_TEST(a_new_shape_on_all_ranks_is_no_mismatch)
{
    struct game game;
    begin(&game, 12, 4);
    for (int64_t extent = 1; extent < 6; extent++) {
        submit_all(&game, describe(2, extent));
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
    struct desc *desc = describe(1, 4);
    uint32_t tcp = 1u << PLANE_TCP;
    uint32_t mpi = 1u << PLANE_MPI;
    begin(&game, 8, 2);
    for (int rank = 0; rank < 8; rank++)
        submit_over(&game, rank, desc, rank == 6 ? mpi : tcp);
    settle(&game);
    ck_assert_str_eq(game.players[3].difference, "allreduce \"t1\": rank 0 planes tcp, rank 6 planes mpi");
    /* a rank that has both finds the common one, also when the others need no more than the number */
    for (int round = 1; round < 3; round++) {
        for (int rank = 0; rank < 8; rank++)
            submit_over(&game, rank, desc, rank == 6 ? mpi | tcp : tcp);
        settle(&game);
        ck_assert_int_eq(game.players[3].order[round], 1);
    }
    /* what was agreed on is no longer there */
    for (int rank = 0; rank < 8; rank++)
        submit_over(&game, rank, desc, rank == 6 ? mpi : tcp);
    settle(&game);
    ck_assert_int_eq(game.players[3].order[3], 1 + MAX_NAMES);
    desc_release(desc);
    end(&game);
}
END_TEST

START_TEST(a_leaver_ends_what_is_undecided_at_the_same_place_everywhere)
{
    struct game game;
    struct desc *pending = describe(2, 4);
    begin(&game, 30, 4);
    submit_all(&game, describe(1, 4));
    for (int rank = 0; rank < 29; rank++)
        submit(&game, rank, pending);
    shut_down(&game, 29);
    settle(&game);
    /* too late: the others were told that it will not run */
    submit(&game, 29, pending);
    settle(&game);
    for (int rank = 0; rank < 30; rank++)
        ck_assert_int_eq(game.players[rank].left, 29);
    for (int rank = 0; rank < 29; rank++)
        shut_down(&game, rank);
    settle(&game);
    desc_release(pending);
    ck_assert_int_eq(game.players[0].decided, 3);
    ck_assert_int_eq(game.players[0].order[0], 1);
    ck_assert_int_eq(game.players[0].order[1], -1);
    ck_assert_int_eq(game.players[0].order[2], -2);
    everybody_saw_the_same(&game);
    end(&game);
}
END_TEST

/* One round of [names] operations of all ranks, whose turns come in no helpful order. */
static void play_round(struct game *game, int names)
{
    for (int name = 0; name < names; name++)
        submit_all(game, describe(name, 100));
    settle(game);
}

/* However many ranks there are: a round is one message a link and direction, so that no rank handles more
 * than the tree's radix and one of either, and the root hears as many bytes in the first round. */
START_TEST(no_ranks_work_grows_with_the_ranks)
{
    enum { NAMES = 10 };
    static const int sizes[] = {64, 1024, 16384};
    uint64_t first_bytes[3];
    for (int i = 0; i < 3; i++) {
        struct game game;
        begin(&game, sizes[i], 8);
        play_round(&game, NAMES);
        first_bytes[i] = local_world_counts(game.world, 0).received_bytes;
        struct local_counts *before = calloc((size_t)sizes[i], sizeof(*before));
        for (int rank = 0; rank < sizes[i]; rank++)
            before[rank] = local_world_counts(game.world, rank);
        play_round(&game, NAMES);
        for (int rank = 0; rank < sizes[i]; rank++) {
            struct local_counts counts = local_world_counts(game.world, rank);
            const struct control *control = game.players[rank].control;
            ck_assert_int_le(control->child_count, SHAPE_RADIX);
            uint64_t links = (uint64_t)control->child_count + (control->parent >= 0);
            ck_assert_uint_eq(counts.received - before[rank].received, links);
            ck_assert_uint_eq(counts.sent - before[rank].sent, links);
            ck_assert_int_eq(game.players[rank].decided, 2 * NAMES);
        }
        free(before);
        end(&game);
    }
    ck_assert_uint_eq(first_bytes[1], first_bytes[0]);
    ck_assert_uint_eq(first_bytes[2], first_bytes[0]);
}
END_TEST

/* 40 ranks on nodes of 4; the set is node 3 and more of its leader's subtree. */
START_TEST(a_set_costs_nothing_above_the_rank_that_covers_it)
{
    struct game game;
    begin(&game, 40, 4);
    hvd_set set = make_set(&game, 12, 15);
    ck_assert_int_eq(set, 1);
    ck_assert_int_eq(make_set(&game, 0, 0), 2);
    ck_assert_ptr_null(crew_find(game.players[0].negotiate, set));
    ck_assert(crew_find(game.players[12].negotiate, set)->decides);
    ck_assert(!crew_find(game.players[13].negotiate, set)->decides);
    ck_assert_ptr_null(crew_find(game.players[4].negotiate, set));
    ck_assert_ptr_null(crew_find(game.players[12].negotiate, 2));
    uint64_t at_root = messages_of(&game, 0);
    uint64_t at_member = messages_of(&game, 13);
    uint64_t at_other = messages_of(&game, 5);
    for (int round = 0; round < 10; round++) {
        for (int rank = 12; rank < 16; rank++) {
            struct desc *desc = describe(1, 8);
            desc->set = set;
            submit(&game, rank, desc);
            desc_release(desc);
        }
        for (int rank = 39; rank >= 0; rank--)
            turn(&game.players[rank]);
        settle(&game);
    }
    ck_assert_int_eq(game.players[13].decided, 10);
    ck_assert_int_eq(game.players[0].decided, 0);
    ck_assert_uint_eq(messages_of(&game, 0), at_root);
    ck_assert_uint_eq(messages_of(&game, 5), at_other);
    ck_assert_uint_eq(messages_of(&game, 13), at_member + 10);
    end(&game);
}
END_TEST

/* One message a neighbour and a round, whatever the number of sets. */
START_TEST(sets_of_all_sizes_share_the_messages_of_a_round)
{
    struct game game;
    begin(&game, 24, 4);
    hvd_set sets[] = {HVD_ALL_RANKS, make_set(&game, 0, 22), make_set(&game, 1, 23)};
    for (int round = 0; round < 3; round++) {
        uint64_t at_root = messages_of(&game, 0);
        uint64_t at_leaf = messages_of(&game, 22);
        for (int rank = 0; rank < 24; rank++) {
            for (int i = 0; i < 3; i++) {
                struct desc *desc = describe(i, 8);
                desc->set = sets[i];
                if ((i != 1 || rank < 23) && (i != 2 || rank > 0))
                    submit(&game, rank, desc);
                desc_release(desc);
            }
        }
        for (int rank = 23; rank >= 0; rank--)
            turn(&game.players[rank]);
        settle(&game);
        ck_assert_int_eq(game.players[22].decided, 3 * (round + 1));
        ck_assert_uint_eq(messages_of(&game, 0) - at_root, (unsigned)game.players[0].control->child_count);
        ck_assert_uint_eq(messages_of(&game, 22) - at_leaf, 1);
    }
    end(&game);
}
END_TEST

static size_t entries_of(const struct player *player)
{
    return player->negotiate->crews[0]->ledger.entry_count;
}

/* Names that are used once come and go; what is used in every round keeps its number. */
START_TEST(a_bounded_cache_forgets_names_on_all_ranks)
{
    struct game game;
    char text[32];
    struct negotiate_place limited = {.cache_limit = 4};
    begin_like(&game, 12, 4, &limited);
    struct ledger *ledger = &game.players[11].negotiate->crews[0]->ledger;
    uint32_t steady = WIRE_NO_ID;
    for (int round = 0; round < 300; round++) {
        snprintf(text, sizeof(text), "t3 of round %d", round);
        submit_all(&game, desc_vector(text, 4));
        submit_all(&game, describe(1, 4));
        settle(&game);
        ck_assert_uint_le(ledger->slot_count, 4);
        for (int rank = 0; rank < 12; rank++)
            ck_assert_uint_le(entries_of(&game.players[rank]), 4);
        struct entry *entry = ledger_find(ledger, "t1");
        ck_assert_ptr_nonnull(entry);
        if (round == 0)
            steady = entry->number;
        ck_assert_uint_eq(entry->number, steady);
    }
    ck_assert_int_eq(game.players[11].decided, 600);
    /* numbers are given away again and again: the last names have one */
    ck_assert_ptr_null(ledger_find(ledger, "t3 of round 0"));
    ck_assert(ledger_find(ledger, "t3 of round 299") != NULL ||
              ledger_find(ledger, "t3 of round 298") != NULL);
    everybody_saw_the_same(&game);
    end(&game);
}
END_TEST

START_TEST(an_unbounded_cache_keeps_all_names)
{
    struct game game;
    begin(&game, 6, 3);
    for (int round = 0; round < 3; round++) {
        for (int name = 0; name < 60; name++)
            submit_all(&game, describe(name, 4));
        settle(&game);
        ck_assert_uint_eq(entries_of(&game.players[5]), 60);
    }
    end(&game);
}
END_TEST

START_TEST(a_rank_says_nothing_of_sets_that_it_is_not_in)
{
    struct game game;
    struct hvd_error err = {""};
    struct desc *desc = describe(1, 4);
    struct submission submission = {.desc = desc};
    begin(&game, 4, 2);
    hvd_set set = make_set(&game, 1, 2);
    desc->set = set;
    ck_assert_int_eq(negotiate_submit(game.players[3].negotiate, &submission, &err), HVD_ERR_SET);
    ck_assert_str_eq(err.text, "rank 3 is no member of process set 1");
    desc->set = set + 1;
    ck_assert_int_eq(negotiate_submit(game.players[1].negotiate, &submission, NULL), HVD_ERR_SET);
    desc_release(desc);
    end(&game);
}
END_TEST

/* Rank 1 of 3, between its parent and its child. */
static struct negotiate *in_the_middle(void)
{
    static const int child = 2;
    struct negotiate *negotiate = NULL;
    struct negotiate_place place = {
        .rank = 1, .size = 3, .child_count = 1, .child_ranks = &child, .plane_order = {PLANE_TCP, -1}};
    ck_assert_int_eq(negotiate_create(&negotiate, &place, NULL), HVD_OK);
    return negotiate;
}

static struct wire_record record_of(struct desc *desc)
{
    struct wire_record record = {.type = WIRE_NEW, .id = WIRE_NO_ID, .plane = -1, .absent = -1};
    record.offer.desc = desc;
    return record;
}

/* Put a record, which is used up. */
static void put(struct wire_writer *writer, struct wire_record record)
{
    wire_put(writer, &record);
    wire_clear(&record);
}

static void refused(int rc, const struct hvd_error *err, const char *why)
{
    ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err->text, why) != NULL, "\"%s\" does not hold \"%s\"", err->text, why);
}

START_TEST(settings_reach_all_ranks_before_the_same_operation)
{
    struct game game;
    struct tune_settings settings = {1 << 20, 1 << 16, 3};
    begin(&game, 11, 2);
    submit_all(&game, describe(1, 4));
    settle(&game);
    negotiate_tune(game.players[0].negotiate, &settings);
    settle(&game);
    ck_assert_int_eq(game.players[0].settings.window, 0); /* nobody is woken for it */
    submit_all(&game, describe(2, 4));
    settle(&game);
    submit_all(&game, describe(1, 4));
    settle(&game);
    for (int rank = 0; rank < game.size; rank++) {
        ck_assert_mem_eq(&game.players[rank].settings, &settings, sizeof(settings));
        ck_assert_int_eq(game.players[rank].tuned_at, 1);
        ck_assert_int_eq(game.players[rank].decided, 3);
    }
    end(&game);
}
END_TEST

/* What rank 0 of two hears from the other, which has its turn first. */
static void hear_child(struct game *game)
{
    struct hvd_error err = {""};
    struct control_event event;
    struct control *control = game->players[0].control;
    turn(&game->players[1]);
    ck_assert_int_eq(control->ops->receive(control, &event, &err), HVD_OK);
    int rc = negotiate_from_child(game->players[0].negotiate, 0, event.bytes, event.length, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
}

START_TEST(who_decides_tells_first_and_is_not_behind_for_it)
{
    struct game game;
    struct hvd_error err = {""};
    const void *bytes = NULL;
    size_t length = 0;
    begin(&game, 2, 2);
    submit_all(&game, describe(0, 4));
    settle(&game);
    struct player *root = &game.players[0];
    struct control *control = root->control;
    struct desc *desc = describe(0, 4);
    submit(&game, 0, desc);
    submit(&game, 1, desc);
    hear_child(&game);
    ck_assert_int_eq(negotiate_decide(root->negotiate, &err), HVD_OK);
    ck_assert_int_eq(negotiate_say(root->negotiate, 1, &bytes, &length, &err), HVD_OK);
    ck_assert_uint_gt(length, 0);
    ck_assert_int_eq(control->ops->send(control, 1, bytes, length, NULL), HVD_OK);
    /* the other is told, and hands it in again before the root has looked at what it decided itself */
    turn(&game.players[1]);
    ck_assert_int_eq(game.players[1].decided, 2);
    submit(&game, 1, desc);
    hear_child(&game);
    ck_assert_int_eq(root->decided, 1);
    take_decisions(root);
    ck_assert_int_eq(root->decided, 2);
    submit(&game, 0, desc);
    settle(&game);
    ck_assert_int_eq(root->decided, 3);
    ck_assert_int_eq(game.players[1].decided, 3);
    desc_release(desc);
    end(&game);
}
END_TEST

START_TEST(a_child_that_breaks_the_protocol_is_found_out)
{
    struct negotiate *negotiate = in_the_middle();
    struct wire_writer writer = {0};
    struct hvd_error err = {""};
    uint32_t id = 5;
    wire_put_ids(&writer, WIRE_IDS, HVD_ALL_RANKS, &id, 1);
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "never agreed");
    wire_reset(&writer);
    wire_put_ids(&writer, WIRE_RETIRE, HVD_ALL_RANKS, &id, 1);
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "given up");
    wire_reset(&writer);
    wire_put_ids(&writer, WIRE_IDS, 3, &id, 1);
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "process set 3");
    wire_reset(&writer);
    put(&writer, (struct wire_record){.type = WIRE_UNIT});
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "only parents do");
    wire_reset(&writer);
    put(&writer, (struct wire_record){.type = WIRE_TUNE, .settings = {1, 1, 1}});
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "only parents do");
    wire_reset(&writer);
    put(&writer, record_of(describe(1, 4)));
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_OK);
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "says twice");
    wire_reset(&writer);
    put(&writer, (struct wire_record){.type = WIRE_JOINED, .rank = 2});
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_OK);
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "says twice");
    wire_reset(&writer);
    put(&writer, record_of(describe(2, 4)));
    refused(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), &err, "has joined");
    wire_free(&writer);
    negotiate_destroy(negotiate);
}
END_TEST

START_TEST(a_parent_that_breaks_the_protocol_is_found_out)
{
    struct negotiate *negotiate = in_the_middle();
    struct wire_writer writer = {0};
    struct hvd_error err = {""};
    uint32_t id = 0;
    struct desc *desc = describe(1, 4);
    struct submission submission = {.desc = desc};
    const void *bytes = NULL;
    size_t length = 0;
    struct wire_record run = record_of(desc_hold(desc));
    put(&writer, run);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not ready here");
    /* ready, but this rank has not said so */
    ck_assert_int_eq(negotiate_submit(negotiate, &submission, &err), HVD_OK);
    ck_assert_int_eq(negotiate_from_child(negotiate, 0, writer.bytes, writer.length, &err), HVD_OK);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not ready here");
    ck_assert_int_eq(negotiate_say(negotiate, 0, &bytes, &length, &err), HVD_OK);
    ck_assert_uint_gt(length, 0);
    /* a number that is not its turn */
    wire_reset(&writer);
    run = record_of(desc_hold(desc));
    run.id = 7;
    put(&writer, run);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not its turn");
    wire_reset(&writer);
    wire_put_ids(&writer, WIRE_IDS, HVD_ALL_RANKS, &id, 1);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not agreed");
    wire_reset(&writer);
    wire_put_ids(&writer, WIRE_RETIRE, HVD_ALL_RANKS, &id, 1);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not in use");
    wire_reset(&writer);
    wire_put_ids(&writer, WIRE_IDS, 2, &id, 1);
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "process set 2");
    wire_reset(&writer);
    put(&writer, (struct wire_record){.type = WIRE_JOINED});
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "not so");
    wire_reset(&writer);
    put(&writer, (struct wire_record){.type = WIRE_LEAVING});
    refused(negotiate_from_parent(negotiate, writer.bytes, writer.length, &err), &err, "within a unit");
    wire_free(&writer);
    desc_release(desc);
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
    tcase_add_test(tcase, no_ranks_work_grows_with_the_ranks);
    tcase_add_test(tcase, a_set_costs_nothing_above_the_rank_that_covers_it);
    tcase_add_test(tcase, sets_of_all_sizes_share_the_messages_of_a_round);
    tcase_add_test(tcase, a_bounded_cache_forgets_names_on_all_ranks);
    tcase_add_test(tcase, an_unbounded_cache_keeps_all_names);
    tcase_add_test(tcase, a_rank_says_nothing_of_sets_that_it_is_not_in);
    tcase_add_test(tcase, settings_reach_all_ranks_before_the_same_operation);
    tcase_add_test(tcase, who_decides_tells_first_and_is_not_behind_for_it);
    tcase_add_test(tcase, a_child_that_breaks_the_protocol_is_found_out);
    tcase_add_test(tcase, a_parent_that_breaks_the_protocol_is_found_out);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("negotiate", fill);
}
