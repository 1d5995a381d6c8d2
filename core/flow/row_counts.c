/* row_counts.c: how many rows the other members have, and memory for results whose size only that tells. */
#include "flow/row_counts.h"

#include <stdlib.h>
#include <string.h>

/* ---- Asking ---- */

/* This rank's sizes, one for each piece (allgather) or for each member (alltoall), and behind them room for
 * those that come: from each member as many, or one. */
static int size_count(const struct batch *batch)
{
    return batch->travel.need.kind == PLANE_ALLGATHER ? batch->piece_count : batch->team->members.size;
}

static int write_own(struct batch *batch, struct hvd_error *err)
{
    bool gathers = batch->travel.need.kind == PLANE_ALLGATHER;
    size_t own = (size_t)size_count(batch);
    size_t come = gathers ? own * (size_t)batch->team->members.size : own;
    batch->sizes = calloc(own + come, sizeof(*batch->sizes));
    if (batch->sizes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the sizes of %d results", batch->piece_count);
    if (!gathers) {
        memcpy(batch->sizes, batch->pieces->request->splits, own * sizeof(*batch->sizes));
        return HVD_OK;
    }
    int i = 0;
    for (const struct piece *piece = batch->pieces; piece != NULL; piece = piece->next)
        batch->sizes[i++] = piece->rows;
    return HVD_OK;
}

int sizes_ask(struct batch *batch, struct hvd_error *err)
{
    int members = batch->team->members.size;
    int count = size_count(batch);
    bool gathers = batch->travel.need.kind == PLANE_ALLGATHER;
    int rc = write_own(batch, err);
    if (rc != HVD_OK)
        return rc;
    batch->sizing = true;
    batch->stage = BATCH_START;
    batch->travel.need.dtype = batch->travel.need.partial = HVD_INT64;
    batch->travel.input = batch->sizes;
    batch->travel.output = batch->sizes + count;
    for (int member = 0; member < members; member++) {
        batch->sent[member] = gathers ? count : 1;
        if (!gathers)
            batch->received[member] = 1;
    }
    batch->travel.count = (int64_t)count * (gathers ? members : 1);
    batch->travel.counts = batch->sent;
    batch->travel.receive_counts = gathers ? NULL : batch->received;
    return HVD_OK;
}

/* ---- Believing ---- */

static int distrust(const struct batch *batch, const struct piece *piece, int member, int64_t rows,
                    struct hvd_error *err)
{
    char title[DESC_TITLE_BYTES];
    desc_title(piece->request->desc, title, sizeof(title));
    return error_set(err, HVD_ERR_SYSTEM,
                     "%s: rank %d says that it has %lld rows of \"%s\", which cannot be; it runs another "
                     "version or is broken",
                     title, batch->team->members.ranks[member], (long long)rows,
                     piece->request->desc->tensors[piece->index].name);
}

/* The rows that each member has for [piece], which is number [column] of the batch. */
static int take_rows(const struct batch *batch, struct piece *piece, int column, struct hvd_error *err)
{
    const struct plane_team *members = &batch->team->members;
    bool gathers = batch->travel.need.kind == PLANE_ALLGATHER;
    const int64_t *come = batch->sizes + size_count(batch);
    int64_t rows = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
    piece->member_rows = calloc((size_t)members->size, sizeof(*piece->member_rows));
    if (piece->member_rows == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the sizes of %d members", members->size);
    for (int member = 0; member < members->size; member++) {
        int64_t said = gathers ? come[(int64_t)member * batch->piece_count + column] : come[member];
        /* This rank's own came around through the others. */
        if (member == members->rank)
            said = gathers ? piece->rows : batch->sizes[member];
        bool bad = said < 0 || __builtin_add_overflow(rows, said, &rows);
        if (!bad && rows > 0)
            bad = piece->row_elements < 0 || __builtin_mul_overflow(rows, piece->row_elements, &elements) ||
                  __builtin_mul_overflow(elements, (int64_t)dtype_bytes(batch->dtype), &bytes);
        if (bad)
            return distrust(batch, piece, member, said, err);
        piece->member_rows[member] = said;
    }
    if (piece->row_elements < 0)
        piece->row_elements = 0;
    return HVD_OK;
}

static int64_t result_rows(const struct batch *batch, const struct piece *piece)
{
    int64_t rows = 0;
    for (int member = 0; member < batch->team->members.size; member++)
        rows += piece->member_rows[member];
    return rows;
}

static int64_t result_bytes(const struct batch *batch, const struct piece *piece)
{
    return result_rows(batch, piece) * piece->row_elements * (int64_t)dtype_bytes(batch->dtype);
}

/* Put the pieces from the first on that goes beyond the threshold into a batch of their own. */
static int cut(struct batch *batch, int64_t threshold_bytes, struct batch **restp, struct hvd_error *err)
{
    struct piece *piece = batch->pieces->next;
    int64_t left_bytes = threshold_bytes - result_bytes(batch, batch->pieces);
    struct piece **end = &batch->pieces->next;
    int kept = 1;
    while (piece != NULL && result_bytes(batch, piece) <= left_bytes) {
        left_bytes -= result_bytes(batch, piece);
        end = &piece->next;
        piece = piece->next;
        kept++;
    }
    *restp = NULL;
    if (piece == NULL)
        return HVD_OK;
    struct batch *rest = batch_create(batch->team, batch->plane, piece->request->desc, piece->index);
    if (rest == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left to plan the next operations");
    rest->stage = BATCH_LAY_OUT;
    rest->fusion_bytes = batch->fusion_bytes;
    rest->travel.chunk_bytes = batch->travel.chunk_bytes;
    rest->pieces = piece;
    rest->tail = batch->tail;
    rest->piece_count = batch->piece_count - kept;
    batch->piece_count = kept;
    batch->tail = end;
    *end = NULL;
    *restp = rest;
    return HVD_OK;
}

int sizes_take(struct batch *batch, int64_t threshold_bytes, struct batch **restp, struct hvd_error *err)
{
    int column = 0;
    int rc = HVD_OK;
    *restp = NULL;
    for (struct piece *piece = batch->pieces; piece != NULL && rc == HVD_OK; piece = piece->next)
        rc = take_rows(batch, piece, column++, err);
    if (rc != HVD_OK)
        return rc;
    free(batch->sizes);
    batch->sizes = NULL;
    batch->sizing = false;
    batch->travel.need.dtype = batch->travel.need.partial = batch->dtype;
    batch->stage = BATCH_LAY_OUT;
    return cut(batch, threshold_bytes, restp, err);
}

/* ---- Memory ---- */

static void allocate(struct batch *batch, struct piece *piece)
{
    struct hvd_result *result = piece->result;
    int64_t bytes = result_bytes(batch, piece);
    if (bytes == 0)
        return;
    piece->owned = result->allocate == NULL;
    piece->output = piece->owned ? malloc((size_t)bytes) : result->allocate(bytes, result->arg);
    if (piece->output != NULL)
        return;
    struct hvd_error reason;
    error_set(&reason, HVD_ERR_NO_MEMORY,
              "there is no memory on this rank for the %lld bytes of the result of \"%s\"", (long long)bytes,
              piece->request->desc->tensors[piece->index].name);
    request_fail(piece->request, HVD_ERR_NO_MEMORY, reason.text);
}

void sizes_allocate(struct batch *batch)
{
    for (struct piece *piece = batch->pieces; piece != NULL; piece = piece->next) {
        struct hvd_result *result = piece->result;
        piece->result_rows = result_rows(batch, piece);
        if (result->rows != NULL)
            memcpy(result->rows, piece->member_rows,
                   (size_t)batch->team->members.size * sizeof(*result->rows));
        allocate(batch, piece);
    }
}
