/* end_codec.c: encode and decode how a rank ended, and what it left behind. */
#include "verdict/end_codec.h"

void end_encode(struct encoder *encoder, const struct verdict_end *end, const struct verdict_facts *facts,
                const char crash[CRASH_TEXT_BYTES])
{
    encode_number(encoder, (uint64_t)end->wait_status, 4);
    encode_number(encoder, end->joined, 1);
    encode_number(encoder, end->stayed, 1);
    encode_number(encoder, end->told, 1); /* so far what end_decode_start reads */
    encode_text(encoder, end->lost, sizeof(end->lost));
    encode_text(encoder, facts->gpu, sizeof(facts->gpu));
    encode_text(encoder, facts->doing, sizeof(facts->doing));
    encode_text(encoder, facts->error, sizeof(facts->error));
    encode_text(encoder, facts->memory, sizeof(facts->memory));
    encode_text(encoder, facts->core, sizeof(facts->core));
    encode_text(encoder, crash, CRASH_TEXT_BYTES);
    encode_number(encoder, end->left, 1);
}

void end_decode_start(struct decoder *decoder, struct verdict_end *end)
{
    end->wait_status = (int)decode_at_most(decoder, 4, UINT16_MAX);
    end->joined = decode_at_most(decoder, 1, 1) != 0;
    end->stayed = decode_at_most(decoder, 1, 1) != 0;
    end->told = decode_at_most(decoder, 1, 1) != 0;
}

void end_decode(struct decoder *decoder, struct verdict_end *end, struct verdict_facts *facts,
                char crash[CRASH_TEXT_BYTES])
{
    end_decode_start(decoder, end);
    decode_printable(decoder, end->lost, sizeof(end->lost));
    decode_printable(decoder, facts->gpu, sizeof(facts->gpu));
    decode_printable(decoder, facts->doing, sizeof(facts->doing));
    decode_printable(decoder, facts->error, sizeof(facts->error));
    decode_printable(decoder, facts->memory, sizeof(facts->memory));
    decode_printable(decoder, facts->core, sizeof(facts->core));
    decode_printable(decoder, crash, CRASH_TEXT_BYTES);
    end->left = decode_at_most(decoder, 1, 1) != 0;
}
