/* rank_metrics.c: the metrics of hvdinfo metrics, as a table, and what is written by it. */
#include "tools/hvdinfo/ps/rank_metrics.h"

#include <string.h>

#include "tools/common/metrics.h"
#include "tools/hvdinfo/ps/words.h"

/* ---- The table ----------------------------------------------------------------------------------- */

/* The value is negative if it is not known. NULL: it is [sum] of the rank's totals. */
struct rank_metric {
    const char *name, *help;
    enum metric_type type;
    double (*value)(const struct rank *rank, int64_t now_us);
    enum flight_sum sum; /* SUM_BYTES: for each backend, which is then a label */
};

static double value_of_operations(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return (double)rank->submitted;
}

static double value_of_operation_rate(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->pace.operations;
}

static double value_of_byte_rate(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->pace.bytes;
}

static double value_of_waiting(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->pace.waiting;
}

static double value_of_moving(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->pace.moving;
}

static double value_of_state(const struct rank *rank, int64_t now_us)
{
    return rank->since_us < now_us ? (double)(now_us - rank->since_us) / 1e6 : 0;
}

static double value_of_still(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->stands_still;
}

static double value_of_late(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->missed != NULL;
}

static double value_of_waits_for(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->waits_for == NULL ? 0 : rank->waits_for->count;
}

static double value_of_steps(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->pace.steps;
}

static double value_of_restarts(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->restarts;
}

static double value_of_commit_age(const struct rank *rank, int64_t now_us)
{
    int64_t at_us = rank->totals.committed_us;
    if (rank->totals.commits == 0)
        return -1;
    return at_us < now_us ? (double)(now_us - at_us) / 1e6 : 0;
}

static double value_of_epoch(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->epoch;
}

static const struct rank_metric metrics[] = {
    {"hvd_rank_operations_total", "Operations that the rank has submitted.", METRIC_COUNTER,
     .value = value_of_operations},
    {"hvd_rank_operations_per_second", "Of these, in the last ten seconds.", METRIC_GAUGE,
     .value = value_of_operation_rate},
    {"hvd_rank_steps_per_second", "How often in a second the names of its operations come again.",
     METRIC_GAUGE, .value = value_of_steps},
    {"hvd_rank_bytes_per_second", "Bytes of operations that it has submitted in the last ten seconds.",
     METRIC_GAUGE, .value = value_of_byte_rate},
    {"hvd_rank_waiting_ratio",
     "Share of the last ten seconds in which operations only waited for other ranks.", METRIC_GAUGE,
     .value = value_of_waiting},
    {"hvd_rank_moving_ratio", "Share of the last ten seconds in which operations moved.", METRIC_GAUGE,
     .value = value_of_moving},
    {"hvd_rank_state_seconds", "How long it has been in the state of the label.", METRIC_GAUGE,
     .value = value_of_state},
    {"hvd_rank_stands_still", "1 if it stands still, as hvdinfo ps says, otherwise 0.", METRIC_GAUGE,
     .value = value_of_still},
    {"hvd_rank_late", "1 if others wait for an operation that it has not submitted, otherwise 0.",
     METRIC_GAUGE, .value = value_of_late},
    {"hvd_rank_waits_for_ranks", "For how many ranks it waits.", METRIC_GAUGE, .value = value_of_waits_for},
    {"hvd_rank_epoch", "The number of its epoch.", METRIC_GAUGE, .value = value_of_epoch},
    {"hvd_rank_restarts", "How often the job, or in an elastic job the rank, has been started again.",
     METRIC_GAUGE, .value = value_of_restarts},
    {"hvd_rank_commit_age_seconds", "How long ago hvd_state_commit saved the state.", METRIC_GAUGE,
     .value = value_of_commit_age},
    {"hvd_rank_decided_total", "Operations that were decided since it joined.", METRIC_COUNTER,
     .sum = SUM_OPERATIONS},
    {"hvd_rank_cached_total", "Of these, by the response cache.", METRIC_COUNTER, .sum = SUM_CACHED},
    {"hvd_rank_batches_total", "Batches of tensors that were carried.", METRIC_COUNTER, .sum = SUM_BATCHES},
    {"hvd_rank_batch_tensors_total", "Tensors in these batches.", METRIC_COUNTER, .sum = SUM_TENSORS},
    {"hvd_rank_batch_bytes_total", "Bytes of these batches, by each backend that carried some.",
     METRIC_COUNTER, .sum = SUM_BYTES},
};

/* ---- What is written ----------------------------------------------------------------------------- */

/* Slurm's own name for the label is that of the job, without the step. */
static void write_labels(FILE *to, const struct rank *rank)
{
    char job[RANK_JOB_BYTES], number[16];
    bool is_step = strncmp(rank->key, RANK_STEP_KEY, strlen(RANK_STEP_KEY)) == 0;
    snprintf(job, sizeof(job), "%.*s", (int)strcspn(rank->job, "."), rank->job);
    snprintf(number, sizeof(number), "%d", rank->rank);
    metrics_write_label(to, "job_name", rank->job);
    putc(',', to);
    metrics_write_label(to, "slurm_job_id", is_step ? job : "");
    putc(',', to);
    metrics_write_label(to, "node", rank->node);
    putc(',', to);
    metrics_write_label(to, "rank", number);
}

/* A line; [label] NULL: it has no other label than all have. */
static void write_value(FILE *to, const struct rank_metric *metric, const struct rank *rank,
                        const char *label, const char *text, double value)
{
    fprintf(to, "%s{", metric->name);
    write_labels(to, rank);
    if (label != NULL) {
        putc(',', to);
        metrics_write_label(to, label, text);
    }
    fprintf(to, "} %.10g\n", value);
}

static void write_backends(FILE *to, const struct rank_metric *metric, const struct rank *rank)
{
    for (int i = 0; i < BACKEND_COUNT; i++) {
        double bytes = (double)rank->totals.sums[SUM_BYTES + i];
        if (bytes > 0)
            write_value(to, metric, rank, "backend", backend_names[i], bytes);
    }
}

static void write_metric(FILE *to, const struct rank_metric *metric, const struct rank *rank, int64_t now_us)
{
    bool has_state = metric->value == value_of_state;
    if (metric->value == NULL && metric->sum == SUM_BYTES) {
        write_backends(to, metric, rank);
        return;
    }
    double value =
        metric->value == NULL ? (double)rank->totals.sums[metric->sum] : metric->value(rank, now_us);
    if (value >= 0)
        write_value(to, metric, rank, has_state ? "state" : NULL, words_of_state(rank->state), value);
}

void rank_metrics_write(FILE *to, const struct ranks *ranks)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const struct rank_metric *metric = &metrics[i];
        metrics_write_head(to, metric->name, metric->help, metric->type);
        for (int k = 0; k < ranks->count; k++)
            write_metric(to, metric, &ranks->list[k], ranks->now_us);
    }
}
