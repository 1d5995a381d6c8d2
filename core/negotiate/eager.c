/* eager.c: the inputs of small operations, which travel with the readiness of their members. */
#include "negotiate/eager.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

static const unsigned char *block_at(const struct eager_inputs *inputs, int i)
{
    return inputs->blocks + (size_t)i * eager_block_bytes(inputs->input_bytes);
}

uint32_t eager_rank(const struct eager_inputs *inputs, int i)
{
    struct decoder decoder = {block_at(inputs, i), 4, false};
    return (uint32_t)decode_number(&decoder, 4);
}

const unsigned char *eager_input(const struct eager_inputs *inputs, int i)
{
    return block_at(inputs, i) + eager_block_bytes(0);
}

void eager_make_block(unsigned char *block, int rank, const void *input, int input_bytes)
{
    struct encoder encoder = {block, eager_block_bytes(input_bytes), false};
    encode_number(&encoder, (uint64_t)rank, 4);
    encode_raw(&encoder, input, (size_t)input_bytes);
}

/* Put [block] of [rank] among the others. Mostly it is the last one. */
static int insert(struct eager_merge *merge, uint32_t rank, const unsigned char *block, struct hvd_error *err)
{
    struct eager_inputs *inputs = &merge->inputs;
    size_t block_bytes = eager_block_bytes(inputs->input_bytes);
    int at = inputs->count;
    while (at > 0 && eager_rank(inputs, at - 1) > rank)
        at--;
    if (at > 0 && eager_rank(inputs, at - 1) == rank)
        return error_set(err, HVD_ERR_SYSTEM, "rank %u has two inputs for one operation", rank);
    unsigned char *place = merge->blocks + (size_t)at * block_bytes;
    memmove(place + block_bytes, place, (size_t)(inputs->count - at) * block_bytes);
    memcpy(place, block, block_bytes);
    inputs->count++;
    return HVD_OK;
}

static bool fits(const struct eager_merge *merge, const struct eager_inputs *inputs)
{
    return inputs->input_bytes == merge->inputs.input_bytes &&
           eager_bytes(&merge->inputs) + eager_bytes(inputs) <= EAGER_MAX_BYTES;
}

int eager_add(struct eager_merge **mergep, int part, const struct eager_inputs *inputs, struct hvd_error *err)
{
    if (*mergep == NULL)
        *mergep = calloc(1, sizeof(**mergep));
    struct eager_merge *merge = *mergep;
    int rc = HVD_OK;
    if (merge == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory left for the inputs of a small operation");
    if (merge->parts == 0)
        merge->inputs = (struct eager_inputs){0, inputs->input_bytes, merge->blocks};
    if (!fits(merge, inputs))
        return HVD_OK;
    for (int i = 0; i < inputs->count && rc == HVD_OK; i++)
        rc = insert(merge, eager_rank(inputs, i), block_at(inputs, i), err);
    merge->parts |= UINT64_C(1) << part;
    return rc;
}
