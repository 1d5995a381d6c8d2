/* error_file.c: reads the exception that ended a Python program from the JSON that torch.distributed.elastic
 * defines:
 * {"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "Traceback ..."}}}, or only
 * {"message": "..."}. */
#include "tools/hvdrun/error_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20)

/* What jansson calls: up to [left] bytes of a file. */
struct source {
    int fd;
    size_t left;
};

static size_t read_some(void *buffer, size_t bytes, void *arg)
{
    struct source *source = arg;
    ssize_t count = 0;
    if (bytes > source->left)
        bytes = source->left;
    do
        count = read(source->fd, buffer, bytes);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return (size_t)-1;
    source->left -= (size_t)count;
    return (size_t)count;
}

/* NULL where it is no JSON object. */
static json_t *load(const char *path)
{
    struct source source = {open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), MOST_BYTES};
    if (source.fd < 0)
        return NULL;
    json_t *root = json_load_callback(read_some, &source, JSON_DISABLE_EOF_CHECK, NULL);
    close(source.fd);
    return root;
}

/* Copy one line, without what a terminal might obey. */
static void copy_line(const char *from, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (; *from != 0 && *from != '\n' && used + 1 < text_bytes; from++) {
        unsigned char byte = (unsigned char)*from;
        text[used++] = byte < ' ' || byte == 0x7f ? '?' : *from;
    }
    text[used] = 0;
}

/* The last `File "/home/me/train.py", line 31` of a traceback, as train.py:31. */
static void add_place(const char *traceback, char *text, size_t text_bytes)
{
    char path[256];
    char name[256];
    int line = 0;
    const char *last = NULL;
    for (const char *at = traceback; at != NULL; at = strstr(at + 1, "File \"")) {
        if (strncmp(at, "File \"", 6) == 0)
            last = at;
    }
    if (last == NULL || sscanf(last, "File \"%255[^\"]\", line %d", path, &line) != 2)
        return;
    const char *slash = strrchr(path, '/');
    copy_line(slash != NULL ? slash + 1 : path, name, sizeof(name));
    size_t used = strlen(text);
    snprintf(text + used, text_bytes - used, " (%s:%d)", name, line);
}

void error_file_read(const char *path, char *text, size_t text_bytes)
{
    text[0] = 0;
    json_t *root = load(path);
    const json_t *message = json_object_get(root, "message");
    const json_t *traceback = json_object_get(json_object_get(message, "extraInfo"), "py_callstack");
    if (json_is_object(message))
        message = json_object_get(message, "message");
    if (json_is_string(message))
        copy_line(json_string_value(message), text, text_bytes * 3 / 4);
    if (text[0] != 0 && json_is_string(traceback))
        add_place(json_string_value(traceback), text, text_bytes);
    json_decref(root);
}
