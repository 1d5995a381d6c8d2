/* elastic.c: training that goes on without ranks that fail: `elastic SLOT@STEP...`. The process with this
 * rank at the start kills itself in this step, or, at "connect", when it connects to rank 0 of the next
 * epoch; at "late", it stays away from the next epoch; at "stop", it stops itself in place of "connect";
 * "exit" in place of the step number ends it with status 7 in step 5, and "quit" with status 0. A process
 * that was started again lives; not so with "always", which kills each in step 5. With ELASTIC_MESSAGES each
 * rank passes on a message in each step. With ELASTIC_TOGETHER=FOLDER who kills itself waits there until all
 * ranks are about to: none is lost to another one before. After the last step each rank checks the sums of
 * all steps against those that the ranks of each step must have, and rank 0 prints how many ranks are left,
 * and the longest time from one step to the next. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "ranks.h"

enum { STEPS = 60, ELEMENTS = 1000, MOST_SLOTS = 64 };

static int slot;              /* the rank of this process at the start */
static double sums[STEPS];    /* of the first element, by the steps that are done */
static double weights[STEPS]; /* what the ranks of each step have added up to */
static int step, death = -1;  /* the next step; when this process ends */
static enum { KILL, CONNECT, STOP, LATE, EXIT, QUIT } how;
static int connects = -1; /* since a rank was lost; -1: none was */
static int64_t step_us;   /* when the last step was done; 0: none was */
static int64_t longest_us;

static void read_deaths(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char word[16] = "";
        int victim = -1;
        if (sscanf(argv[i], "%d@%15s", &victim, word) != 2)
            ranks_fail("%s: expected SLOT@STEP", argv[i]);
        bool always = strcmp(word, "always") == 0;
        if (victim != slot || (is_started_again() && !always))
            continue;
        how = strcmp(word, "exit") == 0      ? EXIT
              : strcmp(word, "quit") == 0    ? QUIT
              : strcmp(word, "connect") == 0 ? CONNECT
              : strcmp(word, "stop") == 0    ? STOP
              : strcmp(word, "late") == 0    ? LATE
                                             : KILL;
        death = how == KILL && !always                         ? (int)strtol(word, NULL, 10)
                : how == CONNECT || how == STOP || how == LATE ? STEPS
                                                               : 5;
    }
}

/* Is each rank of this epoch about to end? */
static bool all_are_there(const char *folder)
{
    char path[4096];
    int there = 0;
    for (int of = 0; of < size; of++) {
        snprintf(path, sizeof(path), "%s/%d", folder, of);
        there += access(path, F_OK) == 0;
    }
    return there == size;
}

static void wait_for_all(const char *folder)
{
    char path[4096];
    int64_t until_us = clock_us() + 20000000;
    snprintf(path, sizeof(path), "%s/%d", folder, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        ranks_fail("%s cannot be made", path);
    fclose(file);
    while (!all_are_there(folder) && clock_us() < until_us)
        poll(NULL, 0, 1);
}

static void die(void)
{
    const char *folder = getenv("ELASTIC_TOGETHER");
    if (folder != NULL)
        wait_for_all(folder);
    if (how == KILL || how == CONNECT)
        process_signal_self(SIGKILL);
    if (how == STOP)
        process_signal_self(SIGSTOP);
    _exit(how == EXIT ? 7 : 0);
}

/* In place of the C library's: the first connection after a loss leads to hvdrun, the second one to rank 0.
 */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (connects == 0 && how == LATE && death >= 0)
        pause();
    if (connects >= 0 && ++connects == 2 && (how == CONNECT || how == STOP) && death >= 0)
        die();
    return (int)syscall(SYS_connect, fd, address, length);
}

/* The sum over the ranks of one number for each. */
static enum hvd_status sum(const char *name, double *number)
{
    struct hvd_tensor tensor = hvd_vector(name, number, 1, HVD_FLOAT64);
    return hvd_allreduce(&tensor, HVD_SUM, NULL);
}

/* After a start: go on with the first step that one of the ranks has not done. Sets the sum of the slots'
 * weights. */
static enum hvd_status agree(double *weight)
{
    double next = step;
    struct hvd_tensor tensor = hvd_vector("next step", &next, 1, HVD_FLOAT64);
    enum hvd_status status = hvd_allreduce(&tensor, HVD_MIN, NULL);
    step = (int)next;
    *weight = slot + 1;
    return status == HVD_OK ? sum("weight", weight) : status;
}

static void note_step(void)
{
    int64_t now_us = clock_us();
    if (step_us > 0 && now_us - step_us > longest_us)
        longest_us = now_us - step_us;
    step_us = now_us;
}

/* Tell the next rank of this epoch which step this is, and hear it from the last one. */
static enum hvd_status pass_on(void)
{
    double told[2] = {slot, step}, heard[2] = {-1, -1};
    int source = -1;
    const struct hvd_message messages[2] = {
        {HVD_SEND, hvd_vector(NULL, told, 2, HVD_FLOAT64), (rank + 1) % size, 1, NULL},
        {HVD_RECV, hvd_vector(NULL, heard, 2, HVD_FLOAT64), (rank + size - 1) % size, 1, &source}};
    enum hvd_status status = hvd_exchange(messages, 2, NULL);
    if (status == HVD_OK && (heard[1] != step || source != (rank + size - 1) % size))
        ranks_fail("step %d: rank %d (slot %g) is said to be in step %g", step, source, heard[0], heard[1]);
    return status;
}

static enum hvd_status take_step(double weight)
{
    static double data[ELEMENTS];
    struct hvd_tensor tensor = hvd_vector("data", data, ELEMENTS, HVD_FLOAT64);
    for (int i = 0; i < ELEMENTS; i++)
        data[i] = (slot + 1) * (step + 1 + i);
    if (step == death)
        die();
    if (getenv("ELASTIC_STEP_US") != NULL) /* work, during which a test strikes */
        usleep((useconds_t)strtoul(getenv("ELASTIC_STEP_US"), NULL, 10));
    enum hvd_status status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    if (status == HVD_OK && getenv("ELASTIC_MESSAGES") != NULL)
        status = pass_on();
    if (status != HVD_OK)
        return status;
    for (int i = 0; i < ELEMENTS; i++)
        if (data[i] != weight * (step + 1 + i))
            ranks_fail("step %d: element %d is %g, expected %g", step, i, data[i], weight * (step + 1 + i));
    sums[step] = data[0];
    weights[step++] = weight;
    note_step();
    return HVD_OK;
}

static enum hvd_status train(void)
{
    double weight = 0;
    enum hvd_status status = agree(&weight);
    while (status == HVD_OK && step < STEPS)
        status = take_step(weight);
    return status == HVD_OK ? hvd_barrier(HVD_ALL_RANKS) : status;
}

/* Is the job told that too few ranks are left? A spare hears it in its first hvd_init. */
static bool must_end(enum hvd_status status)
{
    if (status == HVD_OK || strstr(hvd_error_text(), "too few to go on") == NULL)
        return false;
    fprintf(stderr, "the job ends: %s\n", hvd_error_text());
    return true;
}

int main(int argc, char **argv)
{
    int epochs = 0;
    enum hvd_status begun = hvd_init();
    while (begun == HVD_ERR_RANK_LOST && is_newcomer()) /* in the epoch that it was to join */
        begun = hvd_init();
    if (must_end(begun))
        return 3;
    must(begun, "hvd_init");
    slot = getenv("RANK") != NULL ? (int)strtol(getenv("RANK"), NULL, 10) : hvd_rank();
    read_deaths(argc, argv);
    if (!is_started_again() && slot == 0) {
        puts("epoch 0");
        fflush(stdout);
    }
    for (;;) {
        ranks_know();
        enum hvd_status status = train();
        if (status == HVD_OK)
            break;
        must_be(status, HVD_ERR_RANK_LOST, "training");
        connects = 0;
        do
            hvd_shutdown(); /* which says again that a rank was lost */
        while ((status = hvd_init()) == HVD_ERR_RANK_LOST);
        if (must_end(status))
            return 3;
        must(status, "hvd_init after a loss");
        epochs++;
    }
    for (int i = 0; i < STEPS; i++)
        if (sums[i] != weights[i] * (i + 1))
            ranks_fail("step %d: the sum is %g, expected %g", i, sums[i], weights[i] * (i + 1));
    if (rank == 0)
        printf("rank 0 of %d, once rank %d, after %d losses; at most %.1f ms from step to step\n", size, slot,
               epochs, (double)longest_us / 1000);
    must(hvd_shutdown(), "hvd_shutdown");
    return 0;
}
