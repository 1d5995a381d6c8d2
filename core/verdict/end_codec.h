/* end_codec.h: how a rank ended, and what it left behind, as bytes for the launcher on another machine. */
#ifndef VERDICT_END_CODEC_H
#define VERDICT_END_CODEC_H

#include "base/codec.h"
#include "verdict/rank_traces.h"

/* Of [end] the status, what hvd knew of the rank, and what it waited for. */
void end_encode(struct encoder *encoder, const struct verdict_end *end, const struct verdict_facts *facts,
                const char crash[CRASH_TEXT_BYTES]);
/* What all versions begin with: the status, and what hvd knew. */
void end_decode_start(struct decoder *decoder, struct verdict_end *end);
void end_decode(struct decoder *decoder, struct verdict_end *end, struct verdict_facts *facts,
                char crash[CRASH_TEXT_BYTES]);

#endif
