/* hosts.c: read lists of hosts, and share ranks out among them. */
#include "tools/hvdrun/launcher/hosts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"

#define BLANKS      " \t\r"
#define HOST_SYNTAX "expected a name such as node7 or node7:4"

void host_list_free(struct host_list *list)
{
    free(list->hosts);
    *list = (struct host_list){NULL, 0, 0};
}

/* A piece of text that is not terminated. */
struct piece {
    const char *text;
    size_t length;
};

/* Take the next piece from *textp, up to one of [ends], and step over that. */
static struct piece next_piece(const char **textp, const char *ends)
{
    struct piece piece = {*textp, strcspn(*textp, ends)};
    *textp += piece.length;
    if (**textp != 0)
        (*textp)++;
    return piece;
}

/* Names go into command lines, so one that a launcher could take for an option, or split, is refused. */
static bool is_host_name(struct piece name)
{
    if (name.length == 0 || name.length >= HOST_NAME_BYTES || !isalnum((unsigned char)name.text[0]))
        return false;
    for (size_t i = 0; i < name.length; i++) {
        if (!isalnum((unsigned char)name.text[i]) && strchr("._-", name.text[i]) == NULL)
            return false;
    }
    return true;
}

static int parse_slots(const char *where, struct piece text, int *slotsp, struct hvd_error *err)
{
    char digits[24];
    int64_t slots = 0;
    const char *why = "is too long";
    snprintf(digits, sizeof(digits), "%.*s", (int)text.length, text.text);
    if (text.length < sizeof(digits) && parse_count(digits, &slots, &why) == 0) {
        why = slots < 1 ? "is too small" : "is too large";
        if (slots >= 1 && slots <= HOST_SLOTS_MAX) {
            *slotsp = (int)slots;
            return HVD_OK;
        }
    }
    return error_set(err, HVD_ERR_INVALID, "%.200s: the number of slots, %.20s, %s; expected 1 to %d", where,
                     digits, why, HOST_SLOTS_MAX);
}

static int add_host(struct host_list *list, const char *where, struct piece name, int slots,
                    struct hvd_error *err)
{
    if (!is_host_name(name))
        return error_set(err, HVD_ERR_INVALID, "%.200s: '%.*s' is no host; " HOST_SYNTAX, where,
                         (int)(name.length < 80 ? name.length : 80), name.text);
    for (int i = 0; i < list->count; i++) {
        struct host *host = &list->hosts[i];
        if (strlen(host->name) != name.length || memcmp(host->name, name.text, name.length) != 0)
            continue;
        if (host->slots > HOST_SLOTS_MAX - slots)
            return error_set(err, HVD_ERR_INVALID, "%.200s: host %s has more than %d slots", where,
                             host->name, HOST_SLOTS_MAX);
        host->slots += slots;
        return HVD_OK;
    }
    if (list->count == HOSTS_MAX)
        return error_set(err, HVD_ERR_INVALID, "%.200s: more than %d hosts", where, HOSTS_MAX);
    if (list->count == list->room) {
        int room = list->room == 0 ? 16 : 2 * list->room;
        struct host *hosts = realloc(list->hosts, (size_t)room * sizeof(*hosts));
        if (hosts == NULL)
            return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %d hosts", room);
        list->hosts = hosts;
        list->room = room;
    }
    struct host *host = &list->hosts[list->count++];
    *host = (struct host){.slots = slots};
    memcpy(host->name, name.text, name.length);
    return HVD_OK;
}

int host_list_add(struct host_list *list, const char *name, int slots, struct hvd_error *err)
{
    return add_host(list, "a list of hosts", (struct piece){name, strlen(name)}, slots, err);
}

/* "h1:4" or "h1" */
static int add_with_colon(struct host_list *list, const char *where, struct piece entry, int slots,
                          struct hvd_error *err)
{
    const char *colon = memchr(entry.text, ':', entry.length);
    struct piece name = entry;
    int status = HVD_OK;
    if (colon != NULL) {
        name.length = (size_t)(colon - entry.text);
        status = parse_slots(where, (struct piece){colon + 1, entry.length - name.length - 1}, &slots, err);
    }
    return status == HVD_OK ? add_host(list, where, name, slots, err) : status;
}

/* Give [list] the hosts of [read] if reading has succeeded, and free what is not needed. */
static int replace(struct host_list *list, struct host_list *read, int status)
{
    if (status == HVD_OK) {
        host_list_free(list);
        *list = *read;
    } else {
        host_list_free(read);
    }
    return status;
}

int host_list_parse(struct host_list *list, const char *where, const char *text, struct hvd_error *err)
{
    struct host_list read = {NULL, 0, 0};
    int status = HVD_OK;
    do {
        struct piece entry = {text, strcspn(text, ",")};
        status = add_with_colon(&read, where, entry, 1, err);
        text += entry.length;
    } while (status == HVD_OK && *text++ != 0);
    return replace(list, &read, status);
}

/* ---- Hostfiles -------------------------------------------------------------------------------- */

static bool starts_with(struct piece piece, const char *start)
{
    size_t length = strlen(start);
    return piece.length >= length && memcmp(piece.text, start, length) == 0;
}

static struct piece after(struct piece piece, const char *start)
{
    size_t length = strlen(start);
    return (struct piece){piece.text + length, piece.length - length};
}

/* One line, without its end. */
static int read_line(struct host_list *list, const char *where, struct piece line, int slots,
                     struct hvd_error *err)
{
    char text[1024];
    int limit = 0;
    if (line.length >= sizeof(text))
        return error_set(err, HVD_ERR_INVALID, "%.200s: the line is longer than %zu bytes", where,
                         sizeof(text) - 1);
    memcpy(text, line.text, line.length);
    text[line.length] = 0;
    text[strcspn(text, "#")] = 0;
    const char *at = text + strspn(text, BLANKS);
    if (at[0] == 0)
        return HVD_OK;
    struct piece host = next_piece(&at, BLANKS);
    int status = HVD_OK;
    for (at += strspn(at, BLANKS); status == HVD_OK && at[0] != 0; at += strspn(at, BLANKS)) {
        struct piece word = next_piece(&at, BLANKS);
        if (starts_with(word, "slots=") && memchr(host.text, ':', host.length) == NULL)
            status = parse_slots(where, after(word, "slots="), &slots, err);
        else if (starts_with(word, "max_slots=") || starts_with(word, "max-slots="))
            status = parse_slots(where, after(word, "max_slots="), &limit, err);
        else
            return error_set(err, HVD_ERR_INVALID,
                             "%.200s: '%.*s' is not understood; expected h1 slots=4, or h1:4", where,
                             (int)(word.length < 80 ? word.length : 80), word.text);
    }
    if (status == HVD_OK && limit != 0 && limit < slots)
        return error_set(err, HVD_ERR_INVALID, "%.200s: slots=%d is more than max_slots=%d", where, slots,
                         limit);
    return status == HVD_OK ? add_with_colon(list, where, host, slots, err) : status;
}

int host_list_parse_file(struct host_list *list, const char *path, const char *text, int slots,
                         struct hvd_error *err)
{
    struct host_list read = {NULL, 0, 0};
    char where[256];
    int status = HVD_OK;
    for (int number = 1; status == HVD_OK && text[0] != 0; number++) {
        snprintf(where, sizeof(where), "%.200s, line %d", path, number);
        status = read_line(&read, where, next_piece(&text, "\n"), slots, err);
    }
    if (status == HVD_OK && read.count == 0)
        status = error_set(err, HVD_ERR_INVALID,
                           "%.200s names no host; expected a line such as h1 slots=4 for each", path);
    return replace(list, &read, status);
}

/* The whole file as a text, which the caller frees. */
static char *read_text(const char *path, struct hvd_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(HOST_FILE_BYTES + 1) : NULL;
    if (text == NULL) {
        error_set_errno(err, "%.200s cannot be read", path);
    } else {
        size_t length = fread(text, 1, HOST_FILE_BYTES, file);
        text[length] = 0;
        const char *why = ferror(file) != 0                 ? "cannot be read"
                          : length == HOST_FILE_BYTES       ? "is too long for a list of hosts"
                          : memchr(text, 0, length) != NULL ? "is no text"
                                                            : NULL;
        if (why != NULL) {
            error_set(err, HVD_ERR_INVALID, "%.200s %s", path, why);
            free(text);
            text = NULL;
        }
    }
    if (file != NULL)
        fclose(file);
    return text;
}

int host_list_read(struct host_list *list, const char *path, int slots, struct hvd_error *err)
{
    char *text = read_text(path, err);
    if (text == NULL)
        return HVD_ERR_INVALID;
    int status = host_list_parse_file(list, path, text, slots, err);
    free(text);
    return status;
}

/* ---- LSF ------------------------------------------------------------------------------------- */

/* LSB_MCPU_HOSTS, "h1 4 h2 4", or LSB_HOSTS, with a host's name for each of its slots. */
int host_list_of_lsf(struct host_list *list, char *const *environment, struct hvd_error *err)
{
    struct host_list read = {NULL, 0, 0};
    const char *counted = environment_value(environment, "LSB_MCPU_HOSTS");
    const char *repeated = environment_value(environment, "LSB_HOSTS");
    const char *name = counted != NULL ? "LSB_MCPU_HOSTS" : "LSB_HOSTS";
    const char *at = counted != NULL ? counted : repeated != NULL ? repeated : "";
    int status = HVD_OK;
    for (at += strspn(at, BLANKS); status == HVD_OK && at[0] != 0; at += strspn(at, BLANKS)) {
        struct piece host = next_piece(&at, BLANKS);
        int slots = 1;
        if (counted != NULL) {
            at += strspn(at, BLANKS);
            status = parse_slots(name, next_piece(&at, BLANKS), &slots, err);
        }
        if (status == HVD_OK)
            status = add_host(&read, name, host, slots, err);
    }
    return replace(list, &read, status);
}

/* ---- Use ------------------------------------------------------------------------------------- */

const struct host *host_list_find(const struct host_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->hosts[i].name, name) == 0)
            return &list->hosts[i];
    return NULL;
}

int host_list_slots(const struct host_list *list)
{
    int64_t slots = 0;
    for (int i = 0; i < list->count; i++)
        slots += list->hosts[i].slots;
    return slots > HOST_SLOTS_MAX ? HOST_SLOTS_MAX : (int)slots;
}

/* Are the names equal up to the domain of one of them? */
static bool is_same_host(const char *name, const char *here)
{
    size_t length = strlen(name);
    size_t here_length = strlen(here);
    size_t shorter = length < here_length ? length : here_length;
    if (strncmp(name, here, shorter) != 0)
        return false;
    return length == here_length || (length > shorter ? name : here)[shorter] == '.';
}

const char *host_list_elsewhere(const struct host_list *list, const char *here)
{
    for (int i = 0; i < list->count; i++) {
        const char *name = list->hosts[i].name;
        if (strcmp(name, "localhost") != 0 && strcmp(name, "127.0.0.1") != 0 && !is_same_host(name, here))
            return name;
    }
    return NULL;
}

void host_list_fill(struct host_list *list, int ranks)
{
    for (int i = 0; i < list->count; i++) {
        struct host *host = &list->hosts[i];
        host->ranks = ranks < host->slots ? ranks : host->slots;
        ranks -= host->ranks;
    }
}

void host_list_spread(struct host_list *list, int ranks)
{
    for (int i = 0; i < list->count; i++)
        list->hosts[i].ranks = ranks / list->count + (i < ranks % list->count);
}
