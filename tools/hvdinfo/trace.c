/* trace.c: hvdinfo trace: merge the timelines of all ranks, and report which ranks kept the others waiting.
 */
#include "config.h"
#include "tools/hvdinfo/commands.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "options/parse.h"
#include "tools/hvdinfo/stragglers.h"
#include "tools/hvdinfo/trace_file.h"
#include "trace/flight.h"

#define SUBJECTS_SHOWN 10

/* The timeline of one rank. */
struct timeline_file {
    char *path;
    int64_t rank; /* from the file's name */
    struct trace_clock clock;
};

struct trace_job {
    const char *folder, *output;     /* output: NULL: no merged timeline, "-": stdout */
    struct timeline_file *timelines; /* by rank */
    int count;
    struct stragglers *stragglers;
    FILE *merged;                         /* or NULL */
    bool first;                           /* nothing was written to it yet */
    const struct timeline_file *timeline; /* the file that is being read */
};

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("hvdinfo: note: ", stderr);
    vfprintf(stderr, format, args);
    putc('\n', stderr);
    va_end(args);
}

/* ---- The files ---------------------------------------------------------------------------------- */

/* The rank in "rank-12.json", or -1. */
static int64_t rank_of_name(const char *name)
{
    char digits[16];
    size_t length = strlen(name);
    const size_t around = strlen("rank-") + strlen(".json");
    if (length <= around || length - around >= sizeof(digits) || strncmp(name, "rank-", 5) != 0 ||
        strcmp(name + length - 5, ".json") != 0)
        return -1;
    snprintf(digits, sizeof(digits), "%.*s", (int)(length - around), name + 5);
    return digits[0] == '0' && digits[1] != 0 ? -1 : parse_count_or(digits, -1);
}

static int is_timeline(const struct dirent *entry)
{
    return rank_of_name(entry->d_name) >= 0;
}

static int by_rank(const void *left, const void *right)
{
    const struct timeline_file *a = left;
    const struct timeline_file *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int list_timelines(struct trace_job *job, struct hvd_error *err)
{
    struct dirent **entries = NULL;
    int count = scandir(job->folder, &entries, is_timeline, NULL);
    if (count < 0)
        return error_set_errno(err, "the folder %s cannot be read", job->folder);
    job->timelines = calloc((size_t)count + 1, sizeof(*job->timelines));
    for (int i = 0; i < count; i++) {
        struct timeline_file *timeline = job->timelines == NULL ? NULL : &job->timelines[job->count];
        if (timeline != NULL && asprintf(&timeline->path, "%s/%s", job->folder, entries[i]->d_name) > 0) {
            timeline->rank = rank_of_name(entries[i]->d_name);
            job->count++;
        }
        free(entries[i]);
    }
    free(entries);
    if (job->timelines == NULL || job->count < count)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    if (count == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%s holds no rank-*.json; expected the folder of a job's --hvd-timeline",
                         job->folder);
    qsort(job->timelines, (size_t)count, sizeof(*job->timelines), by_rank);
    return HVD_OK;
}

/* Check that the file belongs to the same job as the others. */
static int check_timeline(const struct trace_job *job, const struct timeline_file *timeline,
                          struct hvd_error *err)
{
    const struct timeline_file *first = &job->timelines[0];
    if (timeline->clock.rank != timeline->rank)
        return error_set(err, HVD_ERR_INVALID, "%s is the timeline of rank %d; rename it to rank-%d.json",
                         timeline->path, timeline->clock.rank, timeline->clock.rank);
    if (timeline->clock.size != first->clock.size)
        return error_set(
            err, HVD_ERR_INVALID,
            "%s is of a job of %d ranks and %s of one of %d; remove what an older job left behind",
            timeline->path, timeline->clock.size, first->path, first->clock.size);
    return HVD_OK;
}

static int read_clocks(struct trace_job *job, struct hvd_error *err)
{
    for (int i = 0; i < job->count; i++) {
        struct timeline_file *timeline = &job->timelines[i];
        bool cut = false;
        int rc = trace_file_clock(timeline->path, &timeline->clock, &cut, err);
        if (rc == HVD_OK)
            rc = check_timeline(job, timeline, err);
        if (rc != HVD_OK)
            return rc;
        if (cut)
            note("%s was cut; the events that are whole are used", timeline->path);
        if (timeline->clock.error_us < 0)
            note("the clock of rank %d was not compared with that of rank 0", timeline->clock.rank);
    }
    if (job->count < job->timelines[0].clock.size)
        note("%d of the job's %d ranks have a timeline here", job->count, job->timelines[0].clock.size);
    return HVD_OK;
}

/* ---- Events ------------------------------------------------------------------------------------- */

/* Write the event with its times converted to rank 0's clock. */
static int merge_event(struct trace_job *job, const struct trace_event *event, struct hvd_error *err)
{
    if (event->is_metadata && strcmp(event->name, "hvd_clock") == 0)
        return HVD_OK;
    int64_t offset_us = job->timeline->clock.offset_us;
    if (!event->is_metadata &&
        json_object_set_new(event->object, "ts", json_integer(event->at_us + offset_us)) < 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    char *text = json_dumps(event->object, JSON_COMPACT);
    if (text == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    fprintf(job->merged, "%s%s", job->first ? "" : ",\n", text);
    job->first = false;
    free(text);
    return HVD_OK;
}

static int count_event(struct trace_job *job, const struct trace_event *event, struct hvd_error *err)
{
    struct arrival arrival;
    if (!trace_file_arrival(event, &arrival))
        return HVD_OK;
    arrival.rank = job->timeline->clock.rank;
    arrival.at_us += job->timeline->clock.offset_us;
    if (stragglers_add(job->stragglers, &arrival) < 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    return HVD_OK;
}

static int take_event(void *arg, const struct trace_event *event, struct hvd_error *err)
{
    struct trace_job *job = arg;
    int rc = count_event(job, event, err);
    return rc == HVD_OK && job->merged != NULL ? merge_event(job, event, err) : rc;
}

static int read_timelines(struct trace_job *job, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; i < job->count && rc == HVD_OK; i++) {
        bool cut = false;
        job->timeline = &job->timelines[i];
        rc = trace_file_read(job->timeline->path, take_event, job, &cut, err);
    }
    return rc;
}

/* ---- The merged timeline ------------------------------------------------------------------------ */

static int open_merged(struct trace_job *job, struct hvd_error *err)
{
    struct stat output;
    struct stat input;
    if (job->output == NULL)
        return HVD_OK;
    bool exists = stat(job->output, &output) == 0;
    for (int i = 0; i < job->count && exists; i++) {
        if (stat(job->timelines[i].path, &input) == 0 && input.st_dev == output.st_dev &&
            input.st_ino == output.st_ino)
            return error_set(err, HVD_ERR_INVALID, "--output=%s is one of the timelines to be read",
                             job->output);
    }
    job->merged = strcmp(job->output, "-") == 0 ? stdout : fopen(job->output, "we");
    if (job->merged == NULL)
        return error_set_errno(err, "%s cannot be written", job->output);
    fputs("[\n", job->merged);
    job->first = true;
    return HVD_OK;
}

static int close_merged(struct trace_job *job, struct hvd_error *err)
{
    if (job->merged == NULL)
        return HVD_OK;
    fputs("\n]\n", job->merged);
    bool failed = fflush(job->merged) != 0 || ferror(job->merged);
    int saved_errno = errno;
    if (job->merged != stdout)
        failed = fclose(job->merged) != 0 || failed;
    job->merged = NULL;
    errno = saved_errno;
    return failed ? error_set_errno(err, "%s cannot be written", job->output) : HVD_OK;
}

/* ---- The table ---------------------------------------------------------------------------------- */

static const char *host_of(const struct trace_job *job, int rank)
{
    const struct timeline_file key = {.rank = rank};
    const struct timeline_file *timeline =
        bsearch(&key, job->timelines, (size_t)job->count, sizeof(key), by_rank);
    return timeline == NULL ? "" : timeline->clock.host;
}

/* Replace control characters: a file may contain escape sequences of the terminal. */
static const char *plain(const char *text, char *bytes, size_t room)
{
    struct strbuf strbuf = {bytes, 0, room - 1};
    strbuf_add_printable(&strbuf, text);
    bytes[strbuf.used] = 0;
    return bytes;
}

static void show_precision(const struct trace_job *job, FILE *to)
{
    int64_t worst_us = 0;
    for (int i = 0; i < job->count; i++)
        worst_us = job->timelines[i].clock.error_us > worst_us ? job->timelines[i].clock.error_us : worst_us;
    if (worst_us > 0)
        fprintf(to, "clocks agree to within %" PRId64 " us\n", worst_us);
}

static void show_stragglers(const struct trace_job *job, const struct stragglers_sum *sum, FILE *to)
{
    char text[1200];
    fprintf(to, "%d ranks, %" PRId64 " operations, %" PRId64 " of them on two ranks or more\n", job->count,
            sum->operations, sum->compared);
    show_precision(job, to);
    if (sum->rank_count == 0) {
        fputs("no rank kept another one waiting\n", to);
        return;
    }
    fprintf(to, "\n%6s  %10s  %12s  %16s  %s\n", "rank", "times last", "behind (ms)", "others wait (ms)",
            "host");
    for (int i = 0; i < sum->rank_count; i++) {
        const struct straggler *straggler = &sum->ranks[i];
        fprintf(to, "%6d  %10" PRId64 "  %12.3f  %16.3f  %s\n", straggler->rank, straggler->times,
                straggler->behind_us / 1000, straggler->waited_us / 1000,
                plain(host_of(job, straggler->rank), text, sizeof(text)));
    }
    fprintf(to, "\n%6s  %10s  %12s  %16s  %s\n", "rank", "times last", "behind (ms)", "others wait (ms)",
            "operation");
    for (int i = 0; i < sum->subject_count && i < SUBJECTS_SHOWN; i++) {
        const struct straggler *straggler = &sum->subjects[i];
        fprintf(to, "%6d  %10" PRId64 "  %12.3f  %16.3f  ", straggler->rank, straggler->times,
                straggler->behind_us / 1000, straggler->waited_us / 1000);
        struct strbuf title = {text, 0, sizeof(text) - 1};
        bool named = strcmp(straggler->kind, straggler->name) != 0;
        flight_add_title(&title, straggler->kind, named ? straggler->name : "", 1, straggler->set);
        fprintf(to, "%.*s\n", (int)title.used, text);
    }
}

/* ---- The command -------------------------------------------------------------------------------- */

static int parse(struct trace_job *job, char *const *arguments, struct hvd_error *err)
{
    for (; *arguments != NULL; arguments++) {
        const char *word = *arguments;
        if (strncmp(word, "--output=", 9) == 0 && word[9] != 0)
            job->output = word + 9;
        else if (word[0] == '-' || word[0] == 0 || job->folder != NULL)
            return error_set(err, HVD_ERR_INVALID,
                             "trace: %.200s: expected one folder, and --output=FILE or --output=-", word);
        else
            job->folder = word;
    }
    if (job->folder == NULL)
        return error_set(err, HVD_ERR_INVALID, "trace: expected the folder of a job's --hvd-timeline");
    return HVD_OK;
}

static int report_stragglers(struct trace_job *job, struct hvd_error *err)
{
    struct stragglers_sum sum = {0};
    job->stragglers = stragglers_create();
    if (job->stragglers == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    int rc = list_timelines(job, err);
    if (rc == HVD_OK)
        rc = read_clocks(job, err);
    if (rc == HVD_OK)
        rc = open_merged(job, err);
    if (rc == HVD_OK)
        rc = read_timelines(job, err);
    bool table_on_stderr = job->merged == stdout;
    int close_rc = close_merged(job, rc == HVD_OK ? err : NULL);
    rc = rc == HVD_OK ? close_rc : rc;
    if (rc == HVD_OK && stragglers_sum(job->stragglers, &sum) < 0)
        rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timelines in %s", job->folder);
    if (rc == HVD_OK)
        show_stragglers(job, &sum, table_on_stderr ? stderr : stdout);
    return rc;
}

int hvdinfo_trace(char *const *arguments)
{
    struct trace_job job = {0};
    struct hvd_error err = {""};
    int rc = parse(&job, arguments, &err);
    if (rc == HVD_OK)
        rc = report_stragglers(&job, &err);
    if (rc != HVD_OK) {
        fflush(stdout);
        fprintf(stderr, "hvdinfo: %s\n", err.text);
    }
    stragglers_destroy(job.stragglers);
    for (int i = 0; i < job.count; i++)
        free(job.timelines[i].path);
    free(job.timelines);
    return rc == HVD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
