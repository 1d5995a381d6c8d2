/* fuzz_trace.c: the timeline of a rank, as hvdinfo trace reads it: a file that may be cut, or no timeline.
 * Two ranks have the same one, and the second one came later. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "fuzz.h"
#include "tools/hvdinfo/trace_file.h"

struct reading {
    struct stragglers *stragglers;
    int rank;
};

static int take_event(void *arg, const struct trace_event *event, struct hvd_error *err)
{
    const struct reading *reading = arg;
    struct arrival arrival;
    (void)err;
    assert(event->name != NULL && (event->arguments == NULL || json_is_object(event->arguments)));
    if (!trace_file_arrival(event, &arrival))
        return HVD_OK;
    assert(arrival.kind != NULL && arrival.number != 0 && arrival.set >= 0);
    arrival.rank = reading->rank;
    arrival.at_us += reading->rank;
    return stragglers_add(reading->stragglers, &arrival) == 0 ? HVD_OK : HVD_ERR_NO_MEMORY;
}

static void try_clock(const char *path)
{
    struct trace_clock clock;
    struct hvd_error err = {""};
    bool cut = false;
    if (trace_file_clock(path, &clock, &cut, &err) != HVD_OK) {
        assert(err.text[0] != 0);
        return;
    }
    assert(clock.rank >= 0 && clock.rank < clock.size && clock.error_us >= -1);
    assert(strnlen(clock.host, sizeof(clock.host)) < sizeof(clock.host));
}

static void try_events(const char *path)
{
    struct reading reading = {.stragglers = stragglers_create()};
    struct stragglers_sum sum = {0};
    struct hvd_error err = {""};
    bool cut = false;
    int rc = HVD_OK;
    for (; rc == HVD_OK && reading.rank < 2; reading.rank++)
        rc = trace_file_read(path, take_event, &reading, &cut, &err);
    assert(rc == HVD_OK || err.text[0] != 0);
    assert(stragglers_sum(reading.stragglers, &sum) == 0 && sum.compared <= sum.operations);
    for (int i = 0; i < sum.rank_count; i++)
        assert(sum.ranks[i].rank == 1 && sum.ranks[i].behind_us > 0);
    stragglers_destroy(reading.stragglers);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    char path[64];
    int fd = kernel_memfd_create("timeline");
    if (fd < 0)
        return 0;
    assert(write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    try_clock(path);
    try_events(path);
    close(fd);
    return 0;
}
