/* negotiation_sim.h: simulated ranks over mailboxes: what they submit, say to each other and are told. */
#ifndef TESTS_UNIT_NEGOTIATION_SIM_H
#define TESTS_UNIT_NEGOTIATION_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/mailbox.h"
#include "base/tree_shape.h"
#include "descs.h"
#include "negotiate/negotiate.h"
#include "unit.h"

#define MAX_NAMES 64

/* What one simulated rank did and received. */
struct sim_rank {
    struct control *control;
    struct negotiate *negotiate;
    int order[4096]; /* names in the order of decisions; MAX_NAMES + name for a mismatch; -1 for leaving */
    int message_ends[4096]; /* how many decisions there were when a message ended */
    int decided, messages;
    int submitted[MAX_NAMES];
    int left;     /* rank that left first, or -1 */
    hvd_set made; /* the last set that was */
    char difference[256];
    uint64_t offsets;               /* of the last operation that was decided */
    bool joined;                    /* takes part without submitting */
    bool stopped;                   /* does nothing any more */
    struct tuned_settings settings; /* in force */
    int tuned_at;                   /* how many decisions there were when they came */
    int stalls;                     /* that it was told of, the last one in words */
    char stall[4096];
};

struct sim_job {
    struct mailbox_world *world;
    struct sim_rank *players;
    int size;
};

static inline struct desc *describe(int name, int64_t extent)
{
    char text[16];
    snprintf(text, sizeof(text), "t%d", name);
    return desc_vector(text, extent);
}

/* [like]: what else there is to say of all ranks. */
static inline void begin_like(struct sim_job *sim, int size, int ranks_per_node,
                              const struct negotiate_params *like)
{
    int *node_of_rank = calloc((size_t)size, sizeof(int));
    for (int rank = 0; rank < size; rank++)
        node_of_rank[rank] = rank - rank % ranks_per_node;
    ck_assert_int_eq(mailbox_world_open(&sim->world, node_of_rank, size, NULL), HVD_OK);
    free(node_of_rank);
    sim->size = size;
    sim->players = calloc((size_t)size, sizeof(struct sim_rank));
    for (int rank = 0; rank < size; rank++) {
        struct sim_rank *player = &sim->players[rank];
        player->control = mailbox_world_rank(sim->world, rank);
        player->left = -1;
        struct negotiate_params place = *like;
        place.rank = rank;
        place.size = size;
        place.root = player->control->parent < 0;
        place.parent = player->control->parent;
        place.child_count = player->control->child_count;
        place.child_ranks = player->control->child_ranks;
        place.backend_order[0] = BACKEND_MPI;
        place.backend_order[1] = BACKEND_TCP;
        place.backend_order[2] = -1;
        ck_assert_int_eq(negotiate_create(&player->negotiate, &place, NULL), HVD_OK);
    }
}

static inline void begin(struct sim_job *sim, int size, int ranks_per_node)
{
    struct negotiate_params plain = {.rank = 0};
    begin_like(sim, size, ranks_per_node, &plain);
}

static inline void end(struct sim_job *sim)
{
    for (int rank = 0; rank < sim->size; rank++)
        negotiate_destroy(sim->players[rank].negotiate);
    mailbox_world_close(sim->world);
    free(sim->players);
}

static inline void submit_at(struct sim_job *sim, int rank, const struct desc *desc, uint32_t backends,
                             uint64_t offsets)
{
    struct hvd_error err = {""};
    int name = (int)strtol(desc->tensors[0].name + 1, NULL, 10);
    struct submission submission = {
        .desc = desc, .backends = backends, .offsets = offsets, .user = &sim->players[rank].submitted[name]};
    sim->players[rank].submitted[name]++;
    int rc = negotiate_submit(sim->players[rank].negotiate, &submission, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
}

static inline void submit_over(struct sim_job *sim, int rank, const struct desc *desc, uint32_t backends)
{
    submit_at(sim, rank, desc, backends, 0);
}

static inline void submit(struct sim_job *sim, int rank, const struct desc *desc)
{
    submit_over(sim, rank, desc, 1u << BACKEND_TCP);
}

/* The same on all ranks. */
static inline void submit_all(struct sim_job *sim, struct desc *desc)
{
    for (int rank = 0; rank < sim->size; rank++)
        submit(sim, rank, desc);
    desc_release(desc);
}

static inline void shut_down(struct sim_job *sim, int rank)
{
    struct desc *desc = desc_own(DESC_SHUTDOWN, HVD_ALL_RANKS, DESC_SHUTDOWN_NAME);
    struct submission submission = {.desc = desc};
    negotiate_leave(sim->players[rank].negotiate);
    ck_assert_int_eq(negotiate_submit(sim->players[rank].negotiate, &submission, NULL), HVD_OK);
    desc_release(desc);
}

static inline void take_stall(struct sim_rank *player, const struct decision *decision)
{
    char *text = player->stall;
    size_t room = sizeof(player->stall);
    size_t used = 0;
    char title[DESC_TITLE_BYTES];
    ck_assert(decision->last && decision->user == NULL);
    player->stalls++;
    desc_title(decision->desc, title, sizeof(title));
    used +=
        (size_t)snprintf(text, room, "%s waits %d s%s for %d:", title, (int)(decision->waited_us / 1000000),
                         decision->must_abort ? " in vain" : "", decision->stall->missing);
    for (int i = 0; i < decision->stall->named; i++) {
        const struct stall_rank *rank = &decision->stall->ranks[i];
        const char *did = rank->state == STALL_SILENT ? "silent" : rank->last;
        used += (size_t)snprintf(text + used, room - used, " %d (%s)", rank->rank,
                                 rank->state == STALL_NOTHING ? "nothing" : did);
    }
    if (decision->batch > 0 && decision->stall->missing == 0)
        snprintf(text + used, room - used, " %d waits for %d", decision->rank, decision->other_rank);
    if (decision->others > 0)
        snprintf(text + used, room - used, "; %d others wait", decision->others);
}

static inline void take_decisions(struct sim_rank *player)
{
    const struct decision *decision = NULL;
    while (negotiate_next(player->negotiate, &decision, NULL) == HVD_OK) {
        int what = -1;
        if (decision->kind == DECISION_SET_ADDED)
            player->made = decision->set;
        if (decision->kind == DECISION_STALLED)
            take_stall(player, decision);
        if (decision->kind == DECISION_TUNED) {
            player->settings = decision->settings;
            player->tuned_at = player->decided;
        }
        if (decision->kind == DECISION_SET_ADDED || decision->kind == DECISION_STALLED ||
            decision->kind == DECISION_TUNED)
            continue;
        if (decision->kind == DECISION_LEAVING)
            player->left = decision->rank;
        else if (decision->desc->kind == DESC_SHUTDOWN)
            what = -2;
        else
            what = (int)strtol(decision->desc->tensors[0].name + 1, NULL, 10) +
                   (decision->kind == DECISION_MISMATCH ? MAX_NAMES : 0);
        if (what >= 0)
            ck_assert_ptr_eq(decision->user, player->joined ? NULL : &player->submitted[what % MAX_NAMES]);
        if (decision->kind == DECISION_RUN && what >= 0)
            ck_assert_int_eq(decision->backend, BACKEND_TCP);
        if (decision->kind == DECISION_MISMATCH) {
            struct desc_difference difference;
            decision_compare(decision, &difference);
            snprintf(player->difference, sizeof(player->difference), "%.60s: rank %d %.60s, rank %d %.60s",
                     difference.what, decision->rank, difference.a, decision->other_rank, difference.b);
        }
        player->offsets = decision->offsets;
        player->order[player->decided++] = what;
        if (decision->last)
            player->message_ends[player->messages++] = player->decided;
    }
}

/* One step of a rank's loop, without the data. Returns whether anything happened. */
static inline bool step_rank(struct sim_rank *player)
{
    struct control_event event;
    struct hvd_error err = {""};
    struct control *control = player->control;
    bool moved = false;
    if (player->stopped)
        return false;
    while (control->ops->receive(control, &event, &err) == HVD_OK) {
        int rc = HVD_OK;
        moved = true;
        ck_assert_int_eq(event.kind, CONTROL_MESSAGE);
        if (event.link == TREE_PARENT)
            rc = negotiate_from_parent(player->negotiate, event.bytes, event.length, &err);
        else
            rc = negotiate_from_child(player->negotiate, event.link - 1, event.bytes, event.length, &err);
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
    }
    int rc = negotiate_decide(player->negotiate, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    for (int link = 0; link <= control->child_count; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        ck_assert_int_eq(negotiate_get_message(player->negotiate, link, &bytes, &length, &err), HVD_OK);
        if (length > 0)
            control->ops->send(control, link, bytes, length, NULL);
        moved = moved || length > 0;
    }
    take_decisions(player);
    return moved;
}

/* Step all ranks until nothing happens any more. */
static inline void run_until_idle(struct sim_job *sim)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int rank = 0; rank < sim->size; rank++)
            moved |= step_rank(&sim->players[rank]);
    }
}

/* Make the set of ranks [first] to [last], on all ranks. */
static inline hvd_set make_set(struct sim_job *sim, int first, int last)
{
    struct desc *desc = desc_set_add("some", last - first + 1);
    for (int rank = 0; rank < sim->size; rank++) {
        struct submission submission = {
            .desc = desc, .backends = 1u << BACKEND_TCP, .member = rank >= first && rank <= last};
        ck_assert_int_eq(negotiate_submit(sim->players[rank].negotiate, &submission, NULL), HVD_OK);
    }
    desc_release(desc);
    run_until_idle(sim);
    return sim->players[0].made;
}

static inline uint64_t messages_of(const struct sim_job *sim, int rank)
{
    return mailbox_world_counts(sim->world, rank).received;
}

#endif
