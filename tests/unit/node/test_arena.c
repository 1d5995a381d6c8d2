/* test_arena.c: regions of shared memory: who gets which, when room is free again, and what nonsense in the
 * table can do. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "node/arena.h"
#include "reference_sums.h"

#define MIB          ((size_t)1 << 20)
#define PAGE         ((size_t)4096)
#define BYTES        (16 * MIB)
#define REGION_BYTES (3 * MIB + 100)
#define FITS         5 /* as many of these, beside the table */

static struct arena arena;

/* With pages on both sides that cannot be touched. */
static void open_arena(void)
{
    char *all = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    ck_assert_int_eq(mprotect(all + PAGE, BYTES, PROT_READ | PROT_WRITE), 0);
    arena = (struct arena){all + PAGE, BYTES};
}

static void close_arena(void)
{
    munmap((char *)arena.base - PAGE, BYTES + 2 * PAGE);
}

static int enter(int set, int users, size_t bytes, char **regionp)
{
    const struct arena_request claim = {.set = set, .users = users, .bytes = bytes, .zeroed = 1000};
    struct hvd_error err = {""};
    void *region = NULL;
    int rc = arena_acquire(&arena, &claim, clock_us() + 1000000, &region, &err);
    ck_assert((rc == HVD_OK) == (err.text[0] == 0) && (rc == HVD_OK) == (region != NULL));
    if (regionp != NULL)
        *regionp = region;
    return rc;
}

/* Behind the table, where a table of any size has its end. */
static bool is_inside(const char *region, size_t bytes)
{
    const char *base = arena.base;
    return region > base && region + bytes <= base + arena.bytes && (region - base) % (ptrdiff_t)PAGE == 0;
}

START_TEST(all_members_get_the_same_and_sets_do_not_overlap)
{
    char *regions[FITS] = {NULL}, *again = NULL;
    for (int set = 0; set < FITS; set++) {
        ck_assert_int_eq(enter(set, 3, REGION_BYTES, &regions[set]), HVD_OK);
        ck_assert(is_inside(regions[set], REGION_BYTES));
        for (int other = 0; other < set; other++)
            ck_assert(regions[other] + REGION_BYTES <= regions[set] ||
                      regions[set] + REGION_BYTES <= regions[other]);
        memset(regions[set], 1 + set, REGION_BYTES);
    }
    for (int set = FITS - 1; set >= 0; set--) {
        for (int user = 1; user < 3; user++) {
            ck_assert_int_eq(enter(set, 3, REGION_BYTES, &again), HVD_OK);
            ck_assert_ptr_eq(again, regions[set]);
        }
        ck_assert_int_eq(regions[set][0], 1 + set); /* who comes later finds what is there */
        ck_assert_int_eq(regions[set][REGION_BYTES - 1], 1 + set);
    }
}
END_TEST

START_TEST(room_is_free_when_all_have_left_and_begins_with_zeros)
{
    char *first = NULL, *second = NULL;
    for (int user = 0; user < 2; user++)
        ck_assert_int_eq(enter(7, 2, 9 * MIB, &first), HVD_OK);
    memset(first, 0x77, 9 * MIB);
    arena_release(&arena, 7);
    ck_assert_int_eq(enter(8, 1, 9 * MIB, NULL), HVD_ERR_UNSUPPORTED);
    arena_release(&arena, 7);
    ck_assert_int_eq(enter(9, 1, 9 * MIB, &second), HVD_OK);
    ck_assert_ptr_eq(second, first);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(second[i], 0);
    ck_assert_int_eq(second[1000], 0x77);
    ck_assert_int_eq(second[9 * MIB - 1], 0x77);
    arena_release(&arena, 7); /* there is no such set any more */
    ck_assert_int_eq(enter(10, 1, 9 * MIB, NULL), HVD_ERR_UNSUPPORTED);
}
END_TEST

/* One may be through with a set before another has come to it. */
START_TEST(who_comes_late_still_gets_the_region)
{
    char *first = NULL, *second = NULL, *third = NULL;
    ck_assert_int_eq(enter(1, 2, REGION_BYTES, &first), HVD_OK);
    arena_release(&arena, 1);
    ck_assert_int_eq(enter(2, 1, REGION_BYTES, &second), HVD_OK);
    ck_assert_ptr_ne(first, second);
    ck_assert_int_eq(enter(1, 2, REGION_BYTES, &third), HVD_OK);
    ck_assert_ptr_eq(first, third);
    arena_release(&arena, 1);
    ck_assert_int_eq(enter(3, 1, REGION_BYTES, &third), HVD_OK);
    ck_assert_ptr_eq(first, third);
}
END_TEST

START_TEST(holes_are_filled)
{
    char *regions[FITS] = {NULL}, *small = NULL, *large = NULL;
    for (int set = 0; set < FITS; set++)
        ck_assert_int_eq(enter(set, 1, REGION_BYTES, &regions[set]), HVD_OK);
    arena_release(&arena, 3);
    arena_release(&arena, 1);
    ck_assert_int_eq(enter(10, 1, 2 * REGION_BYTES, &large), HVD_ERR_UNSUPPORTED);
    ck_assert_int_eq(enter(11, 1, MIB, &small), HVD_OK);
    ck_assert_ptr_eq(small, regions[1]);
    arena_release(&arena, 2);
    ck_assert_int_eq(enter(12, 1, 2 * REGION_BYTES, &large), HVD_OK);
    ck_assert(large > small && large + 2 * REGION_BYTES <= regions[4]);
    ck_assert_int_eq(enter(13, 1, REGION_BYTES, &small), HVD_ERR_UNSUPPORTED);
}
END_TEST

/* Also where room has become free meanwhile: some of them would be in the region, and others not. */
START_TEST(all_members_hear_that_there_is_no_room)
{
    struct hvd_error err;
    void *region = NULL;
    const struct arena_request claim = {.set = 50 + 3 * ARENA_SET_STRIDE, .users = 3, .bytes = 10 * MIB};
    ck_assert_int_eq(enter(1, 1, 10 * MIB, NULL), HVD_OK);
    ck_assert_int_eq(arena_acquire(&arena, &claim, clock_us(), &region, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "no shared memory is left on this node for process set 50: it wants 10485760 "
                               "bytes, of 16777216 for all sets; remove sets that are no longer used");
    arena_release(&arena, 1);
    for (int user = 1; user < 3; user++)
        ck_assert_int_eq(arena_acquire(&arena, &claim, clock_us(), &region, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(region);
    ck_assert_int_eq(enter(51, 1, 10 * MIB, NULL), HVD_OK);
}
END_TEST

/* The table is smaller than a page here. */
START_TEST(all_of_it_can_be_used)
{
    ck_assert_int_eq(enter(1, 1, BYTES, NULL), HVD_ERR_UNSUPPORTED);
    ck_assert_int_eq(enter(2, 1, BYTES - PAGE, NULL), HVD_OK);
    ck_assert_int_eq(enter(3, 1, PAGE, NULL), HVD_ERR_UNSUPPORTED);
}
END_TEST

/* A refusal leaves no entry behind: there are not many. */
START_TEST(refusals_leave_nothing)
{
    for (int set = 0; set < FITS; set++)
        ck_assert_int_eq(enter(set, 1, REGION_BYTES, NULL), HVD_OK);
    for (int set = 100; set < 1100; set++) {
        for (int user = 0; user < 2; user++)
            ck_assert_int_eq(enter(set, 2, REGION_BYTES, NULL), HVD_ERR_UNSUPPORTED);
    }
    arena_release(&arena, 2);
    ck_assert_int_eq(enter(2000, 1, REGION_BYTES, NULL), HVD_OK);
    ck_assert_int_eq(enter(2001, 1, SIZE_MAX - 5 * PAGE, NULL), HVD_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(no_memory_is_an_error)
{
    const struct arena none = {0};
    const struct arena_request claim = {.set = 1, .users = 1, .bytes = 1};
    struct hvd_error err;
    void *region = NULL;
    ck_assert_int_eq(arena_acquire(&none, &claim, clock_us(), &region, &err), HVD_ERR_UNSUPPORTED);
    struct arena small = {arena.base, PAGE};
    ck_assert_int_eq(arena_acquire(&small, &claim, clock_us(), &region, &err), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(region);
}
END_TEST

/* The first word of the arena is its lock. */
START_TEST(a_table_that_stays_locked_is_not_waited_for)
{
    const struct arena_request claim = {.set = 4, .users = 1, .bytes = MIB};
    struct hvd_error err;
    void *region = NULL;
    ck_assert_int_eq(enter(3, 1, MIB, NULL), HVD_OK);
    *(uint32_t *)arena.base = 1;
    int64_t begin_us = clock_us();
    ck_assert_int_eq(arena_acquire(&arena, &claim, begin_us + 20000, &region, &err), HVD_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(err.text, "process set 4 did not get its shared memory"));
    ck_assert_int_ge(clock_us() - begin_us, 20000);
    arena_release(&arena, 3);
    ck_assert_int_lt(clock_us() - begin_us, 10 * 1000000);
    ck_assert_ptr_null(region);
}
END_TEST

/* Whatever is in the table: a region is inside the arena or there is none, and each call ends. */
START_TEST(nonsense_in_the_table_leads_nowhere_else)
{
    uint64_t random = (uint64_t)_i + 1;
    uint64_t *words = arena.base;
    for (int round = 0; round < 300; round++) {
        for (int set = 0; set < 3; set++)
            enter(round * 3 + set, 2, REGION_BYTES, NULL);
        for (int i = 0; i < 10; i++) {
            const uint64_t values[] = {0,
                                       UINT64_MAX,
                                       reference_random(&random),
                                       reference_random(&random) >> 40,
                                       reference_random(&random) >> 40 << 12,
                                       (uint64_t)0 - (reference_random(&random) >> 40 << 12),
                                       (uint64_t)(round * 3 + i % 3 + 1) | 1ULL << 32};
            words[1 + reference_random(&random) % 50] = values[reference_random(&random) % 7];
        }
        for (int set = 0; set < 4; set++) {
            char *region = NULL;
            size_t bytes = set == 1 ? PAGE : REGION_BYTES;
            if (enter(round * 3 + set, 2, bytes, &region) == HVD_OK)
                ck_assert(is_inside(region, bytes));
            arena_release(&arena, round * 3 + set);
        }
    }
}
END_TEST

/* An entry as it lies in the table, behind the lock. */
struct entry {
    int32_t set, users;
    uint64_t begin, end;
};

START_TEST(a_region_that_cannot_be_is_refused)
{
    const size_t bytes = 2 * MIB;
    const struct entry entries[] = {
        {8, 2, (uint64_t)0 - bytes, 0},             /* before the arena */
        {8, 2, BYTES - MIB, BYTES + MIB},           /* partly behind it */
        {8, 2, 0, bytes},                           /* over the table */
        {8, 2, 2 * PAGE + 8, 2 * PAGE + 8 + bytes}, /* crooked */
        {8, 2, 2 * PAGE, 3 * PAGE + bytes},         /* too large */
        {8, 2, 2 * PAGE, PAGE + bytes},             /* too small */
        {8, 2, 2 * PAGE, 2 * PAGE + bytes},         /* that would be one */
    };
    struct entry *table = (struct entry *)(void *)((char *)arena.base + 8);
    int last = (int)(sizeof(entries) / sizeof(entries[0])) - 1;
    for (int i = 0; i <= last; i++) {
        table[3] = entries[i];
        ck_assert_int_eq(enter(7, 2, bytes, NULL), i == last ? HVD_OK : HVD_ERR_UNSUPPORTED);
    }
    ck_assert_int_eq(table[3].users, 2);
    table[3] = (struct entry){9, 1, PAGE, UINT64_MAX}; /* no room is left */
    ck_assert_int_eq(enter(10, 1, bytes, NULL), HVD_ERR_UNSUPPORTED);
}
END_TEST

/* ---- Many at once ----------------------------------------------------------------------------- */

#define RANKS 4
#define SETS  3000
#define APART 3 /* sets that a member may be ahead of another: all of them make each set together */

static _Atomic int passed[RANKS];

static bool has_member(int set, int rank)
{
    return ((unsigned)set * 2654435761u >> 16 >> rank & 1) != 0;
}

static void wait_for_others(int set)
{
    for (int i = 0; i < RANKS; i++) {
        while (atomic_load(&passed[i]) < set - APART)
            sched_yield();
    }
}

/* Go through all sets, holding some at a time; a region is ours alone while we are in it. */
static void *pass_through(void *arg)
{
    int rank = *(int *)arg;
    char *held[4] = {NULL};
    for (int set = 0; set < SETS; set++) {
        char **place = &held[set % 4];
        atomic_store(&passed[rank], set);
        wait_for_others(set);
        if (*place != NULL) {
            int *mine = (int *)(void *)(*place + rank * 64);
            if (*mine != set - 4 + 1)
                return arg;
            *mine = 0;
            arena_release(&arena, set - 4);
        }
        *place = NULL;
        int users = 0;
        for (int i = 0; i < RANKS; i++)
            users += has_member(set, i);
        if (!has_member(set, rank))
            continue;
        int rc = enter(set, users, REGION_BYTES, place);
        if (rc != HVD_OK && rc != HVD_ERR_UNSUPPORTED)
            return arg;
        if (*place != NULL)
            *(int *)(void *)(*place + rank * 64) = set + 1;
    }
    atomic_store(&passed[rank], SETS);
    for (int i = 0; i < 4; i++) {
        if (held[i] != NULL)
            arena_release(&arena, SETS - 4 + i);
    }
    return NULL;
}

START_TEST(many_at_once_get_what_is_theirs)
{
    pthread_t threads[RANKS];
    int ranks[RANKS];
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pass_through, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        void *complaint = NULL;
        pthread_join(threads[i], &complaint);
        ck_assert_ptr_null(complaint);
    }
    ck_assert_int_eq(enter(SETS, 1, 15 * MIB, NULL), HVD_OK); /* all of it is free again */
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("arena");
    tcase_add_checked_fixture(tcase, open_arena, close_arena);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, all_members_get_the_same_and_sets_do_not_overlap);
    tcase_add_test(tcase, room_is_free_when_all_have_left_and_begins_with_zeros);
    tcase_add_test(tcase, who_comes_late_still_gets_the_region);
    tcase_add_test(tcase, holes_are_filled);
    tcase_add_test(tcase, all_members_hear_that_there_is_no_room);
    tcase_add_test(tcase, all_of_it_can_be_used);
    tcase_add_test(tcase, refusals_leave_nothing);
    tcase_add_test(tcase, no_memory_is_an_error);
    tcase_add_test(tcase, a_table_that_stays_locked_is_not_waited_for);
    tcase_add_loop_test(tcase, nonsense_in_the_table_leads_nowhere_else, 0, 10);
    tcase_add_test(tcase, a_region_that_cannot_be_is_refused);
    tcase_add_test(tcase, many_at_once_get_what_is_theirs);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("arena", fill);
}
