/* test_attach_refusal.c: what the ranks of a node are told whose leader cannot share memory. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "forked_ranks.h"
#include "attach_by_hand.h"

static const int three[3] = {0, 0, 0};

/* The leader cannot share memory. Nobody waits for what cannot come, and all know why: [words]. */
static void attach_in_vain(struct forked_rank *place, int leader_status, const char *words)
{
    struct node *node = NULL;
    struct hvd_error err;
    bool leads = place->peer_table.rank == 0;
    int before = open_descriptors();
    int64_t begun_us = clock_us();
    int status =
        node_attach(&node, &place->peer_table, (int[3]){0, 1, 2}, 3, begun_us + FORKED_RANKS_WAIT_US, &err);
    FORKED_RANK_CHECK(place, clock_us() - begun_us < FORKED_RANKS_WAIT_US / 4);
    FORKED_RANK_CHECK(place, status == (leads ? leader_status : HVD_ERR_UNSUPPORTED));
    FORKED_RANK_CHECK(place, node == NULL && open_descriptors() == before);
    if (strstr(err.text, words) == NULL)
        forked_rank_fail(place, "%s", err.text);
}

/* Rank 0 may make no file at all. */
static void lead_without_memory(struct forked_rank *place)
{
    struct rlimit limit;
    FORKED_RANK_CHECK(place, getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = 1 << 20;
    FORKED_RANK_CHECK(place, place->peer_table.rank != 0 || setrlimit(RLIMIT_FSIZE, &limit) == 0);
    attach_in_vain(place, HVD_ERR_SYSTEM, "raise `ulimit -f`");
}

/* Rank 0 has descriptors to listen and to refuse, and not those of two members. */
static void lead_without_descriptors(struct forked_rank *place)
{
    struct rlimit limit;
    int lowest = dup(0);
    close(lowest);
    FORKED_RANK_CHECK(place, getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)lowest + 10;
    FORKED_RANK_CHECK(place, place->peer_table.rank != 0 || setrlimit(RLIMIT_NOFILE, &limit) == 0);
    attach_in_vain(place, HVD_ERR_NO_MEMORY, "raise `ulimit -n` to at least");
}

START_TEST(a_leader_without_memory_refuses_at_once)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, lead_without_memory);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < 3; rank++)
        ck_assert_str_eq(team->reports[rank].log, "");
}
END_TEST

START_TEST(a_leader_without_descriptors_refuses_at_once)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, lead_without_descriptors);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < 3; rank++)
        ck_assert_str_eq(team->reports[rank].log, "");
}
END_TEST

/* ---- A leader that runs out of descriptors amid it ---- */

/* Where rank 1 is when it happens. */
enum shortage { BEFORE_DOORBELL, AT_DOORBELL, BEFORE_MAPPED, AFTER_MAPPED, SHORTAGES };

static int place_of_shortage;

/* The next packet from the leader. */
static int receive_packet(struct forked_rank *place, int fd, enum attach_packet_type type,
                          struct hvd_error *err)
{
    struct attach_packet packet;
    struct attach_fds fds;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    FORKED_RANK_CHECK(place, poll(&wait, 1, 10000) == 1);
    int status = attach_receive(fd, type, &packet, &fds, err);
    attach_close_fds(&fds);
    return status;
}

static void send_doorbell(struct forked_rank *place, int fd)
{
    struct attach_packet packet = {0};
    const struct attach_fds fds = {.count = 2, .fd = {fd, fd}};
    FORKED_RANK_CHECK(place, attach_send(fd, ATTACH_DOORBELL, &packet, &fds) == 0);
}

static void send_mapped(struct forked_rank *place, int fd)
{
    struct attach_packet packet = {0};
    FORKED_RANK_CHECK(place, attach_send(fd, ATTACH_MAPPED, &packet, NULL) == 0);
}

/* The leader, which waits, may keep what is open, and open nothing more. */
static void take_descriptors_of_leader(struct forked_rank *place, int fd)
{
    struct watched_process leader = {.fd = -1};
    struct rlimit limit;
    char path[64];
    int lowest = STDERR_FILENO;
    FORKED_RANK_CHECK(place, attach_identify_peer(fd, &leader, NULL) == HVD_OK);
    if (leader.fd >= 0)
        close(leader.fd);
    do
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)leader.pid, ++lowest);
    while (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
    FORKED_RANK_CHECK(place, prlimit(leader.pid, RLIMIT_NOFILE, NULL, &limit) == 0);
    limit.rlim_cur = (rlim_t)lowest;
    FORKED_RANK_CHECK(place, prlimit(leader.pid, RLIMIT_NOFILE, &limit, NULL) == 0);
}

/* Rank 1 by hand: it takes the leader's descriptors on its way, and must be told so at once. */
static void attach_amid_shortage(struct forked_rank *place)
{
    struct handshake_claim claim = {
        .purpose = HANDSHAKE_PURPOSE_ATTACH, .epoch = place->peer_table.epoch, .from = 1};
    struct handshake handshake;
    struct hvd_error why;
    int fd = attach_connect(place);
    handshake_connect(&handshake, place->peer_table.key, &claim, fd);
    FORKED_RANK_CHECK(place, finish_handshake(place, &handshake) == HANDSHAKE_DONE);
    if (place_of_shortage >= BEFORE_MAPPED) {
        send_doorbell(place, fd);
        FORKED_RANK_CHECK(place, receive_packet(place, fd, ATTACH_MEMORY, &why) == HVD_OK);
    }
    if (place_of_shortage == AFTER_MAPPED)
        send_mapped(place, fd);
    take_descriptors_of_leader(place, fd);
    if (place_of_shortage == AT_DOORBELL)
        send_doorbell(place, fd);
    atomic_store(&place->report->stage, 1);
    await_rank(place, 2);
    if (place_of_shortage == BEFORE_DOORBELL)
        send_doorbell(place, fd);
    if (place_of_shortage == BEFORE_MAPPED)
        send_mapped(place, fd);
    FORKED_RANK_CHECK(place, receive_packet(place, fd, ATTACH_NEIGHBOURS, &why) == HVD_ERR_UNSUPPORTED);
    if (strstr(why.text, "raise `ulimit -n` to at least") == NULL)
        forked_rank_fail(place, "%s", why.text);
    close(fd);
}

/* Rank 2 comes when the leader has no more descriptors. */
static void run_out_of_descriptors(struct forked_rank *place)
{
    int rank = place->peer_table.rank;
    if (rank == 2)
        await_rank(place, 1);
    if (rank == 1)
        attach_amid_shortage(place);
    else
        attach_in_vain(place, HVD_ERR_NO_MEMORY, "raise `ulimit -n` to at least");
    if (rank == 2)
        atomic_store(&place->report->stage, 1);
}

START_TEST(a_leader_that_runs_out_of_descriptors_tells_all)
{
    place_of_shortage = _i;
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, run_out_of_descriptors);
    forked_ranks_end(team, -1);
    for (int rank = 0; rank < 3; rank++)
        ck_assert_str_eq(team->reports[rank].log, "");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("refusal");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_leader_without_memory_refuses_at_once);
    tcase_add_test(tcase, a_leader_without_descriptors_refuses_at_once);
    tcase_add_loop_test(tcase, a_leader_that_runs_out_of_descriptors_tells_all, 0, SHORTAGES);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("refusal", fill);
}
