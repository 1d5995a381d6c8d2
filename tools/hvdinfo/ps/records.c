/* records.c: encode the ranks of a node as lines of text, and decode those of all nodes.
 *
 * A line is "hvdinfo-ps-3 NODE HEX": srun mixes the lines of different nodes, but cuts none that is shorter
 * than a kilobyte. The last line of a node has "end" in place of the bytes. */
#include "tools/hvdinfo/ps/records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "options/node_list.h"
#include "options/parse.h"
#include "tools/hvdinfo/ps/merge.h"

#define END        "end"
#define LINE_BYTES 400 /* encoded bytes in a line */
#define COUNT_SIZE 4   /* bytes */
#define HEAD_BYTES (3 * COUNT_SIZE + 2 + sizeof(((struct records *)NULL)->silent))

/* ---- Write --------------------------------------------------------------------------------------- */

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

int records_write(FILE *to, const struct ranks *ranks, bool each, int64_t node, const struct records *records)
{
    struct merged_ranks merged = {0};
    unsigned char *bytes = NULL;
    int rc = each ? merge_none(ranks, &merged) : merge_same(ranks, &merged);
    size_t capacity = HEAD_BYTES;
    for (int i = 0; rc == HVD_OK && i < merged.count; i++)
        capacity += merged_encoded_most(&merged.list[i]);
    bytes = rc == HVD_OK ? malloc(capacity) : NULL;
    struct encoder encoder = {.at = bytes, .left = capacity};
    if (bytes == NULL)
        rc = HVD_ERR_NO_MEMORY;
    if (rc == HVD_OK) {
        encode_number(&encoder, (uint64_t)records->asked, COUNT_SIZE);
        encode_number(&encoder, (uint64_t)records->answered, COUNT_SIZE);
        encode_text(&encoder, records->silent, sizeof(records->silent));
        encode_number(&encoder, (uint64_t)merged.count, COUNT_SIZE);
    }
    for (int i = 0; rc == HVD_OK && i < merged.count; i++)
        merged_encode(&encoder, &merged.list[i], ranks->now_us);
    if (encoder.failed)
        rc = HVD_ERR_INVALID;
    if (rc == HVD_OK)
        write_lines(to, node, bytes, capacity - encoder.left);
    free(bytes);
    merged_ranks_free(&merged);
    return rc;
}

/* ---- Read ---------------------------------------------------------------------------------------- */

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
    if (strncmp(line, RECORDS_NAME, strlen(RECORDS_NAME)) != 0)
        return HVD_OK;
    if (strncmp(line, RECORDS_MARK, strlen(RECORDS_MARK)) != 0)
        return HVD_ERR_INVALID;
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

/* Add to the names of those that have not answered. */
static void name_silent(struct records *records, const char *names)
{
    size_t room = sizeof(records->silent), used = strlen(records->silent);
    if (names[0] == 0)
        return;
    used += (size_t)snprintf(records->silent + used, room - used, "%s%s", used > 0 ? "," : "", names);
    if (used >= room)
        memcpy(records->silent + room - 4, "...", 4);
}

/* The ranks of a node, and of those that it has asked. */
static int take_ranks(const struct node_bytes *node, int64_t now_us, struct ranks *ranks,
                      struct records *records)
{
    int rc = HVD_OK;
    struct records behind;
    struct decoder decoder = {.at = node->bytes, .left = node->length};
    behind.asked = (long)decode_at_most(&decoder, COUNT_SIZE, RECORDS_NODES);
    behind.answered = (long)decode_at_most(&decoder, COUNT_SIZE, (uint64_t)behind.asked);
    decode_printable(&decoder, behind.silent, sizeof(behind.silent));
    uint64_t count = decode_number(&decoder, COUNT_SIZE);
    for (uint64_t i = 0; rc == HVD_OK && i < count && !decoder.failed; i++)
        rc = merged_decode(&decoder, ranks, now_us);
    decode_check(&decoder, decoder.left == 0);
    records->asked += behind.asked;
    records->answered += behind.answered;
    name_silent(records, behind.silent);
    return rc == HVD_OK && decoder.failed ? HVD_ERR_INVALID : rc;
}

int records_read(char *text, const char *list, int64_t now_us, struct ranks *ranks, struct records *records)
{
    char name[256];
    long count = node_list_count(list);
    long asked = count > RECORDS_NODES ? RECORDS_NODES : count;
    struct node_bytes *nodes = calloc((size_t)asked + 1, sizeof(*nodes));
    int rc = nodes == NULL ? HVD_ERR_NO_MEMORY : take_lines(nodes, asked, text);
    *records = (struct records){.asked = 0};
    for (long i = 0; rc == HVD_OK && i < asked; i++) {
        if (nodes[i].complete) {
            rc = take_ranks(&nodes[i], now_us, ranks, records);
            continue;
        }
        records->asked++;
        if (strlen(records->silent) + 1 < sizeof(records->silent) &&
            node_list_at(list, i, name, sizeof(name)))
            name_silent(records, name);
    }
    for (long i = 0; nodes != NULL && i < asked; i++)
        free(nodes[i].bytes);
    free(nodes);
    ranks->now_us = now_us;
    return rc;
}
