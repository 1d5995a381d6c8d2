/* trace_file.c: read the timeline of one rank, line by line. */
#include "tools/hvdinfo/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer than any line that hvd writes. */
#define LINE_BYTES 16384

#define NUMBER_MAX (INT64_C(1) << 52)
#define RANK_MAX   (1 << 24)

/* One file that is being read. */
struct trace_reader {
    const char *path;
    FILE *file;
    bool metadata_only; /* skip spans */
    int64_t line_number;
    char line[LINE_BYTES];
    size_t length; /* of the line without its newline */
    bool ended;    /* the line ended with a newline */
};

/* Store the integer [key] of [object] in *numberp. Returns false if there is none within 2^52. */
static bool read_number(const json_t *object, const char *key, int64_t *numberp)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) > NUMBER_MAX ||
        json_integer_value(value) < -NUMBER_MAX)
        return false;
    *numberp = json_integer_value(value);
    return true;
}

static int open_reader(struct trace_reader *reader, const char *path, struct hvd_error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, "%s cannot be opened", path);
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return error_set(err, HVD_ERR_INVALID, "%s is not a regular file", path);
    }
    reader->path = path;
    reader->line_number = 0;
    reader->file = fdopen(fd, "re");
    if (reader->file == NULL) {
        close(fd);
        return error_set_errno(err, "%s cannot be read", path);
    }
    return HVD_OK;
}

static int at_line(const struct trace_reader *reader, int status, const char *why, struct hvd_error *err)
{
    return error_set(err, status, "%s, line %" PRId64 ": %s", reader->path, reader->line_number, why);
}

static int refuse_timeline(const struct trace_reader *reader, const char *why, struct hvd_error *err)
{
    char text[300];
    snprintf(text, sizeof(text), "%s; this is not a timeline of hvd", why);
    return at_line(reader, HVD_ERR_INVALID, text, err);
}

/* Read the next line. Returns HVD_OK, HVD_IN_PROGRESS at end of file, or an error. */
static int next_line(struct trace_reader *reader, struct hvd_error *err)
{
    int byte = 0;
    reader->line_number++;
    reader->length = 0;
    reader->ended = false;
    while (reader->length < sizeof(reader->line)) {
        byte = getc_unlocked(reader->file);
        if (byte == EOF || byte == '\n')
            break;
        reader->line[reader->length++] = (char)byte;
    }
    if (ferror(reader->file))
        return error_set_errno(err, "%s cannot be read", reader->path);
    reader->ended = byte == '\n';
    if (byte != EOF && byte != '\n')
        return refuse_timeline(reader, "the line is too long", err);
    return byte == EOF && reader->length == 0 ? HVD_IN_PROGRESS : HVD_OK;
}

static int read_event(json_t *object, struct trace_event *event, struct hvd_error *err)
{
    int64_t duration_us = 0;
    const char *phase = json_string_value(json_object_get(object, "ph"));
    event->object = object;
    event->name = json_string_value(json_object_get(object, "name"));
    event->arguments = json_object_get(object, "args");
    event->at_us = 0;
    if (phase == NULL || event->name == NULL)
        return error_set(err, HVD_ERR_INVALID, "an event without ph or name");
    if (event->arguments != NULL && !json_is_object(event->arguments))
        return error_set(err, HVD_ERR_INVALID, "args is no object");
    event->is_metadata = strcmp(phase, "M") == 0;
    if (event->is_metadata)
        return HVD_OK;
    if (strcmp(phase, "X") != 0)
        return error_set(err, HVD_ERR_INVALID, "ph is neither M nor X");
    if (!read_number(object, "ts", &event->at_us) || !read_number(object, "dur", &duration_us) ||
        duration_us < 0)
        return error_set(err, HVD_ERR_INVALID, "ts or dur is no number of microseconds");
    return HVD_OK;
}

/* Parse one event, with or without a comma after it. */
static int take_line(struct trace_reader *reader, trace_file_f sink, void *arg, bool *cutp,
                     struct hvd_error *err)
{
    static const char span[] = "{\"ph\":\"X\"";
    struct trace_event event;
    struct hvd_error sentence = {""};
    json_error_t why;
    size_t length = reader->length;
    if (reader->metadata_only && length >= sizeof(span) && memcmp(reader->line, span, sizeof(span) - 1) == 0)
        return HVD_OK;
    if (length > 0 && reader->line[length - 1] == ',')
        length--;
    json_t *object = json_loadb(reader->line, length, JSON_REJECT_DUPLICATES, &why);
    if (object == NULL && !reader->ended) {
        *cutp = true;
        return HVD_OK;
    }
    if (object == NULL)
        return refuse_timeline(reader, why.text, err);
    int rc = read_event(object, &event, &sentence);
    if (rc == HVD_OK)
        rc = sink(arg, &event, &sentence);
    json_decref(object);
    return rc == HVD_OK ? HVD_OK : at_line(reader, rc, sentence.text, err);
}

static int read_lines(struct trace_reader *reader, trace_file_f sink, void *arg, bool *cutp,
                      struct hvd_error *err)
{
    bool closed = false;
    for (;;) {
        int rc = next_line(reader, err);
        if (rc == HVD_IN_PROGRESS)
            break;
        if (rc != HVD_OK)
            return rc;
        bool bracket = reader->length == 1 && reader->line[0] == (reader->line_number == 1 ? '[' : ']');
        if (closed || (reader->line_number == 1 && !bracket))
            return refuse_timeline(reader, closed ? "more after the closing bracket" : "no opening bracket",
                                   err);
        closed = bracket && reader->line_number > 1;
        if (!bracket)
            rc = take_line(reader, sink, arg, cutp, err);
        if (rc != HVD_OK)
            return rc;
    }
    if (!closed)
        *cutp = true;
    return HVD_OK;
}

static int read_file(const char *path, bool metadata_only, trace_file_f sink, void *arg, bool *cutp,
                     struct hvd_error *err)
{
    struct trace_reader reader;
    int rc = open_reader(&reader, path, err);
    if (rc != HVD_OK)
        return rc;
    reader.metadata_only = metadata_only;
    *cutp = false;
    rc = read_lines(&reader, sink, arg, cutp, err);
    fclose(reader.file);
    return rc;
}

int trace_file_read(const char *path, trace_file_f sink, void *arg, bool *cutp, struct hvd_error *err)
{
    return read_file(path, false, sink, arg, cutp, err);
}

static int take_clock(void *arg, const struct trace_event *event, struct hvd_error *err)
{
    struct trace_clock *clock = arg;
    int64_t rank, size, offset_us, error_us;
    if (!event->is_metadata || strcmp(event->name, "hvd_clock") != 0)
        return HVD_OK;
    const json_t *arguments = event->arguments;
    const char *host = json_string_value(json_object_get(arguments, "host"));
    if (host == NULL || !read_number(arguments, "rank", &rank) || !read_number(arguments, "size", &size) ||
        !read_number(arguments, "offset_us", &offset_us) || !read_number(arguments, "error_us", &error_us))
        return error_set(err, HVD_ERR_INVALID, "what it says of its clock is not complete");
    if (rank < 0 || rank >= size || size > RANK_MAX || error_us < -1)
        return error_set(err, HVD_ERR_INVALID, "it says that it is of rank %" PRId64 " of %" PRId64, rank,
                         size);
    clock->rank = (int)rank;
    clock->size = (int)size;
    clock->offset_us = offset_us;
    clock->error_us = error_us;
    snprintf(clock->host, sizeof(clock->host), "%s", host);
    return HVD_OK;
}

int trace_file_clock(const char *path, struct trace_clock *clock, bool *cutp, struct hvd_error *err)
{
    clock->size = 0;
    int rc = read_file(path, true, take_clock, clock, cutp, err);
    if (rc != HVD_OK)
        return rc;
    if (clock->size == 0)
        return error_set(
            err, HVD_ERR_INVALID,
            "%s says neither its rank nor its clock: it was cut at its very beginning, or is not a "
            "timeline of hvd",
            path);
    return HVD_OK;
}

/* Only the span of a whole operation has the time of its submission; the spans of its steps do not. */
bool trace_file_arrival(const struct trace_event *event, struct arrival *arrival)
{
    const json_t *arguments = event->arguments;
    struct arrival read = {.name = event->name};
    int64_t set = 0;
    read.kind = json_string_value(json_object_get(event->object, "cat"));
    if (event->is_metadata || read.kind == NULL || !read_number(arguments, "submitted", &read.at_us) ||
        !read_number(arguments, "number", &read.number) || !read_number(arguments, "set", &set) || set < 0 ||
        set > INT_MAX)
        return false;
    if (read.number == 0) /* it failed before all ranks had submitted it */
        return false;
    read.set = (int)set;
    *arrival = read;
    return true;
}
