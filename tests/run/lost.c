/* lost.c: what the ranks are told when one of them or a link dies at the worst moment, run by every rank of a
 * job: `lost CASE`. In the first cases a rank dies, or the test ends one; in the others the test harms a link
 * once this program has made the file $HARM_READY. Each rank prints the sentence that it got and how many
 * seconds it waited. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/process_signal.h"
#include "ranks.h"

#define LARGE (1 << 20)

static float data[LARGE];

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The first operation that needs connections, and a barrier that is decided before it. */
struct first {
    hvd_handle handle, barrier;
    enum hvd_status (*submit)(hvd_handle *handlep);
    _Atomic bool submitted;
};

static struct first first;

static enum hvd_status submit_allreduce(hvd_handle *handlep, int64_t count)
{
    struct hvd_tensor tensor = hvd_vector("first", data, count, HVD_FLOAT32);
    return hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, handlep);
}

static enum hvd_status submit_small(hvd_handle *handlep)
{
    return submit_allreduce(handlep, 1);
}

static enum hvd_status submit_large(hvd_handle *handlep)
{
    return submit_allreduce(handlep, LARGE);
}

static enum hvd_status submit_alltoall(hvd_handle *handlep)
{
    struct hvd_tensor tensor = {"first", data, NULL, HVD_FLOAT32, 1, {size}, HVD_MEMORY_ANY, 0};
    static struct hvd_result result;
    return hvd_alltoall_async(&tensor, NULL, &result, NULL, NULL, NULL, handlep);
}

static void die(enum hvd_status status, void *arg)
{
    (void)status;
    (void)arg;
    if (odd)
        process_signal(getpid(), SIGKILL);
}

/* Both at once, so that they are decided together: the last rank is dead before the first batch begins. */
static void submit_both(enum hvd_status status, void *arg)
{
    (void)arg;
    must(status, "the barrier before");
    must(hvd_barrier_async(HVD_ALL_RANKS, die, NULL, &first.barrier), "hvd_barrier_async");
    must(first.submit(&first.handle), "the first operation");
    atomic_store(&first.submitted, true);
}

static void report(enum hvd_status status, double begun_s)
{
    must_be(status, HVD_ERR_RANK_LOST, "the operation");
    printf("rank %d waited %.1f s: %s\n", rank, now_s() - begun_s, hvd_error_text());
    fflush(stdout);
    exit(0);
}

static void die_before(enum hvd_status (*submit)(hvd_handle *handlep))
{
    hvd_handle before;
    signal(SIGTERM, SIG_IGN); /* the launcher may end the other ranks before they have printed their error */
    first.submit = submit;
    must(hvd_barrier_async(HVD_ALL_RANKS, submit_both, NULL, &before), "hvd_barrier_async");
    must(hvd_wait(before), "hvd_wait");
    double begun_s = now_s();
    while (!atomic_load(&first.submitted))
        usleep(1000);
    report(hvd_wait(first.handle), begun_s);
}

static void case_small(void)
{
    die_before(submit_small);
}

static void case_large(void)
{
    die_before(submit_large);
}

static void case_alltoall(void)
{
    die_before(submit_alltoall);
}

/* It dies while the others add a process set, or carry their first operation in it. */
static void case_set(void)
{
    int ranks[64];
    hvd_set set = -1;
    hvd_handle barrier;
    signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < size && i < 64; i++)
        ranks[i] = i + 1; /* all but rank 0 */
    must(hvd_barrier_async(HVD_ALL_RANKS, die, NULL, &barrier), "hvd_barrier_async");
    double begun_s = now_s();
    enum hvd_status status = hvd_set_add(ranks, size - 1, &set);
    if (status == HVD_OK) {
        struct hvd_tensor tensor = hvd_vector("first", data, 1, HVD_FLOAT32);
        struct hvd_options options = HVD_OPTIONS_INIT;
        options.set = rank == 0 ? HVD_ALL_RANKS : set;
        status = hvd_allreduce(&tensor, HVD_SUM, &options);
    }
    report(status, begun_s);
}

static enum hvd_status alltoall(int64_t count)
{
    struct hvd_tensor tensor = {"travels", data, NULL, HVD_FLOAT32, 1, {count}, HVD_MEMORY_ANY, 0};
    struct hvd_result result = {0};
    enum hvd_status status = hvd_alltoall(&tensor, NULL, &result, NULL);
    free(result.data);
    return status;
}

static enum hvd_status allreduce(int64_t count)
{
    struct hvd_tensor tensor = hvd_vector("travels", data, count, HVD_FLOAT32);
    return hvd_allreduce(&tensor, HVD_SUM, NULL);
}

/* A message to the next rank, and one from the last. */
static enum hvd_status pass_on(int64_t count)
{
    struct hvd_tensor tensor = hvd_vector(NULL, data, count / 2, HVD_FLOAT32);
    struct hvd_message messages[2] = {{HVD_SEND, tensor, (rank + 1) % size, 1, NULL},
                                      {HVD_RECV, tensor, (rank + size - 1) % size, 1, NULL}};
    messages[1].tensor.output = data + count / 2;
    return hvd_exchange(messages, 2, NULL);
}

/* ---- Links ---- */

static void tell_ready(void)
{
    const char *path = getenv("HARM_READY");
    if (rank == 0 && path != NULL)
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

/* Tensors travel until an operation fails. */
static void travel(enum hvd_status (*operation)(int64_t count), int64_t count)
{
    enum hvd_status status = HVD_OK;
    double begun_s = now_s();
    for (int i = 0; status == HVD_OK; i++) {
        begun_s = now_s();
        status = operation(count);
        if (i == 2)
            tell_ready();
    }
    report(status, begun_s);
}

/* Rank 0 dies, and a child that was made behind the C library's back, which no handler of fork knows, keeps
 * its sockets open for longer than the others may wait. */
static void case_clone(void)
{
    signal(SIGTERM, SIG_IGN);
    if (rank != 0)
        travel(allreduce, LARGE);
    for (int i = 0; i < 3; i++)
        must(allreduce(LARGE), "hvd_allreduce");
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
        sleep(20);
        _exit(0);
    }
    process_signal(getpid(), SIGKILL);
}

/* All wait for each other until the test ends one of them. The last rank outlives the launcher's SIGTERM. */
static void case_ended(void)
{
    if (odd)
        signal(SIGTERM, SIG_IGN);
    printf("rank %d is %d\n", rank, (int)getpid());
    fflush(stdout);
    travel(allreduce, 1);
}

/* The last rank, after the others have done an operation. */
static void begin_travel(void)
{
    signal(SIGTERM, SIG_IGN);
    if (!odd)
        travel(allreduce, LARGE);
    must(allreduce(LARGE), "hvd_allreduce");
    must(allreduce(LARGE), "hvd_allreduce"); /* the others have begun it, so they have done the first one */
}

/* The last rank becomes a program that never answers; the others must not wait for its end. */
static void case_exec(void)
{
    begin_travel();
    execlp("sleep", "sleep", "10", (char *)NULL);
    _exit(127);
}

/* As many as hvd had descriptors, and more. */
#define PIPES 100

static bool are_whole(int pipes[PIPES][2])
{
    for (int i = 0; i < PIPES; i++) {
        char byte = 0;
        if (write(pipes[i][1], "x", 1) != 1 || read(pipes[i][0], &byte, 1) != 1 || byte != 'x')
            return false;
    }
    return true;
}

/* The last rank closes all descriptors, as daemons do, and opens others, which get their numbers. All are
 * told, and it can shut down without harm to what it opened. One that is alone may go on without them. */
static void case_closes(void)
{
    int pipes[PIPES][2];
    begin_travel();
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    for (int i = 0; i < PIPES; i++)
        must(pipe(pipes[i]) == 0 ? HVD_OK : HVD_ERR_SYSTEM, "pipe");
    double begun_s = now_s();
    enum hvd_status status = HVD_OK;
    for (int i = 0; status == HVD_OK && i < 1000; i++)
        status = allreduce(LARGE);
    if (status == HVD_OK && size > 1)
        ranks_fail("the rank that closed all descriptors goes on");
    if (status != HVD_OK)
        printf("rank %d waited %.1f s: %s\n", rank, now_s() - begun_s, hvd_error_text());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(are_whole(pipes) ? 0 : 1);
    int how = -1;
    if (waitpid(child, &how, 0) != child || how != 0)
        ranks_fail("a pipe that was opened later is closed in a forked child");
    hvd_shutdown();
    if (!are_whole(pipes))
        ranks_fail("a pipe that was opened later is closed");
    exit(0);
}

static void case_link_alltoall(void)
{
    travel(alltoall, LARGE / size * size);
}

static void case_link_allreduce(void)
{
    travel(allreduce, LARGE);
}

static void case_link_messages(void)
{
    travel(pass_on, LARGE);
}

/* In one message, but too large to travel with the agreement, which uses other links. */
static void case_link_small(void)
{
    travel(allreduce, 1000);
}

static void sleep_long(enum hvd_status status, void *arg)
{
    (void)arg;
    must(status, "the barrier before");
    sleep(odd ? 7 : 0);
}

/* The last rank reads nothing for more than three leases of 2 s, while the others send more than sockets
 * hold; and a gap of the link that is shorter than a lease. Nobody is lost. */
static void case_slow(void)
{
    hvd_handle barrier;
    must(alltoall(LARGE / size * size), "hvd_alltoall");
    must(hvd_barrier_async(HVD_ALL_RANKS, sleep_long, NULL, &barrier), "hvd_barrier_async");
    double begun_s = now_s();
    must(alltoall(LARGE / size * size), "hvd_alltoall with a rank that sleeps");
    must(hvd_wait(barrier), "hvd_wait");
    printf("rank %d waited %.1f s\n", rank, now_s() - begun_s);
    tell_ready();
    int32_t goes_on = 1;
    while (goes_on) {
        must(alltoall(LARGE / size * size), "hvd_alltoall with a gap of the link");
        struct hvd_tensor tensor = hvd_vector("goes on", &goes_on, 1, HVD_INT32);
        goes_on = now_s() - begun_s < 12;
        must(hvd_broadcast(&tensor, 0, NULL), "hvd_broadcast");
    }
}

static const struct ranks_case cases[] = {{"small", case_small, false},
                                          {"large", case_large, false},
                                          {"alltoall", case_alltoall, false},
                                          {"set", case_set, false},
                                          {"clone", case_clone, false},
                                          {"ended", case_ended, false},
                                          {"exec", case_exec, false},
                                          {"closes", case_closes, false},
                                          {"link-alltoall", case_link_alltoall, false},
                                          {"link-allreduce", case_link_allreduce, false},
                                          {"link-messages", case_link_messages, false},
                                          {"link-small", case_link_small, false},
                                          {"slow", case_slow, false}};

int main(int argc, char **argv)
{
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
