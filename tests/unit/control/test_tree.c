/* test_tree.c: the control object between processes: messages, losses, aborts, farewell, sleep. */
#include "config.h"
#include "unit.h"

#include <pthread.h>
#include <unistd.h>

#include "node/doorbell.h"
#include "node/attach.h"
#include "forked_ranks.h"

/* Nodes by the leader of each rank. */
static const int alone[1] = {0};
static const int pair[2] = {0, 0};
static const int four[4] = {0, 0, 0, 0};
static const int forty[40] = {0};
static const int three_nodes[6] = {0, 0, 0, 3, 3, 5};
static const int singles[11] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static const struct {
    int size;
    const int *node_of_rank;
} teams[] = {{1, alone}, {2, pair}, {4, four}, {40, forty}, {6, three_nodes}, {11, singles}};

#define TEAM_KINDS ((int)(sizeof(teams) / sizeof(teams[0])))

/* ---- Messages ---- */

static const size_t lengths[] = {0, 1, BYTE_RING_BYTES, 10 * BYTE_RING_BYTES, 1 << 20, 3};

#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* All messages of each of [count] links from [first] on, in the order they were sent. */
static void expect_messages(struct forked_rank *place, int first, int count)
{
    struct control_event event;
    size_t got[TREE_MAX_LINKS] = {0};
    for (size_t left = LENGTHS * (size_t)count; left > 0; left--) {
        forked_rank_receive(place, &event);
        FORKED_RANK_CHECK(place, event.kind == CONTROL_MESSAGE);
        FORKED_RANK_CHECK(place, event.link >= first && event.link < first + count);
        FORKED_RANK_CHECK(place, got[event.link] < LENGTHS);
        FORKED_RANK_CHECK(place, message_is(&event, control_link_rank(place->control, event.link),
                                            lengths[got[event.link]]));
        got[event.link]++;
    }
}

static void send_messages(struct forked_rank *place, int link)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        unsigned char *bytes = message_new(place->peer_table.rank, lengths[i]);
        forked_rank_send(place, link, bytes, lengths[i]);
        free(bytes);
    }
}

static void leave(struct forked_rank *place)
{
    place->control->ops->farewell(place->control);
    forked_rank_flush(place);
    forked_rank_close(place);
}

/* Up the tree, then down. */
static void talk(struct forked_rank *place)
{
    int before = open_descriptors() - 2 * (place->shape.node_count - 1);
    forked_rank_open(place);
    int child_count = place->control->child_count;
    expect_messages(place, 1, child_count);
    if (place->control->parent >= 0) {
        send_messages(place, TREE_PARENT);
        expect_messages(place, TREE_PARENT, 1);
    }
    for (int child = 1; child <= child_count; child++)
        send_messages(place, child);
    leave(place);
    FORKED_RANK_CHECK(place, open_descriptors() == before);
    FORKED_RANK_CHECK(place, place->report->log[0] == 0);
}

START_TEST(messages_travel_up_and_down)
{
    forked_ranks_run(teams[_i].size, teams[_i].node_of_rank, talk);
}
END_TEST

/* ---- Lost ranks ---- */

static const struct {
    int size;
    const int *node_of_rank;
    int victim;
    bool heir; /* the victim leaves a child behind that holds its descriptors */
} losses[] = {
    {2, pair, 0, false},        {2, pair, 1, true},         {4, four, 0, true},
    {4, four, 2, true},         {40, forty, 0, true},       {40, forty, 1, true},
    {40, forty, 5, false},      {40, forty, 39, true},      {6, three_nodes, 0, false},
    {6, three_nodes, 2, true},  {6, three_nodes, 3, false}, {6, three_nodes, 4, true},
    {6, three_nodes, 5, false}, {11, singles, 0, false},    {11, singles, 1, false},
    {11, singles, 10, false},
};

static int victim;
static bool heir;

static void note_abort(struct forked_rank *place, const struct control_event *event)
{
    place->report->status = event->status;
    place->report->lost_rank = event->rank;
    snprintf(place->report->sentence, sizeof(place->report->sentence), "%s", event->sentence);
    atomic_store(&place->report->at_us, clock_us());
}

/* Sleep until the abort comes; hear nothing after it. */
static void await_abort(struct forked_rank *place)
{
    struct control_event event;
    forked_rank_receive(place, &event);
    FORKED_RANK_CHECK(place, event.kind == CONTROL_ABORT);
    note_abort(place, &event);
    forked_rank_flush(place);
    forked_rank_stage(place, 2);
    FORKED_RANK_CHECK(place, !forked_rank_try_receive(place, &event, 20000));
    forked_rank_close(place);
}

static void be_lost_or_see_it(struct forked_rank *place)
{
    forked_rank_open(place);
    if (place->peer_table.rank == victim && heir) {
        pid_t pid = fork();
        FORKED_RANK_CHECK(place, pid >= 0);
        if (pid == 0) {
            forked_rank_stage(place, 2);
            _exit(0);
        }
    }
    atomic_store(&place->report->stage, 1);
    await_abort(place);
}

START_TEST(every_survivor_hears_of_a_lost_rank)
{
    victim = losses[_i].victim;
    heir = losses[_i].heir;
    struct forked_ranks *team = forked_ranks_new(losses[_i].size, losses[_i].node_of_rank);
    char begins[64], name[64];
    forked_ranks_start(team, be_lost_or_see_it);
    forked_ranks_await_all(team, 1);
    snprintf(begins, sizeof(begins), "rank %d (n%d, pid %d) was lost: ", victim,
             losses[_i].node_of_rank[victim], (int)team->pids[victim]);
    snprintf(name, sizeof(name), "without hvd_shutdown");
    int64_t killed_us = clock_us();
    process_signal(team->pids[victim], SIGKILL);
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            forked_ranks_await_stage(team, rank, 2);
    }
    atomic_store(&team->go, 2);
    forked_ranks_end(team, victim);
    for (int rank = 0; rank < team->size; rank++) {
        const struct rank_report *report = &team->reports[rank];
        if (rank == victim)
            continue;
        ck_assert_int_eq(report->status, HVD_ERR_RANK_LOST);
        ck_assert_int_eq(report->lost_rank, victim);
        ck_assert_msg(strncmp(report->sentence, begins, strlen(begins)) == 0 &&
                          strstr(report->sentence, name) != NULL,
                      "rank %d: %s", rank, report->sentence);
        ck_assert_int_lt(atomic_load(&report->at_us) - killed_us, 1000000);
    }
}
END_TEST

/* The last rank sends its last words and is gone at once; they are longer than a ring. */
static void speak_and_die(struct forked_rank *place)
{
    struct control_event event;
    forked_rank_open(place);
    if (place->peer_table.rank == 1) {
        unsigned char *bytes = message_new(1, BYTE_RING_BYTES / 2);
        forked_rank_send(place, TREE_PARENT, bytes, BYTE_RING_BYTES / 2);
        atomic_store(&place->report->stage, 1);
        raise(SIGKILL);
    }
    forked_rank_stage(place, 1);
    forked_rank_receive(place, &event);
    FORKED_RANK_CHECK(place, message_is(&event, 1, BYTE_RING_BYTES / 2));
    forked_rank_receive(place, &event);
    FORKED_RANK_CHECK(place,
                      event.kind == CONTROL_ABORT && event.status == HVD_ERR_RANK_LOST && event.rank == 1);
    forked_rank_close(place);
}

START_TEST(last_words_count)
{
    struct forked_ranks *team = forked_ranks_new(2, _i == 0 ? pair : singles);
    forked_ranks_start(team, speak_and_die);
    int status = forked_ranks_reap(team, 1);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    atomic_store(&team->go, 1);
    ck_assert_int_eq(forked_ranks_reap(team, 0), 0);
}
END_TEST

/* ---- Aborts ---- */

static void abort_or_hear_it(struct forked_rank *place)
{
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == victim)
        place->control->ops->abort(place->control, HVD_ERR_MISMATCH, 1, "tensor \"a\" has 2 and 3 elements");
    if (place->peer_table.rank == victim) /* a second one is not heard of */
        place->control->ops->abort(place->control, HVD_ERR_SYSTEM, 0, "later");
    await_abort(place);
}

START_TEST(abort_reaches_every_rank_once)
{
    static const struct {
        int size;
        const int *node_of_rank;
        int rank;
    } aborts[] = {{6, three_nodes, 0}, {6, three_nodes, 4}, {6, three_nodes, 5},
                  {40, forty, 39},     {40, forty, 0},      {1, alone, 0}};
    victim = aborts[_i].rank;
    struct forked_ranks *team = forked_ranks_new(aborts[_i].size, aborts[_i].node_of_rank);
    forked_ranks_start(team, abort_or_hear_it);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_await_all(team, 2);
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < team->size; rank++) {
        ck_assert_int_eq(team->reports[rank].status, HVD_ERR_MISMATCH);
        ck_assert_int_eq(team->reports[rank].lost_rank, team->size == 1 ? 0 : 1);
        ck_assert_str_eq(team->reports[rank].sentence, "tensor \"a\" has 2 and 3 elements");
    }
}
END_TEST

/* Who aborts ends before its abort can go up the tree: its parent stands still. The leader sees the end
 * first. */
static void abort_and_exit(struct forked_rank *place)
{
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == victim) {
        place->control->ops->abort(place->control, HVD_ERR_MISMATCH, 1, "the reason");
        _exit(0);
    }
    await_abort(place);
}

START_TEST(reason_comes_before_the_end_of_who_gave_it)
{
    static const int leavers[] = {0, 1, 32, 39};
    victim = leavers[_i];
    bool below = victim >= TREE_NODE_RADIX;
    struct forked_ranks *team = forked_ranks_new(40, forty);
    forked_ranks_start(team, abort_and_exit);
    forked_ranks_await_all(team, 1);
    if (below)
        process_signal(team->pids[1], SIGSTOP);
    atomic_store(&team->go, 1);
    if (below) {
        forked_ranks_await_stage(team, 0, 2);
        process_signal(team->pids[1], SIGCONT);
    }
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            forked_ranks_await_stage(team, rank, 2);
    }
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            ck_assert_str_eq(team->reports[rank].sentence, "the reason");
    }
}
END_TEST

/* Who ends without a word has a parent that stands still. The rank before it sees that, and tells the leader.
 */
static void die_below(struct forked_rank *place)
{
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == victim)
        raise(SIGKILL);
    await_abort(place);
}

START_TEST(an_end_is_seen_past_a_parent_that_stands_still)
{
    static const int victims[] = {32, 39};
    victim = victims[_i];
    struct forked_ranks *team = forked_ranks_new(40, forty);
    forked_ranks_start(team, die_below);
    forked_ranks_await_all(team, 1);
    process_signal(team->pids[1], SIGSTOP);
    atomic_store(&team->go, 1);
    forked_ranks_await_stage(team, 0, 2);
    process_signal(team->pids[1], SIGCONT);
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            forked_ranks_await_stage(team, rank, 2);
    }
    atomic_store(&team->go, 2);
    forked_ranks_end(team, victim);
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            ck_assert_int_eq(team->reports[rank].lost_rank, victim);
    }
}
END_TEST

/* The last rank sees the end of rank 0. The others look at nothing, so that they say nothing of it. */
static int first_failed(const void *arg)
{
    return *(const int *)arg;
}

static const int verdicts[] = {2, 0, 3, -1, 4};

static void see_the_leader_end(struct forked_rank *place)
{
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == 3) {
        place->control->verdict = (struct control_verdict){first_failed, &verdicts[victim]};
        await_abort(place);
        return;
    }
    forked_rank_stage(place, 2);
    forked_rank_close(place);
}

START_TEST(the_rank_of_the_launchers_verdict_is_named)
{
    victim = _i;
    int named = verdicts[_i] == 2 ? 2 : 0; /* nobody names itself, nor a rank that does not exist */
    struct forked_ranks *team = forked_ranks_new(4, four);
    char begins[64];
    forked_ranks_start(team, see_the_leader_end);
    forked_ranks_await_all(team, 1);
    snprintf(begins, sizeof(begins), "rank %d (n0, pid %d) was lost: ", named, (int)team->pids[named]);
    atomic_store(&team->go, 1);
    process_signal(team->pids[0], SIGKILL);
    forked_ranks_await_stage(team, 3, 2);
    atomic_store(&team->go, 2);
    forked_ranks_end(team, 0);
    const struct rank_report *report = &team->reports[3];
    ck_assert_int_eq(report->lost_rank, named);
    ck_assert_int_eq(report->status, HVD_ERR_RANK_LOST);
    ck_assert_msg(strncmp(report->sentence, begins, strlen(begins)) == 0, "%s", report->sentence);
    ck_assert_int_eq(strstr(report->sentence, "it failed first") != NULL, named == 2);
}
END_TEST

/* ---- Farewell ---- */

/* The word to leave goes down; whoever has passed it on ends at once, those below take their time. */
static void leave_one_by_one(struct forked_rank *place)
{
    struct control_event event;
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->control->parent >= 0) {
        forked_rank_receive(place, &event);
        FORKED_RANK_CHECK(place, event.kind == CONTROL_MESSAGE && event.length == 3);
        /* the end of those above is no loss, though we have not said farewell */
        FORKED_RANK_CHECK(place, !forked_rank_try_receive(place, &event, 100000));
    }
    for (int child = 1; child <= place->control->child_count; child++)
        forked_rank_send(place, child, "bye", 3);
    leave(place);
}

START_TEST(farewell_is_no_loss)
{
    struct forked_ranks *team = forked_ranks_new(teams[_i].size, teams[_i].node_of_rank);
    forked_ranks_start(team, leave_one_by_one);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_end(team, -1);
}
END_TEST

/* Closing without farewell is a loss, though the process goes on. */
static void close_early(struct forked_rank *place)
{
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    if (place->peer_table.rank == victim) {
        forked_rank_close(place);
        forked_rank_stage(place, 2);
        return;
    }
    await_abort(place);
}

START_TEST(closing_without_farewell_is_a_loss)
{
    victim = _i == 0 ? 1 : 3;
    struct forked_ranks *team = forked_ranks_new(6, three_nodes);
    forked_ranks_start(team, close_early);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_await_all(team, 2);
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < team->size; rank++) {
        if (rank != victim)
            ck_assert_msg(
                team->reports[rank].lost_rank == victim &&
                    strstr(team->reports[rank].sentence, "its connection ended without hvd_shutdown") != NULL,
                "rank %d: %s", rank, team->reports[rank].sentence);
    }
}
END_TEST

/* ---- Sleep ---- */

static void *kick_later(void *arg)
{
    struct control *control = arg;
    poll(NULL, 0, 50);
    control->ops->kick(control);
    return NULL;
}

static void sleep_and_wake(struct forked_rank *place)
{
    struct control_event event;
    struct epoll_event woken;
    struct hvd_error err;
    forked_rank_open(place);
    forked_rank_stage(place, 1);
    const struct control_ops *ops = place->control->ops;
    while (forked_rank_try_receive(place, &event, 50000))
        forked_rank_fail(place, "an event came from nowhere");
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        ops->arm(place->control, true);
        FORKED_RANK_CHECK(place, ops->receive(place->control, &event, &err) == HVD_IN_PROGRESS);
        FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 100) == 0);
        FORKED_RANK_CHECK(place, pthread_create(&thread, NULL, kick_later, place->control) == 0);
        FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
        pthread_join(thread, NULL);
    }
    /* disarmed, a kick is for nobody; a kick before we sleep is not forgotten */
    ops->arm(place->control, false);
    ops->kick(place->control);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 50) == 0);
    ops->arm(place->control, true);
    ops->kick(place->control);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
    /* nor is one that comes when the caller has looked at what it was for, but not yet here */
    ops->arm(place->control, true);
    ops->kick(place->control);
    FORKED_RANK_CHECK(place, ops->receive(place->control, &event, &err) == HVD_IN_PROGRESS);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
    ops->kick(place->control);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
    ops->kick(place->control); /* silent, as the first has rung */
    FORKED_RANK_CHECK(place, ops->receive(place->control, &event, &err) == HVD_IN_PROGRESS);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 10000) == 1);
    FORKED_RANK_CHECK(place, ops->receive(place->control, &event, &err) == HVD_IN_PROGRESS);
    FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 50) == 0);
    forked_rank_stage(place, 2);
    leave(place);
}

START_TEST(sleeps_until_kicked)
{
    static const struct {
        int size;
        const int *node_of_rank;
    } sleepers[] = {{1, alone}, {2, pair}, {2, singles}};
    struct forked_ranks *team = forked_ranks_new(sleepers[_i].size, sleepers[_i].node_of_rank);
    forked_ranks_start(team, sleep_and_wake);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_await_all(team, 2);
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
}
END_TEST

/* Rank 1 sleeps. Rank 0 polls for a while, so that its message need not ring; then it does something else. */
static void send_late_or_sleep(struct forked_rank *place)
{
    struct control_event event;
    struct epoll_event woken;
    forked_rank_open(place);
    bool sleeps = place->peer_table.rank == 1;
    place->control->ops->arm(place->control, sleeps);
    while (forked_rank_try_receive(place, &event, 50000))
        forked_rank_fail(place, "an event came from nowhere");
    forked_rank_stage(place, 1);
    if (!sleeps)
        forked_rank_send(place, 1, "x", 1);
    forked_rank_stage(place, 2);
    if (sleeps)
        FORKED_RANK_CHECK(place, epoll_wait(place->epoll_fd, &woken, 1, 0) == 0);
    forked_rank_stage(place, 3);
    if (sleeps)
        forked_rank_receive(place, &event);
    else if (victim == 0)
        place->control->ops->arm(place->control, true);
    else
        control_ring(place->control);
    forked_rank_stage(place, 4);
    leave(place);
}

START_TEST(a_message_rings_before_its_sender_does_something_else)
{
    victim = _i;
    struct forked_ranks *team = forked_ranks_new(2, pair);
    forked_ranks_start(team, send_late_or_sleep);
    for (int stage = 1; stage <= 4; stage++) {
        forked_ranks_await_all(team, stage);
        atomic_store(&team->go, stage);
    }
    forked_ranks_end(team, -1);
}
END_TEST

/* ---- Streams that are not ours ---- */

static const struct {
    unsigned char bytes[40];
    size_t count;
    const char *why;
} streams[] = {
    {"GET / HTTP/1.1\r\nHost: hvd\r\n\r\n", 32, "bytes that are no frame"},
    {"hvdF\2\0\1\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, "protocol version 2, expected 1"},
    {"hvdF\1\0\11\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, "not allowed here"},
    {"hvdF\1\0\1\0\7\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0", 24, "expected at most"},
    {"hvdF\1\0\2\0\7\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, "status 0"},
    {"hvdF\1\0\2\0\7\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\370\377\377\377\2\0\0\0", 32, "rank 2, expected 0 to 1"},
};

/* Rank 1 puts bytes on its link to rank 0 by hand. */
static void spoil_or_see_it(struct forked_rank *place)
{
    int link_fds[2];
    struct node *node = NULL;
    if (place->peer_table.rank == 0) {
        forked_rank_open(place);
        await_abort(place);
        return;
    }
    forked_ranks_take_sockets(place->team, &place->shape, 1, link_fds);
    if (link_fds[0] >= 0) {
        FORKED_RANK_CHECK(place, write(link_fds[0], streams[victim].bytes, streams[victim].count) > 0);
    } else {
        forked_rank_attach(place, &node);
        struct node_memory *memory = node->memory;
        struct byte_ring_end end = {.ring = &memory->members[1].up};
        byte_ring_write(&end, streams[victim].bytes, streams[victim].count);
        byte_ring_commit(&end);
        doorbell_ring_eventfd(&(struct doorbell_eventfd){NULL, node->doorbells[0].fd});
    }
    forked_rank_stage(place, 2);
    node_close(node);
}

START_TEST(foreign_stream_is_an_error_that_names_its_rank)
{
    int count = (int)(sizeof(streams) / sizeof(streams[0]));
    victim = _i % count;
    struct forked_ranks *team = forked_ranks_new(2, _i < count ? pair : singles);
    char begins[64];
    forked_ranks_start(team, spoil_or_see_it);
    forked_ranks_await_all(team, 2);
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
    const struct rank_report *report = &team->reports[0];
    snprintf(begins, sizeof(begins), "rank 1 (n%d, pid %d) sent ", team->node_of_rank[1], (int)team->pids[1]);
    ck_assert_int_eq(report->status, HVD_ERR_SYSTEM);
    ck_assert_int_eq(report->lost_rank, 1);
    ck_assert_msg(strncmp(report->sentence, begins, strlen(begins)) == 0 &&
                      strstr(report->sentence, streams[victim].why) != NULL,
                  "%s", report->sentence);
}
END_TEST

/* A frame of another start of the job is dropped, the next one counts. A torn frame is a loss. */
static void send_late_frame(struct forked_rank *place)
{
    int link_fds[2];
    unsigned char bytes[3 * FRAME_HEADER_BYTES + 10];
    struct control_event event;
    if (place->peer_table.rank == 0) {
        forked_rank_open(place);
        forked_rank_receive(place, &event);
        FORKED_RANK_CHECK(place, event.kind == CONTROL_MESSAGE && event.length == 3 &&
                                     memcmp(event.bytes, "new", 3) == 0);
        forked_rank_receive(place, &event);
        FORKED_RANK_CHECK(place, event.kind == CONTROL_ABORT && event.status == HVD_ERR_RANK_LOST &&
                                     event.rank == 1);
        FORKED_RANK_CHECK(place, strstr(event.sentence, "in the middle of a message") != NULL);
        forked_rank_close(place);
        return;
    }
    forked_ranks_take_sockets(place->team, &place->shape, 1, link_fds);
    frame_encode(bytes, FRAME_MESSAGE, 6, 3);
    memcpy(bytes + FRAME_HEADER_BYTES, "old", 3);
    frame_encode(bytes + FRAME_HEADER_BYTES + 3, FRAME_MESSAGE, 7, 3);
    memcpy(bytes + 2 * FRAME_HEADER_BYTES + 3, "new", 3);
    frame_encode(bytes + 2 * FRAME_HEADER_BYTES + 6, FRAME_MESSAGE, 7, 5);
    FORKED_RANK_CHECK(place, write(link_fds[0], bytes, sizeof(bytes)) == sizeof(bytes));
    close(link_fds[0]);
}

START_TEST(late_frames_are_dropped)
{
    forked_ranks_run(2, singles, send_late_frame);
}
END_TEST

/* ---- Forked children, and what cannot be opened ---- */

static bool maps_show(const char *name)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        found = found || strstr(line, name) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

static void fork_and_go_on(struct forked_rank *place)
{
    int before = open_descriptors() - 2 * (place->shape.node_count - 1);
    forked_rank_open(place);
    FORKED_RANK_CHECK(place, maps_show("hvd-node") == (place->shape.local_size > 1));
    pid_t pid = fork();
    FORKED_RANK_CHECK(place, pid >= 0);
    if (pid == 0) {
        struct control_event event;
        place->control->ops->after_fork(place->control);
        close(place->epoll_fd);
        FORKED_RANK_CHECK(place, open_descriptors() == before);
        FORKED_RANK_CHECK(place, !maps_show("hvd-node"));
        /* who calls it all the same does no harm */
        place->control->ops->kick(place->control);
        place->control->ops->arm(place->control, true);
        FORKED_RANK_CHECK(place,
                          place->control->ops->receive(place->control, &event, NULL) == HVD_IN_PROGRESS);
        place->control->ops->close(place->control);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    FORKED_RANK_CHECK(place, status == 0);
    forked_rank_stage(place, 1);
    if (place->control->parent >= 0)
        send_messages(place, TREE_PARENT);
    expect_messages(place, 1, place->control->child_count);
    leave(place);
}

START_TEST(forked_child_lets_go)
{
    struct forked_ranks *team = forked_ranks_new(6, three_nodes);
    forked_ranks_start(team, fork_and_go_on);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_end(team, -1);
}
END_TEST

START_TEST(relatives_that_did_not_meet_are_an_error)
{
    struct forked_ranks *team = forked_ranks_new(2, pair);
    struct peer_table peer_table;
    struct tree_shape shape;
    struct control *control = NULL;
    struct node *node = NULL;
    struct hvd_error err;
    int link_fds[2] = {-1, -1};
    int before = open_descriptors();
    make_tree_shape(team, 0, &shape);
    make_peer_table(team, 0, &peer_table);
    ck_assert_int_eq(node_attach(&node, &peer_table, (int[1]){0}, 1, clock_us() + FORKED_RANKS_WAIT_US, &err),
                     HVD_OK);
    ck_assert_int_eq(control_open(&control, &peer_table, &shape, node, link_fds, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_null(control);
    node_close(node); /* it stayed ours */
    ck_assert_ptr_nonnull(
        strstr(err.text, "rank 0 should share memory with rank 1, but they did not attach"));
    ck_assert_int_eq(control_open(&control, &peer_table, &shape, NULL, link_fds, &err), HVD_ERR_SYSTEM);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

START_TEST(too_long_a_message_is_refused)
{
    struct forked_ranks *team = forked_ranks_new(2, singles);
    struct peer_table peer_table;
    struct tree_shape shape;
    struct control *control = NULL;
    struct hvd_error err;
    int link_fds[2];
    make_tree_shape(team, 0, &shape);
    make_peer_table(team, 0, &peer_table);
    forked_ranks_take_sockets(team, &shape, 0, link_fds);
    ck_assert_int_eq(control_open(&control, &peer_table, &shape, NULL, link_fds, &err), HVD_OK);
    ck_assert_int_eq(control->ops->send(control, 1, "", (size_t)FRAME_MESSAGE_BYTES + 1, &err),
                     HVD_ERR_INVALID);
    ck_assert_str_eq(err.text, "a control message of 1073741825 bytes, expected at most 1073741824");
    control->ops->close(control);
}
END_TEST

/* ---- Beats ---- */

#define BEAT_LEASE_US INT64_C(800000)

/* The other node's leader sends beats for longer than silence is borne, and then stands still. */
static void stand_still_or_see_it(struct forked_rank *place)
{
    struct control_event event;
    int64_t stop_us = clock_us() + (BEATS_UNANSWERED_MAX + 3) * beat_interval_us(BEAT_LEASE_US);
    place->peer_table.beats = true;
    place->peer_table.lease_us = BEAT_LEASE_US;
    forked_rank_open(place);
    while (place->peer_table.rank == 2 && clock_us() < stop_us) {
        FORKED_RANK_CHECK(place,
                          place->control->ops->receive(place->control, &event, NULL) == HVD_IN_PROGRESS);
        poll(NULL, 0, 1);
    }
    if (place->peer_table.rank != 2) {
        await_abort(place);
        FORKED_RANK_CHECK(place, atomic_load(&place->report->at_us) >= stop_us);
        return;
    }
    forked_rank_stage(place, 2);
    forked_rank_close(place);
}

START_TEST(a_node_that_stands_still_is_lost)
{
    static const int two_nodes[4] = {0, 0, 2, 2};
    struct forked_ranks *team = forked_ranks_new(4, two_nodes);
    forked_ranks_start(team, stand_still_or_see_it);
    forked_ranks_await_stage(team, 0, 2);
    forked_ranks_await_stage(team, 1, 2);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert_int_eq(team->reports[rank].lost_rank, 2);
        ck_assert_ptr_nonnull(
            strstr(team->reports[rank].sentence, "it was silent for three times --hvd-lease"));
    }
    atomic_store(&team->go, 2);
    forked_ranks_end(team, -1);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("tree");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, messages_travel_up_and_down, 0, TEAM_KINDS);
    tcase_add_loop_test(tcase, every_survivor_hears_of_a_lost_rank, 0,
                        (int)(sizeof(losses) / sizeof(losses[0])));
    tcase_add_loop_test(tcase, last_words_count, 0, 2);
    tcase_add_loop_test(tcase, abort_reaches_every_rank_once, 0, 6);
    tcase_add_loop_test(tcase, reason_comes_before_the_end_of_who_gave_it, 0, 4);
    tcase_add_loop_test(tcase, an_end_is_seen_past_a_parent_that_stands_still, 0, 2);
    tcase_add_loop_test(tcase, the_rank_of_the_launchers_verdict_is_named, 0,
                        (int)(sizeof(verdicts) / sizeof(verdicts[0])));
    tcase_add_loop_test(tcase, farewell_is_no_loss, 0, TEAM_KINDS);
    tcase_add_loop_test(tcase, closing_without_farewell_is_a_loss, 0, 2);
    tcase_add_loop_test(tcase, sleeps_until_kicked, 0, 3);
    tcase_add_loop_test(tcase, a_message_rings_before_its_sender_does_something_else, 0, 2);
    tcase_add_loop_test(tcase, foreign_stream_is_an_error_that_names_its_rank, 0,
                        2 * (int)(sizeof(streams) / sizeof(streams[0])));
    tcase_add_test(tcase, late_frames_are_dropped);
    tcase_add_test(tcase, forked_child_lets_go);
    tcase_add_test(tcase, relatives_that_did_not_meet_are_an_error);
    tcase_add_test(tcase, too_long_a_message_is_refused);
    tcase_add_test(tcase, a_node_that_stands_still_is_lost);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("tree", fill);
}
