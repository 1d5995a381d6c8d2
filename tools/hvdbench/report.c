/* report.c: print measurements as a table or as JSON. */
#include "tools/hvdbench/report.h"

#include <math.h>
#include <string.h>

/* ---- Words ---------------------------------------------------------------------------------------- */

const char *report_time(double us, char text[REPORT_TEXT_BYTES])
{
    if (us < 1000)
        snprintf(text, REPORT_TEXT_BYTES, "%.2f us", us);
    else if (us < 1000000)
        snprintf(text, REPORT_TEXT_BYTES, "%.2f ms", us / 1000);
    else
        snprintf(text, REPORT_TEXT_BYTES, "%.3f s", us / 1000000);
    return text;
}

const char *report_bytes(int64_t bytes, char text[REPORT_TEXT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    int unit = 0;
    while (number >= 1024 && unit < 4) {
        number /= 1024;
        unit++;
    }
    snprintf(text, REPORT_TEXT_BYTES, number == (double)(int64_t)number ? "%.0f %s" : "%.2f %s", number,
             units[unit]);
    return text;
}

const char *report_s(int64_t count)
{
    return count == 1 ? "" : "s";
}

const char *report_ranks(const struct bench *bench, char text[2 * REPORT_TEXT_BYTES])
{
    snprintf(text, 2 * REPORT_TEXT_BYTES, "%d rank%s on %d node%s", bench->size, report_s(bench->size),
             bench->node_count, report_s(bench->node_count));
    return text;
}

void report_cores(const struct bench *bench)
{
    if (!isnan(bench->line_ns))
        printf("  a cache line goes from core %d to core %d and back in %.0f ns\n", bench->cores[0],
               bench->cores[1], bench->line_ns);
}

/* ---- Ways ----------------------------------------------------------------------------------------- */

struct json report_open(const struct bench *bench)
{
    struct json json = json_open(stdout);
    json_text(&json, "case", bench->options->chosen->name);
    json_count(&json, "ranks", bench->size);
    json_count(&json, "nodes", bench->node_count);
    json_text(&json, "version", hvd_version());
    if (!isnan(bench->line_ns))
        json_number(&json, "line_ns", bench->line_ns);
    return json;
}

/* hvd's time divided by MPI's and by memcpy's. */
static void add_ratios(struct json *json, const struct ways *ways, enum way_id id, const char *by_mpi_best,
                       const char *by_memcpy)
{
    const struct way *hvd = ways_find(ways, id);
    const struct way *best = ways_best_mpi(ways);
    const struct way *copy = ways_find(ways, WAY_MEMCPY);
    if (hvd != NULL && best != NULL)
        json_number(json, by_mpi_best, hvd->us.median / best->us.median);
    if (hvd != NULL && copy != NULL)
        json_number(json, by_memcpy, hvd->us.median / copy->us.median);
}

/* Its time, "mpi_one_us", and its processor time, "mpi_one_cpu_us". */
static void add_way(struct json *json, const struct way *way)
{
    char key[64];
    snprintf(key, sizeof(key), "%.*s_cpu_us", (int)strlen(way->key) - 3, way->key);
    json_number(json, way->key, way->us.median);
    json_number(json, key, way->cpu_us);
}

void report_ways_fields(struct json *json, const struct bench *bench, const struct ways *ways)
{
    const struct way *best = ways_best_mpi(ways);
    for (int i = 0; i < ways->count; i++)
        add_way(json, &ways->list[i]);
    json_number(json, "p99_us", ways_hvd(ways)->us.p99);
    if (best != NULL) {
        json_number(json, "mpi_best_us", best->us.median);
        json_text(json, "mpi_best", best->name);
    }
    add_ratios(json, ways, WAY_HVD, "hvd_per_mpi_best", "hvd_per_memcpy");
    add_ratios(json, ways, WAY_HVD_ALLOC, "hvd_alloc_per_mpi_best", "hvd_alloc_per_memcpy");
    if (ways->mpi != NULL)
        json_text(json, "mpi", ways->mpi->version());
    else
        json_text(json, "no_mpi", bench->mpi_why);
}

static void show_ways(const struct ways *ways)
{
    const struct way *hvd = ways_hvd(ways);
    const struct way *best = ways_best_mpi(ways);
    printf("  %-10s  %12s  %12s  %12s  %12s  what it is\n", "", "median", "p99", "CPU", "hvd takes");
    for (int i = 0; i < ways->count; i++) {
        char median[REPORT_TEXT_BYTES];
        char p99[REPORT_TEXT_BYTES];
        char cpu[REPORT_TEXT_BYTES];
        const struct way *way = &ways->list[i];
        printf("  %-10s  %12s  %12s  %12s", way->name, report_time(way->us.median, median),
               report_time(way->us.p99, p99), report_time(way->cpu_us, cpu));
        if (way != hvd)
            printf("  %10.2f x", hvd->us.median / way->us.median);
        else
            printf("  %12s", "");
        printf("  %s%s\n", way->title, way == best ? " (mpi-best)" : "");
    }
}

void report_ways(const struct bench *bench, const struct ways *ways, const char *what, int64_t rounds)
{
    char bytes[REPORT_TEXT_BYTES];
    char ranks[2 * REPORT_TEXT_BYTES];
    const struct bench_options *options = bench->options;
    if (bench->rank != 0)
        return;
    if (options->json) {
        struct json json = report_open(bench);
        json_text(&json, "model", what);
        json_count(&json, "tensors", ways->load.count);
        json_count(&json, "bytes", ways->load.model->bytes);
        json_count(&json, "rounds", rounds);
        report_ways_fields(&json, bench, ways);
        json_close_line(&json);
        return;
    }
    printf("%s %s: %d tensor%s, %s, %s, %lld round%s\n", options->chosen->name, what, ways->load.count,
           report_s(ways->load.count), report_bytes(ways->load.model->bytes, bytes),
           report_ranks(bench, ranks), (long long)rounds, report_s(rounds));
    show_ways(ways);
    if (ways->mpi == NULL)
        printf("  MPI is left out: %s\n", bench->mpi_why);
    else
        printf("  MPI is %s\n", ways->mpi->version());
    report_cores(bench);
    fflush(stdout);
}
