/* test_negotiate.c: what is ready on every rank, in one agreed order: hundreds of simulated ranks over
 * mailboxes. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "negotiate/stages.h"
#include "negotiation_sim.h"

static void everybody_saw_the_same(const struct sim_job *sim)
{
    const struct sim_rank *first = &sim->players[0];
    for (int rank = 1; rank < sim->size; rank++) {
        const struct sim_rank *player = &sim->players[rank];
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
    struct sim_job sim;
    unsigned seed = 17u + (unsigned)_i;
    int names = 20;
    begin(&sim, layouts[_i].size, layouts[_i].ranks_per_node);
    for (int step = 0; step < 3; step++) {
        int *next = calloc((size_t)sim.size, sizeof(int));
        for (int left = sim.size * names; left > 0;) {
            int rank = (int)(next_random(&seed) % (unsigned)sim.size);
            if (next[rank] == names) {
                step_rank(&sim.players[rank]);
                rank = 0;
                while (next[rank] == names)
                    rank++;
            }
            struct desc *desc = describe((next[rank]++ * 7 + rank) % names, 10);
            submit(&sim, rank, desc);
            desc_release(desc);
            left--;
            if (next_random(&seed) % 4 == 0)
                step_rank(&sim.players[next_random(&seed) % (unsigned)sim.size]);
        }
        free(next);
        run_until_idle(&sim);
        ck_assert_int_eq(sim.players[0].decided, (step + 1) * names);
    }
    everybody_saw_the_same(&sim);
    end(&sim);
}
END_TEST

START_TEST(nothing_is_decided_before_the_last_rank)
{
    struct sim_job sim;
    struct desc *desc = describe(1, 4);
    begin(&sim, 20, 4);
    for (int rank = 0; rank < 19; rank++)
        submit(&sim, rank, desc);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[0].decided, 0);
    submit(&sim, 19, desc);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[7].decided, 1);
    desc_release(desc);
    end(&sim);
}
END_TEST

/* [culprit] has another shape, in the first round or when the operation is known already. */
START_TEST(a_mismatch_names_both_ranks_and_values_everywhere)
{
    static const int culprits[] = {0, 1, 5, 23};
    int culprit = culprits[_i / 2];
    struct sim_job sim;
    struct desc *good = describe(3, 64);
    struct desc *bad = describe(3, 65);
    char expected[256];
    begin(&sim, 24, 4);
    if (_i % 2 == 1) {
        for (int rank = 0; rank < 24; rank++)
            submit(&sim, rank, good);
        run_until_idle(&sim);
    }
    for (int rank = 0; rank < 24; rank++)
        submit(&sim, rank, rank == culprit ? bad : good);
    run_until_idle(&sim);
    for (int rank = 0; rank < 24; rank++) {
        const struct sim_rank *player = &sim.players[rank];
        ck_assert_int_eq(player->order[player->decided - 1], MAX_NAMES + 3);
        ck_assert_str_eq(player->difference, sim.players[0].difference);
    }
    /* rank 0 is one of the two, whoever the culprit is: the lowest that disagrees is named */
    snprintf(expected, sizeof(expected), "rank %d float32[65]", culprit);
    ck_assert_ptr_nonnull(strstr(sim.players[0].difference, expected));
    snprintf(expected, sizeof(expected), "rank 0 float32[%d]", culprit == 0 ? 65 : 64);
    ck_assert_ptr_nonnull(strstr(sim.players[0].difference, expected));
    /* the name can be used again, and agreed on */
    submit_all(&sim, good);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[23].order[sim.players[23].decided - 1], 3);
    everybody_saw_the_same(&sim);
    desc_release(bad);
    end(&sim);
}
END_TEST

START_TEST(a_new_shape_on_all_ranks_is_no_mismatch)
{
    struct sim_job sim;
    begin(&sim, 12, 4);
    for (int64_t extent = 1; extent < 6; extent++) {
        submit_all(&sim, describe(2, extent));
        run_until_idle(&sim);
    }
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(sim.players[11].order[i], 2);
    ck_assert_int_eq(sim.players[11].decided, 5);
    end(&sim);
}
END_TEST

START_TEST(backends_without_a_common_one_are_a_mismatch)
{
    struct sim_job sim;
    struct desc *desc = describe(1, 4);
    uint32_t tcp = 1u << BACKEND_TCP;
    uint32_t mpi = 1u << BACKEND_MPI;
    begin(&sim, 8, 2);
    for (int rank = 0; rank < 8; rank++)
        submit_over(&sim, rank, desc, rank == 6 ? mpi : tcp);
    run_until_idle(&sim);
    ck_assert_str_eq(sim.players[3].difference, "allreduce \"t1\": rank 0 backends tcp, rank 6 backends mpi");
    /* a rank that has both finds the common one, also when the others need no more than the number */
    for (int round = 1; round < 3; round++) {
        for (int rank = 0; rank < 8; rank++)
            submit_over(&sim, rank, desc, rank == 6 ? mpi | tcp : tcp);
        run_until_idle(&sim);
        ck_assert_int_eq(sim.players[3].order[round], 1);
    }
    /* what was agreed on is no longer there */
    for (int rank = 0; rank < 8; rank++)
        submit_over(&sim, rank, desc, rank == 6 ? mpi : tcp);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[3].order[3], 1 + MAX_NAMES);
    desc_release(desc);
    end(&sim);
}
END_TEST

/* All submit [desc] at [offsets], but [odd] at [other]. Returns the bytes that the ranks received. */
static uint64_t agree_on_offsets(struct sim_job *sim, const struct desc *desc, uint64_t offsets, int odd,
                                 uint64_t other)
{
    uint64_t bytes = 0;
    for (int rank = 0; rank < sim->size; rank++)
        bytes -= mailbox_world_counts(sim->world, rank).received_bytes;
    for (int rank = 0; rank < sim->size; rank++)
        submit_at(sim, rank, desc, 1u << BACKEND_TCP, rank == odd ? other : offsets);
    run_until_idle(sim);
    for (int rank = 0; rank < sim->size; rank++) {
        ck_assert_uint_eq(sim->players[rank].offsets, sim->players[0].offsets);
        bytes += mailbox_world_counts(sim->world, rank).received_bytes;
    }
    return bytes;
}

/* [odd] is each rank in turn: whichever it is, offsets hold for all ranks or for none. */
START_TEST(offsets_are_agreed_on_where_all_ranks_name_them)
{
    struct sim_job sim;
    struct desc *desc = describe(1, 4);
    desc->tensors[0].on_device = true;
    begin(&sim, 12, 3);
    uint64_t full = agree_on_offsets(&sim, desc, 7, _i, 7);
    ck_assert_uint_eq(sim.players[0].offsets, 7);
    uint64_t cached = agree_on_offsets(&sim, desc, 7, _i, 7); /* by its id */
    ck_assert_uint_eq(sim.players[0].offsets, 7);
    ck_assert_uint_lt(cached, full / 2);
    agree_on_offsets(&sim, desc, 7, _i, 9);
    ck_assert_uint_eq(sim.players[0].offsets, 0);
    agree_on_offsets(&sim, desc, 7, _i, 0);
    ck_assert_uint_eq(sim.players[0].offsets, 0);
    agree_on_offsets(&sim, desc, 9, _i, 9); /* all have moved */
    ck_assert_uint_eq(sim.players[0].offsets, 9);
    agree_on_offsets(&sim, desc, 0, _i, 0);
    ck_assert_uint_eq(sim.players[0].offsets, 0);
    desc_release(desc);
    end(&sim);
}
END_TEST

/* Ranks that never agree use the id, mostly; those that come to agree find that out. */
START_TEST(declined_offsets_are_named_again_ever_less_often)
{
    struct sim_job sim;
    struct desc *desc = describe(1, 4);
    int long_rounds = 0;
    int round = 0;
    desc->tensors[0].on_device = true;
    begin(&sim, 12, 3);
    uint64_t full = agree_on_offsets(&sim, desc, 7, 5, 9);
    for (round = 1; round < 64; round++)
        long_rounds += agree_on_offsets(&sim, desc, 7, 5, 9) > full / 2;
    ck_assert_int_eq(long_rounds, 6);
    ck_assert_uint_eq(sim.players[3].offsets, 0);
    for (round = 0; round < 65 && sim.players[3].offsets == 0; round++)
        agree_on_offsets(&sim, desc, 7, 5, 7);
    ck_assert_uint_eq(sim.players[3].offsets, 7);
    desc_release(desc);
    end(&sim);
}
END_TEST

START_TEST(a_joined_rank_has_no_offsets)
{
    struct sim_job sim;
    struct desc *desc = describe(1, 4);
    struct desc *join = desc_own(DESC_JOIN, HVD_ALL_RANKS, DESC_JOIN_NAME);
    struct submission joining = {.desc = join};
    desc->tensors[0].on_device = true;
    begin(&sim, 12, 3);
    agree_on_offsets(&sim, desc, 7, _i, 7);
    ck_assert_int_eq(negotiate_submit(sim.players[_i].negotiate, &joining, NULL), HVD_OK);
    sim.players[_i].joined = true;
    for (int round = 0; round < 3; round++) {
        for (int rank = 0; rank < 12; rank++)
            if (rank != _i)
                submit_at(&sim, rank, desc, 1u << BACKEND_TCP, 7);
        run_until_idle(&sim);
        ck_assert_uint_eq(sim.players[(_i + 1) % 12].offsets, 0);
    }
    desc_release(join);
    desc_release(desc);
    end(&sim);
}
END_TEST

START_TEST(a_leaver_ends_what_is_undecided_at_the_same_place_everywhere)
{
    struct sim_job sim;
    struct desc *pending = describe(2, 4);
    begin(&sim, 30, 4);
    submit_all(&sim, describe(1, 4));
    for (int rank = 0; rank < 29; rank++)
        submit(&sim, rank, pending);
    shut_down(&sim, 29);
    run_until_idle(&sim);
    /* too late: the others were told that it will not run */
    submit(&sim, 29, pending);
    run_until_idle(&sim);
    for (int rank = 0; rank < 30; rank++)
        ck_assert_int_eq(sim.players[rank].left, 29);
    for (int rank = 0; rank < 29; rank++)
        shut_down(&sim, rank);
    run_until_idle(&sim);
    desc_release(pending);
    ck_assert_int_eq(sim.players[0].decided, 3);
    ck_assert_int_eq(sim.players[0].order[0], 1);
    ck_assert_int_eq(sim.players[0].order[1], -1);
    ck_assert_int_eq(sim.players[0].order[2], -2);
    everybody_saw_the_same(&sim);
    end(&sim);
}
END_TEST

/* One round of [names] operations of all ranks, whose turns come in no helpful order. */
static void play_round(struct sim_job *sim, int names)
{
    for (int name = 0; name < names; name++)
        submit_all(sim, describe(name, 100));
    run_until_idle(sim);
}

/* However many ranks there are: a round is one message a link and direction, so that no rank handles more
 * than the tree's radix and one of either, and the root hears as many bytes in the first round. */
START_TEST(no_ranks_work_grows_with_the_ranks)
{
    enum { NAMES = 10 };
    static const int sizes[] = {64, 1024, 16384};
    uint64_t first_bytes[3];
    for (int i = 0; i < 3; i++) {
        struct sim_job sim;
        begin(&sim, sizes[i], 8);
        play_round(&sim, NAMES);
        first_bytes[i] = mailbox_world_counts(sim.world, 0).received_bytes;
        struct mailbox_counts *before = calloc((size_t)sizes[i], sizeof(*before));
        for (int rank = 0; rank < sizes[i]; rank++)
            before[rank] = mailbox_world_counts(sim.world, rank);
        play_round(&sim, NAMES);
        for (int rank = 0; rank < sizes[i]; rank++) {
            struct mailbox_counts counts = mailbox_world_counts(sim.world, rank);
            const struct control *control = sim.players[rank].control;
            ck_assert_int_le(control->child_count, TREE_MAX_RADIX);
            uint64_t links = (uint64_t)control->child_count + (control->parent >= 0);
            ck_assert_uint_eq(counts.received - before[rank].received, links);
            ck_assert_uint_eq(counts.sent - before[rank].sent, links);
            ck_assert_int_eq(sim.players[rank].decided, 2 * NAMES);
        }
        free(before);
        end(&sim);
    }
    ck_assert_uint_eq(first_bytes[1], first_bytes[0]);
    ck_assert_uint_eq(first_bytes[2], first_bytes[0]);
}
END_TEST

/* 40 ranks on nodes of 4; the set is node 3 and more of its leader's subtree. */
START_TEST(a_set_costs_nothing_above_the_rank_that_covers_it)
{
    struct sim_job sim;
    begin(&sim, 40, 4);
    hvd_set set = make_set(&sim, 12, 15);
    ck_assert_int_eq(set, 1);
    ck_assert_int_eq(make_set(&sim, 0, 0), 2);
    ck_assert_ptr_null(subtree_set_find(&sim.players[0].negotiate->submit.sets, set));
    ck_assert(subtree_set_find(&sim.players[12].negotiate->submit.sets, set)->decides);
    ck_assert(!subtree_set_find(&sim.players[13].negotiate->submit.sets, set)->decides);
    ck_assert_ptr_null(subtree_set_find(&sim.players[4].negotiate->submit.sets, set));
    ck_assert_ptr_null(subtree_set_find(&sim.players[12].negotiate->submit.sets, 2));
    uint64_t at_root = messages_of(&sim, 0);
    uint64_t at_member = messages_of(&sim, 13);
    uint64_t at_other = messages_of(&sim, 5);
    for (int round = 0; round < 10; round++) {
        for (int rank = 12; rank < 16; rank++) {
            struct desc *desc = describe(1, 8);
            desc->set = set;
            submit(&sim, rank, desc);
            desc_release(desc);
        }
        for (int rank = 39; rank >= 0; rank--)
            step_rank(&sim.players[rank]);
        run_until_idle(&sim);
    }
    ck_assert_int_eq(sim.players[13].decided, 10);
    ck_assert_int_eq(sim.players[0].decided, 0);
    ck_assert_uint_eq(messages_of(&sim, 0), at_root);
    ck_assert_uint_eq(messages_of(&sim, 5), at_other);
    ck_assert_uint_eq(messages_of(&sim, 13), at_member + 10);
    end(&sim);
}
END_TEST

/* Those of [ranks] from [first] to before [behind] ask for the set of [desc]. */
static void ask_for_set(const struct sim_job *sim, struct desc *desc, const int *ranks, int first, int behind)
{
    for (int i = first; i < behind; i++) {
        struct submission submission = {.desc = desc, .backends = 1u << BACKEND_TCP, .member = true};
        ck_assert_int_eq(negotiate_submit(sim->players[ranks[i]].negotiate, &submission, NULL), HVD_OK);
    }
}

/* 40 ranks on nodes of 4. The members are of two nodes, and come one by one: it is made when the last has
 * come, and decided where all are covered. */
START_TEST(a_set_is_made_when_all_its_members_have_asked)
{
    static const int ranks[] = {13, 15, 26};
    struct sim_job sim;
    struct desc *desc = desc_set_add_by_members("13,15,26", 3);
    begin(&sim, 40, 4);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sim.players[13].made, 0);
        ask_for_set(&sim, desc, ranks, i, i + 1);
        run_until_idle(&sim);
    }
    for (int rank = 0; rank < 40; rank++) {
        const struct subtree_sets *sets = &sim.players[rank].negotiate->submit.sets;
        ck_assert_int_eq(sim.players[rank].made, 1);
        ck_assert_int_eq(sets->last_set, 1);
        ck_assert(subtree_set_find(sets, 1) != NULL || (rank != 13 && rank != 15 && rank != 26));
    }
    ck_assert_ptr_null(subtree_set_find(&sim.players[14].negotiate->submit.sets, 1));
    for (int i = 0; i < 3; i++) {
        struct desc *operation = describe(1, 8);
        operation->set = 1;
        submit(&sim, ranks[i], operation);
        desc_release(operation);
    }
    run_until_idle(&sim);
    for (int rank = 0; rank < 40; rank++)
        ck_assert_int_eq(sim.players[rank].decided, rank == 13 || rank == 15 || rank == 26);
    desc_release(desc);
    end(&sim);
}
END_TEST

/* Two sets at a time, whose members come in opposite orders. */
START_TEST(sets_of_their_members_do_not_wait_for_each_other)
{
    static const int even[] = {0, 2, 4, 6}, odd[] = {1, 3, 5, 7};
    struct sim_job sim;
    struct desc *evens = desc_set_add_by_members("0,2,4,6", 4);
    struct desc *odds = desc_set_add_by_members("1,3,5,7", 4);
    begin(&sim, 8, 2);
    ask_for_set(&sim, evens, even, 0, 3);
    run_until_idle(&sim);
    ask_for_set(&sim, odds, odd, 1, 4);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[0].made, 0);
    ask_for_set(&sim, odds, odd, 0, 1);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[0].made, 1);
    ask_for_set(&sim, evens, even, 3, 4);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[7].made, 2);
    ck_assert_ptr_nonnull(subtree_set_find(&sim.players[7].negotiate->submit.sets, 1));
    ck_assert_ptr_null(subtree_set_find(&sim.players[7].negotiate->submit.sets, 2));
    desc_release(evens);
    desc_release(odds);
    end(&sim);
}
END_TEST

/* One message a neighbour and a round, whatever the number of sets. */
START_TEST(sets_of_all_sizes_share_the_messages_of_a_round)
{
    struct sim_job sim;
    begin(&sim, 24, 4);
    hvd_set sets[] = {HVD_ALL_RANKS, make_set(&sim, 0, 22), make_set(&sim, 1, 23)};
    for (int round = 0; round < 3; round++) {
        uint64_t at_root = messages_of(&sim, 0);
        uint64_t at_leaf = messages_of(&sim, 22);
        for (int rank = 0; rank < 24; rank++) {
            for (int i = 0; i < 3; i++) {
                struct desc *desc = describe(i, 8);
                desc->set = sets[i];
                if ((i != 1 || rank < 23) && (i != 2 || rank > 0))
                    submit(&sim, rank, desc);
                desc_release(desc);
            }
        }
        for (int rank = 23; rank >= 0; rank--)
            step_rank(&sim.players[rank]);
        run_until_idle(&sim);
        ck_assert_int_eq(sim.players[22].decided, 3 * (round + 1));
        ck_assert_uint_eq(messages_of(&sim, 0) - at_root, (unsigned)sim.players[0].control->child_count);
        ck_assert_uint_eq(messages_of(&sim, 22) - at_leaf, 1);
    }
    end(&sim);
}
END_TEST

static size_t entries_of(const struct sim_rank *player)
{
    return player->negotiate->submit.sets.at[0]->response_cache.names.count;
}

/* Names that are used once come and go; what is used in every round keeps its number. */
START_TEST(a_bounded_cache_forgets_names_on_all_ranks)
{
    struct sim_job sim;
    char text[32];
    struct negotiate_params limited = {.cache_limit = 4};
    begin_like(&sim, 12, 4, &limited);
    struct response_cache *response_cache = &sim.players[11].negotiate->submit.sets.at[0]->response_cache;
    uint32_t steady = WIRE_NO_ID;
    for (int round = 0; round < 300; round++) {
        snprintf(text, sizeof(text), "t3 of round %d", round);
        submit_all(&sim, desc_vector(text, 4));
        submit_all(&sim, describe(1, 4));
        run_until_idle(&sim);
        ck_assert_uint_le(response_cache->slot_count, 4);
        for (int rank = 0; rank < 12; rank++)
            ck_assert_uint_le(entries_of(&sim.players[rank]), 4);
        struct cache_entry *entry = response_cache_find(response_cache, "t1");
        ck_assert_ptr_nonnull(entry);
        if (round == 0)
            steady = entry->id;
        ck_assert_uint_eq(entry->id, steady);
    }
    ck_assert_int_eq(sim.players[11].decided, 600);
    /* numbers are given away again and again: the last names have one */
    ck_assert_ptr_null(response_cache_find(response_cache, "t3 of round 0"));
    ck_assert(response_cache_find(response_cache, "t3 of round 299") != NULL ||
              response_cache_find(response_cache, "t3 of round 298") != NULL);
    everybody_saw_the_same(&sim);
    end(&sim);
}
END_TEST

START_TEST(an_unbounded_cache_keeps_all_names)
{
    struct sim_job sim;
    begin(&sim, 6, 3);
    for (int round = 0; round < 3; round++) {
        for (int name = 0; name < 60; name++)
            submit_all(&sim, describe(name, 4));
        run_until_idle(&sim);
        ck_assert_uint_eq(entries_of(&sim.players[5]), 60);
    }
    end(&sim);
}
END_TEST

START_TEST(a_rank_says_nothing_of_sets_that_it_is_not_in)
{
    struct sim_job sim;
    struct hvd_error err = {""};
    struct desc *desc = describe(1, 4);
    struct submission submission = {.desc = desc};
    begin(&sim, 4, 2);
    hvd_set set = make_set(&sim, 1, 2);
    desc->set = set;
    ck_assert_int_eq(negotiate_submit(sim.players[3].negotiate, &submission, &err), HVD_ERR_SET);
    ck_assert_str_eq(err.text, "rank 3 is no member of process set 1");
    desc->set = set + 1;
    ck_assert_int_eq(negotiate_submit(sim.players[1].negotiate, &submission, NULL), HVD_ERR_SET);
    desc_release(desc);
    end(&sim);
}
END_TEST

/* Rank 1 of 3, between its parent and its child. */
static struct negotiate *in_the_middle(void)
{
    static const int child = 2;
    struct negotiate *negotiate = NULL;
    struct negotiate_params place = {
        .rank = 1, .size = 3, .child_count = 1, .child_ranks = &child, .backend_order = {BACKEND_TCP, -1}};
    ck_assert_int_eq(negotiate_create(&negotiate, &place, NULL), HVD_OK);
    return negotiate;
}

static struct wire_record record_of(struct desc *desc)
{
    struct wire_record record = {.type = WIRE_NEW, .id = WIRE_NO_ID, .backend = -1, .absent = -1};
    record.proposal.desc = desc;
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
    struct sim_job sim;
    struct tuned_settings settings = {1 << 20, 1 << 16, 3};
    begin(&sim, 11, 2);
    submit_all(&sim, describe(1, 4));
    run_until_idle(&sim);
    negotiate_tune(sim.players[0].negotiate, &settings);
    run_until_idle(&sim);
    ck_assert_int_eq(sim.players[0].settings.inflight, 0); /* nobody is woken for it */
    submit_all(&sim, describe(2, 4));
    run_until_idle(&sim);
    submit_all(&sim, describe(1, 4));
    run_until_idle(&sim);
    for (int rank = 0; rank < sim.size; rank++) {
        ck_assert_mem_eq(&sim.players[rank].settings, &settings, sizeof(settings));
        ck_assert_int_eq(sim.players[rank].tuned_at, 1);
        ck_assert_int_eq(sim.players[rank].decided, 3);
    }
    end(&sim);
}
END_TEST

/* What rank 0 of two hears from the other, which has its turn first. */
static void hear_child(struct sim_job *sim)
{
    struct hvd_error err = {""};
    struct control_event event;
    struct control *control = sim->players[0].control;
    step_rank(&sim->players[1]);
    ck_assert_int_eq(control->ops->receive(control, &event, &err), HVD_OK);
    int rc = negotiate_from_child(sim->players[0].negotiate, 0, event.bytes, event.length, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
}

START_TEST(who_decides_tells_first_and_is_not_behind_for_it)
{
    struct sim_job sim;
    struct hvd_error err = {""};
    const void *bytes = NULL;
    size_t length = 0;
    begin(&sim, 2, 2);
    submit_all(&sim, describe(0, 4));
    run_until_idle(&sim);
    struct sim_rank *root = &sim.players[0];
    struct control *control = root->control;
    struct desc *desc = describe(0, 4);
    submit(&sim, 0, desc);
    submit(&sim, 1, desc);
    hear_child(&sim);
    ck_assert_int_eq(negotiate_decide(root->negotiate, &err), HVD_OK);
    ck_assert_int_eq(negotiate_get_message(root->negotiate, 1, &bytes, &length, &err), HVD_OK);
    ck_assert_uint_gt(length, 0);
    ck_assert_int_eq(control->ops->send(control, 1, bytes, length, NULL), HVD_OK);
    /* the other is told, and hands it in again before the root has looked at what it decided itself */
    step_rank(&sim.players[1]);
    ck_assert_int_eq(sim.players[1].decided, 2);
    submit(&sim, 1, desc);
    hear_child(&sim);
    ck_assert_int_eq(root->decided, 1);
    take_decisions(root);
    ck_assert_int_eq(root->decided, 2);
    submit(&sim, 0, desc);
    run_until_idle(&sim);
    ck_assert_int_eq(root->decided, 3);
    ck_assert_int_eq(sim.players[1].decided, 3);
    desc_release(desc);
    end(&sim);
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
    ck_assert_int_eq(negotiate_get_message(negotiate, 0, &bytes, &length, &err), HVD_OK);
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
    tcase_add_test(tcase, backends_without_a_common_one_are_a_mismatch);
    tcase_add_loop_test(tcase, offsets_are_agreed_on_where_all_ranks_name_them, 0, 12);
    tcase_add_test(tcase, declined_offsets_are_named_again_ever_less_often);
    tcase_add_loop_test(tcase, a_joined_rank_has_no_offsets, 0, 12);
    tcase_add_test(tcase, a_leaver_ends_what_is_undecided_at_the_same_place_everywhere);
    tcase_add_test(tcase, no_ranks_work_grows_with_the_ranks);
    tcase_add_test(tcase, a_set_costs_nothing_above_the_rank_that_covers_it);
    tcase_add_test(tcase, a_set_is_made_when_all_its_members_have_asked);
    tcase_add_test(tcase, sets_of_their_members_do_not_wait_for_each_other);
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
