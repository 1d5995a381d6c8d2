/* fuzz_flight.c: the flight record that a rank leaves behind, as launchers read it; the rank writes what it
 * likes. An input is a list of bytes to write into an empty record: where (2 bytes), and what. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "fuzz.h"
#include "trace/flight_memory.h"
#include "verdict/rank_traces.h"

static void assert_text(const char *text, size_t room)
{
    assert(strnlen(text, room) < room);
    for (; *text != 0; text++)
        assert((unsigned char)*text >= ' ' && *text != 0x7f); /* nothing that a terminal obeys */
}

/* While the rank runs. */
static void read_live(int fd)
{
    static struct flight_operation operations[FLIGHT_SLOTS];
    char title[FLIGHT_TITLE_BYTES];
    struct flight *flight = flight_memory_read_live(fd);
    int count = flight == NULL ? 0 : flight_read(flight, operations);
    for (int i = 0; i < count; i++) {
        assert_text(flight_title(&operations[i], title), sizeof(title));
        assert(flight_step_us(&operations[i]) >= operations[i].submitted_us);
    }
    free(flight);
}

/* Another format would not be read. */
static void damage(unsigned char *record, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i + 3 <= length; i += 3) {
        size_t at = ((size_t)bytes[i] << 8 | bytes[i + 1]) % sizeof(struct flight);
        if (at / sizeof(uint64_t) != offsetof(struct flight, format) / sizeof(uint64_t))
            record[at] = bytes[i + 2];
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static unsigned char record[sizeof(struct flight)];
    struct verdict_end end = {0};
    struct verdict_facts facts = {0};
    char crash[CRASH_TEXT_BYTES];
    struct flight_memory memory;
    int fd = kernel_memfd_create("flight");
    if (flight_memory_create(&memory, NULL) != HVD_OK || fd < 0)
        return 0;
    memcpy(record, memory.flight, sizeof(record));
    flight_memory_destroy(&memory);
    damage(record, bytes, length);
    assert(write(fd, record, sizeof(record)) == (ssize_t)sizeof(record));
    read_live(fd);
    struct flight *flight = flight_memory_read_fd(fd);
    rank_traces_of_end(flight, &end);
    rank_traces_of_flight(flight, &facts, crash);
    assert_text(end.lost, sizeof(end.lost));
    assert_text(facts.doing, sizeof(facts.doing));
    assert_text(crash, sizeof(crash));
    free(flight);
    close(fd);
    return 0;
}
