/* test_wire.c: records of the negotiation to and from bytes, hostile ones too. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "flow/wire.h"

static struct desc make_desc(const char *name)
{
    struct desc desc = {.kind = DESC_ALLREDUCE,
                        .dtype = HVD_FLOAT64,
                        .op = HVD_AVERAGE,
                        .ndim = 2,
                        .shape = {3, 5},
                        .planes = 2};
    snprintf(desc.name, sizeof(desc.name), "%s", name);
    return desc;
}

START_TEST(every_record_survives_the_journey)
{
    struct wire_writer writer = {0};
    struct wire_record in[3] = {{.type = WIRE_NEW, .rank = 6, .id = 9, .plane = 1, .desc = make_desc("a")},
                                {.type = WIRE_MISMATCH, .rank = 1, .other_rank = 2},
                                {.type = WIRE_LEAVING, .rank = 3}};
    in[1].desc = make_desc("b");
    in[1].other = make_desc("b");
    in[1].other.shape[0] = 4;
    for (int i = 0; i < 3; i++)
        wire_put(&writer, &in[i]);
    struct wire_reader reader = {writer.bytes, writer.length, 7};
    struct wire_record out;
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_NEW);
    ck_assert_int_eq(out.rank, 6);
    ck_assert_uint_eq(out.id, 9);
    ck_assert_int_eq(out.plane, 1);
    ck_assert(desc_equal(&out.desc, &in[0].desc));
    ck_assert_uint_eq(out.desc.planes, 2);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_MISMATCH);
    ck_assert(desc_equal(&out.other, &in[1].other));
    ck_assert_int_eq(out.other_rank, 2);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_OK);
    ck_assert_int_eq(out.type, WIRE_LEAVING);
    ck_assert_int_eq(out.rank, 3);
    ck_assert_int_eq(wire_get(&reader, &out, NULL), HVD_IN_PROGRESS);
    wire_free(&writer);
}
END_TEST

/* Read all ids of a message back into [ids]; returns how many. */
static size_t read_ids(const struct wire_writer *writer, uint32_t *ids, size_t room)
{
    struct wire_reader reader = {writer->bytes, writer->length, 1};
    struct wire_record record;
    size_t count = 0;
    while (wire_get(&reader, &record, NULL) == HVD_OK) {
        ck_assert_int_eq(record.type, WIRE_IDS);
        for (uint32_t i = 0; i < record.id_span; i++) {
            if ((record.bits[i / 8] >> i % 8 & 1) == 0)
                continue;
            ck_assert_uint_lt(count, room);
            ids[count++] = record.first_id + i;
        }
    }
    ck_assert_uint_eq(reader.left, 0);
    return count;
}

static const struct {
    uint32_t ids[8];
    size_t count;
    size_t most_bytes;
} id_cases[] = {
    {{0}, 1, 10},
    {{0, 1, 2, 3, 4, 5, 6, 7}, 8, 10},
    {{7, 8, 80, 81}, 4, 19},
    {{0, 1000000}, 2, 20},
    {{WIRE_MAX_ID}, 1, 10},
    {{3, WIRE_MAX_ID - 1, WIRE_MAX_ID}, 3, 20},
};

START_TEST(ids_come_back_in_few_bytes)
{
    struct wire_writer writer = {0};
    uint32_t ids[8];
    wire_put_ids(&writer, id_cases[_i].ids, id_cases[_i].count);
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
    wire_put_ids(&writer, ids, 161);
    ck_assert_uint_le(writer.length, 9 + 21);
    ck_assert_uint_eq(read_ids(&writer, back, 161), 161);
    wire_free(&writer);
}
END_TEST

/* Every message that is cut short is refused, none is read past its end (ASan looks on). */
START_TEST(a_truncated_message_is_refused)
{
    struct wire_writer writer = {0};
    struct wire_record record = {.type = WIRE_MISMATCH,
                                 .rank = 1,
                                 .other_rank = 2,
                                 .desc = make_desc("name"),
                                 .other = make_desc("name")};
    wire_put(&writer, &record);
    for (size_t length = 1; length < writer.length; length++) {
        unsigned char *bytes = malloc(length);
        memcpy(bytes, writer.bytes, length);
        struct wire_reader reader = {bytes, length, 4};
        struct hvd_error err = {""};
        ck_assert_int_eq(wire_get(&reader, &record, &err), HVD_ERR_SYSTEM);
        ck_assert_str_ne(err.text, "");
        free(bytes);
    }
    wire_free(&writer);
}
END_TEST

/* One byte of a good NEW record is set to something that may not be there. */
static const struct {
    const char *what;
    size_t at;
    unsigned char byte;
} hostile[] = {
    {"an unknown type", 0, 9},          {"type 0", 0, 0},
    {"a rank beyond the job", 1, 7},    {"a plane beyond the last", 9, 200},
    {"an unknown kind", 10, 77},        {"an unknown dtype", 11, 77},
    {"an unknown op", 12, 77},          {"a root beyond the job", 13, 7},
    {"an unknown plane bit", 17, 0x80}, {"too many dimensions", 21, 9},
    {"a negative dimension", 29, 0x80}, {"a tensor of 2^63 bytes", 29, 0x7f},
    {"an empty name", 38, 0},           {"a name longer than the message", 38, 255},
    {"a 0 inside the name", 39, 0},
};

START_TEST(a_hostile_byte_is_refused)
{
    struct wire_writer writer = {0};
    struct wire_record record = {.type = WIRE_NEW, .rank = 1, .id = 2, .plane = 1, .desc = make_desc("w")};
    wire_put(&writer, &record);
    ck_assert_uint_eq(writer.length, 40);
    struct wire_reader good = {writer.bytes, writer.length, 7};
    ck_assert_int_eq(wire_get(&good, &record, NULL), HVD_OK);
    writer.bytes[hostile[_i].at] = hostile[_i].byte;
    struct wire_reader reader = {writer.bytes, writer.length, 7};
    ck_assert_msg(wire_get(&reader, &record, NULL) == HVD_ERR_SYSTEM, "%s was accepted", hostile[_i].what);
    wire_free(&writer);
}
END_TEST

START_TEST(a_bitmap_beyond_its_span_or_the_last_id_is_refused)
{
    unsigned char stray[] = {WIRE_IDS, 0, 0, 0, 0, 3, 0, 0, 0, 0x0f};
    unsigned char beyond[] = {WIRE_IDS, 0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 1};
    unsigned char huge[] = {WIRE_IDS, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1};
    unsigned char none[] = {WIRE_IDS, 0, 0, 0, 0, 0, 0, 0, 0};
    const struct {
        const unsigned char *bytes;
        size_t length;
    } messages[] = {
        {stray, sizeof(stray)}, {beyond, sizeof(beyond)}, {huge, sizeof(huge)}, {none, sizeof(none)}};
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct wire_reader reader = {messages[i].bytes, messages[i].length, 1};
        struct wire_record record;
        ck_assert_int_eq(wire_get(&reader, &record, NULL), HVD_ERR_SYSTEM);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, every_record_survives_the_journey);
    tcase_add_loop_test(tcase, ids_come_back_in_few_bytes, 0, sizeof(id_cases) / sizeof(id_cases[0]));
    tcase_add_test(tcase, a_model_costs_a_bit_a_tensor);
    tcase_add_test(tcase, a_truncated_message_is_refused);
    tcase_add_loop_test(tcase, a_hostile_byte_is_refused, 0, sizeof(hostile) / sizeof(hostile[0]));
    tcase_add_test(tcase, a_bitmap_beyond_its_span_or_the_last_id_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("wire", fill);
}
