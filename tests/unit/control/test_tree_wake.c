/* test_tree_wake.c: what the end of a process does to a rank that sleeps. */
#include "config.h"
#include "unit.h"

#include <unistd.h>

#include "forked_ranks.h"

/* Its life pipe may wake the other rank before its end shows, and what it rang for before both. */
#define WAKES_MAX 4

/* In so many it looks for ends once, and then not for a while unless they wake it. */
#define POLLS 16

static int victim;

/* The victim is killed once the other rank has looked at everything and sleeps until it sees that. */
static void be_killed_or_wake(struct forked_rank *place)
{
    struct control_event event;
    struct epoll_event woken;
    int wakes = 0;
    forked_rank_open(place);
    const struct control_ops *ops = place->control->ops;
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == victim) {
        forked_rank_stage(place, 2);
        process_signal_self(SIGKILL);
    }
    for (int i = 0; i < POLLS; i++)
        FORKED_RANK_CHECK(place, ops->receive(place->control, &event, NULL) == HVD_IN_PROGRESS);
    ops->arm(place->control, true);
    int rc = ops->receive(place->control, &event, NULL);
    FORKED_RANK_CHECK(place, rc == HVD_IN_PROGRESS);
    atomic_store(&place->report->stage, 2);
    while (rc == HVD_IN_PROGRESS) {
        FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
        ops->look(place->control);
        ops->arm(place->control, false);
        wakes++;
        rc = ops->receive(place->control, &event, NULL);
        if (rc != HVD_IN_PROGRESS)
            break;
        ops->arm(place->control, true);
        rc = ops->receive(place->control, &event, NULL);
    }
    FORKED_RANK_CHECK(place, rc == HVD_OK && event.kind == CONTROL_ABORT && event.rank == victim);
    FORKED_RANK_CHECK(place, wakes <= WAKES_MAX);
    forked_rank_close(place);
}

START_TEST(an_end_is_seen_by_whom_it_has_woken)
{
    static const int pair[2] = {0, 0};
    victim = _i;
    struct forked_ranks *team = forked_ranks_new(2, pair);
    forked_ranks_start(team, be_killed_or_wake);
    for (int stage = 1; stage <= 2; stage++) {
        forked_ranks_await_all(team, stage);
        atomic_store(&team->go, stage);
    }
    forked_ranks_end(team, victim);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tree_wake");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, an_end_is_seen_by_whom_it_has_woken, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tree_wake", fill);
}
