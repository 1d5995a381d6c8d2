/* attach_member.c: a member's side of the meeting: it finds the leader, checks it and attaches to its memory.
 */
#include "config.h"
#include "node/attach.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PAUSE_MAX_MS 50                  /* between attempts while the leader does not listen yet */
#define GRACE_US     INT64_C(1000000)    /* for the leader's last word, after it stops to wait */
#define LEFT_MAX_US  INT64_C(3600000000) /* longest that a leader may make a member wait */

struct visit {
    struct node *node;
    const struct roster *roster;
    int leader;
    int fd;
    pid_t leader_pid;
    int leader_pidfd;
    bool answered; /* the leader knows us: from here on nothing is tried twice */
    unsigned char member_nonce[MEET_NONCE_BYTES];
};

/* Wait for one packet. Failures are phrases that follow "it". */
static int visit_hear(struct visit *visit, enum meet_step step, struct meet_packet *packet,
                      struct meet_fds *fds, int64_t deadline_us, struct hvd_error *err)
{
    for (;;) {
        int status = meet_receive(visit->fd, step, packet, fds, err);
        if (status != HVD_IN_PROGRESS)
            return status;
        struct pollfd wait = {.fd = visit->fd, .events = POLLIN};
        int ready = poll(&wait, 1, clock_ms_until(deadline_us));
        if (ready < 0 && errno != EINTR)
            return error_set_errno(err, "cannot be waited for (poll)");
        if (ready == 0)
            return error_set(err, HVD_ERR_TIMEOUT, "did not answer in time");
    }
}

static int visit_say(struct visit *visit, enum meet_step step, struct meet_packet *packet,
                     const struct meet_fds *fds, struct hvd_error *err)
{
    packet->rank = visit->node->rank;
    if (meet_send(visit->fd, step, packet, fds) != 0)
        return error_set_errno(err, "does not hear us");
    return HVD_OK;
}

static int visit_connect(struct visit *visit, struct hvd_error *err)
{
    struct sockaddr_un address;
    socklen_t length = meet_address(visit->roster, visit->leader, &address);
    visit->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (visit->fd < 0)
        return error_set_errno(err, "cannot be called (socket)");
    if (connect(visit->fd, (struct sockaddr *)&address, length) != 0)
        return error_set_errno(err, "is not there");
    return meet_peer(visit->fd, &visit->leader_pid, &visit->leader_pidfd, err);
}

/* Both ends prove that they hold the key. The leader gets our doorbell. */
static int visit_prove(struct visit *visit, int64_t deadline_us, struct hvd_error *err)
{
    struct meet_packet hello = {0}, proof, answer = {0};
    struct meet_fds none;
    unsigned char hash[MEET_HASH_BYTES];
    randombytes_buf(visit->member_nonce, sizeof(visit->member_nonce));
    memcpy(hello.nonce, visit->member_nonce, sizeof(visit->member_nonce));
    int status = visit_say(visit, MEET_HELLO, &hello, NULL, err);
    if (status == HVD_OK)
        status = visit_hear(visit, MEET_PROOF, &proof, &none, deadline_us, err);
    if (status != HVD_OK)
        return status;
    meet_close_fds(&none);
    int rank = visit->node->rank;
    struct meet_nonces nonces = {visit->member_nonce, proof.proof.nonce};
    meet_hash(visit->roster, MEET_PROOF, visit->leader, rank, &nonces, hash);
    if (sodium_memcmp(hash, proof.proof.hash, sizeof(hash)) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "does not hold this job's key");
    meet_hash(visit->roster, MEET_ANSWER, visit->leader, rank, &nonces, answer.answer.hash);
    answer.answer.watches = visit->leader_pidfd >= 0;
    status = visit_say(visit, MEET_ANSWER, &answer, &(struct meet_fds){1, {visit->node->bell}}, err);
    if (status != HVD_OK)
        return status;
    visit->answered = true;
    if (visit->leader_pidfd < 0)
        return error_set(err, HVD_ERR_SYSTEM, "cannot be watched: pidfd_open of its process %d: %s",
                         (int)visit->leader_pid, strerror(-visit->leader_pidfd));
    return HVD_OK;
}

/* Without windows this rank still shares memory with the others. */
static void visit_attach_windows(struct visit *visit, int fd)
{
    struct node *node = visit->node;
    struct hvd_error why;
    int own = 0;
    while (node->members[own] != node->rank)
        own++;
    if (windows_attach(&node->windows, fd, node->member_count, own, &why) != HVD_OK)
        log_write(visit->roster->log, LOG_INFO, "control",
                  "rank %d and the other ranks of its node do not reach each other's tensors: %s", node->rank,
                  why.text);
}

/* Map the leader's memory, and its windows where it has any. *untilp: when its last word is due. */
static int visit_attach(struct visit *visit, int64_t deadline_us, int64_t *untilp, struct hvd_error *err)
{
    struct node *node = visit->node;
    struct meet_packet packet, attached = {0};
    struct meet_fds fds;
    int status = visit_hear(visit, MEET_MEMORY, &packet, &fds, deadline_us + GRACE_US, err);
    if (status != HVD_OK)
        return status;
    if (fds.count == 1 || fds.count == 2)
        status = memory_attach(fds.fd[0], node->member_count, visit->roster->epoch, &node->memory, err);
    else
        status = error_set(err, HVD_ERR_SYSTEM,
                           "sent %d descriptors, expected 1 or 2: the memory, the windows", fds.count);
    if (status == HVD_OK && fds.count == 2)
        visit_attach_windows(visit, fds.fd[1]);
    meet_close_fds(&fds);
    if (status != HVD_OK)
        return status;
    int64_t left_us = packet.left_us > LEFT_MAX_US ? LEFT_MAX_US : packet.left_us;
    int64_t until_us = left_us > 0 ? clock_us() + left_us : 0;
    *untilp = (until_us > deadline_us ? until_us : deadline_us) + GRACE_US;
    return visit_say(visit, MEET_ATTACHED, &attached, NULL, err);
}

/* Are the relatives in [packet] members, and is there a descriptor for each? */
static bool bells_are_sound(const struct node *node, const struct meet_packet *packet,
                            const struct meet_fds *fds)
{
    int child_count = packet->bells.child_count;
    int parent_fds = packet->bells.parent == node->members[0] ? 1 : 2;
    if (child_count < 0 || child_count > SHAPE_NODE_RADIX || fds->count != parent_fds + child_count)
        return false;
    if (packet->bells.parent >= node->rank || node_slot(node, packet->bells.parent) == NULL)
        return false;
    for (int i = 0; i < child_count; i++) {
        if (packet->bells.children[i] <= node->rank || node_slot(node, packet->bells.children[i]) == NULL)
            return false;
    }
    return true;
}

static void keep_bell(struct node *node, int rank, int fd)
{
    node->bells[node->bell_count].rank = rank;
    node->bells[node->bell_count++].fd = fd;
}

/* The leader's last word: the doorbells of our relatives. */
static int visit_end(struct visit *visit, int64_t until_us, struct hvd_error *err)
{
    struct node *node = visit->node;
    struct meet_packet packet;
    struct meet_fds fds;
    int status = visit_hear(visit, MEET_BELLS, &packet, &fds, until_us, err);
    if (status != HVD_OK)
        return status;
    if (!bells_are_sound(node, &packet, &fds)) {
        meet_close_fds(&fds);
        return error_set(err, HVD_ERR_SYSTEM, "told us of relatives that cannot be ours");
    }
    int next = 0;
    keep_bell(node, packet.bells.parent, fds.fd[next++]);
    bool sub = packet.bells.parent != visit->leader;
    int parent_pidfd = sub ? fds.fd[next++] : -1;
    for (int i = 0; i < packet.bells.child_count; i++)
        keep_bell(node, packet.bells.children[i], fds.fd[next++]);
    int leader_pidfd = visit->leader_pidfd;
    visit->leader_pidfd = -1;
    status = node_watch(node, visit->leader, leader_pidfd, err);
    if (status == HVD_OK && sub)
        return node_watch(node, packet.bells.parent, parent_pidfd, err);
    if (sub)
        close(parent_pidfd);
    return status;
}

/* One attempt. */
static int visit_once(struct visit *visit, int64_t deadline_us, struct hvd_error *err)
{
    int64_t until_us = deadline_us;
    visit->fd = visit->leader_pidfd = -1;
    int status = visit_connect(visit, err);
    if (status == HVD_OK)
        status = visit_prove(visit, deadline_us, err);
    if (status == HVD_OK)
        status = visit_attach(visit, deadline_us, &until_us, err);
    if (status == HVD_OK)
        status = visit_end(visit, until_us, err);
    if (visit->leader_pidfd >= 0)
        close(visit->leader_pidfd);
    if (visit->fd >= 0)
        close(visit->fd);
    return status;
}

int meet_as_member(struct node *node, const struct roster *roster, int64_t deadline_us, struct hvd_error *err)
{
    struct visit visit = {.node = node, .roster = roster, .leader = node->members[0]};
    struct hvd_error why, now;
    int pause_ms = 1;
    int status = visit_once(&visit, deadline_us, &why);
    while (status != HVD_OK && !visit.answered) {
        int left_ms = clock_ms_until(deadline_us);
        poll(NULL, 0, pause_ms < left_ms ? pause_ms : left_ms);
        if (clock_us() >= deadline_us)
            break;
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        status = visit_once(&visit, deadline_us, &now);
        /* An attempt that the deadline cut short says less than the one before. */
        if (status != HVD_ERR_TIMEOUT)
            why = now;
    }
    if (status == HVD_OK)
        return HVD_OK;
    return error_set(err, visit.answered || status == HVD_ERR_NO_MEMORY ? status : HVD_ERR_TIMEOUT,
                     "rank %d does not share memory with the first rank of its node, rank %d: it %s",
                     node->rank, visit.leader, why.text);
}
