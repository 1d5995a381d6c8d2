/* test_hvdrun_seats.c: which slot of a job is on which of several hosts. */
#include "unit.h"

#include "tools/hvdrun/agent/seats.h"

static struct seats seats;
static bool used[4], room[4];

static void setup(void)
{
    ck_assert_int_eq(seats_init(&seats, 4, NULL), HVD_OK);
    for (int host = 0; host < 3; host++) {
        ck_assert_int_eq(seats_add_host(&seats, (const char *const[]){"n1", "n2", "n3"}[host]), host);
        seats.hosts[host].places = 2;
        seats.hosts[host].up = true;
    }
}

static void teardown(void)
{
    seats_fini(&seats);
}

static void expect(int slot, int host, int place, bool has_room)
{
    ck_assert_int_eq(seats.seats[slot].host, host);
    if (host >= 0)
        ck_assert_int_eq(seats.seats[slot].place, place);
    ck_assert(room[slot] == has_room);
}

START_TEST(slots_fill_one_host_after_the_other)
{
    seats_assign(&seats, used, room);
    expect(0, 0, 0, true);
    expect(1, 0, 1, true);
    expect(2, 1, 0, true);
    expect(3, 1, 1, true);
    ck_assert_int_eq(seats_places(&seats), 6);
    ck_assert_int_eq(seats_free(&seats), 2);
}
END_TEST

START_TEST(slots_of_a_lost_host_move_once_they_are_unused)
{
    seats_assign(&seats, used, room);
    seats.hosts[0].up = false;
    used[0] = used[1] = used[2] = used[3] = true;
    seats_assign(&seats, used, room);
    expect(0, 0, 0, false);
    expect(2, 1, 0, true);
    ck_assert_int_eq(seats_free(&seats), 2);
    used[1] = false;
    seats_assign(&seats, used, room);
    expect(0, 0, 0, false);
    expect(1, 2, 0, true);
    ck_assert_int_eq(seats_free(&seats), 1);
}
END_TEST

START_TEST(a_host_that_rests_keeps_its_slots_and_gets_no_others)
{
    seats_assign(&seats, used, room);
    used[0] = used[2] = used[3] = true;
    seats.hosts[0].rests = true;
    seats_assign(&seats, used, room);
    expect(0, 0, 0, true);
    expect(1, 2, 0, true);
    seats.hosts[2].rests = true;
    seats_assign(&seats, used, room);
    expect(1, -1, 0, false);
    ck_assert_int_eq(seats_free(&seats), 3);
    seats.hosts[0].rests = false;
    seats_assign(&seats, used, room);
    expect(1, 0, 1, true);
}
END_TEST

START_TEST(slots_without_a_place_have_no_room)
{
    seats.hosts[1].places = seats.hosts[2].places = 0;
    seats_assign(&seats, used, room);
    expect(1, 0, 1, true);
    expect(2, -1, 0, false);
    used[0] = used[1] = true;
    seats.hosts[0].places = 1;
    seats_assign(&seats, used, room);
    expect(0, 0, 0, true);
    expect(1, 0, 1, false);
    ck_assert_int_eq(seats_free(&seats), 0);
}
END_TEST

static void expect_place(int slot, int size, const struct launch_place *expected)
{
    struct launch_place place;
    seats_place(&seats, slot, size, &place);
    ck_assert_int_eq(place.rank, slot);
    ck_assert_int_eq(place.size, size);
    ck_assert_int_eq(place.local_rank, expected->local_rank);
    ck_assert_int_eq(place.local_size, expected->local_size);
    ck_assert_int_eq(place.node, expected->node);
    ck_assert_int_eq(place.node_count, expected->node_count);
}

START_TEST(nodes_and_ranks_are_counted_that_take_part)
{
    seats.hosts[0].up = false;
    seats_assign(&seats, used, room);
    expect_place(0, 3, &(struct launch_place){.local_size = 2, .node_count = 2});
    expect_place(1, 3, &(struct launch_place){.local_rank = 1, .local_size = 2, .node_count = 2});
    expect_place(2, 3, &(struct launch_place){.local_size = 1, .node = 1, .node_count = 2});
    expect_place(0, 1, &(struct launch_place){.local_size = 1, .node_count = 1});
}
END_TEST

START_TEST(names_stay_where_they_are)
{
    const char *first = seats.hosts[0].name;
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(seats_add_host(&seats, "another"), 3 + i);
    ck_assert_ptr_eq(seats.hosts[0].name, first);
    ck_assert_str_eq(first, "n1");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("seats");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, slots_fill_one_host_after_the_other);
    tcase_add_test(tcase, slots_of_a_lost_host_move_once_they_are_unused);
    tcase_add_test(tcase, a_host_that_rests_keeps_its_slots_and_gets_no_others);
    tcase_add_test(tcase, slots_without_a_place_have_no_room);
    tcase_add_test(tcase, nodes_and_ranks_are_counted_that_take_part);
    tcase_add_test(tcase, names_stay_where_they_are);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_seats", fill);
}
