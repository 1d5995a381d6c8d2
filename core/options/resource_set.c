/* resource_set.c: the values of --hvd-rs, and jsrun's options that mean the same. */
#include "options/resource_set.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "options/token.h"

const char rs_expected[] = "KEY:VALUE with commas between, such as tasks:1,cpus:7,gpus:1,bind:packed:7; keys "
                           "are nrs, np, tasks, cpus, "
                           "gpus, rs_per_host, bind, launch_distribution, latency_priority";

static const char *const distribution_names[] = {
    [RS_DIST_PACKED] = "packed", [RS_DIST_CYCLIC] = "cyclic", NULL};
static const char *const latency_names[] = {
    [RS_GPU_CPU] = "gpu-cpu", [RS_CPU_CPU] = "cpu-cpu", [RS_CPU_MEM] = "cpu-mem", NULL};
static const char *const strict_names[] = {
    [RS_GPU_CPU] = "GPU-CPU", [RS_CPU_CPU] = "CPU-CPU", [RS_CPU_MEM] = "CPU-MEM", NULL};

enum rs_key {
    KEY_NRS,
    KEY_NP,
    KEY_TASKS,
    KEY_CPUS,
    KEY_GPUS,
    KEY_PER_HOST,
    KEY_BIND,
    KEY_DISTRIBUTION,
    KEY_LATENCY,
    KEY_COUNT
};

/* Each key, and jsrun's name for it if that differs. */
static const struct {
    const char *name, *jsrun;
} keys[KEY_COUNT] = {
    [KEY_NRS] = {"nrs", "nrs"},
    [KEY_NP] = {"np", "np"},
    [KEY_TASKS] = {"tasks", "tasks_per_rs"},
    [KEY_CPUS] = {"cpus", "cpu_per_rs"},
    [KEY_GPUS] = {"gpus", "gpu_per_rs"},
    [KEY_PER_HOST] = {"rs_per_host", "rs_per_host"},
    [KEY_BIND] = {"bind", "bind"},
    [KEY_DISTRIBUTION] = {"launch_distribution", "launch_distribution"},
    [KEY_LATENCY] = {"latency_priority", "latency_priority"},
};

void rs_init(struct rs_options *options)
{
    *options = (struct rs_options){.bind = RS_BIND_PACKED, .bind_cpus = 1};
}

static int read_count_or_all(struct token token, const char *jsrun_all, int min, int *valuep,
                             const char **whyp)
{
    if (token_equals(token, "all") || token_equals(token, jsrun_all)) {
        *valuep = RS_ALL;
        return 0;
    }
    return token_parse_number(token, min, RS_MAX, valuep, whyp);
}

static int read_bind(struct token token, struct rs_options *options, const char **whyp)
{
    struct token count;
    if (token_equals(token, "none")) {
        options->bind = RS_BIND_NONE;
    } else if (token_equals(token, "rs")) {
        options->bind = RS_BIND_RS;
    } else if (token_equals(token, "packed")) {
        options->bind = RS_BIND_PACKED;
        options->bind_cpus = 1;
    } else if (token_strip_prefix(token, "packed:", &count)) {
        options->bind = RS_BIND_PACKED;
        return token_parse_number(count, 1, RS_MAX, &options->bind_cpus, whyp);
    } else {
        *whyp = "has a bind that is not none, rs or packed:N";
        return -1;
    }
    return 0;
}

static int read_distribution(struct token token, struct rs_options *options, const char **whyp)
{
    struct token count;
    if (token_strip_prefix(token, "plane:", &count)) {
        options->distribution = RS_DIST_PLANE;
        return token_parse_number(count, 1, RS_MAX, &options->plane, whyp);
    }
    int choice = token_find_choice(token, distribution_names);
    *whyp = "has a launch_distribution that is not packed, cyclic or plane:N";
    if (choice < 0)
        return -1;
    options->distribution = (enum rs_distribution)choice;
    return 0;
}

/* Read "gpu-cpu+cpu-mem"; jsrun separates them by commas. */
static int read_latency(struct token token, struct rs_options *options, const char **whyp)
{
    const char *end = token.text + token.length;
    int count = 0;
    for (const char *at = token.text; at <= end; count++) {
        struct token part = {at, 0};
        while (at < end && *at != '+' && *at != ',')
            at++;
        part.length = (size_t)(at++ - part.text);
        int choice = token_find_choice(part, latency_names);
        int strict = token_find_choice(part, strict_names);
        *whyp = "has a latency_priority that is not made of gpu-cpu, cpu-cpu and cpu-mem";
        if (count == RS_LATENCY_COUNT || (choice < 0 && strict < 0))
            return -1;
        options->latency[count] = (enum rs_latency)(choice >= 0 ? choice : strict);
        for (int i = 0; i < count; i++) {
            *whyp = "has a latency_priority with a word twice";
            if (options->latency[i] == options->latency[count])
                return -1;
        }
        options->latency_strict = options->latency_strict || strict >= 0;
    }
    options->latency_count = count;
    return 0;
}

static int set_key(struct rs_options *options, enum rs_key key, struct token value, const char **whyp)
{
    switch (key) {
    case KEY_NRS:
        return token_parse_number(value, 1, RS_MAX, &options->nrs, whyp);
    case KEY_NP:
        return token_parse_number(value, 1, RS_MAX, &options->np, whyp);
    case KEY_TASKS:
        return token_parse_number(value, 1, RS_MAX, &options->tasks, whyp);
    case KEY_CPUS:
        return read_count_or_all(value, "ALL_CPUS", 1, &options->cpus, whyp);
    case KEY_GPUS:
        return read_count_or_all(value, "ALL_GPUS", 0, &options->gpus, whyp);
    case KEY_PER_HOST:
        return token_parse_number(value, 1, RS_MAX, &options->rs_per_host, whyp);
    case KEY_BIND:
        return read_bind(value, options, whyp);
    case KEY_DISTRIBUTION:
        return read_distribution(value, options, whyp);
    case KEY_LATENCY:
        options->latency_strict = false;
        return read_latency(value, options, whyp);
    case KEY_COUNT:
        break;
    }
    return -1;
}

int rs_set(struct rs_options *options, const char *name, const char *value, const char **whyp)
{
    struct rs_options changed = *options;
    for (int key = 0; key < KEY_COUNT; key++) {
        if (strcmp(name, keys[key].name) != 0 && strcmp(name, keys[key].jsrun) != 0)
            continue;
        if (set_key(&changed, (enum rs_key)key, (struct token){value, strlen(value)}, whyp) < 0)
            return -1;
        *options = changed;
        return 0;
    }
    *whyp = "has an unknown key";
    return -1;
}

int rs_parse(const char *text, struct rs_options *options, const char **whyp)
{
    struct rs_options read;
    bool seen[KEY_COUNT] = {false};
    struct token token;
    rs_init(&read);
    for (const char *at = text; at != NULL;) {
        at = token_next(at, ',', &token);
        struct token name = {token.text, 0};
        while (name.length < token.length && name.text[name.length] != ':')
            name.length++;
        int key = 0;
        while (key < KEY_COUNT && !token_equals(name, keys[key].name))
            key++;
        if (key == KEY_COUNT || name.length == token.length) {
            *whyp = text[0] == 0       ? "is empty"
                    : key == KEY_COUNT ? "has an unknown key"
                                       : "has a key without a value";
            return -1;
        }
        if (seen[key]) {
            *whyp = "has a key twice";
            return -1;
        }
        seen[key] = true;
        struct token value = {token.text + name.length + 1, token.length - name.length - 1};
        if (set_key(&read, (enum rs_key)key, value, whyp) < 0)
            return -1;
    }
    *options = read;
    options->given = true;
    return 0;
}

/* A text under construction in a buffer of RS_TEXT_BYTES, in which the longest one fits. */
struct rs_text_buffer {
    char *text;
    size_t used;
};

static void write_key(struct rs_text_buffer *writer, enum rs_key key, const char *value)
{
    writer->used += (size_t)snprintf(writer->text + writer->used, RS_TEXT_BYTES - writer->used, "%s%s:%s",
                                     writer->used > 0 ? "," : "", keys[key].name, value);
}

static void write_count(struct rs_text_buffer *writer, enum rs_key key, int value, int def)
{
    char number[16];
    if (value == def)
        return;
    snprintf(number, sizeof(number), "%d", value);
    write_key(writer, key, value == RS_ALL ? "all" : number);
}

const char *rs_text(const struct rs_options *options, char *text)
{
    struct rs_text_buffer writer = {text, 0};
    char value[64] = "";
    text[0] = 0;
    write_count(&writer, KEY_NRS, options->nrs, RS_UNSET);
    write_count(&writer, KEY_NP, options->np, RS_UNSET);
    write_count(&writer, KEY_TASKS, options->tasks, RS_UNSET);
    write_count(&writer, KEY_CPUS, options->cpus, RS_UNSET);
    write_count(&writer, KEY_GPUS, options->gpus, 0);
    write_count(&writer, KEY_PER_HOST, options->rs_per_host, RS_UNSET);
    snprintf(value, sizeof(value), "packed:%d", options->bind_cpus);
    if (options->bind != RS_BIND_PACKED)
        write_key(&writer, KEY_BIND, options->bind == RS_BIND_RS ? "rs" : "none");
    else if (options->bind_cpus != 1)
        write_key(&writer, KEY_BIND, value);
    snprintf(value, sizeof(value), "plane:%d", options->plane);
    if (options->distribution == RS_DIST_PLANE)
        write_key(&writer, KEY_DISTRIBUTION, value);
    else if (options->distribution != RS_DIST_PACKED)
        write_key(&writer, KEY_DISTRIBUTION, distribution_names[options->distribution]);
    const char *const *names = options->latency_strict ? strict_names : latency_names;
    size_t used = 0;
    for (int i = 0; i < options->latency_count; i++)
        used += (size_t)snprintf(value + used, sizeof(value) - used, "%s%s", i > 0 ? "+" : "",
                                 names[options->latency[i]]);
    if (options->latency_count > 0)
        write_key(&writer, KEY_LATENCY, value);
    return text;
}

/* Ranks go around all sets, some tasks of each at a time; the last round takes what is left of each set. */
bool rs_locate_rank(const struct rs_options *options, int rs_count, int rank, int *rsp, int *taskp)
{
    int64_t tasks = options->tasks == RS_UNSET ? 1 : options->tasks;
    int64_t stride = options->distribution == RS_DIST_PACKED   ? tasks
                     : options->distribution == RS_DIST_CYCLIC ? 1
                     : options->plane < tasks                  ? options->plane
                                                               : tasks;
    if (rs_count < 1 || rank < 0 || rank >= tasks * rs_count)
        return false;
    int64_t round = rank / (stride * rs_count);
    int64_t left = tasks - round * stride;
    int64_t width = left < stride ? left : stride;
    int64_t rest = rank - round * stride * rs_count;
    *rsp = (int)(rest / width);
    *taskp = (int)(round * stride + rest % width);
    return true;
}
