/* rank_codec.c: encode a rank for another hvdinfo, and decode it. */
#include "tools/hvdinfo/ps/rank_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

#define RANK_BYTES     1536 /* room for a rank without its operations */
#define OPERATION_ROOM 256
#define LONGEST_US     INT64_C(1000000000000000) /* 30 years: no time is further away */
#define LARGEST        1e18

/* ---- Encode -------------------------------------------------------------------------------------- */

size_t rank_encoded_most(const struct rank *rank)
{
    return RANK_BYTES + (size_t)rank->operation_count * OPERATION_ROOM;
}

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

bool rank_operation_is_last_of_set(const struct rank *rank, int i)
{
    const struct flight_operation *operation = &rank->operations[i];
    for (int k = 0; k < rank->operation_count; k++) {
        const struct flight_operation *other = &rank->operations[k];
        if (other->set == operation->set && is_beyond(other->agreed, operation->agreed, k > i))
            return false;
    }
    return true;
}

/* Of those that are done. */
static bool ends_last(const struct rank *rank, int i)
{
    int64_t end_us = flight_step_us(&rank->operations[i]);
    for (int k = 0; k < rank->operation_count; k++) {
        const struct flight_operation *other = &rank->operations[k];
        if (other->step == TRACE_DONE && is_beyond(flight_step_us(other), end_us, k > i))
            return false;
    }
    return true;
}

/* Does judge.c need it? */
static bool is_needed(const struct rank *rank, int i)
{
    return rank->operations[i].step != TRACE_DONE || i == rank->operation_count - 1 ||
           rank_operation_is_last_of_set(rank, i) || ends_last(rank, i);
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

void rank_encode(struct encoder *encoder, const struct rank *rank, int64_t now_us)
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

/* ---- Decode -------------------------------------------------------------------------------------- */

static int64_t decode_time(struct decoder *decoder, int64_t now_us)
{
    int64_t ago_us = (int64_t)decode_number(decoder, 8);
    int64_t least_us = ago_us < -LONGEST_US ? -LONGEST_US : ago_us;
    return now_us - (least_us > LONGEST_US ? LONGEST_US : least_us);
}

double rank_decode_value(struct decoder *decoder)
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
    pace->operations = rank_decode_value(decoder);
    pace->bytes = rank_decode_value(decoder);
    pace->waiting = rank_decode_value(decoder);
    pace->moving = rank_decode_value(decoder);
    pace->steps = rank_decode_value(decoder);
    pace->long_steps = rank_decode_value(decoder);
    pace->batch_tensors = rank_decode_value(decoder);
    pace->cached = rank_decode_value(decoder);
    for (int i = 0; i < BACKEND_COUNT; i++)
        pace->backend_bytes[i] = rank_decode_value(decoder);
}

static void decode_totals(struct decoder *decoder, struct flight_totals *totals, int64_t now_us)
{
    for (int i = 0; i < SUM_COUNT; i++)
        totals->sums[i] = (int64_t)decode_number(decoder, 8);
    totals->commits = (int64_t)decode_number(decoder, 8);
    totals->committed_us = decode_time(decoder, now_us);
}

int rank_decode(struct decoder *decoder, struct rank *rank, int64_t now_us)
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
