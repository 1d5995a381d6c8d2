/* config_file.c: read the file of --hvd-config: a YAML mapping of options' names to values. */
#include "options/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/descriptors.h"

/* The state of the reader. It accepts libyaml's events only in one shape: a document that is a flat
 * mapping. */
struct yaml_reader {
    const char *path;
    int (*on_entry)(void *arg, const char *name, const char *value, struct hvd_error *err);
    void *arg;
    bool document_seen;
    bool mapping_seen;
    char *name; /* the name of the next value; NULL if a name comes next */
};

/* Read the whole file into [text], which has room for one byte more than a file may have. */
static int read_text(int fd, const char *path, char *text, size_t *lengthp, struct hvd_error *err)
{
    ssize_t length = descriptors_read(fd, text, CONFIG_FILE_BYTES + 1);
    if (length < 0)
        return error_set(err, HVD_ERR_INVALID, "the configuration file %.256s cannot be read: %s", path,
                         strerror(errno));
    if (length > CONFIG_FILE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "the configuration file %.256s is longer than %d bytes", path,
                         CONFIG_FILE_BYTES);
    *lengthp = (size_t)length;
    return HVD_OK;
}

static int load_text(const char *path, char *text, size_t *lengthp, struct hvd_error *err)
{
    struct stat about;
    /* not blocking, so that a pipe of that name cannot hang the job */
    int fd = descriptors_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return error_set(err, HVD_ERR_INVALID, "the configuration file %.256s cannot be opened: %s", path,
                         strerror(errno));
    int rc;
    if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode))
        rc = error_set(err, HVD_ERR_INVALID, "the configuration file %.256s is not a regular file", path);
    else
        rc = read_text(fd, path, text, lengthp, err);
    close(fd);
    return rc;
}

static int refuse_event(const struct yaml_reader *reader, const yaml_event_t *event, const char *why,
                        struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID,
                     "%.256s, line %zu: %s; expected one option a line, such as 'fusion: 64M'", reader->path,
                     event->start_mark.line + 1, why);
}

static int handle_scalar(struct yaml_reader *reader, const yaml_event_t *event, struct hvd_error *err)
{
    const char *text = (const char *)event->data.scalar.value;
    if (!reader->mapping_seen)
        return refuse_event(reader, event, "the file is not a mapping of names to values", err);
    if (strlen(text) != event->data.scalar.length)
        return refuse_event(reader, event, "a zero byte", err);
    if (reader->name == NULL) {
        reader->name = strdup(text);
        return reader->name != NULL ? HVD_OK : error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    }
    int rc = reader->on_entry(reader->arg, reader->name, text, err);
    free(reader->name);
    reader->name = NULL;
    return rc;
}

static int handle_event(struct yaml_reader *reader, const yaml_event_t *event, struct hvd_error *err)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->document_seen)
            return refuse_event(reader, event, "a second document", err);
        reader->document_seen = true;
        return HVD_OK;
    case YAML_MAPPING_START_EVENT:
        if (reader->mapping_seen)
            return refuse_event(reader, event, "a mapping inside the mapping", err);
        reader->mapping_seen = true;
        return HVD_OK;
    case YAML_SCALAR_EVENT:
        return handle_scalar(reader, event, err);
    case YAML_SEQUENCE_START_EVENT:
        return refuse_event(reader, event, "a YAML list (write tcp,mpi)", err);
    case YAML_ALIAS_EVENT:
        return refuse_event(reader, event, "a YAML alias", err);
    default:
        return HVD_OK;
    }
}

static int parse_text(struct yaml_reader *reader, const char *text, size_t length, struct hvd_error *err)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool ended = false;
    int rc = HVD_OK;
    if (yaml_parser_initialize(&parser) == 0)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    while (rc == HVD_OK && !ended) {
        if (yaml_parser_parse(&parser, &event) == 0) {
            rc = error_set(err, HVD_ERR_INVALID, "%.256s, line %zu: not YAML: %s", reader->path,
                           parser.problem_mark.line + 1,
                           parser.problem != NULL ? parser.problem : "cannot be parsed");
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        rc = handle_event(reader, &event, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return rc;
}

/* Call [on_entry] with each name and value of the file [path], in the file's order, until it fails. Returns
 * what [on_entry] returned, or HVD_ERR_INVALID if the file cannot be read, is no regular file, is too long,
 * is not YAML, or is anything but one flat mapping. An empty file has no entries. [on_entry] must detect
 * duplicate names. */
static int read_file(const char *path,
                     int (*on_entry)(void *arg, const char *name, const char *value, struct hvd_error *err),
                     void *arg, struct hvd_error *err)
{
    struct yaml_reader reader = {.path = path, .on_entry = on_entry, .arg = arg};
    size_t length = 0;
    char *text = malloc(CONFIG_FILE_BYTES + 1);
    if (text == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    int rc = load_text(path, text, &length, err);
    if (rc == HVD_OK)
        rc = parse_text(&reader, text, length, err);
    free(reader.name);
    free(text);
    return rc;
}

int config_load(struct hvd_config *config, char *const *environment, void (*warn)(const char *sentence),
                struct hvd_error *err)
{
    return config_load_with(read_file, config, environment, warn, err);
}
