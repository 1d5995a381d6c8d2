/* test_establishment_steps.c: connections made without waiting, by ranks that take turns in one thread. */
#include "config.h"
#include "unit.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/seal.h"

#define LEASE_US (SECOND / 8)
#include "endpoint_threads.h"

static struct establishment *efforts[MAX_RANKS];

static void begin(int rank)
{
    struct endpoint_thread *member = &members[rank];
    ck_assert_int_eq(establishment_begin(&efforts[rank], member->endpoint, &member->peer_table, member->wants,
                                         member->want_count, NULL),
                     HVD_OK);
}

/* One turn of each rank that has begun, until all of these are done. */
static void advance_all(void)
{
    bool done = false;
    int64_t limit_us = clock_us() + 20 * SECOND;
    while (!done) {
        done = true;
        for (int rank = 0; rank < size; rank++) {
            int lost = -1;
            int rc = efforts[rank] == NULL ? HVD_OK
                                           : establishment_advance(efforts[rank], &lost, &members[rank].err);
            ck_assert_msg(rc == HVD_OK || rc == HVD_IN_PROGRESS, "rank %d: %s", rank, members[rank].err.text);
            done = done && rc == HVD_OK;
        }
        ck_assert_int_lt(clock_us(), limit_us);
    }
}

static void end_all(void)
{
    for (int rank = 0; rank < size; rank++) {
        establishment_end(efforts[rank]);
        efforts[rank] = NULL;
    }
}

START_TEST(ranks_that_take_turns_connect)
{
    int before = open_descriptors();
    open_ranks(3);
    for (int rank = 0; rank < 3; rank++) {
        want(rank, (rank + 1) % 3, ENDPOINT_CHAIN, true);
        want(rank, (rank + 2) % 3, ENDPOINT_CHAIN, false);
        begin(rank);
    }
    advance_all();
    for (int rank = 0; rank < 3; rank++)
        ck_assert_int_eq(establishment_waits_for(efforts[rank]), -1);
    end_all();
    for (int rank = 0; rank < 3; rank++)
        check_pair(members[rank].wants[0].fd, members[(rank + 1) % 3].wants[1].fd);
    close_ranks();
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* The descriptor and the deadline say when to advance: no other turn is needed. */
START_TEST(the_descriptor_tells_when_to_advance)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CHAIN, true);
    want(1, 0, ENDPOINT_CHAIN, false);
    begin(0);
    begin(1);
    int left = 2;
    int results[2] = {HVD_IN_PROGRESS, HVD_IN_PROGRESS};
    bool ready[2] = {true, true};
    for (int turns = 0; left > 0; turns++) {
        int lost = -1;
        for (int rank = 0; rank < 2; rank++) {
            if (results[rank] == HVD_IN_PROGRESS && ready[rank])
                results[rank] = establishment_advance(efforts[rank], &lost, NULL);
        }
        left = (results[0] == HVD_IN_PROGRESS) + (results[1] == HVD_IN_PROGRESS);
        struct pollfd polls[2] = {{.fd = establishment_fd(efforts[0]), .events = POLLIN},
                                  {.fd = establishment_fd(efforts[1]), .events = POLLIN}};
        ck_assert(left == 0 || poll(polls, 2, 5000) > 0);
        for (int rank = 0; rank < 2; rank++)
            ready[rank] = polls[rank].revents != 0;
        ck_assert_int_lt(turns, 100);
    }
    ck_assert_int_eq(results[0], HVD_OK);
    ck_assert_int_eq(results[1], HVD_OK);
    end_all();
    close_ranks();
}
END_TEST

START_TEST(who_is_waited_for_is_known)
{
    open_ranks(3);
    want(0, 2, ENDPOINT_CHAIN, false);
    want(0, 1, ENDPOINT_CHAIN, true);
    begin(0);
    int lost = -1;
    ck_assert_int_eq(establishment_advance(efforts[0], &lost, NULL), HVD_IN_PROGRESS);
    ck_assert_int_eq(establishment_waits_for(efforts[0]), 2);
    end_all();
    close_ranks();
}
END_TEST

struct arrivals {
    int count, fds[MAX_RANKS];
    bool from[MAX_RANKS];
};

static void note_arrival(void *arg, int rank, int fd, struct seal *seal)
{
    struct arrivals *arrivals = arg;
    ck_assert_ptr_null(seal);
    arrivals->from[rank] = true;
    arrivals->fds[arrivals->count++] = fd;
}

/* One rank accepts from any, and is never done; the others connect for messages, one after the other. */
START_TEST(any_rank_is_accepted_again_and_again)
{
    int before = open_descriptors();
    struct arrivals arrivals = {0};
    open_ranks(3);
    want(0, ENDPOINT_ANY_RANK, ENDPOINT_MESSAGES, false);
    members[0].wants[0].accepted = note_arrival;
    members[0].wants[0].arg = &arrivals;
    begin(0);
    for (int rank = 1; rank < 3; rank++) {
        int lost = -1, rc = HVD_IN_PROGRESS;
        want(rank, 0, ENDPOINT_MESSAGES, true);
        begin(rank);
        for (int64_t limit_us = clock_us() + 20 * SECOND; rc == HVD_IN_PROGRESS && clock_us() < limit_us;) {
            ck_assert_int_eq(establishment_advance(efforts[0], &lost, NULL), HVD_IN_PROGRESS);
            rc = establishment_advance(efforts[rank], &lost, NULL);
        }
        ck_assert_int_eq(rc, HVD_OK);
        ck_assert_int_eq(arrivals.count, rank);
        ck_assert(arrivals.from[rank]);
        check_pair(members[rank].wants[0].fd, arrivals.fds[rank - 1]);
    }
    end_all();
    for (int i = 0; i < arrivals.count; i++)
        close(arrivals.fds[i]);
    close_ranks();
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* A rank that only connects leaves those alone that connect to it. */
START_TEST(who_accepts_nothing_drops_nobody)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_MESSAGES, true);
    want(1, 0, ENDPOINT_CHAIN, true);
    begin(0);
    begin(1);
    int64_t until_us = clock_us() + SECOND / 4;
    lines[0] = 0;
    while (clock_us() < until_us)
        for (int rank = 0; rank < 2; rank++) {
            int lost = -1;
            ck_assert_int_eq(establishment_advance(efforts[rank], &lost, NULL), HVD_IN_PROGRESS);
        }
    ck_assert_str_eq(lines, "");
    end_all();
    close_ranks();
}
END_TEST

/* Its kernel accepts connections, and it does not come yet: that is no reason to give up. */
START_TEST(a_busy_rank_is_waited_for)
{
    open_ranks(2);
    want(0, 1, ENDPOINT_CHAIN, true);
    want(1, 0, ENDPOINT_CHAIN, false);
    begin(0);
    int64_t until_us = clock_us() + SECOND;
    while (clock_us() < until_us) {
        int lost = -1;
        ck_assert_int_eq(establishment_advance(efforts[0], &lost, NULL), HVD_IN_PROGRESS);
        struct pollfd poll_fd = {.fd = establishment_fd(efforts[0]), .events = POLLIN};
        poll(&poll_fd, 1, 20);
    }
    begin(1);
    advance_all();
    end_all();
    close_ranks();
}
END_TEST

/* Nobody listens at its address: it is lost, and both ends are named. */
START_TEST(an_unreachable_rank_is_lost)
{
    int before = open_descriptors();
    struct hvd_error err = {""};
    int lost = -1;
    int rc = HVD_IN_PROGRESS;
    open_ranks(3);
    endpoint_close(members[2].endpoint);
    members[2].endpoint = NULL;
    want(0, 1, ENDPOINT_CHAIN, false);
    want(0, 2, ENDPOINT_CHAIN, true);
    begin(0);
    int64_t begun_us = clock_us();
    while (rc == HVD_IN_PROGRESS) {
        struct pollfd poll_fd = {.fd = establishment_fd(efforts[0]), .events = POLLIN};
        rc = establishment_advance(efforts[0], &lost, &err);
        poll(&poll_fd, 1, 10);
        ck_assert_int_lt(clock_us() - begun_us, 10 * SECOND);
    }
    ck_assert_int_eq(rc, HVD_ERR_RANK_LOST);
    ck_assert_int_eq(lost, 2);
    ck_assert_int_ge(clock_us() - begun_us, SECOND / 4);
    ck_assert_msg(strstr(err.text, "rank 0 (n0) could not connect to rank 2 (n2)") != NULL, "%s", err.text);
    end_all();
    close_ranks();
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

static const struct {
    enum endpoint_purpose purpose;
    bool encrypt, sealed;
} seals[] = {
    {ENDPOINT_CHAIN, true, true},
    {ENDPOINT_CHAIN, false, false},
    {ENDPOINT_PROBE, true, false}, /* it carries nothing */
};

START_TEST(what_must_be_encrypted_is_sealed)
{
    open_ranks(2);
    for (int rank = 0; rank < 2; rank++) {
        members[rank].peer_table.encrypt = seals[_i].encrypt;
        want(rank, 1 - rank, seals[_i].purpose, rank == 0);
        begin(rank);
    }
    advance_all();
    end_all();
    for (int rank = 0; rank < 2; rank++) {
        ck_assert((members[rank].wants[0].seal != NULL) == seals[_i].sealed);
        seal_free(members[rank].wants[0].seal);
    }
    close_ranks();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("establishment_steps");
    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, ranks_that_take_turns_connect);
    tcase_add_test(tcase, the_descriptor_tells_when_to_advance);
    tcase_add_test(tcase, who_is_waited_for_is_known);
    tcase_add_test(tcase, any_rank_is_accepted_again_and_again);
    tcase_add_test(tcase, who_accepts_nothing_drops_nobody);
    tcase_add_test(tcase, a_busy_rank_is_waited_for);
    tcase_add_test(tcase, an_unreachable_rank_is_lost);
    tcase_add_loop_test(tcase, what_must_be_encrypted_is_sealed, 0, sizeof(seals) / sizeof(seals[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("establishment_steps", fill);
}
