/* test_shm_domains.c: large batches of ranks that share a node's memory and are on several NUMA domains,
 * which are made up here: all members in one process, turn by turn in random but repeatable order, or each in
 * a thread. */
#include "config.h"
#include "unit.h"

#include "backend/hier/hier_team.h"
#include "backend/shm/relay.h"
#include "shm_world.h"

#define MAX_DOMAINS 3
#define MOST        12                  /* members */
#define ARENA_BYTES ((size_t)192 << 20) /* room for two teams of all members, half of it spare */
#define CHUNK_BYTES 256
#define BATCHES     40

/* Members of each domain. */
static const int spreads[][MAX_DOMAINS] = {{4, 4}, {4, 5}, {6, 4}, {4, 4, 4}, {4, 8}};

#define SPREADS (int)(sizeof(spreads) / sizeof(spreads[0]))

static const enum backend_kind kinds[] = {COLL_ALLREDUCE, COLL_BROADCAST, COLL_ALLGATHER, COLL_REDUCESCATTER};

static struct shm_team *team_of(const struct shm_world *world, int rank)
{
    return world->seats[rank].team;
}

/* As if it had said so when it entered. */
static void tell_domain(struct shm_world *world, int rank, int domain)
{
    atomic_store(&team_of(world, rank)->slots.members[rank].domain, domain < 0 ? -1 : domain + 1);
}

/* Ranks follow each other as [spread] has them. All batches of [least_bytes] may go by domains. */
static void tell_spread(struct shm_world *world, const int spread[MAX_DOMAINS], int64_t least_bytes)
{
    for (int domain = 0, rank = 0; domain < MAX_DOMAINS; domain++) {
        for (int i = 0; i < spread[domain]; i++, rank++) {
            tell_domain(world, rank, domain);
            shm_set_domains(world->seats[rank].team, least_bytes, CHUNK_BYTES);
        }
    }
}

static struct shm_world *spread_open(const int spread[MAX_DOMAINS], int64_t least_bytes)
{
    int size = spread[0] + spread[1] + spread[2];
    struct shm_world *world = shm_world_open_in(ARENA_BYTES, size, 64 * MOST);
    tell_spread(world, spread, least_bytes);
    return world;
}

static bool has_domains(const struct shm_world *world)
{
    int count = 0;
    for (int rank = 0; rank < world->size; rank++)
        count += team_of(world, rank)->domains.team != NULL;
    ck_assert(count == 0 || count == world->size);
    return count > 0;
}

/* Around what a turn of all slices holds, or what a member has of one. */
static struct batch_plan random_plan(struct shm_world *world, enum backend_kind kind)
{
    bool shared = kind == COLL_ALLGATHER || kind == COLL_REDUCESCATTER;
    int64_t edge = CHUNK_BYTES * SHM_DOMAINS_MEMBERS;
    return batch_plan_random(&world->random, kind, world->size, shared ? edge / 4 : edge);
}

/* ---- What is carried -------------------------------------------------------------------------------- */

/* [_i] is the kind and how members are spread. */
START_TEST(each_kind_is_right_however_members_are_spread)
{
    static struct batch_plan plans[BATCHES];
    struct shm_world *world = spread_open(spreads[_i % SPREADS], 1);
    world->random = (uint64_t)_i + 11;
    for (int i = 0; i < BATCHES; i++)
        plans[i] = random_plan(world, kinds[_i / SPREADS]);
    shm_world_carry(world, plans, BATCHES);
    ck_assert(has_domains(world));
    shm_world_close(world);
}
END_TEST

static void random_plans(struct shm_world *world, struct batch_plan *plans, int count)
{
    for (int i = 0; i < count; i++)
        plans[i] = random_plan(
            world, (enum backend_kind)batch_plan_random_below(&world->random, COLL_REDUCESCATTER + 1));
}

/* One after the other, of all kinds, large ones by domains and small ones flat: some members are in one way
 * while others are still in the other. */
START_TEST(ways_follow_each_other)
{
    static struct batch_plan plans[BATCHES];
    struct shm_world *world = spread_open(spreads[_i % SPREADS], 1000);
    world->random = (uint64_t)_i + 101;
    random_plans(world, plans, BATCHES);
    shm_world_carry(world, plans, BATCHES);
    ck_assert(has_domains(world));
    shm_world_close(world);
}
END_TEST

/* [_i] is how members are spread, and whether they sleep. */
START_TEST(members_in_threads_are_right)
{
    static struct batch_plan plans[BATCHES];
    struct shm_world *world = spread_open(spreads[_i % SPREADS], 500);
    world->random = (uint64_t)_i + 7;
    random_plans(world, plans, BATCHES);
    shm_world_carry_in_threads(world, plans, BATCHES, _i >= SPREADS);
    ck_assert(has_domains(world));
    shm_world_close(world);
}
END_TEST

/* As large as pieces are where nothing is made small, around a piece and around all slots of a slice. */
START_TEST(real_pieces_are_right)
{
    const int64_t turn = 4 * HIER_CHUNK_BYTES / 4;
    const int64_t counts[] = {2 * turn, 2 * turn + 1, (SLOTS + 1) * turn - 1};
    struct shm_world *world = spread_open(spreads[0], SHM_DOMAINS_BYTES);
    struct batch_plan plans[3];
    for (int rank = 0; rank < world->size; rank++)
        shm_set_domains(world->seats[rank].team, SHM_DOMAINS_BYTES, 0);
    for (int i = 0; i < 3; i++) {
        struct batch_plan *plan = &plans[i];
        *plan = (struct batch_plan){.need = {kinds[_i], HVD_FLOAT32, HVD_FLOAT32, HVD_SUM, 8},
                                    .sequence = (uint64_t)i,
                                    .root = i,
                                    .prescale = 1,
                                    .postscale = 1,
                                    .in_place = i == 1,
                                    .count = counts[i]};
        for (int member = 0; member < 8; member++)
            plan->counts[0][member] = counts[i] / 8 + (member == i ? counts[i] % 8 : 0);
    }
    shm_world_carry(world, plans, 3);
    ck_assert(has_domains(world));
    shm_world_close(world);
}
END_TEST

/* Each has its own room, and goes on where it was. */
START_TEST(two_sets_at_once_are_right)
{
    static struct batch_plan plans[4];
    void *others[MOST];
    struct shm_world *world = spread_open(spreads[0], 1);
    random_plans(world, plans, 4);
    shm_world_carry(world, plans, 4);
    for (int rank = 0; rank < world->size; rank++) {
        others[rank] = world->seats[rank].team;
        shm_world_add_team(world, rank, 1, 64 * MOST);
    }
    tell_spread(world, spreads[0], 1);
    for (int turn = 0; turn < 4; turn++) {
        random_plans(world, plans, 4);
        shm_world_carry(world, plans, 4);
        ck_assert(has_domains(world));
        for (int rank = 0; rank < world->size; rank++) {
            struct shm_team *one = others[rank], *other = team_of(world, rank);
            ck_assert_ptr_ne(one->domains.arena.base, other->domains.arena.base);
            others[rank] = other;
            world->seats[rank].team = one;
        }
    }
    for (int rank = 0; rank < world->size; rank++)
        backend_shm.remove_team(world->seats[rank].state, others[rank]);
    shm_world_close(world);
}
END_TEST

/* ---- Which way -------------------------------------------------------------------------------------- */

static char lines[4000];

static void keep_line(void *arg, enum log_level level, const char *component, const char *line)
{
    (void)arg;
    (void)level;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%s: %s\n", component, line);
}

static const struct hvd_log log_all = {LOG_DEBUG, keep_line, NULL};

/* Begin [plan] on [rank], as it lies there, and give it up. Did it go by domains? */
static bool goes_by_domains(struct shm_world *world, int rank, const struct batch_plan *plan)
{
    struct hvd_error err = {""};
    struct shm_member *seat = &world->seats[rank];
    batch_part_open(&seat->part, plan, rank);
    int rc = backend_shm.start(seat->state, seat->team, &seat->part.batch, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    bool by_domains = team_of(world, rank)->by_domains;
    ck_assert(guarded_free(seat->part.output, seat->part.output_bytes));
    ck_assert(guarded_free(seat->part.input, seat->part.input_bytes));
    return by_domains;
}

/* A new team of the first [size] ranks, in real sizes, on [domains]. */
static struct shm_world *lie_open(int size, const int *domains, bool oversubscribed)
{
    struct shm_world *world = shm_world_open_in(ARENA_BYTES, size, SHM_CHUNK_BYTES);
    lines[0] = 0;
    for (int rank = 0; rank < size; rank++) {
        struct shm_member *seat = &world->seats[rank];
        backend_shm.remove_team(seat->state, seat->team);
        backend_shm.close(seat->state);
        seat->env.log = &log_all;
        seat->env.oversubscribed = oversubscribed;
        ck_assert_int_eq(backend_shm.open(&seat->env, 0, &seat->state, NULL), HVD_OK);
        shm_world_add_team(world, rank, 5, SHM_CHUNK_BYTES);
    }
    for (int rank = 0; rank < size; rank++)
        tell_domain(world, rank, domains[rank]);
    return world;
}

static struct batch_plan plan_of_bytes(const struct shm_world *world, enum backend_kind kind, int64_t bytes)
{
    struct batch_plan plan = {.need = {kind, HVD_INT8, HVD_INT8, HVD_SUM, world->size},
                              .prescale = 1,
                              .postscale = 1,
                              .count = bytes};
    for (int from = 0; from < world->size; from++)
        plan.counts[from][world->size - 1] = bytes;
    return plan;
}

static const char spread_wrong[] = "the ranks are not on several NUMA domains one after the other";
static const char too_few[] = "some NUMA domain has too few of the ranks";
static const char unknown[] = "not all ranks know their NUMA domain";
static const char unsaid[] = ""; /* it is not even asked */

static const struct {
    int size, domains[MOST];
    bool oversubscribed;
    const char *why; /* NULL: they do */
} lies[] = {
    {8, {0, 0, 0, 0, 1, 1, 1, 1}, false, NULL},
    {8, {0, 0, 0, 0, 1, 1, 1, 1}, true, unsaid},
    {8, {7, 7, 7, 7, 2, 2, 2, 2}, false, NULL},
    {9, {0, 0, 0, 0, 0, 1, 1, 1, 1}, false, NULL},
    {12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, false, NULL},
    {12, {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}, false, spread_wrong},
    {12, {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}, false, spread_wrong},
    {8, {0, 1, 0, 1, 0, 1, 0, 1}, false, spread_wrong},
    {8, {0, 0, 0, 0, 0, 0, 0, 0}, false, spread_wrong},
    {8, {0, 0, 0, 0, 0, 1, 1, 1}, false, too_few},
    {12, {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2}, false, too_few},
    {7, {0, 0, 0, 1, 1, 1, 1}, false, unsaid},
    {8, {0, 0, 0, 0, 1, 1, 1, -1}, false, unknown},
    {8, {-1, -1, -1, -1, -1, -1, -1, -1}, false, unknown},
};

START_TEST(members_must_lie_well)
{
    struct shm_world *world = lie_open(lies[_i].size, lies[_i].domains, lies[_i].oversubscribed);
    struct batch_plan plan = plan_of_bytes(world, COLL_BROADCAST, SHM_DOMAINS_BYTES);
    for (int rank = 0; rank < world->size; rank++)
        ck_assert(goes_by_domains(world, rank, &plan) == (lies[_i].why == NULL));
    if (lies[_i].why == NULL)
        ck_assert_ptr_nonnull(strstr(lines, "backend: process set 5: large batches cross between "));
    else if (lies[_i].why != unsaid)
        ck_assert_ptr_nonnull(strstr(lines, lies[_i].why));
    ck_assert((lines[0] == 0) == (lies[_i].why == unsaid));
    shm_world_close(world);
}
END_TEST

/* Also where elements are larger than a byte; an alltoall never does. It is asked, and said, once. */
START_TEST(only_large_batches_do)
{
    static const int domains[] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct shm_world *world = lie_open(8, domains, false);
    for (int kind = 0; kind <= COLL_REDUCESCATTER; kind++) {
        bool may = kind != COLL_ALLTOALL;
        struct batch_plan below = plan_of_bytes(world, (enum backend_kind)kind, SHM_DOMAINS_BYTES - 1);
        struct batch_plan from = plan_of_bytes(world, (enum backend_kind)kind, SHM_DOMAINS_BYTES);
        ck_assert(!goes_by_domains(world, 0, &below));
        ck_assert(goes_by_domains(world, 0, &from) == may);
        from.need.dtype = from.need.partial = HVD_FLOAT64;
        from.count /= 8;
        for (int member = 0; member < 8; member++)
            from.counts[member][7] /= 8;
        ck_assert(goes_by_domains(world, 0, &from) == may);
        from.counts[0][7]--;
        from.count--;
        ck_assert(!goes_by_domains(world, 0, &from));
    }
    ck_assert_str_eq(lines, "backend: process set 5: large batches cross between 2 NUMA domains once\n");
    shm_world_close(world);
}
END_TEST

/* ---- What goes wrong -------------------------------------------------------------------------------- */

/* Half of the arena is kept for flat teams. One that finds no room for more is flat, on all members, and
 * right. */
START_TEST(without_room_all_is_flat)
{
    static struct batch_plan plans[4];
    struct shm_world *world = shm_world_open_in((size_t)40 << 20, 8, 512);
    tell_spread(world, spreads[0], 1);
    for (int rank = 0; rank < 8; rank++)
        world->seats[rank].env.log = &log_all;
    for (int i = 0; i < 4; i++)
        plans[i] = random_plan(world, kinds[i]);
    shm_world_carry(world, plans, 4);
    ck_assert(!has_domains(world));
    for (int rank = 0; rank < 8; rank++)
        ck_assert(team_of(world, rank)->domains.asked);
    shm_world_close(world);
}
END_TEST

static void give_up(struct shm_world *world, int rank)
{
    struct shm_member *seat = &world->seats[rank];
    backend_shm.remove_team(seat->state, seat->team);
    seat->team = NULL;
    seat->runs = false;
}

/* Long enough that nobody comes to its end alone. */
static struct batch_plan long_plan(const struct shm_world *world, enum backend_kind kind, bool in_place)
{
    struct batch_plan plan = {.need = {kind, HVD_FLOAT64, HVD_FLOAT64, HVD_SUM, world->size},
                              .sequence = 9,
                              .prescale = 1,
                              .postscale = 1,
                              .in_place = in_place};
    for (int member = 0; member < world->size; member++) {
        plan.counts[0][member] = 4000;
        plan.count += plan.counts[0][member];
    }
    return plan;
}

static void begin_all(struct shm_world *world, const struct batch_plan *plan)
{
    world->plans = plan;
    world->plan_count = 1;
    for (int rank = 0; rank < world->size; rank++) {
        world->seats[rank].batch = 0;
        ck_assert(shm_world_step(world, rank));
    }
}

/* In the middle of it: its memory is the caller's again, the others can give up too, and the room is free for
 * the next set, however many there are. [_i] is the kind. */
START_TEST(sets_come_and_go)
{
    struct batch_plan plan;
    struct shm_world *world = spread_open(spreads[1], 1);
    world->random = (uint64_t)_i + 5;
    for (int set = 1; set <= 12; set++) {
        plan = random_plan(world, kinds[_i]);
        shm_world_carry(world, &plan, 1);
        ck_assert(has_domains(world));
        plan = long_plan(world, kinds[_i], set % 2 == 0);
        begin_all(world, &plan);
        for (int i = batch_plan_random_below(&world->random, 60); i > 0; i--)
            shm_world_step(world, batch_plan_random_below(&world->random, world->size));
        int first = batch_plan_random_below(&world->random, world->size);
        for (int i = 0; i < world->size; i++) {
            int rank = (first + i) % world->size;
            ck_assert(world->seats[rank].runs);
            give_up(world, rank);
            batch_part_abandon(&world->seats[rank].part);
            for (int k = 0; k < 20; k++) {
                int other = batch_plan_random_below(&world->random, world->size);
                if (world->seats[other].runs)
                    shm_world_step(world, other);
            }
        }
        for (int rank = 0; rank < world->size; rank++) {
            ck_assert(batch_part_close_untouched(&world->seats[rank].part));
            shm_world_add_team(world, rank, set, 64 * MOST);
        }
        tell_spread(world, spreads[1], 1);
    }
    shm_world_close(world);
}
END_TEST

/* The pages of what the team has by domains where something is written already, behind the table. */
static int find_pages(struct shm_world *world, uint64_t *pages[], int most)
{
    const struct arena *arena = &team_of(world, 0)->domains.arena;
    int count = 0;
    for (size_t page = 1; page < arena->bytes / PAGE && count < most; page++) {
        uint64_t *words = (uint64_t *)(void *)((char *)arena->base + page * PAGE);
        bool used = false;
        for (size_t i = 0; i < PAGE / 8; i++)
            used = used || words[i] != 0;
        if (used)
            pages[count++] = words;
    }
    return count;
}

/* Write nonsense over [count] words of these pages, more often where counts are. */
static void spoil(struct shm_world *world, uint64_t *const pages[], int page_count, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t random = reference_random(&world->random);
        size_t words = random % 3 == 0 ? PAGE / 8 : 64;
        const uint64_t values[] = {0, 1, 2, 5, UINT64_MAX, INT64_MAX, random, UINT64_MAX / 64, random >> 50};
        pages[batch_plan_random_below(&world->random, page_count)][reference_random(&world->random) % words] =
            values[batch_plan_random_below(&world->random, 9)];
    }
}

/* Whatever comes of it. */
static void test_any(struct shm_world *world)
{
    struct shm_member *seat = &world->seats[batch_plan_random_below(&world->random, world->size)];
    bool moved = false;
    int lost = -1;
    struct hvd_error err;
    if (seat->runs)
        seat->runs = backend_shm.test(seat->state, seat->team, &moved, &lost, &err) == HVD_IN_PROGRESS;
}

/* Whatever other processes write there: what lies around input and output stays as it is, and so does input.
 */
START_TEST(nonsense_in_memory_touches_nothing_else)
{
    enum backend_kind kind = kinds[_i % 4];
    struct shm_world *world = spread_open(spreads[0], 1);
    world->random = (uint64_t)_i + 31;
    for (int set = 1; set <= 8; set++) {
        uint64_t *pages[200];
        struct batch_plan plan = random_plan(world, kind);
        plan.in_place = false;
        begin_all(world, &plan);
        for (int i = batch_plan_random_below(&world->random, 40); i > 0; i--)
            test_any(world);
        int page_count = find_pages(world, pages, 200);
        ck_assert_int_gt(page_count, 0);
        for (int i = 0; i < 600; i++) {
            spoil(world, pages, page_count, batch_plan_random_below(&world->random, 4));
            test_any(world);
        }
        for (int rank = 0; rank < world->size; rank++) {
            struct shm_member *seat = &world->seats[rank];
            char *input = malloc(seat->part.input_bytes + 1);
            give_up(world, rank);
            if (seat->part.input != NULL) {
                batch_plan_input(&plan, rank, input);
                ck_assert_mem_eq(input, seat->part.input, seat->part.input_bytes);
            }
            free(input);
            ck_assert(guarded_free(seat->part.output, seat->part.output_bytes));
            ck_assert(guarded_free(seat->part.input, seat->part.input_bytes));
        }
        for (int rank = 0; rank < world->size; rank++)
            shm_world_add_team(world, rank, set, 64 * MOST);
        tell_spread(world, spreads[0], 1);
    }
    shm_world_close(world);
}
END_TEST

/* One member's line of a ring as it lies in memory: see relay.c. */
struct ring_line {
    _Alignas(64) uint64_t put;
    _Alignas(64) uint64_t taken;
    _Alignas(64) struct {
        uint64_t sequence, chunk;
        uint32_t kind;
    } notes[4];
};

/* Of the ring that carries slice 0, between ranks 0 and 4. */
static struct ring_line *find_ring(struct shm_world *world)
{
    const struct arena_request claim = {.set = -2, .users = 2, .bytes = relay_bytes(2)};
    void *region = NULL;
    ck_assert_int_eq(
        arena_acquire(&team_of(world, 0)->domains.arena, &claim, clock_us() + SECOND, &region, NULL), HVD_OK);
    return region;
}

/* [_i]: another batch, another chunk, no kind, or a kind that is not due. */
START_TEST(a_chunk_that_is_not_due_is_refused)
{
    struct hvd_error err = {""};
    struct shm_world *world = spread_open(spreads[0], 1);
    struct batch_plan plan = long_plan(world, COLL_ALLREDUCE, false);
    int rc = HVD_IN_PROGRESS, lost = -1;
    begin_all(world, &plan);
    struct ring_line *ring = find_ring(world);
    for (int i = 0; i < TURNS && ring[0].put == 0; i++)
        shm_world_step(world, i % 4);
    ck_assert_uint_gt(ring[0].put, 0);
    ring[0].notes[0].sequence += _i == 0;
    ring[0].notes[0].chunk += _i == 1;
    ring[0].notes[0].kind = _i == 2 ? 99 : _i == 3;
    for (int i = 0; i < TURNS && rc == HVD_IN_PROGRESS; i++) {
        bool moved = false;
        struct shm_member *seat = &world->seats[4];
        rc = backend_shm.test(seat->state, seat->team, &moved, &lost, &err);
        if (i % 2 == 0)
            shm_world_step(world, 5 + i / 2 % 3);
    }
    ck_assert_int_eq(rc, HVD_ERR_SYSTEM);
    ck_assert_str_eq(err.text,
                     "backend shm: what rank 0 passed on in batch 9 of process set 0 is not what was "
                     "due: this node's shared memory was overwritten");
    for (int i = 0; i < 8; i++) /* of slice 0 there is no result yet */
        ck_assert_int_eq(world->seats[4].part.output[i], 0x5a);
    for (int rank = 0; rank < 8; rank++) {
        give_up(world, rank);
        guarded_free(world->seats[rank].part.output, world->seats[rank].part.output_bytes);
        guarded_free(world->seats[rank].part.input, world->seats[rank].part.input_bytes);
    }
    shm_world_close(world);
}
END_TEST

/* Not told before a batch was agreed: that cannot be, unless somebody has written there. */
START_TEST(an_untold_domain_is_an_error)
{
    struct hvd_error err = {""};
    struct shm_world *world = spread_open(spreads[0], 1);
    struct batch_plan plan = random_plan(world, COLL_ALLREDUCE);
    struct shm_member *seat = &world->seats[2];
    atomic_store(&team_of(world, 2)->slots.members[6].domain, 0);
    batch_part_open(&seat->part, &plan, 2);
    ck_assert_int_eq(backend_shm.start(seat->state, seat->team, &seat->part.batch, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 6 has not published its NUMA domain in process set 0"));
    guarded_free(seat->part.output, seat->part.output_bytes);
    guarded_free(seat->part.input, seat->part.input_bytes);
    shm_world_close(world);
}
END_TEST

/* ---- Sleeping --------------------------------------------------------------------------------------- */

/* Whatever any of them does, and not where nobody does anything. */
START_TEST(who_dozes_is_woken_by_any)
{
    struct shm_world *world = spread_open(spreads[0], 1);
    struct batch_plan plan = long_plan(world, COLL_ALLREDUCE, false);
    world->plans = &plan;
    world->plan_count = 1;
    run_until_idle(world, 0);
    backend_shm.arm(world->seats[0].state, true);
    ck_assert(!shm_world_step(world, 0));
    ck_assert(!is_woken(&world->seats[0], 0));
    ck_assert(shm_world_step(world, 7)); /* it begins */
    ck_assert(is_woken(&world->seats[0], SLEEP_MS));
    ck_assert(shm_world_step(world, 7));
    ck_assert(!is_woken(&world->seats[0], 0)); /* it is awake, as far as others know */
    ck_assert(!shm_world_step(world, 0));
    ck_assert(!is_woken(&world->seats[0], 0));
    ck_assert(shm_world_step(world, 2));
    ck_assert(is_woken(&world->seats[0], SLEEP_MS));
    backend_shm.arm(world->seats[1].state, true);
    while (shm_world_step(world, 0) || shm_world_step(world, 1))
        continue;
    ck_assert(!shm_world_step(world, 0) && !shm_world_step(world, 1));
    is_woken(&world->seats[0], 0);
    is_woken(&world->seats[1], 0);
    backend_shm.arm(world->seats[0].state, false); /* up again, while the other sleeps */
    ck_assert(shm_world_step(world, 2));
    ck_assert(is_woken(&world->seats[1], SLEEP_MS));
    ck_assert(!is_woken(&world->seats[0], 0));
    backend_shm.arm(world->seats[1].state, false);
    for (int rank = 0; rank < 8; rank++) {
        if (!world->seats[rank].runs)
            shm_world_step(world, rank);
        give_up(world, rank);
        guarded_free(world->seats[rank].part.output, world->seats[rank].part.output_bytes);
        guarded_free(world->seats[rank].part.input, world->seats[rank].part.input_bytes);
    }
    shm_world_close(world);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("shm_domains");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, each_kind_is_right_however_members_are_spread, 0, 4 * SPREADS);
    tcase_add_loop_test(tcase, ways_follow_each_other, 0, 3 * SPREADS);
    tcase_add_test(tcase, two_sets_at_once_are_right);
    tcase_add_loop_test(tcase, real_pieces_are_right, 0, 4);
    tcase_add_loop_test(tcase, members_must_lie_well, 0, (int)(sizeof(lies) / sizeof(lies[0])));
    tcase_add_test(tcase, only_large_batches_do);
    tcase_add_test(tcase, without_room_all_is_flat);
    tcase_add_loop_test(tcase, sets_come_and_go, 0, 4);
    tcase_add_loop_test(tcase, nonsense_in_memory_touches_nothing_else, 0, 8);
    tcase_add_loop_test(tcase, a_chunk_that_is_not_due_is_refused, 0, 4);
    tcase_add_test(tcase, an_untold_domain_is_an_error);
    tcase_add_test(tcase, who_dozes_is_woken_by_any);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, members_in_threads_are_right, 0, 2 * SPREADS);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("shm_domains", fill);
}
