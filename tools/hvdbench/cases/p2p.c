/* p2p.c: the case p2p: a message from the first rank to the last and back, by hvd and by MPI, of many sizes.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/hvdbench/cases/cases.h"
#include "tools/hvdbench/report.h"

#define TAG          1
#define TURN_BYTES   (16 << 20) /* what goes one way in one turn, by repeating small messages */
#define TURN_REPEATS 500        /* at most */

enum { PING_HVD, PING_MPI, PING_COUNT };

/* What a rank plays with. All ranks but two only look on. */
struct ping {
    const struct bench *bench;
    unsigned char *memory;
    int64_t bytes;
    int other; /* -1: this rank looks on */
};

/* ---- One way and back ----------------------------------------------------------------------------- */

typedef int (*move_f)(const struct ping *ping, struct hvd_error *err);

static struct hvd_tensor tensor_of(const struct ping *ping)
{
    return (struct hvd_tensor){
        .input = ping->memory, .output = ping->memory, .dtype = HVD_UINT8, .ndim = 1, .shape = {ping->bytes}};
}

static int send_by_hvd(const struct ping *ping, struct hvd_error *err)
{
    const struct hvd_tensor tensor = tensor_of(ping);
    int status = hvd_send(&tensor, ping->other, TAG, NULL);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_send", err);
}

static int receive_by_hvd(const struct ping *ping, struct hvd_error *err)
{
    const struct hvd_tensor tensor = tensor_of(ping);
    int status = hvd_recv(&tensor, ping->other, TAG, NULL, NULL);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_recv", err);
}

static int send_by_mpi(const struct ping *ping, struct hvd_error *err)
{
    return ping->bench->mpi->send(ping->memory, ping->bytes, ping->other, err);
}

static int receive_by_mpi(const struct ping *ping, struct hvd_error *err)
{
    return ping->bench->mpi->receive(ping->memory, ping->bytes, ping->other, err);
}

/* Rank 0 sends first. */
static int go_and_return(const struct ping *ping, move_f send, move_f receive, struct hvd_error *err)
{
    bool first = ping->bench->rank == 0;
    if (ping->other < 0)
        return HVD_OK;
    int status = first ? send(ping, err) : receive(ping, err);
    if (status == HVD_OK)
        status = first ? receive(ping, err) : send(ping, err);
    return status;
}

static int run_hvd(void *arg, struct hvd_error *err)
{
    return go_and_return(arg, send_by_hvd, receive_by_hvd, err);
}

static int run_mpi(void *arg, struct hvd_error *err)
{
    return go_and_return(arg, send_by_mpi, receive_by_mpi, err);
}

/* ---- What arrives --------------------------------------------------------------------------------- */

/* Of the first rank's message, and of what this rank has before it comes. */
static unsigned char value_at(int64_t at)
{
    return (unsigned char)(at * 31 + at / 251);
}

static int fill(void *arg, struct hvd_error *err)
{
    const struct ping *ping = arg;
    (void)err;
    for (int64_t i = 0; i < ping->bytes; i++)
        ping->memory[i] = ping->bench->rank == 0 ? value_at(i) : (unsigned char)~value_at(i);
    return HVD_OK;
}

static int check(void *arg, struct hvd_error *err)
{
    const struct ping *ping = arg;
    for (int64_t i = 0; ping->other >= 0 && i < ping->bytes; i++)
        if (ping->memory[i] != value_at(i))
            return error_set(err, HVD_ERR_SYSTEM, "byte %lld of a message is %u, expected %u", (long long)i,
                             ping->memory[i], value_at(i));
    return HVD_OK;
}

/* ---- Results -------------------------------------------------------------------------------------- */

/* There and back takes twice as long as one way. */
static double one_way_us(const struct way *way)
{
    return way->us.median / 2;
}

static double bandwidth_gbs(const struct ping *ping, const struct way *way)
{
    return (double)ping->bytes / one_way_us(way) / 1000;
}

static void show_head(const struct bench *bench)
{
    char ranks[2 * REPORT_TEXT_BYTES];
    printf(
        "p2p: messages from rank 0 to rank %d and back, %s; times are medians one way, bandwidths in GB/s\n",
        bench->size - 1, report_ranks(bench, ranks));
    if (bench->mpi == NULL)
        printf("MPI is left out: %s\n", bench->mpi_why);
    else
        printf("MPI is %s\n", bench->mpi->version());
    report_cores(bench);
    printf("%10s  %12s  %9s", "size", "hvd", "bandwidth");
    if (bench->mpi != NULL)
        printf("  %12s  %9s  %9s", "MPI", "bandwidth", "hvd takes");
    putchar('\n');
}

static void show_row(const struct ping *ping, const struct way *hvd, const struct way *mpi)
{
    char size[REPORT_TEXT_BYTES], time[REPORT_TEXT_BYTES];
    printf("%10s  %12s  %9.3f", report_bytes(ping->bytes, size), report_time(one_way_us(hvd), time),
           bandwidth_gbs(ping, hvd));
    if (mpi != NULL)
        printf("  %12s  %9.3f  %7.2f x", report_time(one_way_us(mpi), time), bandwidth_gbs(ping, mpi),
               hvd->us.median / mpi->us.median);
    putchar('\n');
    fflush(stdout);
}

static void write_object(const struct ping *ping, const struct way *hvd, const struct way *mpi)
{
    struct json json = report_open(ping->bench);
    json_count(&json, "bytes", ping->bytes);
    json_count(&json, "rounds", ping->bench->options->rounds);
    json_number(&json, hvd->key, one_way_us(hvd));
    json_number(&json, "hvd_gbs", bandwidth_gbs(ping, hvd));
    if (mpi != NULL) {
        json_number(&json, mpi->key, one_way_us(mpi));
        json_number(&json, "mpi_gbs", bandwidth_gbs(ping, mpi));
        json_number(&json, "hvd_by_mpi", hvd->us.median / mpi->us.median);
        json_text(&json, "mpi", ping->bench->mpi->version());
    } else {
        json_text(&json, "no_mpi", ping->bench->mpi_why);
    }
    json_close_line(&json);
}

/* ---- Sizes ---------------------------------------------------------------------------------------- */

static int measure(struct bench *bench, struct ping *ping, struct hvd_error *err)
{
    struct way ways[PING_COUNT] = {
        [PING_HVD] = {.name = "hvd", .key = "hvd_us", .arg = ping, .prepare = fill, .run = run_hvd},
        [PING_MPI] = {.name = "mpi", .key = "mpi_us", .arg = ping, .prepare = fill, .run = run_mpi}};
    const struct turns turns = {bench->options->warmup, bench->options->rounds,
                                turns_repeats(ping->bytes, TURN_BYTES, TURN_REPEATS)};
    ways[PING_HVD].check = ways[PING_MPI].check = check;
    int status = turns_measure(bench, &turns, ways, bench->mpi == NULL ? PING_MPI : PING_COUNT, err);
    const struct way *mpi = bench->mpi == NULL ? NULL : &ways[PING_MPI];
    if (status != HVD_OK || bench->rank > 0)
        return status;
    if (bench->options->json)
        write_object(ping, &ways[PING_HVD], mpi);
    else
        show_row(ping, &ways[PING_HVD], mpi);
    return HVD_OK;
}

int case_p2p(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct ping ping = {.bench = bench, .other = -1, .memory = malloc((size_t)options->to_bytes)};
    int status = HVD_OK;
    if (bench->size < 2)
        status = error_set(err, HVD_ERR_INVALID, "a message needs two ranks; start more, as in hvdrun -n 2");
    else if (ping.memory == NULL)
        status = error_set(err, HVD_ERR_NO_MEMORY, "no memory for messages of %lld bytes",
                           (long long)options->to_bytes);
    status = bench_agree(bench, status, err);
    if (bench->rank == 0 || bench->rank == bench->size - 1)
        ping.other = bench->rank == 0 ? bench->size - 1 : 0;
    if (status == HVD_OK && bench->rank == 0 && !options->json)
        show_head(bench);
    for (ping.bytes = options->from_bytes; ping.bytes <= options->to_bytes && status == HVD_OK;
         ping.bytes *= options->factor)
        status = measure(bench, &ping, err);
    free(ping.memory);
    return status;
}
