/* start_report.c: tells all leaders how each node fared in one step of the job's start. */
#include "bootstrap/start_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

#define START_REPORT_MAGIC UINT32_C(0x73647668) /* "hvds" */
#define HEAD_BYTES         16                   /* what a report has beside its reason and its result */

_Static_assert(HEAD_BYTES + sizeof(struct hvd_error) + PROBE_RESULT_BYTES <= START_REPORT_BYTES,
               "the longest report fits");

size_t start_report_encode(const struct start_report *report, unsigned char bytes[START_REPORT_BYTES])
{
    struct encoder encoder = {bytes, START_REPORT_BYTES, false};
    encode_number(&encoder, START_REPORT_MAGIC, 4);
    encode_number(&encoder, (uint32_t)report->status, 4);
    encode_number(&encoder, report->names_ranks, 1);
    encode_text(&encoder, report->reason.text, sizeof(report->reason.text));
    encode_number(&encoder, report->result_length, 4);
    encode_raw(&encoder, report->result, report->result_length);
    return START_REPORT_BYTES - encoder.left;
}

int start_report_decode(struct start_report *report, const unsigned char *bytes, size_t length)
{
    struct decoder decoder = {bytes, length, false};
    struct start_report read = {.step = report->step};
    uint64_t magic = decode_number(&decoder, 4);
    read.status = (int32_t)decode_number(&decoder, 4);
    read.names_ranks = decode_at_most(&decoder, 1, 1) == 1;
    decode_text(&decoder, read.reason.text, sizeof(read.reason.text));
    read.result_length = (size_t)decode_at_most(&decoder, 4, PROBE_RESULT_BYTES);
    read.result = decode_view(&decoder, read.result_length);
    if (decoder.failed || decoder.left > 0 || magic != START_REPORT_MAGIC || read.status > HVD_OK ||
        read.status < HVD_ERR_SYSTEM)
        return HVD_ERR_INVALID;
    *report = read;
    return HVD_OK;
}

int start_report_refer(const struct peer_table *peer_table, int status, struct hvd_error *err)
{
    char who[300];
    peer_table_rank_name(peer_table, 0, who, sizeof(who));
    return error_set(err, status, "the job cannot start: %s says why", who);
}

int start_report_result(const struct peer_table *peer_table, int rank, const struct start_report *report,
                        struct hvd_error *err)
{
    char who[300];
    if (report->status == HVD_OK)
        return HVD_OK;
    if (peer_table->rank != 0 && rank != peer_table->rank)
        return start_report_refer(peer_table, report->status, err);
    if (report->names_ranks || rank == peer_table->rank)
        return error_set(err, report->status, "%s", report->reason.text);
    peer_table_rank_name(peer_table, rank, who, sizeof(who));
    return error_set(err, report->status, "%.100s cannot start: %s", who, report->reason.text);
}

int start_report_put(const struct leader_exchange *exchange, const struct start_report *mine,
                     struct hvd_error *err)
{
    unsigned char bytes[START_REPORT_BYTES];
    return leader_put(exchange, mine->step, bytes, start_report_encode(mine, bytes), err);
}

int start_report_of_entry(struct start_report *report, const char *step, const struct blob_entry *entry,
                          struct hvd_error *err)
{
    report->step = step;
    if (start_report_decode(report, entry->bytes, entry->length) == HVD_OK)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID, "the report of rank %d (%s), of %zu bytes, is damaged",
                     entry->rank, step, entry->length);
}

int start_report_read(const struct leader_exchange *exchange, const struct leader_list *leaders,
                      const char *step, struct blob_list *reports, struct hvd_error *err)
{
    struct blob_entry entry;
    size_t at = 0;
    int rc = leader_exchange_read(exchange, leaders, step, reports, err);
    while (rc == HVD_OK && blob_list_next(reports, &at, &entry)) {
        struct start_report report;
        rc = start_report_of_entry(&report, step, &entry, err);
        if (rc == HVD_OK)
            rc = start_report_result(exchange->peer_table, entry.rank, &report, err);
    }
    return rc;
}
