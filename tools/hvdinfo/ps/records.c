/* records.c: encode the ranks of a node as lines of text, and decode those of all nodes.
 *
 * A line is "hvdinfo-ps-2 NODE HEX": srun mixes the lines of different nodes, but cuts none that is shorter
 * than a kilobyte. The last line of a node has "end" in place of the bytes. */
#include "tools/hvdinfo/ps/records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/hash.h"
#include "options/node_list.h"
#include "options/parse.h"

#define END            "end"
#define LINE_BYTES     400 /* encoded bytes in a line */
#define HEAD_BYTES     16
#define RANK_BYTES     1536 /* room for a rank without its operations */
#define OPERATION_ROOM 256
#define LONGEST_US     INT64_C(1000000000000000) /* 30 years: no time is further away */
#define LARGEST        1e18                      /* no number of a rank's pace is larger */

/* ---- Encode -------------------------------------------------------------------------------------- */

/* Clocks of nodes differ: a time travels as how long it is ago. */
static void encode_time(struct encoder *encoder, int64_t us, int64_t now_us)
{
    encode_number(encoder, (uint64_t)now_us - (uint64_t)us, 8);
}

/* Of equal ones the one that was submitted last is beyond. */
static bool is_beyond(int64_t number, int64_t than, bool submitted_later)
{
    return number > than || (number == than && submitted_later);
}

/* Does judge.c need it? Of those that are done: the last one, the last one of each set, and the latest end.
 */
static bool is_needed(const struct rank *rank, int i)
{
    const struct flight_operation *operation = &rank->operations[i];
    bool last_of_set = true;
    bool latest = true;
    if (operation->step != TRACE_DONE || i == rank->operation_count - 1)
        return true;
    for (int k = 0; k < rank->operation_count; k++) {
        const struct flight_operation *other = &rank->operations[k];
        if (other->set == operation->set && is_beyond(other->agreed, operation->agreed, k > i))
            last_of_set = false;
        if (other->step == TRACE_DONE && is_beyond(flight_step_us(other), flight_step_us(operation), k > i))
            latest = false;
    }
    return last_of_set || latest;
}

static void encode_operation(struct encoder *encoder, const struct flight_operation *operation,
                             int64_t now_us)
{
    encode_number(encoder, operation->serial, 8);
    encode_number(encoder, operation->step, 1);
    encode_text(encoder, operation->kind, sizeof(operation->kind));
    encode_text(encoder, operation->name, sizeof(operation->name));
    encode_number(encoder, (uint64_t)operation->bytes, 8);
    encode_number(encoder, (uint32_t)operation->set, 4);
    encode_number(encoder, (uint32_t)operation->tensors, 4);
    encode_number(encoder, (uint32_t)operation->status, 4);
    encode_number(encoder, operation->agreed, 4);
    encode_time(encoder, operation->submitted_us, now_us);
    for (int step = 0; step < TRACE_STEP_COUNT - 1; step++)
        encode_number(encoder, operation->after_us[step], 4);
}

/* Names of launchers' jobs can be secrets, which do not travel. */
static void encode_key(struct encoder *encoder, const char *key)
{
    char hash[32];
    snprintf(hash, sizeof(hash), "%016" PRIx64, hash_bytes(key, strlen(key)));
    bool is_step = strncmp(key, RANK_STEP_KEY, strlen(RANK_STEP_KEY)) == 0;
    encode_text(encoder, is_step ? key : hash, RANK_KEY_BYTES);
}

static void encode_pace(struct encoder *encoder, const struct pace *pace)
{
    encode_double(encoder, pace->operations);
    encode_double(encoder, pace->bytes);
    encode_double(encoder, pace->waiting);
    encode_double(encoder, pace->moving);
    encode_double(encoder, pace->steps);
    encode_double(encoder, pace->long_steps);
    encode_double(encoder, pace->batch_tensors);
    encode_double(encoder, pace->cached);
    for (int i = 0; i < BACKEND_COUNT; i++)
        encode_double(encoder, pace->backend_bytes[i]);
}

static void encode_totals(struct encoder *encoder, const struct flight_totals *totals, int64_t now_us)
{
    for (int i = 0; i < SUM_COUNT; i++)
        encode_number(encoder, (uint64_t)totals->sums[i], 8);
    encode_number(encoder, (uint64_t)totals->commits, 8);
    encode_time(encoder, totals->committed_us, now_us);
}

static void encode_rank(struct encoder *encoder, const struct rank *rank, int64_t now_us)
{
    int needed = 0;
    encode_key(encoder, rank->key);
    encode_text(encoder, rank->job, sizeof(rank->job));
    encode_text(encoder, rank->node, sizeof(rank->node));
    encode_number(encoder, (uint64_t)rank->pid, 4);
    encode_number(encoder, (unsigned char)rank->process, 1);
    encode_text(encoder, rank->sleeps_in, sizeof(rank->sleeps_in));
    encode_text(encoder, rank->cores, sizeof(rank->cores));
    encode_text(encoder, rank->unreached, sizeof(rank->unreached));
    encode_number(encoder, rank->is_newcomer, 1);
    encode_number(encoder, rank->phase, 1);
    encode_number(encoder, rank->left, 1);
    encode_number(encoder, rank->waits, 1);
    encode_number(encoder, (uint64_t)rank->rank, 4);
    encode_number(encoder, (uint64_t)rank->size, 4);
    encode_number(encoder, (uint64_t)rank->first, 4);
    encode_number(encoder, rank->epoch, 4);
    encode_text(encoder, rank->host, sizeof(rank->host));
    for (int i = 0; i < FLIGHT_SET_WORDS; i++)
        encode_number(encoder, rank->sets[i], 8);
    encode_time(encoder, rank->phase_us, now_us);
    encode_time(encoder, rank->read_us, now_us);
    encode_number(encoder, rank->submitted, 8);
    encode_pace(encoder, &rank->pace);
    encode_totals(encoder, &rank->totals, now_us);
    encode_number(encoder, (uint64_t)rank->restarts, 4);
    for (int i = 0; i < rank->operation_count; i++)
        needed += is_needed(rank, i);
    encode_number(encoder, (uint64_t)needed, 2);
    for (int i = 0; i < rank->operation_count; i++) {
        if (is_needed(rank, i))
            encode_operation(encoder, &rank->operations[i], now_us);
    }
}

static void write_lines(FILE *to, int64_t node, const unsigned char *bytes, size_t length)
{
    for (size_t at = 0; at < length; at += LINE_BYTES) {
        fprintf(to, RECORDS_MARK "%" PRId64 " ", node);
        for (size_t i = at; i < at + LINE_BYTES && i < length; i++)
            fprintf(to, "%02x", bytes[i]);
        putc('\n', to);
    }
    fprintf(to, RECORDS_MARK "%" PRId64 " " END "\n", node);
}

int records_write(FILE *to, const struct ranks *ranks, int64_t node)
{
    size_t capacity = HEAD_BYTES;
    for (int i = 0; i < ranks->count; i++)
        capacity += RANK_BYTES + (size_t)ranks->list[i].operation_count * OPERATION_ROOM;
    unsigned char *bytes = malloc(capacity);
    if (bytes == NULL)
        return HVD_ERR_NO_MEMORY;
    struct encoder encoder = {.at = bytes, .left = capacity};
    encode_number(&encoder, (uint64_t)ranks->count, 4);
    for (int i = 0; i < ranks->count; i++)
        encode_rank(&encoder, &ranks->list[i], ranks->now_us);
    if (!encoder.failed)
        write_lines(to, node, bytes, capacity - encoder.left);
    free(bytes);
    return encoder.failed ? HVD_ERR_INVALID : HVD_OK;
}

/* ---- Decode -------------------------------------------------------------------------------------- */

static int64_t decode_time(struct decoder *decoder, int64_t now_us)
{
    int64_t ago_us = (int64_t)decode_number(decoder, 8);
    int64_t least_us = ago_us < -LONGEST_US ? -LONGEST_US : ago_us;
    return now_us - (least_us > LONGEST_US ? LONGEST_US : least_us);
}

/* Negative, as not known, where it cannot be one. */
static double decode_value(struct decoder *decoder)
{
    double value = decode_double(decoder);
    return value >= 0 && value <= LARGEST ? value : -1;
}

static int decode_int(struct decoder *decoder)
{
    return (int)(int32_t)(uint32_t)decode_number(decoder, 4);
}

static void decode_operation(struct decoder *decoder, struct flight_operation *operation, int64_t now_us)
{
    operation->serial = decode_number(decoder, 8);
    operation->step = (enum trace_step)decode_at_most(decoder, 1, TRACE_STEP_COUNT - 1);
    decode_text(decoder, operation->kind, sizeof(operation->kind));
    decode_text(decoder, operation->name, sizeof(operation->name));
    operation->bytes = (int64_t)decode_number(decoder, 8);
    operation->set = decode_int(decoder);
    operation->tensors = decode_int(decoder);
    operation->status = decode_int(decoder);
    operation->agreed = (uint32_t)decode_number(decoder, 4);
    operation->submitted_us = decode_time(decoder, now_us);
    for (int step = 0; step < TRACE_STEP_COUNT - 1; step++)
        operation->after_us[step] = (uint32_t)decode_number(decoder, 4);
}

static void decode_pace(struct decoder *decoder, struct pace *pace)
{
    pace->operations = decode_value(decoder);
    pace->bytes = decode_value(decoder);
    pace->waiting = decode_value(decoder);
    pace->moving = decode_value(decoder);
    pace->steps = decode_value(decoder);
    pace->long_steps = decode_value(decoder);
    pace->batch_tensors = decode_value(decoder);
    pace->cached = decode_value(decoder);
    for (int i = 0; i < BACKEND_COUNT; i++)
        pace->backend_bytes[i] = decode_value(decoder);
}

static void decode_totals(struct decoder *decoder, struct flight_totals *totals, int64_t now_us)
{
    for (int i = 0; i < SUM_COUNT; i++)
        totals->sums[i] = (int64_t)decode_number(decoder, 8);
    totals->commits = (int64_t)decode_number(decoder, 8);
    totals->committed_us = decode_time(decoder, now_us);
}

static int decode_rank(struct decoder *decoder, struct rank *rank, int64_t now_us)
{
    decode_printable(decoder, rank->key, sizeof(rank->key));
    decode_printable(decoder, rank->job, sizeof(rank->job));
    decode_printable(decoder, rank->node, sizeof(rank->node));
    rank->pid = (pid_t)decode_at_most(decoder, 4, INT32_MAX);
    rank->process = (char)decode_at_most(decoder, 1, 'z');
    decode_printable(decoder, rank->sleeps_in, sizeof(rank->sleeps_in));
    decode_printable(decoder, rank->cores, sizeof(rank->cores));
    decode_printable(decoder, rank->unreached, sizeof(rank->unreached));
    rank->is_newcomer = decode_at_most(decoder, 1, 1) != 0;
    rank->phase = (enum flight_phase)decode_at_most(decoder, 1, FLIGHT_LEAVES);
    rank->left = decode_at_most(decoder, 1, 1) != 0;
    rank->waits = decode_at_most(decoder, 1, 1) != 0;
    rank->rank = (int)decode_at_most(decoder, 4, INT32_MAX);
    rank->size = (int)decode_at_most(decoder, 4, INT32_MAX);
    rank->first = decode_int(decoder);
    rank->epoch = (uint32_t)decode_number(decoder, 4);
    decode_text(decoder, rank->host, sizeof(rank->host));
    for (int i = 0; i < FLIGHT_SET_WORDS; i++)
        rank->sets[i] = decode_number(decoder, 8);
    rank->phase_us = decode_time(decoder, now_us);
    rank->read_us = decode_time(decoder, now_us);
    rank->submitted = decode_number(decoder, 8);
    decode_pace(decoder, &rank->pace);
    decode_totals(decoder, &rank->totals, now_us);
    rank->restarts = (int)decode_at_most(decoder, 4, INT32_MAX);
    int count = (int)decode_at_most(decoder, 2, FLIGHT_SLOTS);
    /* no room for more: there may be 65,536 ranks, of few operations each */
    rank->operations = calloc((size_t)count + 1, sizeof(*rank->operations));
    if (rank->operations == NULL)
        return HVD_ERR_NO_MEMORY;
    for (int i = 0; i < count && !decoder->failed; i++)
        decode_operation(decoder, &rank->operations[i], now_us);
    rank->operation_count = count;
    return HVD_OK;
}

/* ---- The lines of all nodes ---------------------------------------------------------------------- */

/* The output of one node. */
struct node_bytes {
    unsigned char *bytes;
    size_t length, capacity;
    bool complete;
};

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit == 0 ? NULL : strchr(digits, digit);
    return at == NULL ? -1 : (int)(at - digits);
}

static int add_hex(struct node_bytes *node, const char *hex)
{
    for (; hex[0] != 0; hex += 2) {
        int high = hex_digit(hex[0]);
        int low = high < 0 ? -1 : hex_digit(hex[1]);
        if (low < 0)
            return HVD_ERR_INVALID;
        if (node->length == node->capacity) {
            size_t capacity = node->capacity == 0 ? 4096 : 2 * node->capacity;
            unsigned char *bytes = realloc(node->bytes, capacity);
            if (bytes == NULL)
                return HVD_ERR_NO_MEMORY;
            node->bytes = bytes;
            node->capacity = capacity;
        }
        node->bytes[node->length++] = (unsigned char)(high << 4 | low);
    }
    return HVD_OK;
}

static int take_line(struct node_bytes *nodes, long asked, char *line)
{
    if (strncmp(line, RECORDS_MARK, strlen(RECORDS_MARK)) != 0)
        return HVD_OK;
    char *number = line + strlen(RECORDS_MARK);
    char *bytes = strchr(number, ' ');
    if (bytes == NULL)
        return HVD_ERR_INVALID;
    *bytes++ = 0;
    int64_t node = parse_count_or(number, -1);
    if (node < 0 || node >= asked)
        return HVD_ERR_INVALID;
    if (strcmp(bytes, END) != 0)
        return add_hex(&nodes[node], bytes);
    nodes[node].complete = true;
    return HVD_OK;
}

static int take_lines(struct node_bytes *nodes, long asked, char *text)
{
    int rc = HVD_OK;
    while (rc == HVD_OK && *text != 0) {
        size_t length = strcspn(text, "\n");
        char *next = text + length + (text[length] == '\n');
        text[length] = 0;
        rc = take_line(nodes, asked, text);
        text = next;
    }
    return rc;
}

static int take_ranks(const struct node_bytes *node, int64_t now_us, struct ranks *ranks)
{
    int rc = HVD_OK;
    struct decoder decoder = {.at = node->bytes, .left = node->length};
    uint64_t count = decode_number(&decoder, 4);
    for (uint64_t i = 0; rc == HVD_OK && i < count && !decoder.failed; i++) {
        struct rank *rank = ranks_add(ranks);
        rc = rank == NULL ? HVD_ERR_NO_MEMORY : decode_rank(&decoder, rank, now_us);
    }
    decode_check(&decoder, decoder.left == 0);
    return rc == HVD_OK && decoder.failed ? HVD_ERR_INVALID : rc;
}

static void name_silent(const struct node_bytes *nodes, const char *list, struct records *records)
{
    char name[256];
    size_t used = 0;
    for (long i = 0; i < records->asked && used < sizeof(records->silent); i++) {
        if (!nodes[i].complete && node_list_at(list, i, name, sizeof(name)))
            used += (size_t)snprintf(records->silent + used, sizeof(records->silent) - used, "%s%s",
                                     used > 0 ? "," : "", name);
    }
    if (used >= sizeof(records->silent))
        memcpy(records->silent + sizeof(records->silent) - 4, "...", 4);
}

int records_read(char *text, const char *list, int64_t now_us, struct ranks *ranks, struct records *records)
{
    long count = node_list_count(list);
    long asked = count > RECORDS_NODES ? RECORDS_NODES : count;
    struct node_bytes *nodes = calloc((size_t)asked + 1, sizeof(*nodes));
    int rc = nodes == NULL ? HVD_ERR_NO_MEMORY : take_lines(nodes, asked, text);
    *records = (struct records){.asked = asked};
    for (long i = 0; rc == HVD_OK && i < asked; i++) {
        if (nodes[i].complete) {
            records->answered++;
            rc = take_ranks(&nodes[i], now_us, ranks);
        }
    }
    if (rc == HVD_OK)
        name_silent(nodes, list, records);
    for (long i = 0; nodes != NULL && i < asked; i++)
        free(nodes[i].bytes);
    free(nodes);
    ranks->now_us = now_us;
    return rc;
}
