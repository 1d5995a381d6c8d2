/* torch_records.c: write a rank's operations as torch does when TORCH_FR_DUMP_TEMP_FILE is set: a pickle of a
 * dictionary, here in protocol 0, which is text. torchfrtrace compares what ranks have under one number of a
 * group. That is hvd's number of decided operations; those that are undecided follow in the rank's order. */
#include "config.h"
#include "tools/hvdinfo/ps/torch_records.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/metrics_file.h"
#include "tools/hvdinfo/ps/judge.h"

#define TORCH_FORMAT "2.10" /* its version */

/* The opcodes of pickle's protocol 0. */
#define MARK   "("
#define DICT   "d"
#define LIST   "l"
#define TUPLE  "t"
#define NONE   "N"
#define TRUE_  "I01\n"
#define FALSE_ "I00\n"
#define END    "."

struct torch_file {
    const struct ranks *ranks;
    const struct rank *rank;
};

/* ---- Values -------------------------------------------------------------------------------------- */

static void put_text(FILE *to, const char *text)
{
    putc('V', to);
    for (; *text != 0; text++) {
        if (*text == '\\' || *text < ' ' || *text > '~')
            fprintf(to, "\\u%04x", (unsigned char)*text);
        else
            putc(*text, to);
    }
    putc('\n', to);
}

static void put_number(FILE *to, const char *key, int64_t number)
{
    put_text(to, key);
    fprintf(to, "L%" PRId64 "L\n", number);
}

static void put_value(FILE *to, const char *key, const char *code)
{
    put_text(to, key);
    fputs(code, to);
}

static void put_member(FILE *to, const char *key, const char *text)
{
    put_text(to, key);
    put_text(to, text);
}

/* [[bytes]] and ["Byte"]: the record has no shapes. */
static void put_sizes(FILE *to, const char *sizes, const char *dtypes, int64_t bytes)
{
    put_text(to, sizes);
    fprintf(to, MARK MARK "L%" PRId64 "L\n" LIST LIST, bytes);
    put_text(to, dtypes);
    fputs(MARK, to);
    put_text(to, "Byte");
    fputs(LIST, to);
}

/* ---- An operation -------------------------------------------------------------------------------- */

/* [sized]: all ranks have equal bytes in it. */
static const struct torch_kind {
    const char *kind, *name;
    bool sized;
} kinds[] = {{"allreduce", "nccl:all_reduce", true}, {"broadcast", "nccl:broadcast", true},
             {"reduce", "nccl:reduce", true},        {"allgather", "nccl:all_gather", false},
             {"alltoall", "nccl:all_to_all", false}, {"reducescatter", "nccl:reduce_scatter", false},
             {"gather", "nccl:gather", false},       {"scatter", "nccl:scatter", false},
             {"barrier", "nccl:barrier", false}};

/* NULL: torch knows no such operation, or it is a message, which has no number. */
static const struct torch_kind *find_kind(const struct flight_operation *operation)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(operation->kind, kinds[i].kind) == 0)
            return &kinds[i];
    }
    return NULL;
}

static int64_t number_of(const struct rank *rank, const struct flight_operation *operation)
{
    int64_t number = judge_last_agreed(rank, operation->set);
    if (operation->agreed != 0)
        return operation->agreed;
    for (const struct flight_operation *at = rank->operations; at <= operation; at++)
        number += at->set == operation->set && at->agreed == 0 && find_kind(at) != NULL;
    return number;
}

static const char *state_of(const struct flight_operation *operation)
{
    return operation->step == TRACE_DONE     ? "completed"
           : operation->step > TRACE_DECIDED ? "started"
                                             : "scheduled";
}

/* torch shows frames: the name of the tensor is one. */
static void put_frames(FILE *to, const struct flight_operation *operation)
{
    char title[FLIGHT_TITLE_BYTES];
    put_value(to, "frames", MARK MARK);
    put_member(to, "name", flight_title(operation, title));
    put_member(to, "filename", "hvd");
    put_number(to, "line", 0);
    fputs(DICT LIST, to);
}

static void put_time(FILE *to, const char *key, const struct flight_operation *operation,
                     enum trace_step step)
{
    uint32_t after_us = operation->after_us[step - 1];
    if (after_us == 0)
        put_value(to, key, NONE);
    else
        put_number(to, key, (operation->submitted_us + after_us - 1) * 1000);
}

static void describe_set(int set, char name[16], char text[32])
{
    snprintf(name, 16, "%d", set);
    snprintf(text, 32, set == HVD_ALL_RANKS ? "default_pg" : "process set %d", set);
}

static void put_group(FILE *to, int set)
{
    char name[16], text[32];
    describe_set(set, name, text);
    put_number(to, "pg_id", set);
    put_value(to, "process_group", MARK);
    put_text(to, name);
    put_text(to, text);
    fputs(TUPLE, to);
}

static void put_operation(FILE *to, const struct rank *rank, const struct flight_operation *operation,
                          const struct torch_kind *kind)
{
    int64_t bytes = kind->sized ? operation->bytes : 0;
    bool done = operation->step == TRACE_DONE;
    fputs(MARK, to);
    put_number(to, "record_id", (int64_t)operation->serial);
    put_group(to, operation->set);
    put_number(to, "collective_seq_id", number_of(rank, operation));
    put_number(to, "p2p_seq_id", 0);
    put_number(to, "op_id", (int64_t)operation->serial);
    put_member(to, "profiling_name", kind->name);
    put_number(to, "time_created_ns", operation->submitted_us * 1000);
    put_sizes(to, "input_sizes", "input_dtypes", bytes);
    put_sizes(to, "output_sizes", "output_dtypes", bytes);
    put_member(to, "state", state_of(operation));
    put_time(to, "time_discovered_started_ns", operation, TRACE_TRANSFERRING);
    put_time(to, "time_discovered_completed_ns", operation, TRACE_DONE);
    put_value(to, "retired", done ? TRUE_ : FALSE_);
    put_value(to, "is_p2p", FALSE_);
    put_number(to, "timeout_ms", 0);
    put_frames(to, operation);
    fputs(DICT, to);
}

/* ---- A rank -------------------------------------------------------------------------------------- */

/* "[0, 1]" */
static void put_members(FILE *to, const struct ranks *ranks, int size, int set)
{
    const char *between = "";
    put_text(to, "ranks");
    fputs("V[", to);
    for (int i = 0; set == HVD_ALL_RANKS && i < size; i++, between = ", ")
        fprintf(to, "%s%d", between, i);
    for (int i = 0; set != HVD_ALL_RANKS && i < ranks->count; i++) {
        if (!judge_is_member(&ranks->list[i], set))
            continue;
        fprintf(to, "%s%d", between, ranks->list[i].rank);
        between = ", ";
    }
    fputs("]\n", to);
}

/* Of the sets that it has operations of. */
static void put_sets(FILE *to, const struct torch_file *file)
{
    const struct rank *rank = file->rank;
    char name[16], text[32];
    put_value(to, "pg_config", MARK);
    for (int i = -1; i < rank->operation_count; i++) {
        int set = i < 0 ? HVD_ALL_RANKS : rank->operations[i].set;
        describe_set(set, name, text);
        if (i >= 0 && set == HVD_ALL_RANKS)
            continue;
        put_value(to, name, MARK); /* again for each operation: the last one counts */
        put_member(to, "name", name);
        put_member(to, "desc", text);
        put_members(to, file->ranks, rank->size, set);
        fputs(DICT, to);
    }
    fputs(DICT, to);
}

static void write_rank(FILE *to, const void *arg)
{
    const struct torch_file *file = arg;
    fputs(MARK, to);
    put_member(to, "version", TORCH_FORMAT);
    put_sets(to, file);
    put_value(to, "entries", MARK);
    for (int i = 0; i < file->rank->operation_count; i++) {
        const struct torch_kind *kind = find_kind(&file->rank->operations[i]);
        if (kind != NULL)
            put_operation(to, file->rank, &file->rank->operations[i], kind);
    }
    fputs(LIST DICT END, to);
}

int torch_records_write(const char *folder, const struct ranks *ranks, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, "--torch=%.200s: the folder cannot be made", folder);
    for (int i = 0; rc == HVD_OK && i < ranks->count; i++) {
        struct torch_file file = {ranks, &ranks->list[i]};
        char path[PATH_MAX];
        if (!judge_same_job(&ranks->list[0], file.rank))
            return error_set(err, HVD_ERR_INVALID, "--torch=%.200s takes one job; name it", folder);
        snprintf(path, sizeof(path), "%s/hvd_trace_rank_%d", folder, file.rank->rank);
        rc = metrics_file_write("--torch", path, write_rank, &file, err);
    }
    return rc;
}
