/* flight.c: the flight record: the last operations of a rank, in a ring. */
#include "trace/flight.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* Serial and step in one word: so a step of an operation whose slot belongs to another one by now is
 * recognised. */
static uint64_t state_of(uint64_t serial, enum trace_step step)
{
    return serial * TRACE_STEP_COUNT + (uint64_t)step;
}

#define BEING_FILLED UINT64_MAX
#define RELAXED      memory_order_relaxed

static const char *const step_names[TRACE_STEP_COUNT] = {"submitted", "decided",   "packing",
                                                         "transfer",  "unpacking", "done"};

/* Other threads see this store only after that of BEING_FILLED, which came before. */
#define store_field(field, value) atomic_store_explicit(field, value, memory_order_release)

/* Bytes after the final 0 stay: they are not read. */
static void set_name(struct flight_slot *slot, const char *name)
{
    if (name[0] == 1)
        name++;
    size_t left = strnlen(name, FLIGHT_NAME_WORDS * sizeof(uint64_t));
    for (int i = 0; i < FLIGHT_NAME_WORDS; i++, name += sizeof(uint64_t)) {
        uint64_t word = 0;
        if (left < sizeof(word)) {
            memcpy(&word, name, left);
            store_field(&slot->name[i], word);
            return;
        }
        memcpy(&word, name, sizeof(word));
        store_field(&slot->name[i], word);
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

static bool take_kind(struct flight *flight, int i, const char *kind)
{
    const char *known = atomic_load_explicit(&flight->kinds[i], memory_order_acquire);
    if (known != NULL || !atomic_compare_exchange_strong(&flight->kinds[i], &known, kind))
        return known == kind;
    for (int at = 0; at < FLIGHT_KIND_BYTES - 1 && kind[at] != 0; at++)
        atomic_store_explicit(&flight->kind_names[i][at], kind[at], RELAXED);
    return true;
}

/* The number of the literal [kind], which gets one when it is first used. */
static uint64_t number_of_kind(struct flight *flight, const char *kind)
{
    int i = 0;
    while (i < FLIGHT_KINDS - 1 && !take_kind(flight, i, kind))
        i++;
    return (uint64_t)i;
}

static void get_kind(const struct flight *flight, uint64_t number, char kind[FLIGHT_KIND_BYTES])
{
    static const char other[FLIGHT_KIND_BYTES] = "operation";
    bool known = number < FLIGHT_KINDS - 1;
    for (int at = 0; at < FLIGHT_KIND_BYTES - 1; at++)
        kind[at] = known ? atomic_load_explicit(&flight->kind_names[number][at], RELAXED) : other[at];
    kind[FLIGHT_KIND_BYTES - 1] = 0;
}

void flight_enter_phase(struct flight *flight, const struct flight_rank *rank, enum flight_phase phase)
{
    if (rank != NULL)
        flight->rank = *rank;
    atomic_store(&flight->phase_us, clock_us());
    atomic_store(&flight->phase, (uint8_t)phase);
}

void flight_enter_set(struct flight *flight, int set)
{
    if (set >= 0 && set < 64 * FLIGHT_SET_WORDS)
        atomic_fetch_or(&flight->sets[set / 64], UINT64_C(1) << set % 64);
}

/* A step must not cost a locked instruction: there may be thousands in a millisecond. The price is that an
 * operation may be lost, or get another one's name, in two rare cases: two threads write the same slot,
 * because the whole ring went round while one of them was writing; or a slot gets a new operation at the
 * moment when its old one takes a step. */
void flight_begin(struct flight *flight, struct trace_op *op)
{
    op->serial = atomic_fetch_add_explicit(&flight->last, 1, RELAXED) + 1;
    struct flight_slot *slot = &flight->slots[op->serial % FLIGHT_SLOTS];
    if (atomic_load_explicit(&slot->state, RELAXED) == BEING_FILLED)
        return;
    atomic_store_explicit(&slot->state, BEING_FILLED, RELAXED);
    store_field(&slot->kind, number_of_kind(flight, op->kind));
    set_name(slot, op->name);
    store_field(&slot->bytes, op->bytes);
    store_field(&slot->set, op->set);
    store_field(&slot->tensors, (uint16_t)(op->tensors > UINT16_MAX ? UINT16_MAX : op->tensors));
    store_field(&slot->status, HVD_IN_PROGRESS);
    store_field(&slot->agreed, 0);
    store_field(&slot->submitted_us, op->at_us[TRACE_SUBMITTED]);
    for (int i = 0; i < TRACE_STEP_COUNT - 1; i++)
        store_field(&slot->after_us[i], 0);
    store_field(&slot->state, state_of(op->serial, TRACE_SUBMITTED));
}

#undef store_field

void flight_step(struct flight *flight, const struct trace_op *op, int status)
{
    struct flight_slot *slot = &flight->slots[op->serial % FLIGHT_SLOTS];
    uint64_t state = atomic_load_explicit(&slot->state, RELAXED);
    if (state - op->serial * TRACE_STEP_COUNT >=
        TRACE_STEP_COUNT) /* another operation has the slot, or it is BEING_FILLED */
        return;
    int64_t after_us = op->at_us[op->step] - op->at_us[TRACE_SUBMITTED] + 1;
    after_us = after_us < 1 ? 1 : after_us > UINT32_MAX ? UINT32_MAX : after_us;
    atomic_store_explicit(&slot->after_us[op->step - 1], (uint32_t)after_us, RELAXED);
    atomic_store_explicit(&slot->status, (int16_t)status, RELAXED);
    atomic_store_explicit(&slot->agreed, (uint32_t)op->agreed, RELAXED);
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
    COLUMN_AGREED = 120,
    COLUMN_OPERATION = 132
};

/* False where it holds another operation, or is being filled. */
static bool read_slot(struct flight *flight, uint64_t serial, struct flight_operation *operation)
{
    struct flight_slot *slot = &flight->slots[serial % FLIGHT_SLOTS];
    uint64_t state = atomic_load(&slot->state);
    if (state == BEING_FILLED || state / TRACE_STEP_COUNT != serial)
        return false;
    operation->serial = serial;
    operation->step = (enum trace_step)(state % TRACE_STEP_COUNT);
    get_kind(flight, atomic_load(&slot->kind), operation->kind);
    get_name(slot, operation->name);
    operation->bytes = atomic_load(&slot->bytes);
    operation->set = atomic_load(&slot->set);
    operation->tensors = atomic_load(&slot->tensors);
    operation->status = atomic_load(&slot->status);
    operation->agreed = atomic_load(&slot->agreed);
    operation->submitted_us = atomic_load(&slot->submitted_us);
    for (int i = 0; i < TRACE_STEP_COUNT - 1; i++)
        operation->after_us[i] = atomic_load(&slot->after_us[i]);
    state = atomic_load(&slot->state);
    return state != BEING_FILLED && state / TRACE_STEP_COUNT == serial;
}

static void put_header(struct strbuf *strbuf)
{
    size_t start = strbuf->used;
    strbuf_add_text(strbuf, "serial");
    strbuf_pad_to(strbuf, start, COLUMN_STATE);
    strbuf_add_text(strbuf, "state");
    strbuf_pad_to(strbuf, start, COLUMN_AGO);
    strbuf_add_text(strbuf, "us ago");
    for (int step = TRACE_DECIDED; step < TRACE_STEP_COUNT; step++) {
        strbuf_pad_to(strbuf, start, (size_t)(COLUMN_STEPS + COLUMN_STEP * (step - TRACE_DECIDED)));
        strbuf_add_text(strbuf, "+");
        strbuf_add_text(strbuf, step_names[step]);
    }
    strbuf_pad_to(strbuf, start, COLUMN_SET);
    strbuf_add_text(strbuf, "set");
    strbuf_pad_to(strbuf, start, COLUMN_BYTES);
    strbuf_add_text(strbuf, "bytes");
    strbuf_pad_to(strbuf, start, COLUMN_AGREED);
    strbuf_add_text(strbuf, "agreed");
    strbuf_pad_to(strbuf, start, COLUMN_OPERATION);
    strbuf_add_text(strbuf, "operation\n");
}

/* Of a record that is read, the rank wrote both the kind and the name. */
void flight_add_title(struct strbuf *strbuf, const char *kind, const char *name, int tensors, int set)
{
    strbuf_add_printable(strbuf, kind);
    if (name[0] != 0) {
        strbuf_add_text(strbuf, " \"");
        strbuf_add_printable(strbuf, name);
        strbuf_add_text(strbuf, "\"");
    }
    if (tensors > 1) {
        strbuf_add_text(strbuf, " and ");
        strbuf_add_number(strbuf, tensors - 1);
        strbuf_add_text(strbuf, " more");
    }
    if (set != HVD_ALL_RANKS) {
        strbuf_add_text(strbuf, " in process set ");
        strbuf_add_number(strbuf, set);
    }
}

static void put_line(struct strbuf *strbuf, uint64_t serial, const struct flight_operation *operation,
                     int64_t now_us)
{
    size_t start = strbuf->used;
    strbuf_add_number(strbuf, (int64_t)serial);
    strbuf_pad_to(strbuf, start, COLUMN_STATE);
    strbuf_add_text(strbuf, step_names[operation->step]);
    strbuf_pad_to(strbuf, start, COLUMN_AGO);
    strbuf_add_number(strbuf, now_us - operation->submitted_us);
    for (int step = TRACE_DECIDED; step < TRACE_STEP_COUNT; step++) {
        strbuf_pad_to(strbuf, start, (size_t)(COLUMN_STEPS + COLUMN_STEP * (step - TRACE_DECIDED)));
        if (operation->after_us[step - 1] == 0)
            strbuf_add_text(strbuf, "-");
        else
            strbuf_add_number(strbuf, (int64_t)operation->after_us[step - 1] - 1);
    }
    strbuf_pad_to(strbuf, start, COLUMN_SET);
    strbuf_add_number(strbuf, operation->set);
    strbuf_pad_to(strbuf, start, COLUMN_BYTES);
    strbuf_add_number(strbuf, operation->bytes);
    strbuf_pad_to(strbuf, start, COLUMN_AGREED);
    strbuf_add_number(strbuf, operation->agreed);
    strbuf_pad_to(strbuf, start, COLUMN_OPERATION);
    flight_add_title(strbuf, operation->kind, operation->name, operation->tensors, HVD_ALL_RANKS);
    if (operation->step == TRACE_DONE && operation->status != HVD_OK) {
        strbuf_add_text(strbuf, ": ");
        strbuf_add_text(strbuf, status_text(operation->status));
    }
    strbuf_add_text(strbuf, "\n");
}

/* The oldest operation that may still be in the ring. */
static uint64_t first_serial(uint64_t last)
{
    return last > FLIGHT_SLOTS ? last - FLIGHT_SLOTS + 1 : 1;
}

int flight_write(struct flight *flight, struct strbuf *strbuf, int fd, int64_t now_us)
{
    uint64_t last = atomic_load(&flight->last);
    put_header(strbuf);
    for (uint64_t serial = first_serial(last); serial <= last; serial++) {
        struct flight_operation operation;
        if (strbuf->capacity - strbuf->used < FLIGHT_LINE_BYTES && strbuf_flush(strbuf, fd) < 0)
            return -1;
        if (read_slot(flight, serial, &operation))
            put_line(strbuf, serial, &operation, now_us);
    }
    return strbuf_flush(strbuf, fd);
}

bool flight_slots_agree(const struct flight_slot *before, const struct flight_slot *after)
{
    uint64_t state = atomic_load(&after->state);
    return state != BEING_FILLED &&
           atomic_load(&before->state) / TRACE_STEP_COUNT == state / TRACE_STEP_COUNT;
}

/* Far from an overflow of sums and differences? */
static bool is_time(int64_t us)
{
    return us >= 0 && us <= INT64_MAX / 4;
}

int flight_read(struct flight *flight, struct flight_operation operations[FLIGHT_SLOTS])
{
    uint64_t last = atomic_load(&flight->last);
    int count = 0;
    for (uint64_t serial = first_serial(last); serial <= last && count < FLIGHT_SLOTS; serial++) {
        if (read_slot(flight, serial, &operations[count]) && is_time(operations[count].submitted_us))
            count++;
    }
    return count;
}

int64_t flight_step_us(const struct flight_operation *operation)
{
    uint32_t after_us = operation->step == TRACE_SUBMITTED ? 0 : operation->after_us[operation->step - 1];
    return operation->submitted_us + (after_us == 0 ? 0 : (int64_t)after_us - 1);
}

const char *flight_title(const struct flight_operation *operation, char title[FLIGHT_TITLE_BYTES])
{
    struct strbuf strbuf = {title, 0, FLIGHT_TITLE_BYTES - 1};
    flight_add_title(&strbuf, operation->kind, operation->name, operation->tensors, operation->set);
    title[strbuf.used] = 0;
    return title;
}

bool flight_find_last(struct flight *flight, struct flight_last *last)
{
    struct flight_operation operation = {.step = TRACE_DONE};
    uint64_t newest = atomic_load(&flight->last);
    bool found = false;
    for (uint64_t serial = first_serial(newest); serial <= newest; serial++) {
        struct flight_operation next;
        if (!read_slot(flight, serial, &next))
            continue;
        operation = next;
        found = true;
        if (next.step != TRACE_DONE)
            break;
    }
    if (!found)
        return false;
    last->done = operation.step == TRACE_DONE;
    last->waits = !last->done && atomic_load(&flight->waiting) > 0;
    last->status = operation.status;
    flight_title(&operation, last->title);
    return true;
}
