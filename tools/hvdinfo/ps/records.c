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

int records_write(FILE *to, const struct ranks *ranks, bool each, int64_t node)
{
    struct merged_ranks merged = {0};
    unsigned char *bytes = NULL;
    int rc = each ? merge_none(ranks, &merged) : merge_same(ranks, &merged);
    size_t capacity = COUNT_SIZE;
    for (int i = 0; rc == HVD_OK && i < merged.count; i++)
        capacity += merged_encoded_most(&merged.list[i]);
    bytes = rc == HVD_OK ? malloc(capacity) : NULL;
    struct encoder encoder = {.at = bytes, .left = capacity};
    if (bytes == NULL)
        rc = HVD_ERR_NO_MEMORY;
    if (rc == HVD_OK)
        encode_number(&encoder, (uint64_t)merged.count, COUNT_SIZE);
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

static int take_ranks(const struct node_bytes *node, int64_t now_us, struct ranks *ranks)
{
    int rc = HVD_OK;
    struct decoder decoder = {.at = node->bytes, .left = node->length};
    uint64_t count = decode_number(&decoder, COUNT_SIZE);
    for (uint64_t i = 0; rc == HVD_OK && i < count && !decoder.failed; i++)
        rc = merged_decode(&decoder, ranks, now_us);
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
