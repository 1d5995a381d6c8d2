/* batch_driver.h: drive batches over sockets for tests of the schedules: with all members of a team stepped
 * in one process, and with each member in its own process that sleeps while it waits. */
#ifndef TESTS_UNIT_BATCH_DRIVER_H
#define TESTS_UNIT_BATCH_DRIVER_H

#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batches.h"
#include "unit.h"

#define BATCH_DRIVER_WAIT_MS 20000
#define BATCH_DRIVER_TURNS   10000000

/* How a schedule is driven; [self] is the state of one member. */
struct batch_driver {
    int (*start)(void *self, const struct backend_batch *batch, struct hvd_error *err);
    int (*test)(void *self, bool *movedp, int *lostp, struct hvd_error *err);
};

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

/* Call test until there is no more progress: one call may also return because its time is up. */
static inline int drive_while_moving(const struct batch_driver *driver, void *self, int *lostp,
                                     struct hvd_error *err)
{
    bool moved = true;
    int status = HVD_IN_PROGRESS;
    while (moved && status == HVD_IN_PROGRESS)
        status = driver->test(self, &moved, lostp, err);
    return status;
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

static inline bool stepped_member_is_through(void *arg, int rank)
{
    const struct stepped_member *members = arg;
    return members[rank].batch == 1;
}

static inline int wait_for(pid_t pid)
{
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
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
