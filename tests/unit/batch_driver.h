/* batch_driver.h: drive batches over sockets for tests of the schedules: with all members of a team stepped
 * in one process, and with each member in its own process that sleeps while it waits. */
#ifndef TESTS_UNIT_BATCH_DRIVER_H
#define TESTS_UNIT_BATCH_DRIVER_H

#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batches.h"
#include "unit.h"
#include "waits.h"

#define BATCH_DRIVER_WAIT_MS 20000
#define BATCH_DRIVER_TURNS   10000000

/* How a schedule is driven; [self] is the state of one member. */
struct batch_driver {
    int (*start)(void *self, const struct backend_batch *batch, struct hvd_error *err);
    int (*test)(void *self, bool *movedp, int *lostp, struct hvd_error *err);
    int (*waits_for)(const void *self); /* a member, or -1 */
    void (*close)(void *self);
};

/* ---- Sockets ---- */

static inline void open_pair(int fds[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

/* What is sent on [fd] goes in small pieces. */
static inline void narrow(int fd)
{
    int bytes = 1;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

static inline void put(int fd, const void *bytes, size_t length)
{
    ck_assert_int_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* ---- One member ---- */

/* Complete a batch; whenever test reports no progress, sleep until a descriptor is ready. */
static inline int drive_batch(const struct batch_driver *driver, void *self, int epoll_fd, int *lostp,
                              struct hvd_error *err)
{
    for (;;) {
        bool moved = false;
        struct epoll_event event;
        int status = driver->test(self, &moved, lostp, err);
        if (status != HVD_IN_PROGRESS)
            return status;
        if (!moved && epoll_wait(epoll_fd, &event, 1, BATCH_DRIVER_WAIT_MS) == 0)
            return error_set(err, HVD_ERR_TIMEOUT, "slept too long");
    }
}

/* Complete this member's part of a batch. Returns whether the result is right. */
static inline bool drive_part(const struct batch_driver *driver, void *self, int epoll_fd,
                              const struct batch_plan *plan, int rank)
{
    struct batch_part part;
    struct hvd_error err;
    int lost = -1;
    batch_part_open(&part, plan, rank);
    int status = driver->start(self, &part.batch, &err);
    if (status == HVD_OK)
        status = drive_batch(driver, self, epoll_fd, &lost, &err);
    if (status != HVD_OK)
        fprintf(stderr, "# member %d: %s\n", rank, err.text);
    return batch_part_close(&part, plan, rank) && status == HVD_OK;
}

/* ---- One member between ends that the test holds ---- */

struct lone_member {
    const struct batch_driver *driver;
    void *self;
    int lost; /* as the last call reported it; -1: nobody */
    struct hvd_error err;
};

/* Call test until there is no more progress: one call may also return because its time is up. */
static inline int lone_settle(struct lone_member *member)
{
    bool moved = true;
    int status = HVD_IN_PROGRESS;
    while (moved && status == HVD_IN_PROGRESS)
        status = member->driver->test(member->self, &moved, &member->lost, &member->err);
    return status;
}

/* The batch fails with [status] because of rank [lost], for a reason with [words], and the next one at once.
 */
static inline void lone_expect_failure(struct lone_member *member, const struct backend_batch *next,
                                       int status, int lost, const char *words)
{
    int rc = lone_settle(member);
    ck_assert_msg(rc == status && member->lost == lost && strstr(member->err.text, words) != NULL,
                  "%d for rank %d: %s", rc, member->lost, member->err.text);
    ck_assert_int_eq(member->driver->start(member->self, next, &member->err), status);
}

/* ---- All members in one process ---- */

/* A member of a team that is stepped in one process. */
struct stepped_member {
    void *self;
    int batch;
    struct batch_part part;
};

static inline void stepped_member_start(const struct batch_driver *driver, struct stepped_member *member,
                                        int rank, const struct batch_plan *plan)
{
    batch_part_open(&member->part, plan, rank);
    ck_assert_int_eq(driver->start(member->self, &member->part.batch, NULL), HVD_OK);
}

/* Complete all [plans] with a team of [size], stepping one member at a time in random order. Some members lag
 * behind. */
static inline void drive_in_turns(const struct batch_driver *driver, struct stepped_member *members, int size,
                                  const struct batch_plan *plans, int plan_count, uint64_t *random)
{
    int finished = 0;
    for (int rank = 0; rank < size; rank++)
        stepped_member_start(driver, &members[rank], rank, &plans[0]);
    for (int64_t turns = 0; finished < size; turns++) {
        int rank = batch_plan_random_below(random, size);
        int lost = -1;
        bool moved;
        struct hvd_error err;
        struct stepped_member *member = &members[rank];
        ck_assert_int_lt(turns, BATCH_DRIVER_TURNS);
        if (member->batch == plan_count || (rank % 3 == 1 && batch_plan_random_below(random, 8) != 0))
            continue;
        int status = driver->test(member->self, &moved, &lost, &err);
        ck_assert_msg(status >= 0, "%s", err.text);
        if (status == HVD_IN_PROGRESS)
            continue;
        ck_assert(batch_part_close(&member->part, &plans[member->batch++], rank));
        finished += member->batch == plan_count;
        if (member->batch < plan_count)
            stepped_member_start(driver, member, rank, &plans[member->batch]);
    }
}

/* Begin [plan] with a team of [size] and step its members at random, until [stopped], which stops somewhere
 * on the way, keeps all others from going on. Members that are through have batch 1. */
static inline void drive_until_stopped(const struct batch_driver *driver, struct stepped_member *members,
                                       int size, int stopped, const struct batch_plan *plan, uint64_t *random)
{
    int turns_left = batch_plan_random_below(random, 40);
    for (int rank = 0; rank < size; rank++)
        stepped_member_start(driver, &members[rank], rank, plan);
    for (int idle = 0; idle < 100 * size; idle++) {
        int rank = batch_plan_random_below(random, size);
        int lost = -1;
        bool moved = false;
        struct hvd_error err;
        struct stepped_member *member = &members[rank];
        if (member->batch == 1 || (rank == stopped && turns_left-- <= 0))
            continue;
        int status = driver->test(member->self, &moved, &lost, &err);
        ck_assert_msg(status >= 0, "%s", err.text);
        if (status == HVD_OK)
            ck_assert(batch_part_close(&member->part, plan, rank));
        member->batch = status == HVD_OK;
        if (status == HVD_OK || moved)
            idle = 0;
    }
}

/* A team whose members wait for each other. */
struct stepped_team {
    const struct batch_driver *driver;
    struct stepped_member *members;
};

static inline bool stepped_member_is_through(void *arg, int rank)
{
    const struct stepped_team *team = arg;
    return team->members[rank].batch == 1;
}

static inline int stepped_member_waits_for(void *arg, int rank)
{
    const struct stepped_team *team = arg;
    return team->driver->waits_for(team->members[rank].self);
}

/* Whoever is asked in [plan] waits in the end for the member that stopped. Closes all members. */
static inline void drive_to_a_stop(const struct batch_driver *driver, struct stepped_member *members,
                                   int size, const struct batch_plan *plan, uint64_t *random)
{
    struct stepped_team team = {driver, members};
    struct waits waits = {size, stepped_member_is_through, stepped_member_waits_for, &team};
    int stopped = batch_plan_random_below(random, size);
    drive_until_stopped(driver, members, size, stopped, plan, random);
    ck_assert_waits_end_at(&waits, stopped);
    for (int rank = 0; rank < size; rank++) {
        driver->close(members[rank].self);
        if (members[rank].batch == 0)
            ck_assert(batch_part_free(&members[rank].part));
    }
}

/* ---- Each member a process ---- */

static inline int wait_for(pid_t pid)
{
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* How two members of [world] are opened, each in a process of its own. */
struct member_pair {
    void *world;
    void *(*open)(void *world, int rank, int epoll_fd);
    void (*close_all_but)(void *world, int rank); /* the ends of other members */
};

/* Member 1 is killed amid [batch]. Member 0 must notice: sets *lostp and [err]. */
static inline void kill_amid_batch(const struct batch_driver *driver, const struct member_pair *pair,
                                   const struct backend_batch *batch, int *lostp, struct hvd_error *err)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rank = pid == 0, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pair->close_all_but(pair->world, rank);
    void *self = pair->open(pair->world, rank, epoll_fd);
    if (pid == 0) {
        bool moved = false;
        driver->start(self, batch, err);
        while (getppid() == parent && !moved)
            driver->test(self, &moved, lostp, err);
        raise(SIGKILL);
    }
    ck_assert_int_eq(driver->start(self, batch, err), HVD_OK);
    int status = drive_batch(driver, self, epoll_fd, lostp, err);
    ck_assert_msg(status == HVD_ERR_RANK_LOST, "%s", err->text);
    ck_assert_int_eq(driver->start(self, batch, NULL), HVD_ERR_RANK_LOST); /* it stays lost */
    ck_assert_int_eq(WTERMSIG(wait_for(pid)), SIGKILL);
    driver->close(self);
    close(epoll_fd);
}

/* Run each of [size] members in its own process, which must exit with status 0. */
static inline void run_in_processes(int size, int (*live)(void *arg, int rank), void *arg)
{
    pid_t pids[BATCHES_MAX_RANKS];
    pid_t parent = getpid();
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        ck_assert_int_ge(pids[rank], 0);
        if (pids[rank] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? live(arg, rank) : 3);
    }
    for (int rank = 0; rank < size; rank++)
        ck_assert_int_eq(wait_for(pids[rank]), 0);
}

#endif
