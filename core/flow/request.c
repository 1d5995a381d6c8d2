/* request.c: one operation of this rank, with the memory of its tensors. */
#include "flow/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct request *request_create(const struct desc *desc)
{
    size_t pieces_bytes = (size_t)desc->tensor_count * sizeof(struct piece);
    struct request *request = calloc(1, sizeof(*request) + pieces_bytes);
    if (request == NULL)
        return NULL;
    request->desc = desc_hold(desc);
    request->piece_count = request->pieces_left = desc->tensor_count;
    for (int i = 0; i < request->piece_count; i++) {
        struct piece *piece = &request->pieces[i];
        piece->request = request;
        piece->index = i;
        piece->hash = request_hash(desc->set, request_name(piece), strlen(request_name(piece)));
    }
    return request;
}

/* What only this run of it needed. */
static void release_run(struct request *request)
{
    for (int i = 0; i < request->piece_count; i++) {
        struct piece *piece = &request->pieces[i];
        free(piece->member_rows);
        piece->member_rows = NULL;
        if (piece->owned)
            free(piece->output);
        piece->owned = false;
    }
    free(request->splits);
    request->splits = NULL;
}

void request_free(struct request *request)
{
    if (request == NULL)
        return;
    release_run(request);
    desc_release(request->desc);
    free(request->reason);
    free(request->sentence);
    free(request);
}

const char *request_name(const struct piece *piece)
{
    const struct desc *desc = piece->request->desc;
    return piece->index == 0 ? desc_name(desc) : desc->tensors[piece->index].name;
}

uint64_t request_hash(hvd_set set, const char *name, size_t length)
{
    return hash_bytes(name, length) ^ (uint64_t)set * UINT64_C(0x9e3779b97f4a7c15);
}

void request_fail(struct request *request, int status, const char *reason)
{
    if (request->worst != HVD_OK)
        return;
    request->worst = status;
    request->reason = strdup(reason); /* without memory the status must do */
}

void request_renew(struct request *request)
{
    release_run(request);
    request->done = NULL;
    request->arg = NULL;
    request->decided = false;
    request->pieces_left = request->piece_count;
}
