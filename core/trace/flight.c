/* flight.c: the flight record: the last operations of a rank, kept in a ring. */
#include "trace/flight.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* A slot's operation and how far it is, in one word, so that a step of an operation whose slot was taken
 * meanwhile can be told. */
static uint64_t state_of(uint64_t serial, enum trace_step step)
{
    return serial * TRACE_STEP_COUNT + (uint64_t)step;
}

#define BEING_FILLED UINT64_MAX
#define RELAXED      memory_order_relaxed

static const char *const step_names[TRACE_STEP_COUNT] = {"submitted",  "decided",   "packing",
                                                         "travelling", "unpacking", "done"};

/* A store that is seen after BEING_FILLED, which was stored before it. */
#define fill(field, value) atomic_store_explicit(field, value, memory_order_release)

/* Up to its end: what stands behind that is of no operation. */
static void set_name(struct flight_slot *slot, const char *name)
{
    if (name[0] == 1)
        name++;
    size_t left = strnlen(name, FLIGHT_NAME_WORDS * sizeof(uint64_t));
    for (int i = 0; i < FLIGHT_NAME_WORDS; i++, name += sizeof(uint64_t)) {
        uint64_t word = 0;
        if (left < sizeof(word)) {
            memcpy(&word, name, left);
            fill(&slot->name[i], word);
            return;
        }
        memcpy(&word, name, sizeof(word));
        fill(&slot->name[i], word);
        left -= sizeof(word);
    }
}

static void get_name(struct flight_slot *slot, char name[FLIGHT_NAME_WORDS * 8 + 1])
{
    for (int i = 0; i < FLIGHT_NAME_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&slot->name[i], RELAXED);
        memcpy(name + i * 8, &word, 8);
    }
    name[FLIGHT_NAME_WORDS * 8] = 0;
}

/* No step is worth a locked instruction: there may be thousands in a millisecond. What that costs: of two
 * threads that fill a slot at once, one being overtaken by the whole ring, one operation may be lost, or get
 * the other's name; so may one whose slot is taken at the very moment when the last one in it moves on. */
void flight_begin(struct flight *flight, struct trace_op *op)
{
    op->serial = atomic_fetch_add_explicit(&flight->last, 1, RELAXED) + 1;
    struct flight_slot *slot = &flight->slots[op->serial % FLIGHT_SLOTS];
    if (atomic_load_explicit(&slot->state, RELAXED) == BEING_FILLED)
        return;
    atomic_store_explicit(&slot->state, BEING_FILLED, RELAXED);
    fill(&slot->kind, op->kind);
    set_name(slot, op->name);
    fill(&slot->bytes, op->bytes);
    fill(&slot->set, op->set);
    fill(&slot->tensors, (uint16_t)(op->tensors > UINT16_MAX ? UINT16_MAX : op->tensors));
    fill(&slot->status, HVD_IN_PROGRESS);
    fill(&slot->submitted_us, op->at_us[TRACE_SUBMITTED]);
    for (int i = 0; i < TRACE_STEP_COUNT - 1; i++)
        fill(&slot->after_us[i], 0);
    fill(&slot->state, state_of(op->serial, TRACE_SUBMITTED));
}

#undef fill

void flight_step(struct flight *flight, const struct trace_op *op, int status)
{
    struct flight_slot *slot = &flight->slots[op->serial % FLIGHT_SLOTS];
    uint64_t state = atomic_load_explicit(&slot->state, RELAXED);
    if (state - op->serial * TRACE_STEP_COUNT >= TRACE_STEP_COUNT) /* another operation's, or BEING_FILLED */
        return;
    int64_t after_us = op->at_us[op->step] - op->at_us[TRACE_SUBMITTED] + 1;
    after_us = after_us < 1 ? 1 : after_us > UINT32_MAX ? UINT32_MAX : after_us;
    atomic_store_explicit(&slot->after_us[op->step - 1], (uint32_t)after_us, RELAXED);
    atomic_store_explicit(&slot->status, (int16_t)status, RELAXED);
    atomic_store_explicit(&slot->state, state_of(op->serial, op->step), memory_order_release);
}

/* ---- Writing ------------------------------------------------------------------------------------ */

/* Where the columns of the table begin. */
enum {
    COLUMN_STATE = 12,
    COLUMN_AGO = 24,
    COLUMN_STEPS = 38,
    COLUMN_STEP = 12,
    COLUMN_SET = 98,
    COLUMN_BYTES = 104,
    COLUMN_WHAT = 120
};

/* What a slot held at one moment. */
struct entry {
    enum trace_step step;
    const char *kind;
    char name[FLIGHT_NAME_WORDS * 8 + 1];
    int64_t bytes;
    int set, tensors, status;
    int64_t submitted_us;
    uint32_t after_us[TRACE_STEP_COUNT - 1];
};

/* False where it holds another operation, or is being filled. */
static bool read_slot(struct flight_slot *slot, uint64_t serial, struct entry *entry)
{
    uint64_t state = atomic_load(&slot->state);
    if (state == BEING_FILLED || state / TRACE_STEP_COUNT != serial)
        return false;
    entry->step = (enum trace_step)(state % TRACE_STEP_COUNT);
    entry->kind = atomic_load(&slot->kind);
    get_name(slot, entry->name);
    entry->bytes = atomic_load(&slot->bytes);
    entry->set = atomic_load(&slot->set);
    entry->tensors = atomic_load(&slot->tensors);
    entry->status = atomic_load(&slot->status);
    entry->submitted_us = atomic_load(&slot->submitted_us);
    for (int i = 0; i < TRACE_STEP_COUNT - 1; i++)
        entry->after_us[i] = atomic_load(&slot->after_us[i]);
    state = atomic_load(&slot->state);
    return state != BEING_FILLED && state / TRACE_STEP_COUNT == serial;
}

static void put_heads(struct pad *pad)
{
    size_t start = pad->used;
    pad_text(pad, "serial");
    pad_to(pad, start, COLUMN_STATE);
    pad_text(pad, "state");
    pad_to(pad, start, COLUMN_AGO);
    pad_text(pad, "us ago");
    for (int step = TRACE_DECIDED; step < TRACE_STEP_COUNT; step++) {
        pad_to(pad, start, (size_t)(COLUMN_STEPS + COLUMN_STEP * (step - TRACE_DECIDED)));
        pad_text(pad, "+");
        pad_text(pad, step_names[step]);
    }
    pad_to(pad, start, COLUMN_SET);
    pad_text(pad, "set");
    pad_to(pad, start, COLUMN_BYTES);
    pad_text(pad, "bytes");
    pad_to(pad, start, COLUMN_WHAT);
    pad_text(pad, "operation\n");
}

static void put_what(struct pad *pad, const struct entry *entry)
{
    pad_text(pad, entry->kind);
    if (entry->name[0] != 0) {
        pad_text(pad, " \"");
        pad_plain(pad, entry->name);
        pad_text(pad, "\"");
    }
    if (entry->tensors > 1) {
        pad_text(pad, " and ");
        pad_number(pad, entry->tensors - 1);
        pad_text(pad, " more");
    }
    if (entry->step == TRACE_DONE && entry->status != HVD_OK) {
        pad_text(pad, ": ");
        pad_text(pad, status_text(entry->status));
    }
    pad_text(pad, "\n");
}

static void put_entry(struct pad *pad, uint64_t serial, const struct entry *entry, int64_t now_us)
{
    size_t start = pad->used;
    pad_number(pad, (int64_t)serial);
    pad_to(pad, start, COLUMN_STATE);
    pad_text(pad, step_names[entry->step]);
    pad_to(pad, start, COLUMN_AGO);
    pad_number(pad, now_us - entry->submitted_us);
    for (int step = TRACE_DECIDED; step < TRACE_STEP_COUNT; step++) {
        pad_to(pad, start, (size_t)(COLUMN_STEPS + COLUMN_STEP * (step - TRACE_DECIDED)));
        if (entry->after_us[step - 1] == 0)
            pad_text(pad, "-");
        else
            pad_number(pad, (int64_t)entry->after_us[step - 1] - 1);
    }
    pad_to(pad, start, COLUMN_SET);
    pad_number(pad, entry->set);
    pad_to(pad, start, COLUMN_BYTES);
    pad_number(pad, entry->bytes);
    pad_to(pad, start, COLUMN_WHAT);
    put_what(pad, entry);
}

int flight_write_pad(struct pad *pad, int fd)
{
    size_t written = 0;
    while (written < pad->used) {
        ssize_t count = write(fd, pad->bytes + written, pad->used - written);
        if (count < 0 && errno != EINTR)
            return -1;
        written += count > 0 ? (size_t)count : 0;
    }
    pad->used = 0;
    return 0;
}

int flight_write(struct flight *flight, struct pad *pad, int fd, int64_t now_us)
{
    uint64_t last = atomic_load(&flight->last);
    put_heads(pad);
    for (uint64_t serial = last > FLIGHT_SLOTS ? last - FLIGHT_SLOTS + 1 : 1; serial <= last; serial++) {
        struct entry entry;
        if (pad->room - pad->used < FLIGHT_LINE_BYTES && flight_write_pad(pad, fd) < 0)
            return -1;
        if (read_slot(&flight->slots[serial % FLIGHT_SLOTS], serial, &entry))
            put_entry(pad, serial, &entry, now_us);
    }
    return flight_write_pad(pad, fd);
}
