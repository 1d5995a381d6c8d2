/* timeline.c: the timeline of one rank: a file of Chrome trace events, which is valid JSON after every write.
 */
#include "trace/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/ulimit.h"
#include "trace/strbuf.h"

/* Events are collected in memory, which is written when it is full. */
#define BUFFER_BYTES (64 << 10)

/* Most that the events of one operation take: a name has 255 bytes, each of which may become 6. */
#define OPERATION_BYTES 3072

/* The end of the JSON array. The next write replaces it. */
#define TAIL       "\n]\n"
#define TAIL_BYTES (sizeof(TAIL) - 1)

#define ROW_WORDS 16
#define ROWS      (ROW_WORDS * 64)

struct timeline {
    int rank, size;
    const char *host;
    const struct hvd_log *log;
    _Atomic bool on;
    _Atomic uint64_t rows[ROW_WORDS]; /* a bit for each row in use */
    /* true while a thread that holds [lock] changes the fields below; a signal handler sets it without the
     * lock, and for good */
    _Atomic bool owned;
    pthread_mutex_t lock;
    int fd; /* -1: none */
    char path[PATH_MAX];
    struct strbuf strbuf; /* events to be written at [end_bytes] of the file, each after ",\n" */
    int64_t end_bytes;
    int64_t start_us;
    int64_t offset_us, error_us; /* error_us -1: unknown */
    int64_t row_end_us[ROWS];
};

int timeline_create(struct timeline **timelinep, const struct trace_params *params, struct hvd_error *err)
{
    struct timeline *timeline = calloc(1, sizeof(*timeline));
    if (timeline == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timeline");
    timeline->rank = params->rank;
    timeline->size = params->size;
    timeline->host = params->host;
    timeline->log = params->log;
    timeline->fd = -1;
    timeline->error_us = params->rank == 0 ? 0 : -1;
    pthread_mutex_init(&timeline->lock, NULL);
    *timelinep = timeline;
    return HVD_OK;
}

void timeline_destroy(struct timeline *timeline)
{
    if (timeline == NULL)
        return;
    timeline_stop(timeline, NULL);
    pthread_mutex_destroy(&timeline->lock);
    free(timeline->strbuf.bytes);
    free(timeline);
}

bool timeline_is_on(const struct timeline *timeline)
{
    return atomic_load_explicit(&timeline->on, memory_order_relaxed);
}

/* ---- The file ----------------------------------------------------------------------------------- */

/* False where a signal handler has taken the timeline: the process ends. */
static bool lock_timeline(struct timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    if (!atomic_exchange(&timeline->owned, true))
        return true;
    pthread_mutex_unlock(&timeline->lock);
    return false;
}

static void unlock_timeline(struct timeline *timeline)
{
    atomic_store(&timeline->owned, false);
    pthread_mutex_unlock(&timeline->lock);
}

static int write_at(int fd, const char *bytes, size_t count, int64_t at)
{
    while (count > 0) {
        if (!ulimit_allows_file(at + 1))
            return -1;
        ssize_t written = pwrite(fd, bytes, count, at);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written == 0) {
            errno = ENOSPC;
            return -1;
        }
        size_t done = written > 0 ? (size_t)written : 0;
        bytes += done;
        count -= done;
        at += (int64_t)done;
    }
    return 0;
}

/* Write the collected events and the tail. Where that fails the file gets its earlier contents again. Safe in
 * signal handlers. */
static int write_events(struct timeline *timeline)
{
    struct strbuf *strbuf = &timeline->strbuf;
    if (strbuf->used == 0)
        return 0;
    memcpy(strbuf->bytes + strbuf->used, TAIL, TAIL_BYTES);
    if (write_at(timeline->fd, strbuf->bytes, strbuf->used + TAIL_BYTES, timeline->end_bytes) < 0) {
        int saved_errno = errno;
        if (ftruncate(timeline->fd, timeline->end_bytes) == 0)
            write_at(timeline->fd, TAIL, TAIL_BYTES, timeline->end_bytes);
        errno = saved_errno;
        return -1;
    }
    timeline->end_bytes += (int64_t)strbuf->used;
    strbuf->used = 0;
    return 0;
}

static void close_file(struct timeline *timeline)
{
    atomic_store_explicit(&timeline->on, false, memory_order_relaxed);
    close(timeline->fd);
    timeline->fd = -1;
}

/* Write the events; where that fails the timeline ends, with a warning. */
static void flush(struct timeline *timeline)
{
    if (timeline->fd < 0 || write_events(timeline) == 0)
        return;
    log_write(timeline->log, LOG_WARN, "timeline", "%s cannot be written: %s; it ends here", timeline->path,
              error_text(errno));
    close_file(timeline);
}

static int open_file(struct timeline *timeline, const char *folder, struct hvd_error *err)
{
    struct stat status;
    int length = snprintf(timeline->path, sizeof(timeline->path), "%s/rank-%d.json", folder, timeline->rank);
    if (length >= (int)sizeof(timeline->path))
        return error_set(err, HVD_ERR_INVALID, "the timeline's folder name %.64s... is too long", folder);
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, "the timeline's folder %s cannot be created", folder);
    /* O_NONBLOCK: a pipe of that name must not make us wait for its reader */
    int fd = descriptors_open(timeline->path,
                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, "the timeline %s cannot be opened", timeline->path);
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return error_set(err, HVD_ERR_INVALID, "the timeline %s is there and is not a regular file",
                         timeline->path);
    }
    timeline->fd = fd;
    return HVD_OK;
}

/* ---- Events ------------------------------------------------------------------------------------- */

#define put(strbuf, literal) strbuf_add_bytes(strbuf, literal, sizeof(literal) - 1)

#define put_pair(strbuf, literal, number)  \
    do {                                   \
        put(strbuf, literal);              \
        strbuf_add_number(strbuf, number); \
    } while (0)

/* Begin a metadata event; ",\n" separates it from the one before. */
static void put_metadata(struct timeline *timeline)
{
    struct strbuf *strbuf = &timeline->strbuf;
    strbuf_add_text(strbuf, timeline->end_bytes + (int64_t)strbuf->used <= 2 ? "" : ",\n");
    put_pair(strbuf, "{\"ph\":\"M\",\"pid\":", timeline->rank);
}

/* The rank, and how its clock relates to that of rank 0. The last such event in the file counts. */
static void put_clock(struct timeline *timeline)
{
    struct strbuf *strbuf = &timeline->strbuf;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    put_metadata(timeline);
    put_pair(strbuf, ",\"name\":\"hvd_clock\",\"args\":{\"rank\":", timeline->rank);
    put_pair(strbuf, ",\"size\":", timeline->size);
    put(strbuf, ",\"host\":");
    strbuf_add_json(strbuf, timeline->host);
    put_pair(strbuf, ",\"offset_us\":", timeline->offset_us);
    put_pair(strbuf, ",\"error_us\":", timeline->error_us);
    put_pair(strbuf, ",\"clock_us\":", clock_us());
    put_pair(strbuf, ",\"realtime_us\":", (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    put(strbuf, "}}");
}

static void put_process(struct timeline *timeline)
{
    struct strbuf *strbuf = &timeline->strbuf;
    char name[400];
    snprintf(name, sizeof(name), "rank %d (%s)", timeline->rank, timeline->host);
    put_metadata(timeline);
    put(strbuf, ",\"name\":\"process_name\",\"args\":{\"name\":");
    strbuf_add_json(strbuf, name);
    put(strbuf, "}}");
    put_metadata(timeline);
    put_pair(strbuf, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", timeline->rank);
    put(strbuf, "}}");
}

/* Writes the events of one operation, all in its row. */
struct event_writer {
    struct strbuf *strbuf;
    char begin_bytes[64]; /* the text that all of them begin with */
    struct strbuf begin;
    int64_t from_us; /* no event begins earlier */
};

static void event_writer_init(struct event_writer *event_writer, struct timeline *timeline,
                              const struct trace_op *op, int64_t from_us)
{
    int64_t row = op->row < ROWS ? op->row + 1 : ROWS + 1 + (int64_t)(op->serial % 1000000);
    event_writer->strbuf = &timeline->strbuf;
    event_writer->begin = (struct strbuf){event_writer->begin_bytes, 0, sizeof(event_writer->begin_bytes)};
    event_writer->from_us = from_us;
    put_pair(&event_writer->begin, ",\n{\"ph\":\"X\",\"pid\":", timeline->rank);
    put_pair(&event_writer->begin, ",\"tid\":", row);
    put(&event_writer->begin, ",\"ts\":");
}

static void put_event(struct event_writer *event_writer, int64_t from_us, int64_t to_us)
{
    if (from_us < event_writer->from_us)
        from_us = event_writer->from_us;
    strbuf_add_bytes(event_writer->strbuf, event_writer->begin.bytes, event_writer->begin.used);
    strbuf_add_number(event_writer->strbuf, from_us);
    put_pair(event_writer->strbuf, ",\"dur\":", to_us > from_us ? to_us - from_us : 0);
    put(event_writer->strbuf, ",\"name\":");
}

static void put_operation(struct event_writer *event_writer, const struct trace_op *op, int status)
{
    struct strbuf *strbuf = event_writer->strbuf;
    const char *name = op->name[0] == 1 ? op->name + 1 : op->name;
    put_event(event_writer, op->at_us[TRACE_SUBMITTED], op->at_us[TRACE_DONE]);
    strbuf_add_json(strbuf, name[0] != 0 ? name : op->kind);
    put(strbuf, ",\"cat\":");
    strbuf_add_json(strbuf, op->kind);
    put_pair(strbuf, ",\"args\":{\"set\":", op->set);
    put_pair(strbuf, ",\"number\":", (int64_t)op->agreed);
    put_pair(strbuf, ",\"submitted\":", op->at_us[TRACE_SUBMITTED]);
    put_pair(strbuf, ",\"bytes\":", op->bytes);
    put_pair(strbuf, ",\"tensors\":", op->tensors);
    put(strbuf, ",\"status\":");
    strbuf_add_json(strbuf, status_text(status));
    put(strbuf, "}}");
}

/* Each step of an operation lasts until the next one that it reaches. */
static void put_steps(struct event_writer *event_writer, const struct trace_op *op)
{
    static const char *const ends[TRACE_DONE] = {"\"waiting for peers\"}", "\"queued\"}", "\"packing\"}",
                                                 "\"wire\"}", "\"unpacking\"}"};
    for (int step = TRACE_SUBMITTED; step < TRACE_DONE;) {
        int next = step + 1;
        while (op->at_us[next] == 0)
            next++;
        put_event(event_writer, op->at_us[step], op->at_us[next]);
        strbuf_add_text(event_writer->strbuf, ends[step]);
        step = next;
    }
}

#undef put_pair
#undef put

/* ---- Rows --------------------------------------------------------------------------------------- */

void timeline_begin(struct timeline *timeline, struct trace_op *op)
{
    op->row = ROWS;
    for (int i = 0; i < ROW_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&timeline->rows[i], memory_order_relaxed);
        while (word != UINT64_MAX) {
            int bit = __builtin_ctzll(~word);
            if (atomic_compare_exchange_weak_explicit(&timeline->rows[i], &word, word | UINT64_C(1) << bit,
                                                      memory_order_relaxed, memory_order_relaxed)) {
                op->row = i * 64 + bit;
                return;
            }
        }
    }
}

static void free_row(struct timeline *timeline, int row)
{
    if (row < ROWS)
        atomic_fetch_and_explicit(&timeline->rows[row / 64], ~(UINT64_C(1) << row % 64),
                                  memory_order_relaxed);
}

static void put_finished(struct timeline *timeline, const struct trace_op *op, int status)
{
    struct event_writer event_writer;
    int64_t from_us = op->at_us[TRACE_SUBMITTED];
    if (timeline->fd < 0 || from_us < timeline->start_us)
        return;
    if (timeline->strbuf.capacity - timeline->strbuf.used < OPERATION_BYTES)
        flush(timeline);
    if (timeline->fd < 0)
        return;
    /* its thread may have read the clock before the row became free, and taken the row after that */
    if (op->row < ROWS && timeline->row_end_us[op->row] > from_us)
        from_us = timeline->row_end_us[op->row];
    if (op->row < ROWS)
        timeline->row_end_us[op->row] = op->at_us[TRACE_DONE];
    event_writer_init(&event_writer, timeline, op, from_us);
    put_operation(&event_writer, op, status);
    put_steps(&event_writer, op);
}

void timeline_end(struct timeline *timeline, const struct trace_op *op, int status)
{
    if (lock_timeline(timeline)) {
        put_finished(timeline, op, status);
        unlock_timeline(timeline);
    }
    free_row(timeline, op->row);
}

/* ---- Start and stop ----------------------------------------------------------------------------- */

static int begin_file(struct timeline *timeline, struct hvd_error *err)
{
    timeline->strbuf = (struct strbuf){timeline->strbuf.bytes, 0, BUFFER_BYTES};
    timeline->end_bytes = 0;
    memset(timeline->row_end_us, 0, sizeof(timeline->row_end_us));
    strbuf_add_text(&timeline->strbuf, "[\n");
    put_process(timeline);
    put_clock(timeline);
    if (write_events(timeline) < 0) {
        int rc = error_set_errno(err, "the timeline %s cannot be written", timeline->path);
        close_file(timeline);
        return rc;
    }
    timeline->start_us = clock_us();
    atomic_store_explicit(&timeline->on, true, memory_order_relaxed);
    return HVD_OK;
}

int timeline_start(struct timeline *timeline, const char *folder, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (!lock_timeline(timeline))
        return error_set(err, HVD_ERR_STATE, "no timeline can be started in a process that is ending");
    if (timeline->fd >= 0)
        rc = error_set(err, HVD_ERR_STATE, "the timeline %s is being written; stop it first", timeline->path);
    if (rc == HVD_OK && timeline->strbuf.bytes == NULL) {
        timeline->strbuf.bytes = malloc(BUFFER_BYTES + TAIL_BYTES);
        if (timeline->strbuf.bytes == NULL)
            rc = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the timeline");
    }
    if (rc == HVD_OK)
        rc = open_file(timeline, folder, err);
    if (rc == HVD_OK)
        rc = begin_file(timeline, err);
    unlock_timeline(timeline);
    return rc;
}

int timeline_stop(struct timeline *timeline, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (!lock_timeline(timeline))
        return error_set(err, HVD_ERR_STATE, "the timeline was closed, because this process is ending");
    if (timeline->fd < 0) {
        rc = error_set(err, HVD_ERR_STATE, "no timeline is being written");
    } else {
        if (write_events(timeline) < 0)
            rc = error_set_errno(err, "the timeline %s cannot be written", timeline->path);
        close_file(timeline);
    }
    unlock_timeline(timeline);
    return rc;
}

void timeline_set_clock(struct timeline *timeline, int64_t offset_us, int64_t error_us)
{
    if (!lock_timeline(timeline))
        return;
    timeline->offset_us = offset_us;
    timeline->error_us = error_us;
    if (timeline->fd >= 0) {
        if (timeline->strbuf.capacity - timeline->strbuf.used < OPERATION_BYTES)
            flush(timeline);
        if (timeline->fd >= 0)
            put_clock(timeline);
        flush(timeline);
    }
    unlock_timeline(timeline);
}

void timeline_flush(struct timeline *timeline)
{
    if (!lock_timeline(timeline))
        return;
    flush(timeline);
    unlock_timeline(timeline);
}

void timeline_flush_in_signal(struct timeline *timeline)
{
    if (!atomic_exchange(&timeline->owned, true) && timeline->fd >= 0)
        write_events(timeline);
}
