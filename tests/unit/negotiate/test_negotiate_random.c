/* test_negotiate_random.c: the negotiation under thousands of schedules drawn by random_state: the same order
 * on all ranks, nothing lost, nothing twice, no deadlock. */
#include "unit.h"

#include "descs.h"
#include "negotiate/stages.h"
#include "link_sim.h"
#include "random_schedule.h"

#define STALL_WARN_US 40 /* of a time that is counted in turns: questions are asked all the time */

/* One rank's doings in one set. */
struct part {
    bool known, gone;
    int epoch;            /* of what it submits */
    int submitted[NAMES]; /* times in this epoch */
    bool pending[NAMES];
    bool joining;
    int epoch_decided;  /* of the decisions it sees */
    int decided[NAMES]; /* times in this epoch */
    int sequence;       /* decisions seen */
};

struct sighting {
    int set, sequence, unit;
};

struct actor {
    struct negotiate *negotiate;
    bool restless; /* something came in since it last spoke */
    bool left, saw_leaving, saw_shutdown;
    int adds_begun, removes_begun; /* sets that it has come to, whoever adds or removes them */
    int adding, removing;          /* the set that it waits for, or 0 */
    struct part parts[SETS];
    struct sighting *sightings;
    int sighting_count, sighting_capacity;
    int unit;
    bool in_unit;
};

/* What the first rank saw at a place in a set's order; the others must see the same. */
struct agreed {
    enum decision_kind kind;
    int name, times, epoch;
    uint32_t id;
    int backend, rank, other_rank;
    bool nccl;
    uint64_t offsets;
    int inputs;
};

struct show {
    struct schedule plan;
    struct link_sim links;
    struct actor *actors;
    int64_t now_us;
    int stalls;
    int eager; /* decisions with inputs, on all ranks */
    struct {
        struct agreed *at;
        int count, capacity;
    } orders[SETS];
};

/* ---- One rank's part ------------------------------------------------------------------------- */

static void say_ready(struct show *show, int rank, struct desc *desc, struct submission submission)
{
    struct hvd_error err = {""};
    submission.desc = desc;
    int rc = negotiate_submit(show->actors[rank].negotiate, &submission, &err);
    /* it was removed, which this rank has not looked at yet */
    bool gone = rc == HVD_ERR_SET && desc->set > 0 &&
                show->plan.sets[set_of_number(&show->plan, desc->set)].removed_soon;
    ck_assert_msg(rc == HVD_OK || gone, "seed %d rank %d: %s", (int)show->plan.seed, rank, err.text);
    desc_release(desc);
    show->actors[rank].restless = true;
}

static bool finished(const struct schedule *plan, const struct part *part, int set)
{
    for (int name = 0; name < NAMES; name++) {
        if (part->pending[name])
            return false;
    }
    return part->epoch == plan->sets[set].epochs && part->epoch_decided == plan->sets[set].epochs - 1;
}

/* What this rank has for [desc]. [offsets]: where its tensors are, if they are on GPUs. */
static struct submission submission_of(const struct schedule *plan, int rank, const struct desc *desc,
                                       uint64_t offsets)
{
    struct submission submission = {.backends = backends_of(plan, rank), .offsets = offsets};
    bool on_device = is_all_on_device(desc);
    if (desc->kind == DESC_BARRIER)
        submission.backends = 0;
    else if (on_device && has_nccl(plan, rank))
        submission.backends |= 1u << BACKEND_NCCL;
    if (!on_device)
        submission.offsets = 0;
    return submission;
}

/* Submit one thing more in that set, where there is one. */
static bool submit_in(struct show *show, int rank, int set)
{
    const struct schedule *plan = &show->plan;
    struct part *part = &show->actors[rank].parts[set];
    bool rest = false;
    if (!plan->sets[set].member[rank] || !part->known || part->gone || part->epoch == plan->sets[set].epochs)
        return false;
    int first = random_below(&show->links.random_state, NAMES);
    for (int i = 0; i < NAMES; i++) {
        int name = (first + i) % NAMES;
        if (part->submitted[name] == supply(plan, set, part->epoch, name, rank))
            continue;
        rest = true;
        if (part->pending[name])
            continue;
        int times = part->submitted[name]++;
        struct desc *desc = describe(plan, set, part->epoch, name, times, rank);
        struct submission submission =
            submission_of(plan, rank, desc, offsets_of(plan, set, part->epoch, name, times, rank));
        uint64_t input = input_of(plan, set, part->epoch, name, times, rank);
        submission.input = input != 0 ? &input : NULL;
        submission.input_bytes = sizeof(input);
        submission.user = &part->pending[name];
        part->pending[name] = true;
        say_ready(show, rank, desc, submission);
        return true;
    }
    if (rest || part->joining)
        return false;
    if (is_join_epoch(plan, set, part->epoch)) {
        uint32_t nccl = (uint32_t)has_nccl(plan, rank) << BACKEND_NCCL;
        struct submission submission = {.backends = backends_of(plan, rank) | nccl, .user = &part->joining};
        part->joining = true;
        say_ready(show, rank, desc_own(DESC_JOIN, plan->sets[set].number, DESC_JOIN_NAME), submission);
    }
    memset(part->submitted, 0, sizeof(part->submitted));
    part->epoch++;
    return true;
}

/* Does the rank add and remove the set? */
static bool takes_part(const struct schedule *plan, int set, int rank)
{
    return !plan->sets[set].by_members || plan->sets[set].member[rank];
}

static bool add_set(struct show *show, int rank)
{
    struct actor *actor = &show->actors[rank];
    int set = actor->adds_begun + 1;
    while (set < show->plan.set_count && !takes_part(&show->plan, set, rank))
        set++;
    if (actor->adding != 0 || set >= show->plan.set_count)
        return false;
    const struct planned_set *planned = &show->plan.sets[set];
    char list[32];
    snprintf(list, sizeof(list), "%d%s", set, planned->odd_adder == rank ? "-9" : "");
    struct desc *desc = planned->by_members ? desc_set_add_by_members(list, planned->member_count)
                                            : desc_set_add(list, planned->member_count);
    struct submission submission = {
        .backends = backends_of(&show->plan, rank), .member = planned->member[rank], .user = actor};
    actor->adds_begun = actor->adding = set;
    say_ready(show, rank, desc, submission);
    return true;
}

static bool remove_set(struct show *show, int rank)
{
    struct actor *actor = &show->actors[rank];
    int set = actor->removes_begun + 1;
    while (set < show->plan.set_count &&
           !(show->plan.sets[set].removed && takes_part(&show->plan, set, rank)))
        set++;
    if (actor->removing != 0 || set >= show->plan.set_count)
        return false;
    const struct planned_set *planned = &show->plan.sets[set];
    const struct part *part = &actor->parts[set];
    if (!part->known ||
        (planned->member[rank] && !planned->removed_soon && !finished(&show->plan, part, set)))
        return false;
    struct desc *desc = desc_set_remove(planned->number);
    desc->set = planned->by_members ? planned->number : HVD_ALL_RANKS;
    actor->removes_begun = actor->removing = set;
    say_ready(show, rank, desc, (struct submission){.user = actor});
    return true;
}

static bool leave(struct show *show, int rank, bool first)
{
    struct actor *actor = &show->actors[rank];
    if (actor->left || (!first && !actor->saw_leaving))
        return false;
    actor->left = true;
    negotiate_leave(actor->negotiate);
    say_ready(show, rank, desc_own(DESC_SHUTDOWN, HVD_ALL_RANKS, DESC_SHUTDOWN_NAME), (struct submission){0});
    return true;
}

static bool submit_something(struct show *show, int rank)
{
    const struct actor *actor = &show->actors[rank];
    if (actor->saw_leaving || actor->left)
        return leave(show, rank, false);
    if (rank == show->plan.leaver && actor->sighting_count > 10)
        return leave(show, rank, true);
    int first = random_below(&show->links.random_state, SETS + 2);
    for (int i = 0; i < SETS + 2; i++) {
        int what = (first + i) % (SETS + 2);
        if (what < show->plan.set_count && submit_in(show, rank, what))
            return true;
        if ((what == SETS && add_set(show, rank)) || (what == SETS + 1 && remove_set(show, rank)))
            return true;
    }
    return false;
}

/* ---- Decisions ------------------------------------------------------------------------------- */

/* Is it what the others saw at that place of that set's order? */
static void compare_order(struct show *show, int rank, int set, const struct agreed *seen, bool last)
{
    struct actor *actor = &show->actors[rank];
    int place = actor->parts[set].sequence++;
    if (place == show->orders[set].count) {
        if (place == show->orders[set].capacity) {
            show->orders[set].capacity = 2 * place + 64;
            show->orders[set].at =
                realloc(show->orders[set].at, (size_t)show->orders[set].capacity * sizeof(struct agreed));
        }
        show->orders[set].at[place] = *seen;
        show->orders[set].count++;
    }
    const struct agreed *agreed = &show->orders[set].at[place];
    ck_assert_msg(
        agreed->kind == seen->kind && agreed->name == seen->name && agreed->times == seen->times &&
            agreed->epoch == seen->epoch && agreed->id == seen->id && agreed->backend == seen->backend &&
            agreed->rank == seen->rank && agreed->other_rank == seen->other_rank &&
            agreed->nccl == seen->nccl && agreed->offsets == seen->offsets && agreed->inputs == seen->inputs,
        "seed %d: rank %d sees another decision %d in set %d", (int)show->plan.seed, rank, place, set);
    if (actor->sighting_count == actor->sighting_capacity) {
        actor->sighting_capacity = 2 * actor->sighting_capacity + 64;
        actor->sightings =
            realloc(actor->sightings, (size_t)actor->sighting_capacity * sizeof(struct sighting));
    }
    actor->sightings[actor->sighting_count++] = (struct sighting){set, place, actor->unit};
    actor->unit += last;
    actor->in_unit = !last;
}

/* Offsets hold for all ranks or for none. Those that all name may be declined, as some were before for its
 * name, but not the first. */
static void see_offsets(const struct show *show, int set, const struct decision *decision,
                        const struct agreed *seen)
{
    const struct schedule *plan = &show->plan;
    bool on_device =
        is_all_on_device(decision->desc); /* as one rank alone may say, where others have joined */
    uint64_t expected = on_device ? expected_offsets(plan, set, seen->epoch, seen->name, seen->times) : 0;
    bool first = seen->epoch == 0 && seen->times == 0;
    ck_assert_msg(decision->offsets == expected || (decision->offsets == 0 && !first),
                  "seed %d: \"%s\" in set %d is decided at %d, not at %d", (int)plan->seed,
                  decision->desc->tensors[0].name, set, (int)decision->offsets, (int)expected);
    ck_assert_int_eq(decision->nccl, on_device && expected_nccl(plan, set));
}

/* Inputs are those of all members, each as its rank submitted it, or there are none. */
static void see_inputs(struct show *show, int set, const struct decision *decision, const struct agreed *seen)
{
    const struct schedule *plan = &show->plan;
    const struct eager_inputs *inputs = &decision->inputs;
    if (inputs->count == 0)
        return;
    show->eager++;
    ck_assert_int_eq(inputs->count, plan->sets[set].member_count);
    ck_assert_int_eq(inputs->input_bytes, sizeof(uint64_t));
    for (int i = 0; i < inputs->count; i++) {
        int rank = (int)eager_rank(inputs, i);
        uint64_t input = 0;
        memcpy(&input, eager_input(inputs, i), sizeof(input));
        ck_assert(plan->sets[set].member[rank]);
        ck_assert_uint_eq(input, input_of(plan, set, seen->epoch, seen->name, seen->times, rank));
        ck_assert_uint_ne(input, 0);
    }
}

static void see_operation(struct show *show, int rank, const struct decision *decision, struct agreed *seen)
{
    int set = set_of_number(&show->plan, decision->set);
    struct part *part = &show->actors[rank].parts[set];
    ck_assert(show->plan.sets[set].member[rank]);
    if (decision->desc->kind == DESC_JOIN) {
        ck_assert_ptr_eq(decision->user, &part->joining);
        ck_assert(part->joining);
        part->joining = false;
        part->epoch_decided++;
        memset(part->decided, 0, sizeof(part->decided));
        return;
    }
    int name = decision->desc->tensors[0].name[1] - '0';
    seen->name = name;
    seen->times = part->decided[name]++;
    seen->epoch = part->epoch_decided;
    int end = expected_end(&show->plan, set, seen->epoch, name, seen->times);
    ck_assert_msg((int)decision->kind == end, "seed %d rank %d: \"%s\" in set %d ends as %d, not %d",
                  (int)show->plan.seed, rank, decision->desc->tensors[0].name, set, decision->kind, end);
    bool took_part = seen->times < supply(&show->plan, set, seen->epoch, name, rank);
    ck_assert_ptr_eq(decision->user, took_part ? (void *)&part->pending[name] : NULL);
    if (took_part) {
        ck_assert(part->pending[name]);
        part->pending[name] = false;
    }
    if (decision->kind == DECISION_RUN && decision->desc->kind == DESC_BARRIER) {
        ck_assert_int_eq(decision->backend, -1);
    } else if (decision->kind == DECISION_RUN) {
        ck_assert_int_ge(decision->backend, 0);
        ck_assert(backends_of(&show->plan, rank) >> decision->backend & 1);
        see_offsets(show, set, decision, seen);
        seen->nccl = decision->nccl;
        seen->offsets = decision->offsets;
    }
    see_inputs(show, set, decision, seen);
    seen->inputs = decision->inputs.count;
    if (show->plan.cache_limit > 0 && decision->id != WIRE_NO_ID)
        ck_assert_uint_lt(decision->id, (unsigned)show->plan.cache_limit);
}

/* Returns which set it is. Sets are numbered in the order in which they are decided. */
static int see_new_set(struct show *show, int rank, const struct decision *decision)
{
    struct actor *actor = &show->actors[rank];
    const char *list = decision->desc->tensors[0].name;
    int set = (int)strtol(decision->desc->by_members ? list + 1 : list, NULL, 10);
    struct planned_set *planned = &show->plan.sets[set];
    if (planned->number < 0)
        planned->number = decision->set;
    ck_assert_int_eq(planned->number, decision->set);
    ck_assert_int_eq(planned->by_members, decision->desc->by_members);
    ck_assert_ptr_eq(decision->user, takes_part(&show->plan, set, rank) ? actor : NULL);
    if (decision->user == NULL)
        return set;
    ck_assert_int_eq(set, actor->adding);
    actor->adding = 0;
    actor->parts[set].known = true;
    return set;
}

static void see(struct show *show, int rank, const struct decision *decision)
{
    struct actor *actor = &show->actors[rank];
    struct agreed seen = {.kind = decision->kind,
                          .name = -1,
                          .id = decision->id,
                          .backend = decision->backend,
                          .rank = decision->rank,
                          .other_rank = decision->other_rank};
    int set = 0;
    if (decision->kind == DECISION_STALLED) {
        ck_assert(decision->last && decision->stall->missing > 0 && decision->waited_us >= STALL_WARN_US);
        show->stalls++;
        return;
    }
    ck_assert(!actor->saw_leaving || (decision->desc != NULL && decision->desc->kind == DESC_SHUTDOWN));
    if (decision->kind == DECISION_LEAVING) {
        actor->saw_leaving = true;
    } else if (decision->kind == DECISION_SET_REMOVED) {
        seen.name = set_of_number(&show->plan, decision->set);
        ck_assert_int_eq(seen.name, actor->removing);
        actor->removing = 0;
        actor->parts[seen.name].gone = true;
        set = show->plan.sets[seen.name].by_members ? seen.name : 0;
    } else if (decision->kind == DECISION_SET_ADDED) {
        seen.name = see_new_set(show, rank, decision);
    } else if (decision->desc->kind == DESC_SET_ADD) {
        ck_assert_int_eq(decision->kind, DECISION_MISMATCH);
        ck_assert_int_ge(show->plan.sets[actor->adding].odd_adder, 0);
        actor->adding = 0;
    } else if (decision->desc->kind == DESC_SHUTDOWN) {
        ck_assert(actor->left);
        actor->saw_shutdown = true;
    } else {
        set = set_of_number(&show->plan, decision->set);
        see_operation(show, rank, decision, &seen);
    }
    compare_order(show, rank, set, &seen, decision->last);
}

/* ---- The show -------------------------------------------------------------------------------- */

static void speak(struct show *show, int rank, bool decide)
{
    struct actor *actor = &show->actors[rank];
    struct hvd_error err = {""};
    const struct decision *decision = NULL;
    int rc = decide ? negotiate_decide(actor->negotiate, &err) : HVD_OK;
    if (rc == HVD_OK)
        rc = negotiate_check_stalls(actor->negotiate, ++show->now_us, &err);
    ck_assert_msg(rc == HVD_OK, "seed %d rank %d: %s", (int)show->plan.seed, rank, err.text);
    actor->restless = !decide;
    while (negotiate_next(actor->negotiate, &decision, &err) == HVD_OK)
        see(show, rank, decision);
    for (int link = 0; link <= show->links.shapes[rank].child_count; link++) {
        const void *bytes = NULL;
        size_t length = 0;
        ck_assert_int_eq(negotiate_get_message(actor->negotiate, link, &bytes, &length, &err), HVD_OK);
        if (length > 0)
            link_sim_send(&show->links, rank, link, bytes, length);
    }
}

static void hear(struct show *show, const struct link_message *message, int rank, int link)
{
    struct negotiate *negotiate = show->actors[rank].negotiate;
    struct hvd_error err = {""};
    int rc = link == TREE_PARENT
                 ? negotiate_from_parent(negotiate, message->bytes, message->length, &err)
                 : negotiate_from_child(negotiate, link - 1, message->bytes, message->length, &err);
    ck_assert_msg(rc == HVD_OK, "seed %d rank %d: %s", (int)show->plan.seed, rank, err.text);
    show->actors[rank].restless = true;
}

/* Deliver, speak and submit by random_state until nobody has anything left to do. */
static void play(struct show *show)
{
    uint64_t *random_state = &show->links.random_state;
    int idle = 0;
    while (idle < 3) {
        int rank = random_below(random_state, show->plan.size);
        int link = 0;
        int what = random_below(random_state, 4);
        struct link_message *message = what <= 1 ? link_sim_receive(&show->links, &rank, &link) : NULL;
        bool moved = message != NULL;
        if (message != NULL) {
            hear(show, message, rank, link);
            free(message);
        } else if (show->actors[rank].restless && what <= 2) {
            speak(show, rank, random_below(random_state, 3) > 0);
            moved = true;
        } else if (what == 3) {
            moved = submit_something(show, rank);
        }
        if (moved) {
            idle = 0;
            continue;
        }
        if (show->links.waiting_count > 0)
            continue;
        /* is there really nothing? */
        bool any = false;
        for (rank = 0; rank < show->plan.size; rank++) {
            if (show->actors[rank].restless)
                speak(show, rank, true);
            any = submit_something(show, rank) || any;
        }
        idle = any || show->links.waiting_count > 0 ? 0 : idle + 1;
    }
}

static void open_show(struct show *show, int size, int nodes, uint64_t seed)
{
    memset(show, 0, sizeof(*show));
    make_schedule(&show->plan, size, seed);
    link_sim_open(&show->links, size, nodes, seed);
    show->actors = calloc((unsigned)size, sizeof(struct actor));
    for (int rank = 0; rank < size; rank++) {
        const struct tree_shape *shape = &show->links.shapes[rank];
        struct negotiate_params place = {.rank = rank,
                                         .size = size,
                                         .root = shape->parent < 0,
                                         .parent = shape->parent,
                                         .child_count = shape->child_count,
                                         .child_ranks = shape->child_ranks,
                                         .backend_order = {BACKEND_MPI, BACKEND_TCP, -1},
                                         .stall_warn_us = STALL_WARN_US,
                                         .stall_abort_us = 10 * STALL_WARN_US,
                                         .hang_limit_us = 10 * STALL_WARN_US,
                                         .cache_limit = show->plan.cache_limit};
        ck_assert_int_eq(negotiate_create(&show->actors[rank].negotiate, &place, NULL), HVD_OK);
        show->actors[rank].parts[0].known = true;
    }
}

static void close_show(struct show *show)
{
    for (int rank = 0; rank < show->plan.size; rank++) {
        negotiate_destroy(show->actors[rank].negotiate);
        free(show->actors[rank].sightings);
    }
    for (int set = 0; set < SETS; set++) {
        free(show->orders[set].at);
        free(show->plan.sets[set].member);
    }
    free(show->actors);
    link_sim_close(&show->links);
}

/* The name that an id stands for on this rank, or NULL: ids that retire stand for nothing new. */
static const char *name_of_id(const struct subtree_set *subtree_set, uint32_t id)
{
    const struct response_cache *response_cache = &subtree_set->response_cache;
    if (id >= response_cache->slot_count || response_cache->slots[id].retiring)
        return NULL;
    return response_cache->slots[id].entry != NULL ? response_cache->slots[id].entry->name : NULL;
}

/* Whatever was evicted, in whatever order messages came: in the end each id stands for the same name on all
 * ranks that know the set. */
static void caches_agree(const struct show *show)
{
    for (int rank = 1; rank < show->plan.size; rank++) {
        const struct subtree_sets *sets = &show->actors[rank].negotiate->submit.sets;
        for (size_t i = 0; i < sets->count; i++) {
            const struct subtree_set *own = sets->at[i];
            const struct subtree_set *first = NULL;
            for (int other = 0; other < rank && first == NULL; other++)
                first = subtree_set_find(&show->actors[other].negotiate->submit.sets, own->set);
            size_t most = own->response_cache.slot_count;
            if (first != NULL && first->response_cache.slot_count > most)
                most = first->response_cache.slot_count;
            for (uint32_t id = 0; first != NULL && id < most; id++) {
                const char *a = name_of_id(own, id);
                const char *b = name_of_id(first, id);
                ck_assert_msg((a == NULL && b == NULL) || (a != NULL && b != NULL && strcmp(a, b) == 0),
                              "seed %d: rank %d, set %d, id %u: %s, others %s", (int)show->plan.seed, rank,
                              own->set, id, a, b);
            }
        }
    }
}

/* Everything that could be decided was, once, and all members saw it. */
static void nothing_is_lost(const struct show *show)
{
    const struct schedule *plan = &show->plan;
    for (int set = 0; set < plan->set_count; set++) {
        int count = 0;
        for (int epoch = 0; epoch < plan->sets[set].epochs; epoch++) {
            for (int i = 0; i < NAMES * 4; i++)
                count += expected_end(plan, set, epoch, i / 4, i % 4) >= 0;
        }
        count += plan->sets[set].epochs - 1;
        for (int i = 1; set == 0 && i < plan->set_count; i++)
            count += 1 + (plan->sets[i].removed && !plan->sets[i].by_members);
        count += plan->sets[set].by_members && plan->sets[set].removed;
        for (int rank = 0; rank < plan->size; rank++) {
            const struct part *part = &show->actors[rank].parts[set];
            if (!plan->sets[set].member[rank])
                continue;
            ck_assert_msg(part->sequence == show->orders[set].count,
                          "seed %d: rank %d saw %d of %d decisions of set %d", (int)plan->seed, rank,
                          part->sequence, show->orders[set].count, set);
            if (plan->sets[set].number < 0 || plan->leaver >= 0 || plan->sets[set].removed_soon)
                continue;
            ck_assert_msg(part->sequence == count, "seed %d: %d of %d operations of set %d were decided",
                          (int)plan->seed, part->sequence, count, set);
        }
    }
    for (int rank = 0; rank < plan->size; rank++) {
        const struct actor *actor = &show->actors[rank];
        ck_assert(!actor->in_unit);
        ck_assert_int_eq(actor->saw_leaving, show->actors[0].saw_leaving);
        ck_assert_int_eq(actor->saw_shutdown, actor->saw_leaving);
    }
}

/* Every decision of every set gets a number: where set's begin. */
static int offset_of(const struct show *show, int set)
{
    int offset = 0;
    for (int i = 0; i < set; i++)
        offset += show->orders[i].count;
    return offset;
}

static int identify(const struct show *show, const struct sighting *sighting)
{
    return offset_of(show, sighting->set) + sighting->sequence;
}

/* Is there one order of all decisions that every rank's order is a part of? */
static void orders_have_no_cycle(const struct show *show)
{
    int total = offset_of(show, SETS);
    int *next = calloc((size_t)show->plan.size, sizeof(int));
    int *waiting_for = calloc((size_t)total + 1, sizeof(int));
    int taken = 0;
    bool moved = true;
    for (int rank = 0; rank < show->plan.size; rank++) {
        for (int i = 0; i < show->actors[rank].sighting_count; i++)
            waiting_for[identify(show, &show->actors[rank].sightings[i])]++;
    }
    /* take a decision that is the next of all ranks that see it, again and again */
    int *ahead = calloc((size_t)total + 1, sizeof(int));
    for (int rank = 0; rank < show->plan.size; rank++) {
        if (show->actors[rank].sighting_count > 0)
            ahead[identify(show, &show->actors[rank].sightings[0])]++;
    }
    while (moved) {
        moved = false;
        for (int rank = 0; rank < show->plan.size; rank++) {
            const struct actor *actor = &show->actors[rank];
            while (next[rank] < actor->sighting_count) {
                int id = identify(show, &actor->sightings[next[rank]]);
                if (ahead[id] < waiting_for[id])
                    break;
                next[rank]++;
                taken++;
                moved = true;
                if (next[rank] < actor->sighting_count)
                    ahead[identify(show, &actor->sightings[next[rank]])]++;
            }
        }
    }
    for (int rank = 0; rank < show->plan.size; rank++)
        ck_assert_msg(next[rank] == show->actors[rank].sighting_count, "seed %d: the orders have a cycle",
                      (int)show->plan.seed);
    free(next);
    free(waiting_for);
    free(ahead);
}

static int root_of(int *parents, int id)
{
    while (parents[id] != id)
        id = parents[id] = parents[parents[id]];
    return id;
}

/* What one rank sees in one unit, no other rank sees in two. */
static void units_are_the_same(const struct show *show)
{
    int total = offset_of(show, SETS);
    int *parents = calloc((size_t)total + 1, sizeof(int));
    int *unit_of_root = calloc((size_t)total + 1, sizeof(int));
    for (int i = 0; i < total; i++)
        parents[i] = i;
    for (int rank = 0; rank < show->plan.size; rank++) {
        const struct sighting *sightings = show->actors[rank].sightings;
        for (int i = 1; i < show->actors[rank].sighting_count; i++) {
            if (sightings[i].unit == sightings[i - 1].unit)
                parents[root_of(parents, identify(show, &sightings[i]))] =
                    root_of(parents, identify(show, &sightings[i - 1]));
        }
    }
    for (int rank = 0; rank < show->plan.size; rank++) {
        const struct actor *actor = &show->actors[rank];
        for (int i = 0; i < total; i++)
            unit_of_root[i] = -1;
        for (int i = 0; i < actor->sighting_count; i++) {
            int root = root_of(parents, identify(show, &actor->sightings[i]));
            ck_assert_msg(unit_of_root[root] < 0 || unit_of_root[root] == actor->sightings[i].unit,
                          "seed %d: rank %d saw in two units what another saw in one", (int)show->plan.seed,
                          rank);
            unit_of_root[root] = actor->sightings[i].unit;
        }
    }
    free(parents);
    free(unit_of_root);
}

/* Returns how many decisions came with inputs. */
static int perform(int size, int nodes, uint64_t seed)
{
    struct show show;
    open_show(&show, size, nodes, seed);
    play(&show);
    nothing_is_lost(&show);
    caches_agree(&show);
    orders_have_no_cycle(&show);
    units_are_the_same(&show);
    close_show(&show);
    return show.eager;
}

#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif

/* Sanitizers make it many times slower; that build is after memory and threads, not after more schedules. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) || \
    HAS_FEATURE(thread_sanitizer)
#define SEEDS_A_CASE 25
#define LARGE_SEEDS  1
#else
#define SEEDS_A_CASE 250
#define LARGE_SEEDS  3
#endif

START_TEST(any_schedule_of_few_ranks_ends_well)
{
    int eager = 0;
    for (int i = 0; i < SEEDS_A_CASE; i++) {
        uint64_t seed = (uint64_t)(_i * SEEDS_A_CASE + i + 1);
        uint64_t random_state = seed * 31 + 7;
        random_next(&random_state);
        int size = 1 + random_below(&random_state, 24);
        eager += perform(size, 1 + random_below(&random_state, size), seed);
    }
    ck_assert_int_gt(eager, 0);
}
END_TEST

static const struct {
    int size, nodes;
} layouts[] = {{60, 1}, {61, 7}, {120, 30}, {120, 120}, {200, 3}, {300, 40}, {300, 11}};

START_TEST(any_schedule_of_many_ranks_ends_well)
{
    for (uint64_t seed = 1; seed <= LARGE_SEEDS; seed++)
        perform(layouts[_i].size, layouts[_i].nodes, seed * 1000 + (uint64_t)_i);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("negotiate_random");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, any_schedule_of_few_ranks_ends_well, 0, 12);
    tcase_add_loop_test(tcase, any_schedule_of_many_ranks_ends_well, 0, sizeof(layouts) / sizeof(layouts[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("negotiate_random", fill);
}
