/* test_attach.c: how ranks meet in shared memory: who is let in, who is not, and what happens to those who
 * are late. */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "node/attach.h"
#include "mappings.h"
#include "forked_ranks.h"
#include "attach_by_hand.h"

static const int three[3] = {0, 0, 0};
static const int many[37] = {0};
static const int without_one[37] = {[1] = 1};

/* Say something to every relative in the node and hear it from them. */
static void greet_relatives(struct forked_rank *place)
{
    struct control_event event;
    const struct control *control = place->control;
    int first = control->parent >= 0 ? 0 : 1;
    for (int link = first; link <= control->child_count; link++)
        forked_rank_send(place, link, &place->peer_table.rank, sizeof(place->peer_table.rank));
    for (int link = first; link <= control->child_count; link++) {
        forked_rank_receive(place, &event);
        int rank = -1;
        FORKED_RANK_CHECK(place, event.kind == CONTROL_MESSAGE && event.length == sizeof(rank));
        memcpy(&rank, event.bytes, sizeof(rank));
        FORKED_RANK_CHECK(place, rank == control_link_rank(control, event.link));
    }
    place->control->ops->farewell(place->control);
    forked_rank_flush(place);
    forked_rank_close(place);
}

static void attach_and_greet(struct forked_rank *place)
{
    int before = open_descriptors();
    forked_rank_open(place);
    greet_relatives(place);
    FORKED_RANK_CHECK(place, open_descriptors() == before);
}

/* ---- Strangers ---- */

enum stranger {
    WRONG_KEY,
    OTHER_EPOCH,
    OTHER_PURPOSE,
    FOREIGN_WORDS,
    SHORT_WORDS,
    SILENT,
    MANY_SILENT,
    LEADER_RANK,
    NO_MEMBER,
    OTHER_USER,
    STRANGERS
};

/* The other end must close; all it has sent is a challenge, without descriptors. */
static void expect_refusal(struct forked_rank *place, int fd)
{
    char bytes[512];
    union {
        struct cmsghdr align;
        char bytes[512];
    } space;
    struct iovec part = {bytes, sizeof(bytes)};
    ssize_t length = HANDSHAKE_CHALLENGE_BYTES;
    for (int i = 0; length > 0; i++) {
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes};
        message.msg_controllen = sizeof(space);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        FORKED_RANK_CHECK(place, poll(&wait, 1, 10000) == 1);
        length = recvmsg(fd, &message, 0);
        FORKED_RANK_CHECK(place, length <= 0 || (i == 0 && length == HANDSHAKE_CHALLENGE_BYTES));
        FORKED_RANK_CHECK(place, length >= 0 || errno == ECONNRESET);
        FORKED_RANK_CHECK(place, message.msg_controllen == 0);
    }
}

/* Begin a handshake in which one thing is wrong; the leader must break it off. */
static void shake_hands(struct forked_rank *place, int fd, enum stranger kind)
{
    struct peer_table other = place->peer_table;
    struct handshake_claim claim = {.purpose = HANDSHAKE_PURPOSE_ATTACH, .epoch = other.epoch, .from = 1};
    struct handshake handshake;
    if (kind == WRONG_KEY)
        other.key[5] ^= 1;
    if (kind == OTHER_EPOCH)
        claim.epoch++;
    if (kind == OTHER_PURPOSE)
        claim.purpose = HANDSHAKE_PURPOSE_FENCE;
    if (kind == LEADER_RANK || kind == NO_MEMBER)
        claim.from = kind == LEADER_RANK ? 0 : 5;
    handshake_connect(&handshake, other.key, &claim, fd);
    enum handshake_result result = finish_handshake(place, &handshake);
    FORKED_RANK_CHECK(place, result == HANDSHAKE_FAILED && !handshake.foreign);
}

static void come_as_stranger(struct forked_rank *place, enum stranger kind)
{
    static const char garbage[400] = "GET / HTTP/1.1";
    FORKED_RANK_CHECK(place, kind != OTHER_USER || setuid(65534) == 0);
    int fd = attach_connect(place);
    for (int i = 0; kind == MANY_SILENT && i < 300; i++)
        attach_connect(place);
    switch (kind) {
    case FOREIGN_WORDS:
        FORKED_RANK_CHECK(place, send(fd, garbage, sizeof(garbage), 0) == sizeof(garbage));
        break;
    case SHORT_WORDS:
        FORKED_RANK_CHECK(place, send(fd, "hello", 5, 0) == 5);
        break;
    case WRONG_KEY:
    case OTHER_EPOCH:
    case OTHER_PURPOSE:
    case LEADER_RANK:
    case NO_MEMBER:
        shake_hands(place, fd, kind);
        break;
    default:
        break;
    }
    bool silent = kind == SILENT || kind == MANY_SILENT;
    if (!silent)
        expect_refusal(place, fd);
    atomic_store(&place->report->stage, 1);
    if (silent)
        forked_rank_stage(place, 2); /* keeps its connection all the time */
    close(fd);
}

static int kind_of_stranger;

/* Rank 1 is a stranger first, and itself afterwards; rank 2 comes when the stranger has done its worst. */
static void stranger_or_member(struct forked_rank *place)
{
    if (place->peer_table.rank == 1) {
        pid_t pid = fork();
        FORKED_RANK_CHECK(place, pid >= 0);
        if (pid == 0) {
            come_as_stranger(place, (enum stranger)kind_of_stranger);
            _exit(0);
        }
        while (kind_of_stranger != SILENT && kind_of_stranger != MANY_SILENT && waitpid(pid, NULL, 0) != pid)
            FORKED_RANK_CHECK(place, errno == EINTR);
    }
    if (place->peer_table.rank == 2)
        await_rank(place, 1);
    attach_and_greet(place);
    atomic_store(&place->team->go, 2);
}

START_TEST(strangers_are_dropped_and_members_still_meet)
{
    static const char *const reasons[STRANGERS] = {
        [WRONG_KEY] = "does not hold the key of this job",
        [OTHER_EPOCH] = "is of another start of this job",
        [OTHER_PURPOSE] = "says that it is a rank which does not belong here",
        [FOREIGN_WORDS] = "does not speak hvd's protocol",
        [SHORT_WORDS] = "does not speak hvd's protocol",
        [SILENT] = "",
        [MANY_SILENT] = "it is the last of ",
        [LEADER_RANK] = "says that it is a rank which does not belong here",
        [OTHER_USER] = "belongs to user 65534, expected 0",
        [NO_MEMBER] = "says that it is a rank which does not belong here",
    };
    if (_i == OTHER_USER && geteuid() != 0) {
        printf("# skip: only root can come as another user\n");
        return;
    }
    kind_of_stranger = _i;
    int64_t begun_us = clock_us();
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, stranger_or_member);
    forked_ranks_end(team, -1);
    /* nobody was waited for */
    ck_assert_int_lt(clock_us() - begun_us, 4000000);
    ck_assert_msg(strstr(team->reports[0].log, reasons[_i]) != NULL, "%s", team->reports[0].log);
    if (_i != SILENT)
        ck_assert_ptr_nonnull(strstr(team->reports[0].log, "dropped process"));
}
END_TEST

/* ---- Those who are late, or never come ---- */

static void lead_late(struct forked_rank *place)
{
    if (place->peer_table.rank == 0)
        poll(NULL, 0, 150);
    attach_and_greet(place);
}

START_TEST(members_wait_for_a_late_leader)
{
    forked_ranks_run(3, three, lead_late);
}
END_TEST

/* Rank 1 is called a member but never comes; later all agree that it is a node of its own. */
static void attach_without_one(struct forked_rank *place)
{
    int members[FORKED_RANKS_MAX], link_fds[TREE_MAX_LINKS];
    struct node *node = NULL;
    struct hvd_error err = {""};
    int before = open_descriptors() - 2;
    if (place->peer_table.rank == 1) {
        forked_rank_open(place);
        greet_relatives(place);
        return;
    }
    for (int i = 0; i < place->team->size; i++)
        members[i] = i;
    /* members have less time than the leader, and wait for its last word all the same */
    int64_t deadline_us = clock_us() + (place->peer_table.rank == 0 ? 2000000 : 1500000);
    if (node_attach(&node, &place->peer_table, members, place->team->size, deadline_us, &err) != HVD_OK)
        forked_rank_fail(place, "node_attach: %s", err.text);
    forked_ranks_take_sockets(place->team, &place->shape, place->peer_table.rank, link_fds);
    if (control_open(&place->control, &place->peer_table, &place->shape, node, link_fds, &err) != HVD_OK)
        forked_rank_fail(place, "control_open: %s", err.text);
    place->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    FORKED_RANK_CHECK(place, place->control->ops->watch(place->control, place->epoll_fd, &err) == HVD_OK);
    place->control->ops->arm(place->control, true);
    greet_relatives(place);
    FORKED_RANK_CHECK(place, open_descriptors() == before);
}

START_TEST(those_who_came_go_on_without_the_rest)
{
    forked_ranks_run(37, without_one, attach_without_one);
}
END_TEST

START_TEST(no_leader_is_an_error_in_time)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    struct peer_table peer_table;
    struct node *node = NULL;
    struct hvd_error err;
    int before = open_descriptors();
    make_peer_table(team, 2, &peer_table);
    int64_t begun_us = clock_us();
    int status = node_attach(&node, &peer_table, (int[3]){0, 1, 2}, 3, begun_us + 200000, &err);
    int64_t took_us = clock_us() - begun_us;
    ck_assert_int_eq(status, HVD_ERR_TIMEOUT);
    ck_assert_ptr_null(node);
    ck_assert_msg(took_us >= 200000 && took_us < 1000000, "%lld us", (long long)took_us);
    ck_assert_ptr_nonnull(
        strstr(err.text, "rank 2 does not share memory with the first rank of its node, rank 0: it is "
                         "not there: Connection refused"));
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* The launcher says that a rank was lost while a member waits for its leader, or a leader for its members. */
START_TEST(news_end_the_wait)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    struct peer_table peer_table;
    struct node *node = NULL;
    struct hvd_error err;
    int before = open_descriptors();
    int news[2];
    ck_assert_int_eq(pipe(news), 0);
    ck_assert_int_eq(write(news[1], "", 1), 1);
    make_peer_table(team, _i, &peer_table);
    peer_table.news = &news[0];
    int64_t deadline_us = clock_us() + FORKED_RANKS_WAIT_US;
    int status = node_attach(&node, &peer_table, (int[3]){0, 1, 2}, 3, deadline_us, &err);
    ck_assert_int_lt(clock_us(), deadline_us);
    ck_assert_int_eq(status, HVD_ERR_RANK_LOST);
    ck_assert_ptr_null(node);
    close(news[0]);
    close(news[1]);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

/* Members with another key find nobody: even the socket's name is another. */
static void attach_with_other_key(struct forked_rank *place)
{
    struct node *node = NULL;
    struct hvd_error err;
    if (place->peer_table.rank == 2)
        place->peer_table.key[31] ^= 1;
    int status = node_attach(&node, &place->peer_table, (int[3]){0, 1, 2}, 3, clock_us() + 300000, &err);
    FORKED_RANK_CHECK(place, status == (place->peer_table.rank == 2 ? HVD_ERR_TIMEOUT : HVD_OK));
    node_close(node);
}

START_TEST(another_key_finds_nobody)
{
    forked_ranks_run(3, three, attach_with_other_key);
}
END_TEST

/* The other end must close without another word. */
static void expect_silence(struct forked_rank *place, int fd)
{
    char byte;
    ssize_t length = recv(fd, &byte, 1, 0);
    FORKED_RANK_CHECK(place, length == 0 || (length < 0 && errno == ECONNRESET));
}

/* A process that listens under the name but has no key gets nothing, not even the doorbell. */
static void lead_without_key(struct forked_rank *place)
{
    struct sockaddr_un address;
    static const char confirmation[HANDSHAKE_CONFIRMATION_BYTES] = "I do";
    char response[HANDSHAKE_RESPONSE_BYTES];
    struct handshake handshake;
    struct node *node = NULL;
    struct hvd_error err;
    if (place->peer_table.rank == 1) {
        int status = node_attach(&node, &place->peer_table, (int[3]){0, 1, 2}, 3, clock_us() + 1500000, &err);
        FORKED_RANK_CHECK(place, status == HVD_ERR_TIMEOUT);
        if (strstr(err.text, "rank 0: it does not hold the key of this job") == NULL)
            forked_rank_fail(place, "%s", err.text);
        return;
    }
    if (place->peer_table.rank == 2)
        return;
    socklen_t length = attach_address(&place->peer_table, 0, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    FORKED_RANK_CHECK(place,
                      bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    while (poll(&wait, 1, 1000) == 1) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        handshake_accept(&handshake, place->peer_table.key, fd);
        /* the member may respond at once; at the deadline it may be gone already */
        enum handshake_result result = handshake_advance(&handshake);
        bool responded =
            result == HANDSHAKE_CLAIMED ||
            (result == HANDSHAKE_WAITS && recv(fd, response, sizeof(response), 0) == sizeof(response));
        if (responded && send(fd, confirmation, sizeof(confirmation), MSG_NOSIGNAL) == sizeof(confirmation))
            expect_silence(place, fd);
        close(fd);
    }
}

START_TEST(leader_without_key_gets_nothing)
{
    forked_ranks_run(3, three, lead_without_key);
}
END_TEST

/* Rank 1 lives in a PID namespace of its own, where it cannot see the leader's process: each is watched by
 * its life pipe. */
static void attach_across_namespaces(struct forked_rank *place)
{
    struct node *node = NULL;
    struct hvd_error err;
    if (place->peer_table.rank == 1) {
        int status = -1;
        FORKED_RANK_CHECK(place, unshare(CLONE_NEWPID) == 0);
        pid_t pid = fork();
        FORKED_RANK_CHECK(place, pid >= 0);
        if (pid > 0) {
            FORKED_RANK_CHECK(place, waitpid(pid, &status, 0) == pid && status == 0);
            /* with its first process the namespace has ended: the leak check could start no thread there */
            _exit(0);
        }
    }
    int64_t begun_us = clock_us();
    int status =
        node_attach(&node, &place->peer_table, (int[3]){0, 1, 2}, 3, begun_us + FORKED_RANKS_WAIT_US, &err);
    FORKED_RANK_CHECK(place, clock_us() - begun_us < FORKED_RANKS_WAIT_US / 4);
    FORKED_RANK_CHECK(place, status == HVD_OK);
    FORKED_RANK_CHECK(place, node->watched_count == (place->peer_table.rank == 2 ? 1 : 2));
    for (int i = 0; i < node->watched_count; i++) {
        bool sees = place->peer_table.rank != 1 || node->watched[i].rank != 0;
        FORKED_RANK_CHECK(place, node->watched[i].fd >= 0);
        FORKED_RANK_CHECK(place, sees || place->peer_table.rank == 0 || node->watched[i].start == 0);
    }
    node_close(node);
}

START_TEST(ranks_of_other_pid_namespaces_attach)
{
    if (geteuid() != 0) {
        printf("# skip: only root can make a PID namespace\n");
        return;
    }
    forked_ranks_run(3, three, attach_across_namespaces);
}
END_TEST

START_TEST(bad_members_are_refused)
{
    static const int members[][3] = {{0, 0, 2}, {2, 1, 0}, {0, 1, 3}, {-1, 0, 2}, {0, 2, 1}};
    struct forked_ranks *team = forked_ranks_new(3, three);
    struct peer_table peer_table;
    struct node *node = NULL;
    struct hvd_error err;
    make_peer_table(team, members[_i][0] < 0 ? 2 : members[_i][0], &peer_table);
    ck_assert_int_eq(node_attach(&node, &peer_table, members[_i], 3, 0, &err), HVD_ERR_INVALID);
    make_peer_table(team, 1, &peer_table); /* its leader would be above it */
    ck_assert_int_eq(node_attach(&node, &peer_table, (int[2]){2, 1}, 2, 0, &err), HVD_ERR_INVALID);
}
END_TEST

START_TEST(sub_leaders_know_their_children)
{
    forked_ranks_run(37, many, attach_and_greet);
}
END_TEST

/* ---- The windows ---- */

static void write_own_window(struct forked_rank *place, const struct windows *windows)
{
    FORKED_RANK_CHECK(place,
                      windows->base != NULL && windows->count == 3 && windows->own == place->peer_table.rank);
    for (int rank = 0; rank < 3; rank++)
        FORKED_RANK_CHECK(place, windows_open(windows, rank, 4097, NULL) == HVD_OK);
    *windows_pointer(windows, windows->own, 4096, 1) = (char)(10 + place->peer_table.rank);
}

/* Who has windows reads what each rank for which [there] has a bit wrote into its own. */
static void read_windows(struct forked_rank *place, const struct windows *windows, unsigned there)
{
    for (int rank = 0; rank < 3; rank++) {
        char expected = (char)((there >> rank & 1) != 0 ? 10 + rank : 0);
        FORKED_RANK_CHECK(place, *windows_pointer(windows, rank, 4096, 1) == expected);
    }
}

static void use_windows(struct forked_rank *place)
{
    struct node *node = NULL;
    int before = open_descriptors();
    forked_rank_attach(place, &node);
    char *base = node->windows.base;
    write_own_window(place, &node->windows);
    forked_rank_stage(place, 1);
    read_windows(place, &node->windows, 7);
    forked_rank_stage(place, 2);
    struct windows windows = node_take_windows(node);
    FORKED_RANK_CHECK(place, windows.base == base && node->windows.base == NULL);
    FORKED_RANK_CHECK(place, node_take_windows(node).base == NULL);
    node_close(node);
    read_windows(place, &windows, 7);
    windows_detach(&windows);
    FORKED_RANK_CHECK(place, !is_mapped(base));
    FORKED_RANK_CHECK(place, open_descriptors() == before);
}

START_TEST(ranks_reach_windows_of_all)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, use_windows);
    for (int stage = 1; stage <= 2; stage++) {
        forked_ranks_await_all(team, stage);
        atomic_store(&team->go, stage);
    }
    forked_ranks_end(team, -1);
    ck_assert_ptr_null(node_take_windows(NULL).base);
}
END_TEST

/* What is not taken goes with the node. */
static void leave_windows(struct forked_rank *place)
{
    struct node *node = NULL;
    forked_rank_attach(place, &node);
    char *base = node->windows.base;
    FORKED_RANK_CHECK(place, is_mapped(base));
    node_close(node);
    FORKED_RANK_CHECK(place, !is_mapped(base));
}

START_TEST(windows_end_with_the_node)
{
    forked_ranks_run(3, three, leave_windows);
}
END_TEST

/* There is room for what rank 1 must share, and none for windows. */
static void attach_without_room(struct forked_rank *place)
{
    struct node *node = NULL;
    place->log.level = LOG_INFO;
    if (place->peer_table.rank == 1)
        limit_mappings(UINT64_C(512) << 20);
    forked_rank_attach(place, &node);
    if (place->peer_table.rank == 1)
        FORKED_RANK_CHECK(place, node->windows.base == NULL && node->windows.count == 0);
    else
        write_own_window(place, &node->windows);
    atomic_store(&node_member_of(node, place->peer_table.rank)->left, 1);
    forked_rank_stage(place, 1);
    for (int rank = 0; rank < 3; rank++)
        FORKED_RANK_CHECK(place, atomic_load(&node_member_of(node, rank)->left) == 1);
    if (place->peer_table.rank != 1)
        read_windows(place, &node->windows, 5);
    node_close(node);
}

START_TEST(a_member_without_windows_is_a_member)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, attach_without_room);
    forked_ranks_await_all(team, 1);
    atomic_store(&team->go, 1);
    forked_ranks_end(team, -1);
    ck_assert_msg(strstr(team->reports[1].log,
                         "control: rank 1 and the other ranks of its node do not reach each other's tensors: "
                         "cannot map ") != NULL,
                  "%s", team->reports[1].log);
    ck_assert_str_eq(team->reports[0].log, "");
    ck_assert_str_eq(team->reports[2].log, "");
}
END_TEST

/* The leader may make files for the memory, but not for windows. */
static void lead_without_windows(struct forked_rank *place)
{
    struct rlimit limit;
    struct node *node = NULL;
    place->log.level = LOG_INFO;
    if (place->peer_table.rank == 0) {
        FORKED_RANK_CHECK(place, getrlimit(RLIMIT_FSIZE, &limit) == 0);
        limit.rlim_cur = node_memory_bytes(3);
        FORKED_RANK_CHECK(place, setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    int before = open_descriptors();
    forked_rank_attach(place, &node);
    FORKED_RANK_CHECK(place, node->windows.base == NULL);
    node_close(node);
    FORKED_RANK_CHECK(place, open_descriptors() == before);
}

START_TEST(a_leader_without_windows_still_leads)
{
    struct forked_ranks *team = forked_ranks_new(3, three);
    forked_ranks_start(team, lead_without_windows);
    forked_ranks_end(team, -1);
    ck_assert_msg(strstr(team->reports[0].log,
                         "control: the ranks of this node do not reach each other's tensors: ") != NULL,
                  "%s", team->reports[0].log);
    ck_assert_str_eq(team->reports[1].log, "");
}
END_TEST

/* ---- The memory ---- */

START_TEST(memory_is_sealed_and_sized)
{
    struct node_memory *memory = NULL, *again = NULL;
    struct hvd_error err;
    int fd = -1;
    int before = open_descriptors();
    ck_assert_int_eq(node_memory_create(3, 7, &memory, &fd, &err), HVD_OK);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(ftruncate(fd, 4096), 0);
    ck_assert_int_ne(ftruncate(fd, (off_t)node_memory_bytes(4)), 0);
    ck_assert_int_eq(node_memory_attach(fd, 3, 7, &again, &err), HVD_OK);
    atomic_store(&memory->members[2].armed, 1);
    ck_assert_uint_eq(atomic_load(&again->members[2].armed), 1);
    node_memory_detach(again, 3);
    again = NULL;
    ck_assert_int_eq(node_memory_attach(fd, 2, 7, &again, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "expected"));
    ck_assert_int_eq(node_memory_attach(fd, 3, 8, &again, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "laid out for another libhvd or start of the job"));
    memory->version++;
    ck_assert_int_eq(node_memory_attach(fd, 3, 7, &again, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_null(again);
    node_memory_detach(memory, 3);
    close(fd);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

START_TEST(unsealed_memory_is_refused)
{
    struct node_memory *memory = NULL;
    struct hvd_error err;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, (off_t)node_memory_bytes(3)), 0);
    ck_assert_int_eq(node_memory_attach(fd, 3, 7, &memory, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "is not sealed"));
    close(fd);
    ck_assert_int_eq(node_memory_attach(STDIN_FILENO, 3, 7, &memory, &err), HVD_ERR_SYSTEM);
}
END_TEST

/* It is large and mostly empty: a dump of a core would make all of it real. */
START_TEST(arena_is_in_no_child_and_no_dump)
{
    struct node_memory *memory = NULL;
    int fd = -1;
    ck_assert_int_eq(node_memory_create(2, 7, &memory, &fd, NULL), HVD_OK);
    const void *arena = node_memory_arena(memory, 2);
    ck_assert((const char *)arena >= (const char *)&memory->members[2]);
    ck_assert_uint_eq(node_memory_bytes(2), (size_t)((const char *)arena - (const char *)memory) +
                                                2 * (size_t)NODE_MEMORY_ARENA_BYTES);
    ck_assert(has_flag(arena, " dd"));
    ck_assert(!has_flag(memory, " dd"));
    ck_assert(has_flag(arena, " dc"));
    ck_assert(has_flag(memory, " dc"));
    node_memory_detach(memory, 2);
    close(fd);
}
END_TEST

/* Not a signal, which would end the process without a word. */
START_TEST(memory_beyond_the_limit_of_files_is_refused)
{
    struct node_memory *memory = NULL;
    struct hvd_error err;
    int fd = -1;
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = node_memory_bytes(2) - 1;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(node_memory_create(2, 7, &memory, &fd, &err), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.text, "ulimit -f"));
    ck_assert_int_eq(fd, -1);
    limit.rlim_cur++;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(node_memory_create(2, 7, &memory, &fd, &err), HVD_OK);
    node_memory_detach(memory, 2);
    close(fd);
}
END_TEST

START_TEST(first_published_abort_stays)
{
    struct node_memory *memory = NULL;
    struct frame_abort abort, seen;
    int fd = -1;
    ck_assert_int_eq(node_memory_create(1, 7, &memory, &fd, NULL), HVD_OK);
    ck_assert(!node_memory_published_abort(memory, 4, &seen));
    frame_abort_set(&abort, HVD_ERR_MISMATCH, 3, "first");
    node_memory_publish_abort(memory, &abort);
    frame_abort_set(&abort, HVD_ERR_SYSTEM, 2, "second");
    node_memory_publish_abort(memory, &abort);
    ck_assert(node_memory_published_abort(memory, 4, &seen));
    ck_assert_str_eq(seen.sentence, "first");
    ck_assert_int_eq(seen.rank, 3);
    ck_assert(!node_memory_published_abort(memory, 3, &seen)); /* no such rank */
    memory->abort.length = FRAME_ABORT_BYTES + 1;
    ck_assert(!node_memory_published_abort(memory, 4, &seen));
    node_memory_detach(memory, 1);
    close(fd);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("attach");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, strangers_are_dropped_and_members_still_meet, 0, STRANGERS);
    tcase_add_test(tcase, members_wait_for_a_late_leader);
    tcase_add_test(tcase, those_who_came_go_on_without_the_rest);
    tcase_add_test(tcase, no_leader_is_an_error_in_time);
    tcase_add_loop_test(tcase, news_end_the_wait, 0, 3);
    tcase_add_test(tcase, another_key_finds_nobody);
    tcase_add_test(tcase, leader_without_key_gets_nothing);
    tcase_add_test(tcase, ranks_of_other_pid_namespaces_attach);
    tcase_add_loop_test(tcase, bad_members_are_refused, 0, 5);
    tcase_add_test(tcase, sub_leaders_know_their_children);
    tcase_add_test(tcase, ranks_reach_windows_of_all);
    tcase_add_test(tcase, windows_end_with_the_node);
    tcase_add_test(tcase, a_member_without_windows_is_a_member);
    tcase_add_test(tcase, a_leader_without_windows_still_leads);
    tcase_add_test(tcase, memory_is_sealed_and_sized);
    tcase_add_test(tcase, unsealed_memory_is_refused);
    tcase_add_test(tcase, arena_is_in_no_child_and_no_dump);
    tcase_add_test(tcase, memory_beyond_the_limit_of_files_is_refused);
    tcase_add_test(tcase, first_published_abort_stays);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("attach", fill);
}
