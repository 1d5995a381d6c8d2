/* start_report.c: tells all leaders how each node fared in one step of the job's start. */
#include "bootstrap/start_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "bootstrap/job_key.h"

#define START_REPORT_MAGIC UINT32_C(0x73647668) /* "hvds" */

size_t start_report_encode(const struct start_report *report, unsigned char bytes[START_REPORT_BYTES])
{
    struct encoder encoder = {bytes, START_REPORT_BYTES, false};
    encode_number(&encoder, START_REPORT_MAGIC, 4);
    encode_number(&encoder, (uint32_t)report->status, 4);
    encode_number(&encoder, report->names_ranks, 1);
    encode_text(&encoder, report->reason.text, sizeof(report->reason.text));
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
    if (decoder.failed || decoder.left > 0 || magic != START_REPORT_MAGIC || read.status > HVD_OK ||
        read.status < HVD_ERR_SYSTEM)
        return HVD_ERR_INVALID;
    *report = read;
    return HVD_OK;
}

static int get_report(const struct wireup *wireup, int rank, const char *name, struct start_report *report,
                      int64_t deadline_us, struct hvd_error *err)
{
    struct wireup_blob blob = {NULL, 0};
    int rc = wireup->ops->get(wireup->state, rank, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = start_report_decode(report, blob.bytes, blob.length);
    free(blob.bytes);
    if (rc != HVD_OK)
        error_set(err, rc, "the report of rank %d (%s), of %zu bytes, is damaged", rank, name, blob.length);
    return rc;
}

/* If this rank cannot even send its report, its user must see its own reason. */
static int keep_reason(const struct start_report *mine, int rc, struct hvd_error *err)
{
    if (mine->status == HVD_OK)
        return rc;
    return error_set(err, mine->status, "%s", mine->reason.text);
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

int start_report_exchange(const struct leader_list *leaders, const struct peer_table *peer_table,
                          const struct wireup *wireup, const struct start_report *mine, int64_t deadline_us,
                          struct hvd_error *err)
{
    char name[64];
    unsigned char bytes[START_REPORT_BYTES];
    size_t length = start_report_encode(mine, bytes);
    job_key_blob_name(peer_table, mine->step, name);
    int rc = wireup->ops->put(wireup->state, name, bytes, length, err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    for (int i = 0; rc == HVD_OK && i < leaders->count; i++) {
        struct start_report report = *mine;
        if (leaders->ranks[i] != peer_table->rank)
            rc = get_report(wireup, leaders->ranks[i], name, &report, deadline_us, err);
        if (rc == HVD_OK && report.status != HVD_OK)
            return start_report_result(peer_table, leaders->ranks[i], &report, err);
    }
    return rc == HVD_OK ? HVD_OK : keep_reason(mine, rc, err);
}
