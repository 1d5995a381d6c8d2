/* rank_codec.h: a rank as bytes for another hvdinfo. Pure. */
#ifndef TOOLS_HVDINFO_PS_RANK_CODEC_H
#define TOOLS_HVDINFO_PS_RANK_CODEC_H

#include "base/codec.h"
#include "tools/hvdinfo/ps/rank.h"

/* No rank needs more bytes than this. */
size_t rank_encoded_most(const struct rank *rank);

/* Write the rank, of whose operations only those that judge.c needs: of the ones that are done the last one,
 * the last one of each process set, and the one that ended last. Times are written as how long they are ago
 * at [now_us]. */
void rank_encode(struct encoder *encoder, const struct rank *rank, int64_t now_us);

/* Is no operation of its process set decided after this one? */
bool rank_operation_is_last_of_set(const struct rank *rank, int i);

/* Enter what rank_encode wrote, by this node's clock, into [rank], which is zeroed; its operations are then
 * the caller's to free. HVD_OK also where the decoder failed, or HVD_ERR_NO_MEMORY. */
int rank_decode(struct decoder *decoder, struct rank *rank, int64_t now_us);

/* A share or rate of its pace; -1, not known, for what is none from 0 to 1e18. */
double rank_decode_value(struct decoder *decoder);

#endif
