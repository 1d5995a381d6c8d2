/* messages.c: encode and decode what hvdrun and its agents tell each other. */
#include "tools/hvdrun/agent/messages.h"

#include <string.h>

#include "verdict/end_codec.h"

static int decode_int(struct decoder *decoder, int most)
{
    return (int)decode_at_most(decoder, 4, (uint64_t)most);
}

/* ---- Starts --------------------------------------------------------------------------------------- */

size_t agent_start_encode(const struct starter_rank *rank, const struct launch_place *place,
                          unsigned char bytes[AGENT_MESSAGE_BYTES])
{
    struct encoder encoder = {bytes, AGENT_MESSAGE_BYTES, false};
    encode_number(&encoder, (uint64_t)rank->size, 4);
    encode_number(&encoder, (uint64_t)rank->restarts, 4);
    encode_number(&encoder, rank->is_newcomer, 1);
    encode_number(&encoder, (uint64_t)place->local_rank, 4);
    encode_number(&encoder, (uint64_t)place->local_size, 4);
    encode_number(&encoder, (uint64_t)place->node, 4);
    encode_number(&encoder, (uint64_t)place->node_count, 4);
    return AGENT_MESSAGE_BYTES - encoder.left;
}

bool agent_start_decode(const struct fence_message *message, int slots, struct starter_rank *rank,
                        struct launch_place *place)
{
    struct decoder decoder = {message->bytes, message->length, false};
    memset(rank, 0, sizeof(*rank)); /* what is between the fields too */
    memset(place, 0, sizeof(*place));
    rank->rank = place->rank = (int)message->rank;
    rank->size = place->size = decode_int(&decoder, slots);
    rank->restarts = decode_int(&decoder, INT32_MAX);
    rank->is_newcomer = decode_at_most(&decoder, 1, 1) != 0;
    place->local_rank = decode_int(&decoder, HOST_SLOTS_MAX);
    place->local_size = decode_int(&decoder, HOST_SLOTS_MAX);
    place->node = decode_int(&decoder, HOSTS_MAX);
    place->node_count = decode_int(&decoder, HOSTS_MAX);
    decode_check(&decoder, message->rank < (uint32_t)rank->size && decoder.left == 0);
    decode_check(&decoder, place->local_rank < place->local_size && place->node < place->node_count);
    return !decoder.failed;
}

/* ---- Reports -------------------------------------------------------------------------------------- */

size_t agent_report_encode(const struct agent_report *report, unsigned char bytes[AGENT_MESSAGE_BYTES])
{
    struct encoder encoder = {bytes, AGENT_MESSAGE_BYTES, false};
    const struct reaper_report *event = &report->report.event;
    const struct verdict_end *end = &report->report.end;
    encode_number(&encoder, (uint64_t)event->kind, 1);
    encode_number(&encoder, (uint64_t)event->rank, 4);
    encode_number(&encoder, (uint64_t)event->pid, 4);
    encode_number(&encoder, (uint64_t)event->number, 4);
    encode_number(&encoder, (uint64_t)end->stage, 1);
    encode_number(&encoder, end->sweep, 4);
    encode_number(&encoder, (uint64_t)end->grace_us, 8);
    if (event->kind == REAPER_NOT_BOUND)
        encode_text(&encoder, report->report.why.text, sizeof(report->report.why.text));
    if (event->kind == REAPER_ENDED)
        end_encode(&encoder, end, &report->facts, report->crash);
    return AGENT_MESSAGE_BYTES - encoder.left;
}

bool agent_report_decode(const struct fence_message *message, int slots, struct agent_report *report)
{
    struct decoder decoder = {message->bytes, message->length, false};
    struct reaper_report *event = &report->report.event;
    struct verdict_end *end = &report->report.end;
    memset(report, 0, sizeof(*report));
    uint64_t kind = decode_at_most(&decoder, 1, REAPER_ENDED);
    decode_check(&decoder, kind >= REAPER_STARTED);
    if (decoder.failed)
        return false;
    event->kind = (unsigned)kind;
    event->rank = decode_int(&decoder, slots - 1);
    event->pid = decode_int(&decoder, INT32_MAX);
    event->number = (int)decode_number(&decoder, 4);
    end->stage = (enum verdict_stage)decode_at_most(&decoder, 1, VERDICT_KILL_SENT);
    end->sweep = decode_number(&decoder, 4);
    end->grace_us = (int64_t)decode_at_most(&decoder, 8, INT64_MAX);
    if (event->kind == REAPER_NOT_BOUND)
        decode_printable(&decoder, report->report.why.text, sizeof(report->report.why.text));
    if (event->kind == REAPER_ENDED)
        end_decode(&decoder, end, &report->facts, report->crash);
    decode_check(&decoder, decoder.left == 0);
    return !decoder.failed;
}

/* ---- Hosts ---------------------------------------------------------------------------------------- */

size_t agent_hello_encode(const struct agent_hello *hello, unsigned char bytes[AGENT_MESSAGE_BYTES])
{
    struct encoder encoder = {bytes, AGENT_MESSAGE_BYTES, false};
    encode_text(&encoder, hello->host, sizeof(hello->host));
    encode_text(&encoder, hello->version, sizeof(hello->version));
    return AGENT_MESSAGE_BYTES - encoder.left;
}

bool agent_hello_decode(const struct fence_message *message, struct agent_hello *hello)
{
    struct decoder decoder = {message->bytes, message->length, false};
    decode_printable(&decoder, hello->host, sizeof(hello->host));
    decode_printable(&decoder, hello->version, sizeof(hello->version));
    decode_check(&decoder, decoder.left == 0 && hello->host[0] != 0);
    return !decoder.failed;
}

size_t agent_unfit_encode(const char *host, const struct hvd_error *why,
                          unsigned char bytes[AGENT_MESSAGE_BYTES])
{
    struct encoder encoder = {bytes, AGENT_MESSAGE_BYTES, false};
    encode_text(&encoder, host, HOST_NAME_BYTES);
    encode_text(&encoder, why->text, sizeof(why->text));
    return AGENT_MESSAGE_BYTES - encoder.left;
}

bool agent_unfit_decode(const struct fence_message *message, char host[HOST_NAME_BYTES],
                        struct hvd_error *why)
{
    struct decoder decoder = {message->bytes, message->length, false};
    decode_printable(&decoder, host, HOST_NAME_BYTES);
    decode_printable(&decoder, why->text, sizeof(why->text));
    decode_check(&decoder, decoder.left == 0 && host[0] != 0);
    return !decoder.failed;
}
