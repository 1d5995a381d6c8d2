/* fuzz_agent.c: what hvdrun and its agents read of each other. Both hold the key, but their hvd may be
 * another. The first byte of an input says which message it is, the second one of which rank; the bytes of
 * the message follow. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "tools/hvdrun/agent/messages.h"

#define SLOTS 100

static void read_start(const struct fence_message *message)
{
    struct starter_rank rank, again;
    struct launch_place place, place_again;
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    if (!agent_start_decode(message, SLOTS, &rank, &place))
        return;
    assert(rank.rank >= 0 && rank.rank < rank.size && rank.size <= SLOTS && rank.restarts >= 0);
    assert(place.rank == rank.rank && place.size == rank.size);
    assert(place.local_rank >= 0 && place.local_rank < place.local_size);
    assert(place.node >= 0 && place.node < place.node_count);
    const struct fence_message encoded = {
        .rank = message->rank, .bytes = bytes, .length = agent_start_encode(&rank, &place, bytes)};
    assert(agent_start_decode(&encoded, SLOTS, &again, &place_again));
    assert(memcmp(&rank, &again, sizeof(rank)) == 0 && memcmp(&place, &place_again, sizeof(place)) == 0);
}

static void read_report(const struct fence_message *message)
{
    static struct agent_report report, again;
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    if (!agent_report_decode(message, SLOTS, &report))
        return;
    const struct reaper_report *event = &report.report.event;
    assert(event->kind >= REAPER_STARTED && event->kind <= REAPER_ENDED);
    assert(event->rank >= 0 && event->rank < SLOTS && event->pid >= 0);
    assert(report.report.end.wait_status >= 0 && report.report.end.wait_status <= UINT16_MAX);
    const struct fence_message encoded = {.bytes = bytes, .length = agent_report_encode(&report, bytes)};
    assert(agent_report_decode(&encoded, SLOTS, &again));
    assert(memcmp(&report, &again, sizeof(report)) == 0);
}

static void read_hello(const struct fence_message *message)
{
    struct agent_hello hello, again;
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    if (!agent_hello_decode(message, &hello))
        return;
    assert(hello.host[0] != 0 && strlen(hello.host) < sizeof(hello.host));
    assert(strlen(hello.version) < sizeof(hello.version));
    const struct fence_message encoded = {.bytes = bytes, .length = agent_hello_encode(&hello, bytes)};
    assert(agent_hello_decode(&encoded, &again) && strcmp(hello.host, again.host) == 0);
    assert(strcmp(hello.version, again.version) == 0);
}

static void read_unfit(const struct fence_message *message)
{
    char host[HOST_NAME_BYTES], host_again[HOST_NAME_BYTES];
    struct hvd_error why, why_again;
    unsigned char bytes[AGENT_MESSAGE_BYTES];
    if (!agent_unfit_decode(message, host, &why))
        return;
    assert(host[0] != 0 && strlen(host) < sizeof(host) && strlen(why.text) < sizeof(why.text));
    const struct fence_message encoded = {.bytes = bytes, .length = agent_unfit_encode(host, &why, bytes)};
    assert(agent_unfit_decode(&encoded, host_again, &why_again));
    assert(strcmp(host, host_again) == 0 && strcmp(why.text, why_again.text) == 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static void (*const readers[])(const struct fence_message *) = {read_start, read_report, read_hello,
                                                                    read_unfit};
    if (length < 2)
        return 0;
    const struct fence_message message = {.rank = bytes[1], .bytes = bytes + 2, .length = length - 2};
    readers[bytes[0] % (sizeof(readers) / sizeof(readers[0]))](&message);
    return 0;
}
