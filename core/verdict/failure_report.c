/* failure_report.c: encode and decode what a node tells srun of a step. */
#include "verdict/failure_report.h"

#include <string.h>

#include "base/codec.h"
#include "options/token.h"
#include "verdict/end_codec.h"

#define MAGIC   UINT32_C(0x72647668) /* "hvdr" */
#define VERSION 4                    /* of what follows the start that all versions have */

size_t failure_report_encode(const struct failure_report *report, const char token[FAILURE_TOKEN_BYTES],
                             unsigned char message[FAILURE_REPORT_BYTES])
{
    struct encoder encoder = {.at = message, .left = FAILURE_REPORT_BYTES};
    encode_number(&encoder, MAGIC, 4);
    encode_number(&encoder, VERSION, 4);
    encode_raw(&encoder, token, FAILURE_TOKEN_BYTES);
    encode_number(&encoder, report->kind, 1);
    encode_number(&encoder, (uint64_t)report->node_index, 4);
    encode_text(&encoder, report->nodes, sizeof(report->nodes));
    encode_number(&encoder, (uint64_t)report->rank, 4);
    encode_number(&encoder, (uint64_t)report->size, 4);
    encode_number(&encoder, (uint64_t)report->pid, 4);
    encode_text(&encoder, report->node, sizeof(report->node));
    encode_number(&encoder, (uint64_t)report->after_us, 8);
    encode_number(&encoder, (uint64_t)report->failed_count, 4);
    end_encode(&encoder, &report->end, &report->facts, report->crash);
    encode_number(&encoder, report->follows, 1);
    encode_number(&encoder, report->node_killed, 1);
    return encoder.failed ? 0 : FAILURE_REPORT_BYTES - encoder.left;
}

bool failure_report_decode(const unsigned char *message, size_t length, const char token[FAILURE_TOKEN_BYTES],
                           struct failure_report *report)
{
    struct decoder decoder = {.at = message, .left = length};
    char proof[FAILURE_TOKEN_BYTES];
    memset(report, 0, sizeof(*report));
    decode_check(&decoder, decode_number(&decoder, 4) == MAGIC);
    report->other_version = decode_number(&decoder, 4) != VERSION;
    decode_raw(&decoder, proof, sizeof(proof));
    decode_check(&decoder, memcmp(proof, token, sizeof(proof)) == 0);
    if (decoder.failed)
        return false;
    report->kind = (enum failure_kind)decode_at_most(&decoder, 1, FAILURE_KINDS - 1);
    report->node_index = (int)decode_at_most(&decoder, 4, FAILURE_MAX_SIZE - 1);
    decode_printable(&decoder, report->nodes, sizeof(report->nodes));
    report->rank = (int)decode_at_most(&decoder, 4, FAILURE_MAX_SIZE - 1);
    report->size = (int)decode_at_most(&decoder, 4, FAILURE_MAX_SIZE);
    decode_check(&decoder, report->rank < report->size);
    report->pid = (int)decode_at_most(&decoder, 4, INT32_MAX);
    decode_printable(&decoder, report->node, sizeof(report->node));
    report->after_us = (int64_t)decode_at_most(&decoder, 8, INT64_MAX);
    report->failed_count = (int)decode_at_most(&decoder, 4, FAILURE_MAX_SIZE);
    if (report->other_version) {
        end_decode_start(&decoder, &report->end);
        return !decoder.failed;
    }
    end_decode(&decoder, &report->end, &report->facts, report->crash);
    report->follows = decode_at_most(&decoder, 1, 1) != 0;
    report->node_killed = decode_at_most(&decoder, 1, 1) != 0;
    decode_check(&decoder, decoder.left == 0);
    return !decoder.failed;
}

bool failure_report_parse_variable(const char *text, int *portp, char token[FAILURE_TOKEN_BYTES])
{
    struct token port;
    const char *why = NULL;
    const char *rest = token_next(text, ':', &port);
    if (rest == NULL || strlen(rest) != FAILURE_TOKEN_BYTES - 1)
        return false;
    memcpy(token, rest, FAILURE_TOKEN_BYTES);
    return token_parse_number(port, 1, UINT16_MAX, portp, &why) == 0;
}
