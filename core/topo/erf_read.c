/* erf_read.c: read explicit resource files. */
#include "topo/erf_state.h"

#include <stdlib.h>
#include <string.h>

#include "topo/file.h"

const struct erf_action_key erf_action_keys[7] = {
    {"overlapping_rs", offsetof(struct erf, overlapping_rs)},
    {"oversubscribe_cpu", offsetof(struct erf, oversubscribe_cpu)},
    {"oversubscribe_gpu", offsetof(struct erf, oversubscribe_gpu)},
    {"oversubscribe_mem", offsetof(struct erf, oversubscribe_mem)},
    {"skip_missing_cpu", offsetof(struct erf, skip_missing_cpu)},
    {"skip_missing_gpu", offsetof(struct erf, skip_missing_gpu)},
    {"skip_missing_mem", offsetof(struct erf, skip_missing_mem)}};

const char *const erf_action_names[4] = {
    [ERF_ERROR] = "error", [ERF_WARN] = "warn", [ERF_ALLOW] = "allow", NULL};

/* ---- The text ---- */

/* The rest of a line, and its place in the file. */
struct erf_reader {
    const char *name;
    int line;
    const char *at, *end;
    struct erf *erf;
    int rank_room, host_room, set_room;
    bool counted, ranked; /* the file has lines that begin with a count; with "rank:" */
    struct hvd_error *err;
};

static int parse_error(const struct erf_reader *reader, const char *what)
{
    int length = (int)(reader->end - reader->at);
    return error_set(reader->err, HVD_ERR_INVALID, "%.100s, line %d: %s at '%.*s'", reader->name,
                     reader->line, what, length > 40 ? 40 : length, reader->at);
}

static int no_memory(const struct erf_reader *reader)
{
    return error_set(reader->err, HVD_ERR_NO_MEMORY, "%.100s, line %d: no memory for its ranks", reader->name,
                     reader->line);
}

static void skip_blanks(struct erf_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

/* If [text] comes next, after any blanks, skip it and return true. */
static bool take(struct erf_reader *reader, const char *text)
{
    size_t length = strlen(text);
    skip_blanks(reader);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* Skip a key and the colon after it. Returns false, at the old place, if they do not come next. */
static bool match_key(struct erf_reader *reader, const char *key)
{
    const char *before = reader->at;
    if (take(reader, key) && take(reader, ":"))
        return true;
    reader->at = before;
    return false;
}

static bool at_end(struct erf_reader *reader)
{
    skip_blanks(reader);
    return reader->at == reader->end;
}

/* Read digits. Returns false if there are none or the number is over [max]. */
static bool read_number(struct erf_reader *reader, int max, int *valuep)
{
    int value = 0;
    skip_blanks(reader);
    const char *at = reader->at;
    for (; at < reader->end && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0'); /* [max] is far from the largest int */
        if (value > max)
            return false;
    }
    if (at == reader->at)
        return false;
    reader->at = at;
    *valuep = value;
    return true;
}

/* Copy the next [length] bytes, none of which may be a control character other than a tab. */
static int copy_text(struct erf_reader *reader, size_t length, char **textp)
{
    if (length == 0 || length >= ERF_TEXT_BYTES)
        return parse_error(reader,
                           length == 0 ? "a name or command is missing" : "a name or command is too long");
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)reader->at[i] < ' ' && reader->at[i] != '\t')
            return parse_error(reader, "a character that is not text");
    *textp = strndup(reader->at, length);
    reader->at += length;
    return *textp != NULL ? HVD_OK : no_memory(reader);
}

/* Make room for one more element in an array of [count] elements of [bytes] each. [arrayp] is the address of
 * the pointer to it. */
static int grow(const struct erf_reader *reader, void *arrayp, int count, int *room, size_t bytes)
{
    void *array;
    memcpy(&array, arrayp, sizeof(array));
    if (count < *room)
        return HVD_OK;
    int more = *room == 0 ? 16 : *room * 2;
    array = realloc(array, (size_t)more * bytes);
    if (array == NULL)
        return no_memory(reader);
    memcpy(arrayp, &array, sizeof(array));
    *room = more;
    return HVD_OK;
}

/* ---- The preamble ---- */

static int read_action(struct erf_reader *reader, const struct erf_action_key *key)
{
    for (int i = 0; erf_action_names[i] != NULL; i++) {
        if (!take(reader, erf_action_names[i]))
            continue;
        memcpy((char *)reader->erf + key->offset, &(enum erf_action){(enum erf_action)i},
               sizeof(enum erf_action));
        return HVD_OK;
    }
    return parse_error(reader, "expected error, warn or allow");
}

static int read_distribution(struct erf_reader *reader)
{
    struct erf *erf = reader->erf;
    if (take(reader, "packed"))
        erf->distribution = RS_DIST_PACKED;
    else if (take(reader, "cyclic"))
        erf->distribution = RS_DIST_CYCLIC;
    else if (take(reader, "plane:") && read_number(reader, RS_MAX, &erf->plane) && erf->plane > 0)
        erf->distribution = RS_DIST_PLANE;
    else
        return parse_error(reader, "expected packed, cyclic or plane:N");
    return HVD_OK;
}

static int read_app(struct erf_reader *reader)
{
    struct erf *erf = reader->erf;
    int number = 0;
    if (!read_number(reader, ERF_MAX_APPS - 1, &number) || number != erf->app_count || !take(reader, ":"))
        return parse_error(
            reader, "expected app 0, app 1 and so on, up to app 63, each with a colon and its command line");
    skip_blanks(reader);
    if (erf->apps == NULL)
        erf->apps = calloc(ERF_MAX_APPS, sizeof(*erf->apps));
    if (erf->apps == NULL)
        return no_memory(reader);
    int rc = copy_text(reader, (size_t)(reader->end - reader->at), &erf->apps[erf->app_count]);
    erf->app_count += rc == HVD_OK;
    return rc;
}

static int read_index(struct erf_reader *reader)
{
    if (take(reader, "logical"))
        reader->erf->physical = false;
    else if (take(reader, "physical"))
        reader->erf->physical = true;
    else
        return parse_error(reader, "expected logical or physical");
    return HVD_OK;
}

/* ---- The resources of a line ---- */

/* Read "{0-3,8}" into *set. */
static int read_set(struct erf_reader *reader, struct bitmap *set)
{
    *set = (struct bitmap){{0}};
    if (!take(reader, "{"))
        return parse_error(reader, "expected * or {...}");
    do {
        int first, last;
        if (!read_number(reader, BITMAP_BITS - 1, &first))
            return parse_error(reader, "expected a number below 4096");
        last = first;
        if (take(reader, "-") && (!read_number(reader, BITMAP_BITS - 1, &last) || last < first))
            return parse_error(reader, "expected the end of a range");
        for (; first <= last; first++)
            bitmap_set(set, first);
    } while (take(reader, ","));
    return take(reader, "}") ? HVD_OK : parse_error(reader, "expected , or }");
}

/* Read sets separated by commas, or a star. *firstp is the index of the first set, or ERF_ALL. */
static int read_sets(struct erf_reader *reader, int max, int *firstp, int *countp)
{
    struct erf *erf = reader->erf;
    *countp = 1;
    if (take(reader, "*")) {
        *firstp = ERF_ALL;
        return HVD_OK;
    }
    *firstp = erf->set_count;
    do {
        int rc = grow(reader, &erf->sets, erf->set_count, &reader->set_room, sizeof(*erf->sets));
        if (rc == HVD_OK && erf->set_count - *firstp == max)
            rc = parse_error(reader, "more sets than ranks");
        if (rc == HVD_OK)
            rc = read_set(reader, &erf->sets[erf->set_count]);
        if (rc != HVD_OK)
            return rc;
        erf->set_count++;
    } while (take(reader, ","));
    *countp = erf->set_count - *firstp;
    return HVD_OK;
}

static bool same_host(const struct erf_host *a, const struct erf_host *b)
{
    if (a->name == NULL || b->name == NULL)
        return a->name == b->name && a->index == b->index;
    return strcmp(a->name, b->name) == 0;
}

/* Find or add the host; *hostp is its index. Most lines have the same host as the line before. */
static int add_host(struct erf_reader *reader, struct erf_host host, int *hostp)
{
    struct erf *erf = reader->erf;
    if (erf->host_count > 0 && same_host(&erf->hosts[erf->host_count - 1], &host)) {
        free(host.name);
        *hostp = erf->host_count - 1;
        return HVD_OK;
    }
    int rc = grow(reader, &erf->hosts, erf->host_count, &reader->host_room, sizeof(*erf->hosts));
    if (rc != HVD_OK) {
        free(host.name);
        return rc;
    }
    erf->hosts[erf->host_count] = host;
    *hostp = erf->host_count++;
    return HVD_OK;
}

static int read_host(struct erf_reader *reader, bool named, int *hostp)
{
    struct erf_host host = {NULL, 0};
    size_t length = 0;
    skip_blanks(reader);
    if (!named && take(reader, "*")) {
        *hostp = ERF_ALL;
        return HVD_OK;
    }
    if (!named) {
        if (!read_number(reader, RS_MAX, &host.index) || host.index < 1)
            return parse_error(reader, "expected * or the number of a host, from 1");
        return add_host(reader, host, hostp);
    }
    while (reader->at + length < reader->end && strchr(" \t;{}", reader->at[length]) == NULL)
        length++;
    int rc = copy_text(reader, length, &host.name);
    return rc == HVD_OK ? add_host(reader, host, hostp) : rc;
}

/* Read "*", or amounts of memory, which are only noted. */
static int read_memory(struct erf_reader *reader, int *memsp)
{
    if (take(reader, "*")) {
        *memsp = ERF_ALL;
        return HVD_OK;
    }
    reader->erf->memory_amounts = true;
    skip_blanks(reader);
    const char *before = reader->at;
    while (reader->at < reader->end && strchr("0123456789,-{ ", *reader->at) != NULL)
        reader->at++;
    take(reader, "}");
    return reader->at > before ? HVD_OK : parse_error(reader, "expected * or an amount of memory");
}

/* The resources between a line's braces. */
struct rank_resources {
    struct erf_rank rank; /* the resources of the first rank */
    int cpuset_count;
    bool has_host, has_cpus, has_gpus, has_mems;
};

static int read_field(struct erf_reader *reader, int ranks, struct rank_resources *to)
{
    int gpusets = 0;
    bool *seen = NULL;
    int rc = HVD_OK;
    if (match_key(reader, "hostname")) {
        seen = &to->has_host;
        rc = read_host(reader, true, &to->rank.host);
    } else if (match_key(reader, "host")) {
        seen = &to->has_host;
        rc = read_host(reader, false, &to->rank.host);
    } else if (match_key(reader, "cpu")) {
        seen = &to->has_cpus;
        rc = read_sets(reader, ranks, &to->rank.cpus, &to->cpuset_count);
    } else if (match_key(reader, "gpu")) {
        seen = &to->has_gpus;
        rc = read_sets(reader, 1, &to->rank.gpus, &gpusets);
    } else if (match_key(reader, "mem")) {
        seen = &to->has_mems;
        rc = read_memory(reader, &to->rank.mems);
    } else {
        return parse_error(reader, "expected host:, hostname:, cpu:, gpu: or mem:");
    }
    if (rc == HVD_OK && *seen)
        return parse_error(reader, "the same is given twice before");
    *seen = true;
    return rc;
}

/* Read "{ host: 1; cpu: {0-3},{4-7}; gpu: * } : app 0" for [ranks] ranks. */
static int read_resources(struct erf_reader *reader, int ranks, struct rank_resources *to)
{
    *to = (struct rank_resources){.rank = {ERF_NONE, ERF_NONE, ERF_NONE, ERF_NONE, ERF_NONE, reader->line}};
    if (!take(reader, "{"))
        return parse_error(reader, "expected {");
    do {
        if (take(reader, "}")) { /* after the last semicolon */
            reader->at--;
            break;
        }
        int rc = read_field(reader, ranks, to);
        if (rc != HVD_OK)
            return rc;
    } while (take(reader, ";"));
    if (!take(reader, "}"))
        return parse_error(reader, "expected ; or }");
    if (!to->has_host || !to->has_cpus)
        return parse_error(reader, "host (or hostname) and cpu must be given before");
    if (to->cpuset_count != 1 && to->cpuset_count != ranks)
        return parse_error(reader, "expected one set of CPUs, or one for each rank, before");
    if (take(reader, ":") &&
        (!take(reader, "app") || !read_number(reader, reader->erf->app_count - 1, &to->rank.app)))
        return parse_error(reader, "expected app and the number of one that is given above");
    return at_end(reader) ? HVD_OK : parse_error(reader, "expected the end of the line");
}

/* ---- Lines of ranks ---- */

/* Make room for ranks up to [last]. Ranks that no line has named yet have line 0. */
static int extend_ranks(struct erf_reader *reader, int last)
{
    struct erf *erf = reader->erf;
    for (; erf->rank_count <= last; erf->rank_count++) {
        int rc = grow(reader, &erf->ranks, erf->rank_count, &reader->rank_room, sizeof(*erf->ranks));
        if (rc != HVD_OK)
            return rc;
        erf->ranks[erf->rank_count] = (struct erf_rank){.line = 0};
    }
    return HVD_OK;
}

/* Set the resources of [rank], the [nth] rank of a line. */
static int set_rank(struct erf_reader *reader, int rank, const struct rank_resources *from, int nth)
{
    struct erf_rank *to = &reader->erf->ranks[rank];
    if (to->line != 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%.100s, line %d: rank %d is in line %d already",
                         reader->name, reader->line, rank, to->line);
    *to = from->rank;
    if (from->cpuset_count > 1)
        to->cpus += nth;
    return HVD_OK;
}

/* Read "0-3" or "{0,2,5-7}" as pairs of first and last, at most [room]. Returns the number of pairs, or
 * -1. */
static int read_ranks(struct erf_reader *reader, int (*pairs)[2], int room)
{
    int count = 0;
    bool braces = take(reader, "{");
    do {
        if (count == room || !read_number(reader, ERF_MAX_RANKS - 1, &pairs[count][0]))
            return -1;
        pairs[count][1] = pairs[count][0];
        if (take(reader, "-") &&
            (!read_number(reader, ERF_MAX_RANKS - 1, &pairs[count][1]) || pairs[count][1] < pairs[count][0]))
            return -1;
        count++;
    } while (take(reader, ","));
    return braces && !take(reader, "}") ? -1 : count;
}

static int read_rank_line(struct erf_reader *reader)
{
    int pairs[256][2];
    int ranks = 0, nth = 0;
    struct rank_resources resources;
    int count = read_ranks(reader, pairs, 256);
    if (count < 0 || !take(reader, ":"))
        return parse_error(reader, "expected up to 256 ranks or ranges of them, below 131072, and a colon");
    for (int i = 0; i < count; i++)
        ranks += pairs[i][1] - pairs[i][0] + 1;
    int rc = read_resources(reader, ranks, &resources);
    for (int i = 0; rc == HVD_OK && i < count; i++) {
        rc = extend_ranks(reader, pairs[i][1]);
        for (int rank = pairs[i][0]; rc == HVD_OK && rank <= pairs[i][1]; rank++)
            rc = set_rank(reader, rank, &resources, nth++);
    }
    return rc;
}

static int read_count_line(struct erf_reader *reader)
{
    struct rank_resources resources;
    int ranks = 0, first = reader->erf->rank_count;
    if (!read_number(reader, ERF_MAX_RANKS - first, &ranks) || ranks < 1 || !take(reader, ":"))
        return parse_error(reader, "expected a number of ranks, of all lines at most 131072, and a colon");
    int rc = read_resources(reader, ranks, &resources);
    if (rc == HVD_OK)
        rc = extend_ranks(reader, first + ranks - 1);
    for (int i = 0; rc == HVD_OK && i < ranks; i++)
        rc = set_rank(reader, first + i, &resources, i);
    return rc;
}

/* ---- The file ---- */

static int read_preamble_line(struct erf_reader *reader)
{
    int rc;
    if (take(reader, "app ") || take(reader, "app\t"))
        return read_app(reader); /* the rest of the line belongs to it */
    for (size_t i = 0; i < sizeof(erf_action_keys) / sizeof(erf_action_keys[0]); i++) {
        if (!match_key(reader, erf_action_keys[i].name))
            continue;
        rc = read_action(reader, &erf_action_keys[i]);
        return rc != HVD_OK || at_end(reader) ? rc : parse_error(reader, "expected the end of the line");
    }
    if (match_key(reader, "overlapping-rs"))
        rc = read_action(reader, &erf_action_keys[0]);
    else if (match_key(reader, "launch_distribution"))
        rc = read_distribution(reader);
    else if (match_key(reader, "cpu_index_using"))
        rc = read_index(reader);
    else
        return parse_error(reader, "expected rank:, a number of ranks, or a key of the preamble");
    return rc != HVD_OK || at_end(reader) ? rc : parse_error(reader, "expected the end of the line");
}

static int parse_line(struct erf_reader *reader)
{
    if (at_end(reader) || *reader->at == '#')
        return HVD_OK;
    bool ranked = match_key(reader, "rank");
    bool counted = !ranked && *reader->at >= '0' && *reader->at <= '9';
    reader->ranked = reader->ranked || ranked;
    reader->counted = reader->counted || counted;
    if (reader->ranked && reader->counted)
        return parse_error(reader, "lines that name ranks and lines that count them do not go together");
    return ranked ? read_rank_line(reader) : counted ? read_count_line(reader) : read_preamble_line(reader);
}

static int check_ranks(const struct erf_reader *reader)
{
    const struct erf *erf = reader->erf;
    if (erf->rank_count == 0)
        return error_set(reader->err, HVD_ERR_INVALID, "%.100s: no line gives a rank its resources",
                         reader->name);
    for (int rank = 0; rank < erf->rank_count; rank++)
        if (erf->ranks[rank].line == 0)
            return error_set(reader->err, HVD_ERR_INVALID, "%.100s: rank %d is in no line, but rank %d is",
                             reader->name, rank, erf->rank_count - 1);
    return HVD_OK;
}

int erf_parse(const char *name, const char *text, size_t text_bytes, struct erf **erfp, struct hvd_error *err)
{
    struct erf_reader reader = {.name = name, .err = err};
    const char *end = text + text_bytes;
    int rc = HVD_OK;
    if (text_bytes > ERF_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%.100s: an explicit resource file of more than %d MiB", name,
                         ERF_BYTES >> 20);
    reader.erf = calloc(1, sizeof(*reader.erf));
    if (reader.erf == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "%.100s: no memory to read it", name);
    while (rc == HVD_OK && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        reader.line++;
        reader.at = text;
        reader.end = newline != NULL ? newline : end;
        text = reader.end + 1;
        rc = parse_line(&reader);
        if (newline == NULL)
            break;
    }
    if (rc == HVD_OK)
        rc = check_ranks(&reader);
    if (rc != HVD_OK) {
        erf_destroy(reader.erf);
        return rc;
    }
    *erfp = reader.erf;
    return HVD_OK;
}

int erf_read(const char *path, struct erf **erfp, struct hvd_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = file_read(path, "an explicit resource file", ERF_BYTES, &text, &bytes, err);
    if (rc == HVD_OK)
        rc = erf_parse(path, text, bytes, erfp, err);
    free(text);
    return rc;
}

void erf_destroy(struct erf *erf)
{
    if (erf == NULL)
        return;
    for (int i = 0; i < erf->app_count; i++)
        free(erf->apps[i]);
    for (int i = 0; i < erf->host_count; i++)
        free(erf->hosts[i].name);
    free(erf->apps);
    free(erf->hosts);
    free(erf->sets);
    free(erf->ranks);
    free(erf);
}
