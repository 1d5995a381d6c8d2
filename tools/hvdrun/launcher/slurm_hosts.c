/* slurm_hosts.c: the hosts of a Slurm job, with a slot for each task that has room there. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/parse.h"
#include "tools/hvdrun/launcher/hosts.h"

#define DIGITS "0123456789"

/* The counts of Slurm's variables, "2(x3),4", one after the other. */
struct counts {
    const char *at;
    long count, times; /* what is left of the current one */
};

static long next_count(struct counts *counts)
{
    char *end = NULL;
    if (counts->times == 0) {
        counts->count = strtol(counts->at, &end, 10);
        counts->times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            counts->times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        counts->at = end + (*end == ',');
    }
    counts->times--;
    return counts->count;
}

/* What is read. */
struct reader {
    struct host_list *list;
    struct counts cpus;                 /* of each host */
    long cpus_per_slot, slots_per_host; /* 0: as many as its CPUs allow */
    struct hvd_error *err;
};

static int add(struct reader *reader, const char *name)
{
    long cpus = next_count(&reader->cpus);
    long slots = reader->slots_per_host > 0 ? reader->slots_per_host : cpus / reader->cpus_per_slot;
    return host_list_add(reader->list, name,
                         slots < 1                ? 1
                         : slots > HOST_SLOTS_MAX ? HOST_SLOTS_MAX
                                                  : (int)slots,
                         reader->err);
}

static int damaged(struct reader *reader, const char *text)
{
    return error_set(reader->err, HVD_ERR_INVALID,
                     "SLURM_JOB_NODELIST: '%.80s' is not understood; name the hosts by --hostfile", text);
}

static int expand(struct reader *reader, const char *start, const char *text, size_t length);

/* "001-003" or "7" in brackets, with what stands before and after them. */
static int expand_range(struct reader *reader, const char *start, const char *range, size_t length,
                        const char *rest, size_t rest_length)
{
    char name[HOST_NAME_BYTES];
    size_t digits = strspn(range, DIGITS);
    long first = strtol(range, NULL, 10), last = first;
    size_t used = digits;
    if (used < length && range[used] == '-') {
        last = strtol(range + used + 1, NULL, 10);
        used += 1 + strspn(range + used + 1, DIGITS);
    }
    if (digits == 0 || digits > 9 || used != length || last < first || last - first >= HOSTS_MAX)
        return damaged(reader, range);
    int status = HVD_OK;
    for (long number = first; status == HVD_OK && number <= last; number++) {
        int bytes = snprintf(name, sizeof(name), "%s%0*ld", start, (int)digits, number);
        status = bytes < (int)sizeof(name) ? expand(reader, name, rest, rest_length) : damaged(reader, start);
    }
    return status;
}

/* The hosts whose names are [start], and then [text] with its first brackets expanded. */
static int expand(struct reader *reader, const char *start, const char *text, size_t length)
{
    char name[HOST_NAME_BYTES];
    const char *open = memchr(text, '[', length);
    const char *close = open != NULL ? memchr(open, ']', length - (size_t)(open - text)) : NULL;
    size_t plain = open != NULL ? (size_t)(open - text) : length;
    if (snprintf(name, sizeof(name), "%s%.*s", start, (int)plain, text) >= (int)sizeof(name) ||
        (open != NULL && close == NULL))
        return damaged(reader, text);
    if (open == NULL)
        return add(reader, name);
    int status = HVD_OK;
    const char *range = open + 1;
    while (status == HVD_OK && range <= close) {
        size_t range_length = strcspn(range, ",]");
        status =
            expand_range(reader, name, range, range_length, close + 1, length - (size_t)(close + 1 - text));
        range += range_length + 1;
    }
    return status;
}

/* The length of the first name in [text], up to a comma outside brackets. */
static size_t name_length(const char *text)
{
    size_t length = 0;
    for (bool inside = false; text[length] != 0 && (inside || text[length] != ','); length++)
        inside = text[length] == '[' || (inside && text[length] != ']');
    return length;
}

static long number_of(char *const *environment, const char *name)
{
    return (long)parse_count_or(environment_value(environment, name), 0);
}

int host_list_of_slurm(struct host_list *list, char *const *environment, int slots, struct hvd_error *err)
{
    struct host_list read = {NULL, 0, 0};
    const char *text = environment_value(environment, "SLURM_JOB_NODELIST");
    const char *cpus = environment_value(environment, "SLURM_JOB_CPUS_PER_NODE");
    long per_slot = number_of(environment, "SLURM_CPUS_PER_TASK");
    struct reader reader = {.list = &read,
                            .cpus.at = cpus != NULL ? cpus : "1(x65536)",
                            .cpus_per_slot = per_slot > 0 ? per_slot : 1,
                            .slots_per_host =
                                slots > 0 ? slots : number_of(environment, "SLURM_NTASKS_PER_NODE"),
                            .err = err};
    int status = HVD_OK;
    while (status == HVD_OK && text != NULL && text[0] != 0) {
        size_t length = name_length(text);
        status = expand(&reader, "", text, length);
        text += length + (text[length] == ',');
    }
    if (status == HVD_OK && read.count == 0)
        status = error_set(err, HVD_ERR_INVALID,
                           "SLURM_JOB_NODELIST names no node; start hvdrun in a job of Slurm");
    if (status == HVD_OK)
        *list = read;
    else
        host_list_free(&read);
    return status;
}
