/* rank_metrics.c: the metrics of hvdinfo metrics, as a table, and what is written by it. */
#include "tools/hvdinfo/ps/rank_metrics.h"

#include <string.h>

#include "tools/common/metrics.h"
#include "tools/hvdinfo/ps/words.h"

/* ---- The table ----------------------------------------------------------------------------------- */

/* Negative: not known. */
struct rank_metric {
    const char *name, *help;
    enum metric_type type;
    double (*value)(const struct rank *rank, int64_t now_us);
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
    return rank->waits_for_count;
}

static double value_of_epoch(const struct rank *rank, int64_t now_us)
{
    (void)now_us;
    return rank->epoch;
}

static const struct rank_metric metrics[] = {
    {"hvd_rank_operations_total", "Operations that the rank has submitted.", METRIC_COUNTER,
     value_of_operations},
    {"hvd_rank_operations_per_second", "Of these, in the last ten seconds.", METRIC_GAUGE,
     value_of_operation_rate},
    {"hvd_rank_bytes_per_second", "Bytes of operations that it has submitted in the last ten seconds.",
     METRIC_GAUGE, value_of_byte_rate},
    {"hvd_rank_waiting_ratio",
     "Share of the last ten seconds in which operations only waited for other ranks.", METRIC_GAUGE,
     value_of_waiting},
    {"hvd_rank_moving_ratio", "Share of the last ten seconds in which operations moved.", METRIC_GAUGE,
     value_of_moving},
    {"hvd_rank_state_seconds", "How long it has been in the state of the label.", METRIC_GAUGE,
     value_of_state},
    {"hvd_rank_stands_still", "1 if it stands still, as hvdinfo ps says, otherwise 0.", METRIC_GAUGE,
     value_of_still},
    {"hvd_rank_late", "1 if others wait for an operation that it has not submitted, otherwise 0.",
     METRIC_GAUGE, value_of_late},
    {"hvd_rank_waits_for_ranks", "For how many ranks it waits.", METRIC_GAUGE, value_of_waits_for},
    {"hvd_rank_epoch", "The number of its epoch.", METRIC_GAUGE, value_of_epoch},
};

/* ---- What is written ----------------------------------------------------------------------------- */

/* Slurm's own name for the label is that of the job, without the step. */
static void write_labels(FILE *to, const struct rank *rank, bool has_state)
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
    if (!has_state)
        return;
    putc(',', to);
    metrics_write_label(to, "state", words_of_state(rank->state));
}

void rank_metrics_write(FILE *to, const struct ranks *ranks)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const struct rank_metric *metric = &metrics[i];
        metrics_write_head(to, metric->name, metric->help, metric->type);
        for (int k = 0; k < ranks->count; k++) {
            double value = metric->value(&ranks->list[k], ranks->now_us);
            if (value < 0)
                continue;
            fprintf(to, "%s{", metric->name);
            write_labels(to, &ranks->list[k], metric->value == value_of_state);
            fprintf(to, "} %.10g\n", value);
        }
    }
}
