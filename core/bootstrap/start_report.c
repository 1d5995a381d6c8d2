/* start_report.c: how a rank fared in one step of the job's start, told to all. */
#include "bootstrap/start_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

#define REPORT_MAGIC UINT32_C(0x73647668) /* "hvds" */

size_t report_encode(const struct report *report, unsigned char bytes[REPORT_BYTES])
{
    struct writer writer = {bytes, REPORT_BYTES, false};
    write_number(&writer, REPORT_MAGIC, 4);
    write_number(&writer, (uint32_t)report->status, 4);
    write_number(&writer, report->attached, 1);
    write_text(&writer, report->reason.text);
    return REPORT_BYTES - writer.left;
}

int report_decode(struct report *report, const unsigned char *bytes, size_t length)
{
    struct reader reader = {bytes, length, false};
    struct report read = {.step = report->step};
    uint64_t magic = read_number(&reader, 4);
    read.status = (int32_t)read_number(&reader, 4);
    uint64_t attached = read_number(&reader, 1);
    read.attached = attached == 1;
    read_text(&reader, read.reason.text, sizeof(read.reason.text));
    if (reader.failed || reader.left > 0 || magic != REPORT_MAGIC || attached > 1 || read.status > HVD_OK ||
        read.status < HVD_ERR_SYSTEM)
        return HVD_ERR_INVALID;
    *report = read;
    return HVD_OK;
}

static int get_report(const struct wireup *wireup, int rank, const char *name, struct report *report,
                      int64_t deadline_us, struct hvd_error *err)
{
    struct wireup_blob blob = {NULL, 0};
    int rc = wireup->ops->get(wireup->state, rank, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    rc = report_decode(report, blob.bytes, blob.length);
    free(blob.bytes);
    if (rc != HVD_OK)
        error_set(err, rc, "the report of rank %d (%s), of %zu bytes, is damaged", rank, name, blob.length);
    return rc;
}

/* Where this rank cannot even tell, its own reason is what its user must read. */
static int keep_reason(const struct report *mine, int rc, struct hvd_error *err)
{
    if (mine->status == HVD_OK)
        return rc;
    return error_set(err, mine->status, "%s", mine->reason.text);
}

int report_exchange(const struct roster *roster, const struct wireup *wireup, const struct report *mine,
                    bool *attached, int64_t deadline_us, struct hvd_error *err)
{
    char name[64];
    unsigned char bytes[REPORT_BYTES];
    struct report report;
    size_t length = report_encode(mine, bytes);
    snprintf(name, sizeof(name), "hvd.%u.%s", roster->epoch, mine->step);
    int rc = wireup->ops->put(wireup->state, name, bytes, length, err);
    if (rc == HVD_OK)
        rc = wireup->ops->fence(wireup->state, deadline_us, err);
    for (int rank = 0; rc == HVD_OK && rank < roster->size; rank++) {
        rc = get_report(wireup, rank, name, &report, deadline_us, err);
        if (rc != HVD_OK)
            break;
        if (attached != NULL)
            attached[rank] = report.attached;
        if (report.status != HVD_OK && rank == roster->rank)
            return keep_reason(mine, rc, err);
        if (report.status != HVD_OK) {
            char who[300];
            roster_name(roster, rank, who, sizeof(who));
            return error_set(err, report.status, "%.100s cannot start: %s", who, report.reason.text);
        }
    }
    return rc == HVD_OK ? HVD_OK : keep_reason(mine, rc, err);
}
