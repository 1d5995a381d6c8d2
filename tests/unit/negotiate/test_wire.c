/* test_wire.c: records of the negotiation to and from bytes, hostile ones too. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "descs.h"
#include "negotiate/wire.h"

/* One with something in every field. */
static struct desc *full_desc(const char *name, int tensors)
{
    struct desc *desc = desc_group(tensors, 3);
    desc->kind = DESC_REDUCESCATTER;
    desc->set = 4;
    desc->op = HVD_AVERAGE;
    desc->wire = HVD_WIRE_FLOAT16;
    desc->persistent = tensors > 1;
    desc->splits = tensors > 1 ? 0 : UINT64_C(0xfedc) << 48;
    desc->prescale = 0.1;
    desc->postscale = -3e300;
    desc->tensors[0].dtype = HVD_FLOAT64;
    desc->tensors[0].ndim = 2;
    desc->tensors[0].shape[1] = 5;
    snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", name);
    return desc;
}

START_TEST(every_record_survives_the_journey)
{
    struct wire_writer writer = {0};
    static const unsigned char blocks[] = {2, 0, 0, 0, 'a', 6, 0, 0, 0, 'b'};
    struct wire_record in[7] = {
        {.type = WIRE_NEW, .id = 9, .backend = 1, .absent = 5, .members = 7},
        {.type = WIRE_MISMATCH},
        {.type = WIRE_LEAVING, .rank = 3},
        {.type = WIRE_JOINED, .set = 6, .rank = 2, .backends = 5},
        {.type = WIRE_UNIT},
        {.type = WIRE_TUNE, .settings = {1 << 20, 1 << 16, 3}},
        {.type = WIRE_EAGER, .set = 2, .id = 70000, .inputs = {2, 1, blocks}},
    };
    in[0].proposal = (struct wire_proposal){full_desc("a", 3), 6, 2, UINT64_C(1) << 63 | 5};
    for (int i = 0; i < 3; i++)
        ((struct desc *)in[0].proposal.desc)->tensors[i].on_device = true;
    in[1].proposal = (struct wire_proposal){full_desc("b", 1), 1, 0, 0};
    in[1].other = (struct wire_proposal){desc_vector("b", 8), 2, 3, 0};
    ((struct desc *)in[1].other.desc)->set = 4;
    for (int i = 0; i < 7; i++)
        wire_put(&writer, &in[i]);
    struct wire_reader reader = {{writer.bytes, writer.length, false}, 7};
    struct wire_record out;
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_NEW);
    ck_assert_uint_eq(out.id, 9);
    ck_assert_int_eq(out.backend, 1);
    ck_assert_int_eq(out.absent, 5);
    ck_assert_int_eq(out.members, 7);
    ck_assert_int_eq(out.proposal.rank, 6);
    ck_assert_uint_eq(out.proposal.backends, 2);
    ck_assert_uint_eq(out.proposal.offsets, UINT64_C(1) << 63 | 5);
    ck_assert(desc_equal(out.proposal.desc, in[0].proposal.desc));
    wire_clear(&out);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_MISMATCH);
    ck_assert(desc_equal(out.proposal.desc, in[1].proposal.desc));
    ck_assert(desc_equal(out.other.desc, in[1].other.desc));
    ck_assert_int_eq(out.other.rank, 2);
    ck_assert_uint_eq(out.other.backends, 3);
    wire_clear(&out);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_LEAVING);
    ck_assert_int_eq(out.rank, 3);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_JOINED);
    ck_assert_int_eq(out.set, 6);
    ck_assert_int_eq(out.rank, 2);
    ck_assert_uint_eq(out.backends, 5);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_UNIT);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_TUNE);
    ck_assert_mem_eq(&out.settings, &in[5].settings, sizeof(out.settings));
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_EAGER);
    ck_assert_int_eq(out.set, 2);
    ck_assert_uint_eq(out.id, 70000);
    ck_assert_int_eq(out.inputs.count, 2);
    ck_assert_uint_eq(eager_rank(&out.inputs, 1), 6);
    ck_assert_mem_eq(eager_input(&out.inputs, 1), "b", 1);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_IN_PROGRESS);
    wire_clear(&in[0]);
    wire_clear(&in[1]);
    wire_free(&writer);
}
END_TEST

static struct wire_record an_answer(void)
{
    struct wire_record record = {.type = WIRE_STALL_REPLY, .set = 3, .id = 77};
    record.stall = calloc(1, sizeof(*record.stall));
    for (int rank = 0; rank < 6; rank += 2) {
        struct stall_rank missing = {.rank = rank, .state = STALL_ELSEWHERE, .waits_for = rank == 4 ? 6 : -1};
        snprintf(missing.last, sizeof(missing.last), "allreduce \"t%d\"", rank);
        stall_report_add(record.stall, &missing);
    }
    record.stall->missing = 5;
    record.stall->waiting = 2;
    record.stall->moving = 1;
    return record;
}

START_TEST(questions_and_answers_survive_the_journey)
{
    struct wire_writer writer = {0};
    struct wire_record ask = {.type = WIRE_STALL_QUERY,
                              .set = 3,
                              .id = 77,
                              .time_us = INT64_C(1) << 40,
                              .batch = UINT64_C(1) << 50,
                              .name = "\001barrier"};
    struct wire_record waiting = {.type = WIRE_STALL_NOTICE, .time_us = 60, .batch = 9, .waits_for = -1};
    struct wire_record ping = {.type = WIRE_STALL_PING};
    struct wire_record answer = an_answer();
    struct wire_record out;
    waiting.proposal = (struct wire_proposal){full_desc("w", 2), 4, 0, 0};
    wire_put(&writer, &ask);
    wire_put(&writer, &waiting);
    wire_put(&writer, &answer);
    wire_put(&writer, &ping);
    struct wire_reader reader = {{writer.bytes, writer.length, false}, 7};
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_STALL_QUERY);
    ck_assert_uint_eq(out.batch, ask.batch);
    ck_assert_int_eq(out.set, 3);
    ck_assert_uint_eq(out.id, 77);
    ck_assert_int_eq(out.time_us, INT64_C(1) << 40);
    ck_assert_str_eq(out.name, ask.name);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_STALL_NOTICE);
    ck_assert_int_eq(out.time_us, 60);
    ck_assert_uint_eq(out.batch, 9);
    ck_assert_int_eq(out.waits_for, -1);
    ck_assert(desc_equal(out.proposal.desc, waiting.proposal.desc));
    wire_clear(&out);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_STALL_REPLY);
    ck_assert_int_eq(out.stall->missing, 5);
    ck_assert_int_eq(out.stall->named, 3);
    ck_assert_int_eq(out.stall->ranks[2].rank, 4);
    ck_assert_int_eq(out.stall->waiting, 2);
    ck_assert_int_eq(out.stall->moving, 1);
    ck_assert_int_eq(out.stall->ranks[2].waits_for, 6);
    ck_assert_str_eq(out.stall->ranks[2].last, "allreduce \"t4\"");
    wire_clear(&out);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_STALL_PING);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_IN_PROGRESS);
    wire_clear(&answer);
    wire_clear(&waiting);
    wire_free(&writer);
}
END_TEST

/* Read all ids of a message back into [ids]; returns how many. */
static size_t read_ids(const struct wire_writer *writer, uint32_t *ids, size_t room)
{
    struct wire_reader reader = {{writer->bytes, writer->length, false}, 1};
    struct wire_record record;
    size_t count = 0;
    while (wire_get(&reader, &record, NULL) == HVD_OK) {
        ck_assert_int_eq(record.type, WIRE_IDS);
        ck_assert_int_eq(record.set, 3);
        for (uint32_t i = 0; i < record.id_span; i++) {
            if (!wire_has_id(&record, i))
                continue;
            ck_assert_uint_lt(count, room);
            ids[count++] = record.first_id + i;
        }
    }
    ck_assert_uint_eq(reader.decoder.left, 0);
    return count;
}

static const struct {
    uint32_t ids[8];
    size_t count;
    size_t most_bytes;
} id_cases[] = {
    {{0}, 1, 14},
    {{0, 1, 2, 3, 4, 5, 6, 7}, 8, 14},
    {{7, 8, 80, 81}, 4, 23},
    {{0, 1000000}, 2, 28},
    {{WIRE_MAX_ID}, 1, 14},
    {{3, WIRE_MAX_ID - 1, WIRE_MAX_ID}, 3, 28},
};

START_TEST(ids_come_back_in_few_bytes)
{
    struct wire_writer writer = {0};
    uint32_t ids[8];
    wire_put_ids(&writer, WIRE_IDS, 3, id_cases[_i].ids, id_cases[_i].count);
    ck_assert_uint_le(writer.length, id_cases[_i].most_bytes);
    ck_assert_uint_eq(read_ids(&writer, ids, 8), id_cases[_i].count);
    ck_assert_mem_eq(ids, id_cases[_i].ids, id_cases[_i].count * sizeof(ids[0]));
    wire_free(&writer);
}
END_TEST

START_TEST(a_model_costs_a_bit_a_tensor)
{
    struct wire_writer writer = {0};
    uint32_t ids[161];
    uint32_t back[161];
    for (uint32_t i = 0; i < 161; i++)
        ids[i] = i;
    wire_put_ids(&writer, WIRE_IDS, 3, ids, 161);
    ck_assert_uint_le(writer.length, 13 + 21);
    ck_assert_uint_eq(read_ids(&writer, back, 161), 161);
    wire_free(&writer);
}
END_TEST

/* Every message that is cut short is refused, none is read past its end (ASan looks on). */
static void refuse_beginnings(struct wire_record record)
{
    struct wire_writer writer = {0};
    wire_put(&writer, &record);
    wire_clear(&record);
    for (size_t length = 1; length < writer.length; length++) {
        unsigned char *bytes = malloc(length);
        memcpy(bytes, writer.bytes, length);
        struct wire_reader reader = {{bytes, length, false}, 7};
        struct hvd_error err = {""};
        ck_assert_int_eq(wire_get(&reader, &record, &err), HVD_ERR_SYSTEM);
        ck_assert_str_ne(err.text, "");
        free(bytes);
    }
    wire_free(&writer);
}

START_TEST(a_truncated_message_is_refused)
{
    struct wire_record mismatch = {.type = WIRE_MISMATCH};
    struct wire_record waiting = {.type = WIRE_STALL_NOTICE};
    mismatch.proposal = (struct wire_proposal){full_desc("name", 3), 1, 1, 0};
    mismatch.other = (struct wire_proposal){full_desc("name", 1), 2, 1, 0};
    waiting.proposal = (struct wire_proposal){full_desc("name", 1), 1, 1, 0};
    refuse_beginnings(mismatch);
    refuse_beginnings(waiting);
    refuse_beginnings(an_answer());
    refuse_beginnings((struct wire_record){.type = WIRE_STALL_QUERY, .name = "w"});
    refuse_beginnings((struct wire_record){.type = WIRE_JOINED});
    refuse_beginnings((struct wire_record){.type = WIRE_LEAVING});
    refuse_beginnings((struct wire_record){.type = WIRE_TUNE, .settings = {1, 1, 1}});
}
END_TEST

START_TEST(settings_that_cannot_be_are_refused)
{
    static const struct tuned_settings cases[] = {{-1, 0, 1}, {INT64_C(1) << 50, 0, 1},
                                                  {1, -1, 1}, {1, INT64_C(1) << 40, 1},
                                                  {1, 0, 0},  {1, 0, 1 << 20}};
    struct wire_record record = {.type = WIRE_TUNE, .settings = cases[_i]};
    struct wire_writer writer = {0};
    struct hvd_error err = {""};
    wire_put(&writer, &record);
    struct wire_reader reader = {{writer.bytes, writer.length, false}, 7};
    ck_assert_int_eq(wire_get(&reader, &record, &err), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(an_answer_of_hostile_bytes_is_refused)
{
    static const struct {
        const char *what;
        size_t at;
        unsigned char byte;
    } cases[] = {{"a negative set", 4, 0x80},
                 {"more missing ranks than there are", 9, 8},
                 {"more names than missing ranks", 9, 2},
                 {"more waiting ranks than there are", 13, 8},
                 {"more moving ranks than there are", 17, 8},
                 {"more names than there is room for", 21, STALL_MAX_RANKS + 1},
                 {"a rank beyond the job", 22, 7},
                 {"an unknown state", 26, STALL_QUEUED + 1},
                 {"a wait for a rank beyond the job", 27, 8},
                 {"a title that is too long", 32, 0xff},
                 {"a 0 inside a title", 34, 0}};
    struct wire_record answer = an_answer();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire_writer writer = {0};
        struct wire_record out;
        wire_put(&writer, &answer);
        writer.bytes[cases[i].at] = cases[i].byte;
        struct wire_reader reader = {{writer.bytes, writer.length, false}, 7};
        ck_assert_msg(wire_get(&reader, &out, NULL) == HVD_ERR_SYSTEM, "%s was accepted", cases[i].what);
        wire_free(&writer);
    }
    wire_clear(&answer);
}
END_TEST

/* A good NEW record of one tensor, and what becomes of it. */
static size_t write_new(struct wire_writer *writer, struct desc *desc)
{
    struct wire_record record = {.type = WIRE_NEW, .id = 2, .backend = 1, .absent = -1};
    record.proposal = (struct wire_proposal){desc, 1, 2, 0};
    wire_put(writer, &record);
    wire_clear(&record);
    return writer->length;
}

static int read_new(const struct wire_writer *writer)
{
    struct wire_reader reader = {{writer->bytes, writer->length, false}, 7};
    struct wire_record record;
    struct hvd_error err = {""};
    int rc = wire_get(&reader, &record, &err);
    ck_assert((rc == HVD_OK) == (err.text[0] == 0));
    if (rc == HVD_OK)
        wire_clear(&record);
    return rc;
}

/* One byte of it is set to something that may not be there. */
static const struct {
    const char *what;
    size_t at;
    unsigned char byte;
} hostile[] = {
    {"an unknown type", 0, 99},
    {"type 0", 0, 0},
    {"a backend beyond the last", 5, 200},
    {"an answer beyond yes and no", 6, 2},
    {"an absent rank beyond the job", 7, 8},
    {"more members than ranks", 11, 8},
    {"a rank beyond the job", 15, 7},
    {"an unknown backend bit", 19, 0x80},
    {"an unknown kind", 23, 77},
    {"a join, which has a record of its own", 23, DESC_JOIN},
    {"a removal under another name", 23, DESC_SET_REMOVE},
    {"a shutdown under another name", 23, DESC_SHUTDOWN},
    {"a set of no shape", 23, DESC_SET_ADD},
    {"a grouped broadcast", 23, DESC_BROADCAST},
    {"a negative set", 27, 0x80},
    {"an unknown op", 28, 77},
    {"an unknown wire", 29, 77},
    {"a factor that is no number", 37, 0x7f},
    {"a negative root", 49, 0x80},
    {"an unknown flag", 50, 8},
    {"splits of a persistent operation", 50, 6},
    {"no tensors", 51, 0},
    {"more tensors than bytes", 52, 1},
    {"more tensors than a group may have", 52, 0xff},
    {"splits of an allreduce", 23, DESC_ALLREDUCE},
    {"an unknown dtype", 61, 77},
    {"an unknown memory", 62, 2},
    {"too many dimensions", 63, 9},
    {"a negative dimension", 71, 0x80},
    {"a tensor of 2^63 bytes", 71, 0x7f},
    {"an empty name", 80, 0},
    {"a name longer than the message", 80, 255},
    {"a 0 inside the name", 81, 0},
    {"offsets beyond the message", 82, 1},
    {"half of offsets", 82, 2},
};

START_TEST(a_hostile_byte_is_refused)
{
    struct wire_writer writer = {0};
    struct desc *desc = full_desc("w", 1);
    desc->prescale = desc->postscale =
        1.5; /* 0x3ff8... : the exponent's upper byte alone makes an infinity */
    ck_assert_uint_eq(write_new(&writer, desc), 83);
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    writer.bytes[hostile[_i].at] = hostile[_i].byte;
    ck_assert_msg(read_new(&writer) == HVD_ERR_SYSTEM, "%s was accepted", hostile[_i].what);
    wire_free(&writer);
}
END_TEST

START_TEST(a_root_beyond_the_job_is_refused)
{
    static const enum desc_kind kinds[] = {DESC_BROADCAST, DESC_REDUCE, DESC_GATHER, DESC_SCATTER};
    struct wire_writer writer = {0};
    struct desc *desc = desc_vector("w", 8);
    desc->kind = kinds[_i];
    desc->root = 6;
    write_new(&writer, desc_hold(desc));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    desc->root = 7;
    wire_reset(&writer);
    write_new(&writer, desc);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(a_factor_of_zero_is_refused)
{
    struct wire_writer writer = {0};
    write_new(&writer, full_desc("w", 1));
    memset(&writer.bytes[30], 0, 8);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(splits_of_zero_are_refused)
{
    struct wire_writer writer = {0};
    write_new(&writer, full_desc("w", 1));
    memset(&writer.bytes[53], 0, 8);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

/* The offsets are in the last 8 bytes. */
START_TEST(offsets_of_zero_or_of_host_memory_are_refused)
{
    struct wire_writer writer = {0};
    struct wire_record record = {.type = WIRE_NEW, .id = 2, .backend = 1, .absent = -1};
    struct desc *desc = desc_vector("w", 8);
    desc->tensors[0].on_device = true;
    record.proposal = (struct wire_proposal){desc, 1, 2, 7};
    wire_put(&writer, &record);
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    memset(&writer.bytes[writer.length - 8], 0, 8);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_reset(&writer);
    desc->tensors[0].on_device = false;
    wire_put(&writer, &record);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_clear(&record);
    wire_free(&writer);
}
END_TEST

START_TEST(a_group_is_refused_whose_tensors_no_memory_could_hold)
{
    struct wire_writer writer = {0};
    struct desc *desc = desc_group(3, INT64_C(1) << 60);
    write_new(&writer, desc);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(what_no_persistent_operation_is_is_refused)
{
    static const enum desc_kind kinds[] = {DESC_ALLTOALL, DESC_REDUCE, DESC_GATHER, DESC_SCATTER,
                                           DESC_BARRIER};
    struct wire_writer writer = {0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct desc *desc = desc_vector("w", 8);
        desc->kind = kinds[i];
        wire_reset(&writer);
        write_new(&writer, desc_hold(desc));
        ck_assert_int_eq(read_new(&writer), HVD_OK);
        desc->persistent = true;
        wire_reset(&writer);
        write_new(&writer, desc);
        ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    }
    wire_free(&writer);
}
END_TEST

START_TEST(a_set_of_more_ranks_than_there_are_is_refused)
{
    struct wire_writer writer = {0};
    write_new(&writer, desc_set_add("0-7", 7));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    wire_reset(&writer);
    write_new(&writer, desc_set_add("0-7", 8));
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(only_a_set_is_made_by_its_members_and_by_a_name_of_hvd)
{
    struct wire_writer writer = {0};
    struct desc *desc = desc_set_add_by_members("0-6", 7);
    write_new(&writer, desc_hold(desc));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    desc->tensors[0].name[0] = 'a';
    wire_reset(&writer);
    write_new(&writer, desc);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    desc = desc_own(DESC_BARRIER, 0, DESC_BARRIER_NAME);
    desc->by_members = true;
    wire_reset(&writer);
    write_new(&writer, desc);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(a_set_is_removed_in_all_ranks_or_in_itself)
{
    struct wire_writer writer = {0};
    struct desc *desc = desc_set_remove(3);
    write_new(&writer, desc_hold(desc));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    desc->set = 3;
    wire_reset(&writer);
    write_new(&writer, desc_hold(desc));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    desc->set = 2;
    wire_reset(&writer);
    write_new(&writer, desc);
    ck_assert_int_eq(read_new(&writer), HVD_ERR_SYSTEM);
    wire_free(&writer);
}
END_TEST

START_TEST(the_largest_group_survives_the_journey)
{
    struct wire_writer writer = {0};
    write_new(&writer, desc_group(HVD_MAX_GROUP, 2));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    wire_free(&writer);
}
END_TEST

START_TEST(a_bitmap_beyond_its_span_or_the_last_id_is_refused)
{
    unsigned char stray[] = {WIRE_IDS, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x0f};
    unsigned char beyond[] = {WIRE_IDS, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 1};
    unsigned char huge[] = {WIRE_RETIRE, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1};
    unsigned char none[] = {WIRE_IDS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    unsigned char nowhere[] = {WIRE_IDS, 0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 1};
    const struct {
        const unsigned char *bytes;
        size_t length;
    } messages[] = {{stray, sizeof(stray)},
                    {beyond, sizeof(beyond)},
                    {huge, sizeof(huge)},
                    {none, sizeof(none)},
                    {nowhere, sizeof(nowhere)}};
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct wire_reader reader = {{messages[i].bytes, messages[i].length, false}, 1};
        struct wire_record record;
        ck_assert_int_eq(wire_get(&reader, &record, NULL), HVD_ERR_SYSTEM);
    }
}
END_TEST

static const struct {
    const char *what;
    unsigned char count, bytes, first, second;
    size_t cut;
} bad_inputs[] = {
    {"no inputs", 0, 1, 0, 1, 0},
    {"inputs without bytes", 2, 0, 0, 1, 0},
    {"the same rank twice", 2, 1, 1, 1, 0},
    {"ranks that do not ascend", 2, 1, 1, 0, 0},
    {"a rank beyond the job", 2, 1, 0, 3, 0},
    {"more inputs than bytes", 3, 1, 0, 1, 0},
    {"half an input", 2, 1, 0, 1, 1},
    {"more bytes than travel", 255, 255, 0, 1, 0},
};

START_TEST(inputs_that_cannot_be_are_refused)
{
    unsigned char bytes[] = {WIRE_EAGER, 0, 0, 0, 0, 5,   0, 0, 0, 2, 0,  1,
                             0,          0, 0, 0, 0, 'a', 1, 0, 0, 0, 'b'};
    struct wire_reader good = {{bytes, sizeof(bytes), false}, 3};
    struct wire_record record;
    ck_assert_int_eq(wire_get(&good, &record, NULL), HVD_OK);
    bytes[9] = bad_inputs[_i].count;
    bytes[11] = bad_inputs[_i].bytes;
    bytes[13] = bad_inputs[_i].first;
    bytes[18] = bad_inputs[_i].second;
    struct wire_reader reader = {{bytes, sizeof(bytes) - bad_inputs[_i].cut, false}, 3};
    ck_assert_msg(wire_get(&reader, &record, NULL) == HVD_ERR_SYSTEM, "%s were accepted",
                  bad_inputs[_i].what);
}
END_TEST

/* Long messages are rare: what they took is not kept. */
START_TEST(an_empty_message_keeps_memory_for_a_short_one)
{
    struct wire_writer writer = {0};
    uint32_t ids[] = {1, 2, 3};
    wire_put_ids(&writer, WIRE_IDS, HVD_ALL_RANKS, ids, 3);
    const unsigned char *bytes = writer.bytes;
    wire_reset(&writer);
    ck_assert_uint_eq(writer.length, 0);
    ck_assert_ptr_eq(writer.bytes, bytes);
    write_new(&writer, desc_group(1000, 2));
    ck_assert_uint_gt(writer.capacity, 4096);
    wire_reset(&writer);
    ck_assert_uint_eq(writer.length, 0);
    ck_assert_uint_le(writer.capacity, 4096);
    write_new(&writer, desc_group(2, 2));
    ck_assert_int_eq(read_new(&writer), HVD_OK);
    wire_free(&writer);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, every_record_survives_the_journey);
    tcase_add_test(tcase, questions_and_answers_survive_the_journey);
    tcase_add_test(tcase, an_answer_of_hostile_bytes_is_refused);
    unit_add_rounds(tcase, ids_come_back_in_few_bytes, 0, sizeof(id_cases) / sizeof(id_cases[0]));
    tcase_add_test(tcase, a_model_costs_a_bit_a_tensor);
    tcase_add_test(tcase, an_empty_message_keeps_memory_for_a_short_one);
    tcase_add_test(tcase, a_truncated_message_is_refused);
    unit_add_rounds(tcase, settings_that_cannot_be_are_refused, 0, 6);
    unit_add_rounds(tcase, a_hostile_byte_is_refused, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_loop_test(tcase, a_root_beyond_the_job_is_refused, 0, 4);
    tcase_add_test(tcase, a_factor_of_zero_is_refused);
    tcase_add_test(tcase, splits_of_zero_are_refused);
    tcase_add_test(tcase, offsets_of_zero_or_of_host_memory_are_refused);
    tcase_add_test(tcase, a_group_is_refused_whose_tensors_no_memory_could_hold);
    tcase_add_test(tcase, what_no_persistent_operation_is_is_refused);
    tcase_add_test(tcase, a_set_of_more_ranks_than_there_are_is_refused);
    tcase_add_test(tcase, only_a_set_is_made_by_its_members_and_by_a_name_of_hvd);
    tcase_add_test(tcase, a_set_is_removed_in_all_ranks_or_in_itself);
    tcase_add_test(tcase, the_largest_group_survives_the_journey);
    tcase_add_test(tcase, a_bitmap_beyond_its_span_or_the_last_id_is_refused);
    tcase_add_loop_test(tcase, inputs_that_cannot_be_are_refused, 0,
                        sizeof(bad_inputs) / sizeof(bad_inputs[0]));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("wire", fill);
}
