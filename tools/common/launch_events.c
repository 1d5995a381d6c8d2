/* launch_events.c: the events and metrics of a launch, as tables, and what is written by them. */
#include "tools/common/launch_events.h"

#include <stdbool.h>
#include <string.h>

#include "tools/common/json.h"

/* ---- The tables --------------------------------------------------------------------------------- */

#define BIT(field) (1u << (field))
#define PROCESS    (BIT(FIELD_RANK) | BIT(FIELD_NODE) | BIT(FIELD_PID))
#define ALL_LINES  (BIT(FIELD_TIME) | BIT(FIELD_RUN_ID) | BIT(FIELD_EPOCH))

const struct launch_field_row launch_fields[LAUNCH_FIELD_COUNT] = {
#define AT(name) offsetof(struct event_facts, name)
    [FIELD_TIME] = {"time", "seconds since 1970, to the microsecond", FIELD_IS_SECONDS, AT(time_us)},
    [FIELD_RUN_ID] = {"run_id", "the name of the run, as --run-id gives it", FIELD_IS_TEXT, AT(run_id)},
    [FIELD_EPOCH] = {"epoch", "the number of the epoch, 0 at the start, and with agents 1", FIELD_IS_COUNT,
                     AT(epoch)},
    [FIELD_DROPPED] = {"dropped",
                       "how many lines before this one were dropped, because they could not be written; left "
                       "out if none",
                       FIELD_IS_COUNT, AT(dropped)},
    [FIELD_RESTART] = {"restart", "how often the job has been started again; of a rank, the rank",
                       FIELD_IS_COUNT, AT(restart)},
    [FIELD_RANKS] = {"ranks", "how many ranks there are", FIELD_IS_COUNT, AT(ranks)},
    [FIELD_SLOTS] = {"slots", "how many ranks there may be", FIELD_IS_COUNT, AT(slots)},
    [FIELD_RANK] = {"rank", "the rank, as it was at the start of the job, or its slot", FIELD_IS_COUNT,
                    AT(rank)},
    [FIELD_NODE] = {"node", "the name of the machine", FIELD_IS_TEXT, AT(node)},
    [FIELD_PID] = {"pid", "the number of the process there", FIELD_IS_COUNT, AT(pid)},
    [FIELD_STATUS] = {"status", "the exit status, or 128 and the number of the signal", FIELD_IS_COUNT,
                      AT(status)},
    [FIELD_REASON] = {"reason", "what happened, in words", FIELD_IS_TEXT, AT(reason)},
    [FIELD_LIVED] = {"lived", "seconds since the process was started; of the job, since hvdrun was",
                     FIELD_IS_SECONDS, AT(lived_us)},
    [FIELD_RENDEZVOUS] = {"rendezvous",
                          "seconds that the rendezvous took: from the first rank that was started, or that "
                          "asked for the epoch, to the last",
                          FIELD_IS_SECONDS, AT(rendezvous_us)},
    [FIELD_COOLDOWN] = {"cooldown", "seconds for which no rank is started on the machine; 0: without a limit",
                        FIELD_IS_SECONDS, AT(cooldown_us)},
#undef AT
};

const struct launch_event_row launch_events_table[LAUNCH_EVENT_COUNT] = {
    [EVENT_JOB_STARTED] = {"job_started", "the ranks of a job are about to be started, at first or again",
                           BIT(FIELD_RESTART) | BIT(FIELD_RANKS) | BIT(FIELD_SLOTS) | BIT(FIELD_NODE)},
    [EVENT_RANK_STARTED] = {"rank_started", "a process of a rank runs", PROCESS | BIT(FIELD_RESTART)},
    [EVENT_EPOCH_FORMED] = {"epoch_formed",
                            "all ranks have found each other: in epoch 0 by PMIx, later as hvdrun says",
                            BIT(FIELD_RANKS) | BIT(FIELD_RENDEZVOUS)},
    [EVENT_RANK_EXITED] =
        {"rank_exited",
         "a rank has ended, and has not failed: it was done, was ended with the job, or left "
         "as its slot went away",
         PROCESS | BIT(FIELD_STATUS) | BIT(FIELD_REASON) | BIT(FIELD_LIVED)},
    [EVENT_RANK_LOST] = {"rank_lost", "a rank has failed",
                         PROCESS | BIT(FIELD_STATUS) | BIT(FIELD_REASON) | BIT(FIELD_LIVED)},
    [EVENT_RANK_REPLACED] = {"rank_replaced",
                             "a rank that was started again, in place of one that was lost, is in the epoch",
                             PROCESS | BIT(FIELD_RESTART) | BIT(FIELD_LIVED)},
    [EVENT_RANK_JOINED] = {"rank_joined", "a rank by which the job has grown is in the epoch",
                           PROCESS | BIT(FIELD_LIVED)},
    [EVENT_SLOTS_CHANGED] = {"slots_changed", "the hosts have another number of slots", BIT(FIELD_SLOTS)},
    [EVENT_HOST_LEFT_OUT] = {"host_left_out",
                             "a rank on the machine has failed, and none is started there for a time; or "
                             "--health-check refuses it, or its agent is lost",
                             BIT(FIELD_NODE) | BIT(FIELD_COOLDOWN) | BIT(FIELD_REASON)},
    [EVENT_HOST_RETURNED] = {"host_returned", "that time is over", BIT(FIELD_NODE)},
    [EVENT_JOB_FAILED] =
        {"job_failed",
         "the job has failed, and may be started again; the rank is that which failed first, -1 for none",
         BIT(FIELD_RESTART) | BIT(FIELD_RANK) | BIT(FIELD_STATUS) | BIT(FIELD_REASON)},
    [EVENT_JOB_ENDED] = {"job_ended", "hvdrun ends with this status; of each run this is the last line",
                         BIT(FIELD_RESTART) | BIT(FIELD_STATUS) | BIT(FIELD_LIVED)},
};

const struct launch_metric_row launch_metrics_table[LAUNCH_METRIC_COUNT] = {
#define AT(name)       offsetof(struct launch_metrics, name)
#define COUNTS(number) METRIC_COUNTER, METRIC_IS_COUNT, AT(events) + (number) * sizeof(int64_t)
    {"hvdrun_job_start_time_seconds", "When hvdrun started, in seconds since 1970.", METRIC_GAUGE,
     METRIC_IS_SECONDS, AT(started_us)},
    {"hvdrun_job_running", "1 while hvdrun runs the job, then 0.", METRIC_GAUGE, METRIC_IS_COUNT,
     AT(running)},
    {"hvdrun_job_exit_status", "The exit status of hvdrun, -1 while it runs.", METRIC_GAUGE, METRIC_IS_COUNT,
     AT(status)},
    {"hvdrun_ranks", "Ranks of the last epoch.", METRIC_GAUGE, METRIC_IS_COUNT, AT(ranks)},
    {"hvdrun_slots", "Ranks that there may be.", METRIC_GAUGE, METRIC_IS_COUNT, AT(slots)},
    {"hvdrun_epoch", "The number of the last epoch.", METRIC_GAUGE, METRIC_IS_COUNT, AT(epoch)},
    {"hvdrun_rendezvous_last_seconds", "How long the last rendezvous took.", METRIC_GAUGE, METRIC_IS_SECONDS,
     AT(rendezvous_us)},
    {"hvdrun_rendezvous_seconds_total", "How long all rendezvous took.", METRIC_COUNTER, METRIC_IS_SECONDS,
     AT(rendezvous_all_us)},
    {"hvdrun_job_starts_total", "Starts of the job, those after failures too.", COUNTS(EVENT_JOB_STARTED)},
    {"hvdrun_job_failures_total", "Failures of the job.", COUNTS(EVENT_JOB_FAILED)},
    {"hvdrun_epochs_total", "Epochs that were formed.", COUNTS(EVENT_EPOCH_FORMED)},
    {"hvdrun_rank_starts_total", "Processes of ranks that were started.", COUNTS(EVENT_RANK_STARTED)},
    {"hvdrun_rank_exits_total", "Ranks that ended without failing.", COUNTS(EVENT_RANK_EXITED)},
    {"hvdrun_rank_losses_total", "Ranks that failed.", COUNTS(EVENT_RANK_LOST)},
    {"hvdrun_rank_replacements_total", "Ranks that were started again and joined.",
     COUNTS(EVENT_RANK_REPLACED)},
    {"hvdrun_rank_joins_total", "Ranks by which the job has grown.", COUNTS(EVENT_RANK_JOINED)},
    {"hvdrun_hosts_left_out_total", "How often a machine was left out.", COUNTS(EVENT_HOST_LEFT_OUT)},
    {"hvdrun_events_dropped_total", "Lines of --events that could not be written.", METRIC_COUNTER,
     METRIC_IS_COUNT, AT(dropped)},
#undef COUNTS
#undef AT
};

/* ---- What is written ---------------------------------------------------------------------------- */

static int64_t count_at(const void *from, size_t offset)
{
    int64_t count = 0;
    memcpy(&count, (const char *)from + offset, sizeof(count));
    return count;
}

static void write_field(struct json *json, const struct launch_field_row *field,
                        const struct event_facts *facts)
{
    const char *text = NULL;
    switch (field->kind) {
    case FIELD_IS_COUNT:
        json_count(json, field->key, count_at(facts, field->offset));
        break;
    case FIELD_IS_SECONDS:
        json_seconds(json, field->key, count_at(facts, field->offset));
        break;
    case FIELD_IS_TEXT:
        memcpy(&text, (const char *)facts + field->offset, sizeof(text));
        json_text(json, field->key, text == NULL ? "" : text);
        break;
    }
}

void launch_event_write(enum launch_event event, const struct event_facts *facts, FILE *to)
{
    const struct launch_event_row *row = &launch_events_table[event];
    unsigned fields = row->fields | ALL_LINES | (facts->dropped > 0 ? BIT(FIELD_DROPPED) : 0);
    struct json json = json_open(to);
    json_text(&json, "event", row->name);
    for (int field = 0; field < LAUNCH_FIELD_COUNT; field++)
        if ((fields & BIT(field)) != 0)
            write_field(&json, &launch_fields[field], facts);
    json_close_line(&json);
}

void launch_metrics_write(const struct launch_metrics *metrics, const char *run_id, FILE *to)
{
    for (int i = 0; i < LAUNCH_METRIC_COUNT; i++) {
        const struct launch_metric_row *row = &launch_metrics_table[i];
        int64_t value = count_at(metrics, row->offset);
        metrics_write_head(to, row->name, row->help, row->type);
        fprintf(to, "%s{", row->name);
        metrics_write_label(to, "run_id", run_id);
        if (row->unit == METRIC_IS_SECONDS)
            fprintf(to, "} %lld.%06lld\n", (long long)(value / 1000000), (long long)(value % 1000000));
        else
            fprintf(to, "} %lld\n", (long long)value);
    }
}

/* ---- Help and manual ---------------------------------------------------------------------------- */

void launch_events_help(FILE *to)
{
    fputs("\nEvents of --events, and what a line has beside time, run_id and epoch:\n", to);
    for (int event = 0; event < LAUNCH_EVENT_COUNT; event++) {
        const struct launch_event_row *row = &launch_events_table[event];
        fprintf(to, "  %-14s %s\n                ", row->name, row->help);
        for (int field = 0; field < LAUNCH_FIELD_COUNT; field++)
            if ((row->fields & BIT(field)) != 0)
                fprintf(to, " %s", launch_fields[field].key);
        putc('\n', to);
    }
    fputs("\nMetrics of --metrics:\n", to);
    for (int i = 0; i < LAUNCH_METRIC_COUNT; i++)
        fprintf(to, "  %-32s %s\n", launch_metrics_table[i].name, launch_metrics_table[i].help);
}

/* A sentence of mdoc: capitalised, with a full stop. */
static void write_sentence(const char *text, FILE *to)
{
    putc(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0], to);
    fprintf(to, "%s%s\n", text + 1, text[strlen(text) - 1] == '.' ? "" : ".");
}

static void write_fields_of(const struct launch_event_row *row, FILE *to)
{
    const char *between = "With\n.Cm ";
    for (int field = 0; field < LAUNCH_FIELD_COUNT; field++) {
        if ((row->fields & BIT(field)) == 0)
            continue;
        fprintf(to, "%s%s", between, launch_fields[field].key);
        between = " ,\n.Cm ";
    }
    fputs(" .\n", to);
}

void launch_events_man(FILE *to)
{
    fputs("The events are:\n.Bl -tag -width Ds\n", to);
    for (int event = 0; event < LAUNCH_EVENT_COUNT; event++) {
        fprintf(to, ".It Cm %s\n", launch_events_table[event].name);
        write_sentence(launch_events_table[event].help, to);
        write_fields_of(&launch_events_table[event], to);
    }
    fputs(".El\n.Pp\nThe members of the lines are:\n.Bl -tag -width rendezvous\n", to);
    for (int field = 0; field < LAUNCH_FIELD_COUNT; field++) {
        fprintf(to, ".It Cm %s\n", launch_fields[field].key);
        write_sentence(launch_fields[field].help, to);
    }
    fputs(".El\n.Pp\nThe metrics are:\n.Bl -tag -width Ds\n", to);
    for (int i = 0; i < LAUNCH_METRIC_COUNT; i++) {
        const struct launch_metric_row *row = &launch_metrics_table[i];
        fprintf(to, ".It Cm %s Pq %s\n", row->name, row->type == METRIC_COUNTER ? "counter" : "gauge");
        write_sentence(row->help, to);
    }
    fputs(".El\n", to);
}
