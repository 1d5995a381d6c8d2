/* messages.c: tests one promise about messages between two ranks, run by every rank of a job: `messages
 * CASE`. Exits 0 if the promise held; otherwise prints what happened. Cases that provoke an error print its
 * sentence. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

#define SMALL 100
#define LARGE (INT64_C(16) << 20) /* elements: 64 MiB */

static struct hvd_tensor tensor_of(void *memory, int64_t count)
{
    return (struct hvd_tensor){
        .input = memory, .output = memory, .dtype = HVD_INT32, .ndim = 1, .shape = {count}};
}

static int32_t *allocate(int64_t count)
{
    int32_t *memory = calloc((size_t)count, sizeof(*memory));
    if (memory == NULL)
        ranks_fail("no memory");
    return memory;
}

static void send_to(int to, int tag, void *memory, int64_t count)
{
    struct hvd_tensor tensor = tensor_of(memory, count);
    must(hvd_send(&tensor, to, tag, NULL), "hvd_send");
}

static void receive_from(int from, int tag, void *memory, int64_t count, int source)
{
    struct hvd_tensor tensor = tensor_of(memory, count);
    int found = -7;
    must(hvd_recv(&tensor, from, tag, NULL, &found), "hvd_recv");
    if (found != source)
        ranks_fail("a message of rank %d, expected one of rank %d", found, source);
}

static hvd_handle send_async(int to, int tag, void *memory, int64_t count)
{
    struct hvd_tensor tensor = tensor_of(memory, count);
    hvd_handle handle = 0;
    must(hvd_send_async(&tensor, to, tag, NULL, NULL, NULL, &handle), "hvd_send_async");
    return handle;
}

static hvd_handle receive_async(int from, int tag, void *memory, int64_t count)
{
    struct hvd_tensor tensor = tensor_of(memory, count);
    hvd_handle handle = 0;
    must(hvd_recv_async(&tensor, from, tag, NULL, NULL, NULL, NULL, &handle), "hvd_recv_async");
    return handle;
}

static int32_t value(int from, int64_t i)
{
    return (int32_t)(i * 7919 + from * 104729);
}

static void put_values(int32_t *memory, int64_t count, int from)
{
    for (int64_t i = 0; i < count; i++)
        memory[i] = value(from, i);
}

static void check_values(const int32_t *memory, int64_t count, int from)
{
    for (int64_t i = 0; i < count; i++)
        if (memory[i] != value(from, i))
            ranks_fail("element %lld of the message of rank %d is %d, expected %d", (long long)i, from,
                       memory[i], value(from, i));
}

/* ---- What arrives -------------------------------------------------------------------------------- */

/* Sizes around the largest eager message and the window, received early and late, from each rank by the next.
 */
static void run_sizes(void)
{
    static const int64_t counts[] = {0, 1, SMALL, 8191, 8192, 8193, 131072, 131073, LARGE};
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        int32_t *out = allocate(counts[i] + 1), *in = allocate(counts[i] + 1);
        put_values(out, counts[i], rank);
        in[counts[i]] = 4711;
        for (int late = 0; late < 2; late++) {
            hvd_handle receive = late ? 0 : receive_async(last, 3, in, counts[i]);
            hvd_handle send = send_async(next, 3, out, counts[i]);
            must(hvd_barrier(HVD_ALL_RANKS), "barrier");
            if (late)
                receive = receive_async(last, 3, in, counts[i]);
            must(hvd_wait(receive), "wait for the receive");
            must(hvd_wait(send), "wait for the send");
            check_values(in, counts[i], last);
            if (in[counts[i]] != 4711)
                ranks_fail("%lld elements: the one behind them was written", (long long)counts[i]);
            memset(in, 0, (size_t)counts[i] * sizeof(*in));
        }
        free(out);
        free(in);
    }
}

/* Messages with one tag keep their order, whatever their size; receives of other tags overtake. */
static void run_order(void)
{
    enum { ROUNDS = 200 };
    static int32_t memory[ROUNDS][20000];
    hvd_handle sends[ROUNDS];
    int64_t counts[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        counts[i] = i % 3 == 0 ? 20000 : 1 + i % 50;
    if (rank == 0) {
        for (int i = 0; i < ROUNDS; i++) {
            memory[i][0] = i;
            sends[i] = send_async(1, i % 2, memory[i], counts[i]);
        }
        for (int i = 0; i < ROUNDS; i++)
            must(hvd_wait(sends[i]), "wait for a send");
    } else if (rank == 1) {
        for (int tag = 1; tag >= 0; tag--)
            for (int i = tag; i < ROUNDS; i += 2) {
                receive_from(0, tag, memory[i], counts[i], 0);
                if (memory[i][0] != i)
                    ranks_fail("message %d came where %d was due", memory[i][0], i);
            }
    }
}

/* Rank 0 hears all the others, each several times, and knows who spoke. */
static void run_any(void)
{
    enum { ROUNDS = 20 };
    int heard[16] = {0};
    int32_t number;
    struct hvd_tensor tensor = tensor_of(&number, 1);
    if (rank > 0) {
        for (number = 0; number < ROUNDS; number++)
            must(hvd_send(&tensor, 0, 9, NULL), "hvd_send");
        return;
    }
    for (int i = 0; i < ROUNDS * (size - 1); i++) {
        int source = -1;
        must(hvd_recv(&tensor, HVD_ANY_SOURCE, 9, NULL, &source), "hvd_recv");
        if (source < 1 || source >= size || number != heard[source]++)
            ranks_fail("rank %d said %d", source, number);
    }
}

/* All send to all in one group, themselves too: no cycle waits. */
static void run_groups(void)
{
    static const int64_t counts[] = {1, 5000, 300000};
    struct hvd_message messages[32];
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        int32_t *out = allocate(counts[c]), *in = allocate(counts[c] * size);
        put_values(out, counts[c], rank);
        for (int i = 0; i < size; i++) {
            messages[2 * i] = (struct hvd_message){HVD_SEND, tensor_of(out, counts[c]), i, 2, NULL};
            messages[2 * i + 1] =
                (struct hvd_message){HVD_RECV, tensor_of(in + i * counts[c], counts[c]), i, 2, NULL};
        }
        must(hvd_exchange(messages, 2 * size, NULL), "hvd_exchange");
        for (int i = 0; i < size; i++)
            check_values(in + i * counts[c], counts[c], i);
        free(out);
        free(in);
    }
}

static void run_many(void)
{
    enum { MANY = 5000 };
    static int32_t out[MANY], in[MANY];
    static hvd_handle sends[MANY], receives[MANY];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < MANY; i++) {
        out[i] = value(rank, i);
        sends[i] = send_async(next, i, &out[i], 1);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    for (int i = MANY - 1; i >= 0; i--)
        receives[i] = receive_async(last, i, &in[i], 1);
    for (int i = 0; i < MANY; i++) {
        must(hvd_wait(sends[i]), "wait for a send");
        must(hvd_wait(receives[i]), "wait for a receive");
    }
    check_values(in, MANY, last);
}

/* In a process set the same tag is another message, and ranks are those of the job. */
static void run_sets(void)
{
    int members[2] = {1, 2};
    int32_t number = rank, all = -1;
    hvd_set set = 0;
    must(hvd_set_add(members, 2, &set), "hvd_set_add");
    struct hvd_options options = HVD_OPTIONS_INIT;
    options.set = set;
    struct hvd_tensor tensor = tensor_of(&number, 1);
    if (rank == 1) {
        must(hvd_send(&tensor, 2, 5, &options), "hvd_send in the set");
        number = 77;
        must(hvd_send(&tensor, 2, 5, NULL), "hvd_send");
        must_be(hvd_send(&tensor, 0, 5, &options), HVD_ERR_INVALID, "hvd_send to no member");
        puts(hvd_error_text());
    } else if (rank == 2) {
        receive_from(1, 5, &all, 1, 1);
        must(hvd_recv(&tensor, 1, 5, &options, NULL), "hvd_recv in the set");
        if (all != 77 || number != 1)
            ranks_fail("%d came in all ranks, %d in the set", all, number);
    } else {
        must_be(hvd_send(&tensor, 1, 5, &options), HVD_ERR_SET, "hvd_send of no member");
    }
}

/* What waits in a set ends when the set is removed; what was sent before is dropped. */
static void run_removed(void)
{
    int members[2] = {0, 1};
    int32_t number = 5, *large = allocate(100000);
    hvd_set set = 0;
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = tensor_of(&number, 1), big = tensor_of(large, 100000);
    hvd_handle handles[2] = {0, 0};
    must(hvd_set_add(members, 2, &set), "hvd_set_add");
    options.set = set;
    if (rank == 0) {
        must(hvd_send(&tensor, 1, 1, &options), "hvd_send");
        must(hvd_send_async(&big, 1, 2, &options, NULL, NULL, &handles[0]), "hvd_send_async");
    } else if (rank == 1) {
        must(hvd_recv_async(&tensor, 0, 7, &options, NULL, NULL, NULL, &handles[1]), "hvd_recv_async");
    }
    must(hvd_set_remove(set), "hvd_set_remove");
    for (int i = 0; i < 2; i++)
        if (handles[i] != 0)
            must_be(hvd_wait(handles[i]), HVD_ERR_SET, "wait after the set was removed");
    run_groups();
    free(large);
}

/* ---- Errors -------------------------------------------------------------------------------------- */

static void run_mismatch(void)
{
    int32_t *memory = allocate(100000);
    struct hvd_tensor large = tensor_of(memory, 100000), larger = tensor_of(memory, 99999);
    struct hvd_tensor small = tensor_of(memory, 10), other = small;
    other.dtype = HVD_FLOAT32;
    if (rank == 0) {
        must_be(hvd_send(&large, 1, 4, NULL), HVD_ERR_MISMATCH, "a large send");
        printf("large: %s\n", hvd_error_text());
        must(hvd_send(&small, 1, 4, NULL), "a small send");
        must_be(hvd_send(&small, 0, -1, NULL), HVD_ERR_INVALID, "a negative tag");
        printf("tag: %s\n", hvd_error_text());
        must_be(hvd_send(&small, size, 0, NULL), HVD_ERR_INVALID, "a rank that does not exist");
        printf("rank: %s\n", hvd_error_text());
    } else if (rank == 1) {
        must_be(hvd_recv(&larger, 0, 4, NULL, NULL), HVD_ERR_MISMATCH, "a large receive");
        printf("larger: %s\n", hvd_error_text());
        must_be(hvd_recv(&other, 0, 4, NULL, NULL), HVD_ERR_MISMATCH, "a small receive");
        printf("small: %s\n", hvd_error_text());
    }
    run_groups(); /* the connection goes on */
    free(memory);
}

/* Rank 1 dies; rank 0 waits for it. */
static void run_lost(void)
{
    int32_t number = 0;
    struct hvd_tensor tensor = tensor_of(&number, 1);
    struct timespec before, after;
    signal(SIGTERM, SIG_IGN); /* hvdrun ends the others, and they have something to say first */
    if (rank == 0) {
        must(hvd_recv(&tensor, 1, 0, NULL, NULL), "hvd_recv");
        must(hvd_send(&tensor, 1, 1, NULL), "hvd_send");
        clock_gettime(CLOCK_MONOTONIC, &before);
        must_be(hvd_recv(&tensor, 1, 0, NULL, NULL), HVD_ERR_RANK_LOST, "a receive from a dead rank");
        clock_gettime(CLOCK_MONOTONIC, &after);
        printf("lost: %s\n", hvd_error_text());
        if (after.tv_sec - before.tv_sec > 3)
            ranks_fail("noticed after %ld s", (long)(after.tv_sec - before.tv_sec));
    } else if (rank == 1) {
        must(hvd_send(&tensor, 0, 0, NULL), "hvd_send");
        for (int others = 0; others < 2; others++)
            must(hvd_recv(&tensor, HVD_ANY_SOURCE, 1, NULL, NULL), "hvd_recv");
        raise(SIGKILL);
    } else {
        must(hvd_send(&tensor, 1, 1, NULL), "hvd_send"); /* when both have, rank 1 may die */
        must_be(hvd_recv(&tensor, 0, 3, NULL, NULL), HVD_ERR_RANK_LOST, "a receive from another rank");
    }
    fflush(stdout);
    _exit(0);
}

/* A rank that has sent leaves at once; the others receive later, and go on among themselves. */
static void run_leave(void)
{
    int32_t *memory = allocate(100000), number = 0;
    hvd_handle late = 0;
    put_values(memory, 100000, rank);
    if (rank == 0) {
        send_to(1, 1, memory, SMALL);
        late = send_async(1, 2, memory, 100000);
        (void)late;
    } else {
        struct hvd_tensor tensor = tensor_of(&number, 1);
        if (rank == 1) /* rank 0 has left when this fails */
            must_be(hvd_recv(&tensor, 0, 3, NULL, NULL), HVD_ERR_SHUTDOWN, "a receive from a rank that left");
        if (rank == 1)
            printf("left: %s\n", hvd_error_text());
        if (rank == 1)
            receive_from(0, 1, memory, SMALL, 0);
        if (rank == 1)
            check_values(memory, SMALL, 0);
        if (rank == 1)
            receive_from(0, 2, memory, 100000, 0);
        if (rank == 1)
            check_values(memory, 100000, 0);
        if (rank == 1 && size > 2)
            send_to(2, 1, memory, 100000);
        if (rank == 2)
            receive_from(1, 1, memory, 100000, 1);
    }
    must(hvd_shutdown(), "hvd_shutdown");
    free(memory);
}

/* A message that waits for its receive ends once the rank that would receive it has called hvd_shutdown. */
static void run_gone(void)
{
    int32_t *memory = allocate(100000);
    struct hvd_tensor tensor = tensor_of(memory, 100000);
    if (rank == 0) {
        must_be(hvd_send(&tensor, 1, 3, NULL), HVD_ERR_SHUTDOWN, "a send to a rank that left");
        printf("gone: %s\n", hvd_error_text());
        must_be(hvd_send(&tensor, 1, 4, NULL), HVD_ERR_SHUTDOWN, "another send to it");
    }
    must(hvd_shutdown(), "hvd_shutdown");
    free(memory);
}

/* ---- What waits ---------------------------------------------------------------------------------- */

static void sleep_ms(int ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

/* With --hvd-stall-warn=1s: rank 2 keeps rank 0 waiting for a message, then rank 1 for a receive. A transfer
 * that is slow, but moves, is no stall. */
static void run_waits(void)
{
    enum { LATE_MS = 1600 };
    int32_t *memory = allocate(100000);
    if (rank == 0)
        receive_from(2, 8, memory, SMALL, 2);
    if (rank == 1)
        send_to(2, 9, memory, 100000);
    if (rank == 2) {
        sleep_ms(LATE_MS);
        send_to(0, 8, memory, SMALL);
        receive_from(1, 9, memory, 100000, 1);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    if (rank == 0) {
        struct hvd_tensor tensor = tensor_of(memory, 1);
        hvd_handle any = 0;
        must(hvd_recv_async(&tensor, HVD_ANY_SOURCE, 10, NULL, NULL, NULL, NULL, &any), "hvd_recv_async");
        sleep_ms(LATE_MS);
        send_to(0, 10, memory + 1, 1);
        must(hvd_wait(any), "wait for the receive");
    }
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    free(memory);
}

static void wait_until_stopped(int pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    for (int i = 0; i < 1000; i++) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(text, sizeof(text), file) == NULL)
            ranks_fail("cannot read %s", path);
        fclose(file);
        if (strstr(text, ") T ") != NULL)
            return;
        sleep_ms(10);
    }
    ranks_fail("rank 1 does not stop");
}

/* With --hvd-hang-abort=2s: rank 1 has begun to send and is stopped, so that its bytes never come. */
static void run_stopped(void)
{
    int32_t *memory = allocate(100000), pid = getpid();
    struct hvd_tensor tensor = tensor_of(memory, 100000);
    if (rank == 1) {
        send_async(0, 5, memory, 100000);
        send_to(0, 4, &pid, 1);
        raise(SIGSTOP);
    } else {
        receive_from(1, 4, &pid, 1, 1);
        wait_until_stopped(pid);
        must_be(hvd_recv(&tensor, 1, 5, NULL, NULL), HVD_ERR_TIMEOUT, "a receive from a stopped rank");
        printf("stopped: %s\n", hvd_error_text());
        fflush(stdout);
    }
    _exit(1);
}

/* A rank with connections for messages, and a receive that waits, does not wake while nothing happens. */
static void run_idle(void)
{
    enum { IDLE_MS = 1500, MOST = 12 };
    int32_t *memory = allocate(100000), number = 0;
    struct rusage before, after;
    run_groups();
    hvd_handle late = receive_async((rank + 1) % size, 11, &number, 1);
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    sleep_ms(300);
    getrusage(RUSAGE_SELF, &before);
    sleep_ms(IDLE_MS);
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_nvcsw - before.ru_nvcsw > MOST)
        ranks_fail("woke %ld times in %d ms", after.ru_nvcsw - before.ru_nvcsw, IDLE_MS);
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    send_to((rank + size - 1) % size, 11, &number, 1);
    must(hvd_wait(late), "wait for the receive");
    free(memory);
}

/* A message that comes for a process set after it was removed is dropped, and its room is free again. */
static void run_stray(void)
{
    enum { ROUNDS = 300 };
    int members[2] = {0, 1};
    int32_t *memory = allocate(1000);
    struct hvd_options options = HVD_OPTIONS_INIT;
    struct hvd_tensor tensor = tensor_of(memory, 1000);
    for (int i = 0; i < ROUNDS; i++) { /* together far more than the window */
        must(hvd_set_add(members, 2, &options.set), "hvd_set_add");
        if (rank == 0)
            must(hvd_send(&tensor, 1, 1, &options), "hvd_send");
        must(hvd_set_remove(options.set), "hvd_set_remove");
    }
    if (rank == 0)
        must(hvd_send(&tensor, 1, 2, NULL), "a send that finds room");
    must(hvd_barrier(HVD_ALL_RANKS), "barrier");
    if (rank == 1)
        receive_from(0, 2, memory, 1000, 0);
    free(memory);
}

/* A forked child may exit, and close what it likes: messages go on. */
static void run_fork(void)
{
    int status = 0;
    run_groups();
    pid_t child = fork();
    if (child == 0)
        _exit(hvd_send(&(struct hvd_tensor){.ndim = 0}, 0, 0, NULL) == HVD_ERR_STATE ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        ranks_fail("the child ended with %d", status);
    run_groups();
}

/* ---- Which case ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"sizes", run_sizes},     {"order", run_order}, {"any", run_any},         {"groups", run_groups},
    {"many", run_many},       {"sets", run_sets},   {"removed", run_removed}, {"mismatch", run_mismatch},
    {"lost", run_lost},       {"leave", run_leave}, {"gone", run_gone},       {"waits", run_waits},
    {"stopped", run_stopped}, {"idle", run_idle},   {"stray", run_stray},     {"fork", run_fork}};

int main(int argc, char **argv)
{
    must(hvd_init(), "hvd_init");
    ranks_know();
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            must(hvd_shutdown(), "hvd_shutdown");
            return 0;
        }
    ranks_fail("usage: messages CASE");
}
