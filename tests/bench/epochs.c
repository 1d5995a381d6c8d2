/* epochs.c: the driver of an elastic job alone, with as many processes as one likes: what it receives, sends
 * and computes until all have their places, at the start and after the loss of a rank. The processes are
 * connections of this one, which do nothing but ask. The driver is a process of its own, as it is beside
 * srun. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auth/secret_key.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "pmix_shim/env_fence.h"
#include "pmix_shim/epoch_server.h"
#include "tests/bench/parts.h"
#include "tools/hvdbench/report.h"

#define SECRET     "0123456789abcdef0123456789abcdef"
#define LEASE_MS   5000
#define PATIENCE_S 60 /* for the answers of one epoch */
#define AT_ONCE    64 /* handshakes */

/* What an epoch cost, from the first connection, or the loss of a rank, until each process had its place. */
struct epoch_cost {
    int64_t received, sent; /* messages, of the driver */
    int64_t bytes;          /* of them, in both directions */
    double us;
    double driver_us; /* its CPU time */
};

struct simulated_job {
    int size; /* processes that are left */
    uint32_t epoch;
    pid_t driver;
    int leash; /* the driver ends when it is closed */
    uint16_t port;
    clockid_t driver_clock;
    unsigned char key[SECRET_KEY_BYTES];
    struct secure_channel *channels; /* [size], in the order of ranks; fd -1: not connected */
    struct pollfd *pollers;          /* [size] */
};

/* ---- The driver --------------------------------------------------------------------------------- */

/* Say where it listens, then serve until nothing holds the other end of [leash]. */
static void drive(int slots, int leash, int port_fd)
{
    const struct elastic_job elastic_job = {.slots = slots,
                                            .members = slots,
                                            .fewest = 1,
                                            .secret = SECRET,
                                            .sees_no_ends = true,
                                            .all_ask = true};
    struct epoch_server *server = NULL;
    struct hvd_error why;
    bool opened = epoch_server_open(&server, &elastic_job, &why) == HVD_OK;
    uint16_t port = epoch_server_port(server);
    if (!opened)
        fprintf(stderr, "parts: %s\n", why.text);
    if (!descriptors_write(port_fd, &port, sizeof(port)) || !opened)
        _exit(EXIT_FAILURE);
    struct pollfd pollers[] = {{.fd = leash, .events = POLLIN},
                               {.fd = epoch_server_fd(server), .events = POLLIN}};
    while (pollers[0].revents == 0 && (poll(pollers, 2, -1) >= 0 || errno == EINTR))
        epoch_server_work(server);
    epoch_server_close(server);
    _exit(EXIT_SUCCESS);
}

static int start_driver(struct simulated_job *job, struct hvd_error *err)
{
    int leash[2], port[2];
    if (pipe(leash) < 0 || pipe(port) < 0)
        return error_set_errno(err, "cannot start a driver of epochs (pipe)");
    fflush(NULL);
    job->driver = fork();
    if (job->driver == 0) {
        close(leash[1]);
        close(port[0]);
        drive(job->size, leash[0], port[1]);
    }
    close(leash[0]);
    close(port[1]);
    job->leash = leash[1];
    ssize_t got = job->driver > 0 ? descriptors_read(port[0], &job->port, sizeof(job->port)) : 0;
    close(port[0]);
    if (got != sizeof(job->port) || job->port == 0 ||
        clock_getcpuclockid(job->driver, &job->driver_clock) != 0)
        return error_set(err, HVD_ERR_SYSTEM, "the driver of epochs did not start");
    return HVD_OK;
}

static void end_driver(struct simulated_job *job)
{
    descriptors_close(&job->leash);
    if (job->driver > 0)
        waitpid(job->driver, NULL, 0);
}

/* ---- The processes ------------------------------------------------------------------------------ */

static int lost_driver(const char *what, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_SYSTEM, "the driver of epochs did not %s", what);
}

/* Returns a socket on which connect has been called, or -1 with errno. */
static int dial_driver(uint16_t port)
{
    const int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS)
        descriptors_close(&fd);
    return fd;
}

/* Begin the handshake of the process of [slot]. */
static int begin_process(const struct simulated_job *job, struct handshake *handshake, int slots, int slot,
                         struct hvd_error *err)
{
    const struct handshake_claim claim = {
        .purpose = HANDSHAKE_PURPOSE_FENCE, .from = (uint32_t)slot + 1, .size = (uint32_t)slots + 1};
    int fd = dial_driver(job->port);
    if (fd < 0)
        return error_set_errno(err, "cannot connect process %d to the driver of epochs", slot);
    handshake_connect(handshake, job->key, &claim, fd);
    return HVD_OK;
}

/* Prove that it holds the job's key. */
static int admit_process(struct simulated_job *job, struct handshake *handshake, int slot,
                         struct hvd_error *err)
{
    enum handshake_result result = handshake_advance(handshake);
    while (result == HANDSHAKE_WAITS && clock_us() < handshake->deadline_us) {
        struct pollfd poller = {.fd = handshake->fd, .events = handshake_poll_events(handshake)};
        poll(&poller, 1, clock_ms_until(handshake->deadline_us));
        result = handshake_advance(handshake);
    }
    if (result == HANDSHAKE_DONE)
        return secure_channel_open(&job->channels[slot], handshake, err);
    return lost_driver("let a process in", err);
}

/* Processes connect as those of a step do, many at the same time. */
static int connect_processes(struct simulated_job *job, int slots, struct hvd_error *err)
{
    struct handshake handshakes[AT_ONCE];
    int rc = HVD_OK;
    for (int first = 0; first < slots && rc == HVD_OK; first += AT_ONCE) {
        int count = slots - first < AT_ONCE ? slots - first : AT_ONCE;
        for (int i = 0; i < count; i++)
            handshakes[i].fd = -1;
        for (int i = 0; i < count && rc == HVD_OK; i++)
            rc = begin_process(job, &handshakes[i], slots, first + i, err);
        for (int i = 0; i < count && rc == HVD_OK; i++)
            rc = admit_process(job, &handshakes[i], first + i, err);
        for (int i = 0; i < count; i++)
            handshake_close(&handshakes[i]);
    }
    return rc;
}

static int tell_driver(struct simulated_job *job, int rank, uint32_t kind, struct epoch_cost *cost,
                       struct hvd_error *err)
{
    const struct fence_message message = {.kind = kind, .number = job->port, .rank = LEASE_MS};
    int rc = fence_message_send(&job->channels[rank], &message, err);
    if (rc == HVD_OK)
        rc = secure_channel_flush(&job->channels[rank], err);
    cost->received++;
    cost->bytes += FENCE_HEAD_BYTES + RECORD_EXTRA_BYTES;
    return rc;
}

/* Is this the place that the process must have? */
static int check_place(const struct simulated_job *job, int rank, const struct fence_message *answer,
                       struct hvd_error *err)
{
    struct fence_place place;
    int rc = fence_place_decode(&place, answer, job->size, err);
    if (rc == HVD_OK && (answer->number != job->epoch || place.rank != rank || place.size != job->size))
        rc = error_set(err, HVD_ERR_SYSTEM,
                       "the driver of epochs gave rank %d of %d in epoch %u; expected %d of %d in %u",
                       place.rank, place.size, answer->number, rank, job->size, job->epoch);
    return rc;
}

/* Take what the driver has sent to this process. HVD_IN_PROGRESS: its place has not come. */
static int hear_driver(struct simulated_job *job, int rank, struct epoch_cost *cost, struct hvd_error *err)
{
    struct fence_message answer;
    for (;;) {
        int rc = fence_message_receive(&job->channels[rank], &answer, err);
        if (rc != HVD_OK)
            return rc;
        cost->sent++;
        cost->bytes += FENCE_HEAD_BYTES + RECORD_EXTRA_BYTES + (int64_t)answer.length;
        if (answer.kind == FENCE_EPOCH)
            return check_place(job, rank, &answer, err);
        if (answer.kind != FENCE_NEWS)
            return lost_driver("answer as expected", err);
    }
}

/* Wait until each process has its place. */
static int await_places(struct simulated_job *job, struct epoch_cost *cost, struct hvd_error *err)
{
    int rc = HVD_OK, left = job->size;
    int64_t deadline_us = clock_us() + PATIENCE_S * INT64_C(1000000);
    for (int rank = 0; rank < job->size; rank++)
        job->pollers[rank] = (struct pollfd){.fd = job->channels[rank].fd, .events = POLLIN};
    while (left > 0 && rc >= 0) {
        if (poll(job->pollers, (nfds_t)job->size, clock_ms_until(deadline_us)) == 0)
            return lost_driver("answer in time", err);
        for (int rank = 0; rank < job->size && rc >= 0; rank++) {
            rc = job->pollers[rank].revents != 0 ? hear_driver(job, rank, cost, err) : HVD_IN_PROGRESS;
            if (rc != HVD_OK)
                continue;
            job->pollers[rank].fd = -1;
            left--;
        }
    }
    return rc < 0 ? rc : HVD_OK;
}

/* ---- Epochs --------------------------------------------------------------------------------------- */

/* All ask for their place in the next epoch: in the first one after they have connected, and later after the
 * last [lost] of them have ended. */
static int form_epoch(struct simulated_job *job, int lost, struct epoch_cost *cost, struct hvd_error *err)
{
    int rc = HVD_OK;
    struct epoch_cost stays = {.bytes = 0};
    double cpu_us = (double)clock_read_us(job->driver_clock);
    double begin_us = (double)clock_us();
    *cost = stays;
    if (++job->epoch == 1)
        rc = connect_processes(job, job->size, err);
    for (; lost > 0; lost--)
        secure_channel_close(&job->channels[--job->size]);
    for (int rank = 0; rank < job->size && rc == HVD_OK; rank++)
        rc = tell_driver(job, rank, FENCE_NEXT_EPOCH, cost, err);
    if (rc == HVD_OK)
        rc = await_places(job, cost, err);
    cost->us = (double)clock_us() - begin_us;
    cost->driver_us = (double)clock_read_us(job->driver_clock) - cpu_us;
    for (int rank = 0; rank < job->size && rc == HVD_OK; rank++)
        rc = tell_driver(job, rank, FENCE_STAY, &stays, err);
    return rc;
}

static int start_job(struct simulated_job *job, int ranks, struct hvd_error *err)
{
    *job = (struct simulated_job){.size = ranks, .leash = -1};
    job->channels = calloc((size_t)ranks, sizeof(*job->channels));
    job->pollers = calloc((size_t)ranks, sizeof(*job->pollers));
    if (job->channels == NULL || job->pollers == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d processes", ranks);
    for (int slot = 0; slot < ranks; slot++)
        job->channels[slot].fd = -1;
    descriptors_raise();
    secret_key_derive(SECRET, job->key);
    int rc = start_driver(job, err);
    if (rc == HVD_OK)
        rc = descriptors_check(ranks, "a socket for each process", err);
    return rc;
}

static void end_job(struct simulated_job *job, int ranks)
{
    for (int slot = 0; slot < ranks && job->channels != NULL; slot++)
        secure_channel_close(&job->channels[slot]);
    end_driver(job);
    free(job->channels);
    free(job->pollers);
}

/* Lose [lost] ranks in each round. Times are medians; the counts are those of the last loss. */
static int lose_ranks(struct simulated_job *job, int64_t rounds, int lost, struct epoch_cost *cost,
                      struct hvd_error *err)
{
    double *us = calloc(2 * (size_t)rounds, sizeof(double));
    int rc = us == NULL ? error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld rounds", (long long)rounds)
                        : HVD_OK;
    for (int64_t round = 0; round < rounds && rc == HVD_OK; round++) {
        rc = form_epoch(job, lost, cost, err);
        us[round] = cost->us;
        us[rounds + round] = cost->driver_us;
    }
    if (rc == HVD_OK) {
        cost->us = stats_of(us, (int)rounds).median;
        cost->driver_us = stats_of(us + rounds, (int)rounds).median;
    }
    free(us);
    return rc;
}

/* ---- Report --------------------------------------------------------------------------------------- */

static void show_json(const struct bench_options *options, const char *what, const struct epoch_cost *cost)
{
    struct json json = json_open(stdout);
    json_text(&json, "case", options->chosen->name);
    json_text(&json, "epoch", what);
    json_count(&json, "ranks", options->ranks);
    json_text(&json, "version", hvd_version());
    json_count(&json, "received", cost->received);
    json_count(&json, "sent", cost->sent);
    json_count(&json, "bytes", cost->bytes);
    json_number(&json, "us", cost->us);
    json_number(&json, "driver_us", cost->driver_us);
    json_close_line(&json);
}

static void show_row(const char *what, const struct epoch_cost *cost)
{
    char bytes[REPORT_TEXT_BYTES], times[2][REPORT_TEXT_BYTES];
    printf("  %-12s  %8lld  %8lld  %12s  %12s  %12s\n", what, (long long)cost->received,
           (long long)cost->sent, report_bytes(cost->bytes, bytes), report_time(cost->us, times[0]),
           report_time(cost->driver_us, times[1]));
}

static void show(const struct bench_options *options, const struct epoch_cost *start,
                 const struct epoch_cost *loss, const struct epoch_cost *node_loss)
{
    if (options->json) {
        show_json(options, "start", start);
        show_json(options, "loss", loss);
        show_json(options, "node_loss", node_loss);
        return;
    }
    printf("epochs: the driver of %lld simulated processes; %lld of them lost, one after the other, and then "
           "as many nodes of %lld\n",
           (long long)options->ranks, (long long)options->rounds, (long long)options->node_ranks);
    printf("  %-12s  %8s  %8s  %12s  %12s  %12s\n", "", "received", "sent", "bytes", "time", "driver's CPU");
    show_row("start", start);
    show_row("rank lost", loss);
    show_row("node lost", node_loss);
}

int case_epochs(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct simulated_job job = {.leash = -1};
    struct epoch_cost start, loss, node_loss;
    if (options->rounds * (1 + options->node_ranks) >= options->ranks)
        return error_set(err, HVD_ERR_INVALID,
                         "each of --rounds=%lld loses %lld ranks; give fewer, or more than --ranks=%lld",
                         (long long)options->rounds, 1 + (long long)options->node_ranks,
                         (long long)options->ranks);
    int rc = sodium_init() < 0 ? error_set(err, HVD_ERR_SYSTEM, "libsodium cannot be initialised")
                               : start_job(&job, (int)options->ranks, err);
    if (rc == HVD_OK)
        rc = form_epoch(&job, 0, &start, err);
    if (rc == HVD_OK)
        rc = lose_ranks(&job, options->rounds, 1, &loss, err);
    if (rc == HVD_OK)
        rc = lose_ranks(&job, options->rounds, (int)options->node_ranks, &node_loss, err);
    end_job(&job, (int)options->ranks);
    if (rc == HVD_OK)
        show(options, &start, &loss, &node_loss);
    return rc;
}
