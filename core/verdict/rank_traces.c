/* rank_traces.c: reads the traces of a rank that has ended: its flight record, its crash, the control group's
 * count of processes that were killed for memory, and where cores go. */
#include "verdict/rank_traces.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/descriptors.h"
#include "trace/state_words.h"

#define MIB (1 << 20)

void rank_traces_of_end(struct flight *flight, struct verdict_end *end)
{
    struct flight_last last;
    bool known = flight != NULL && flight_find_last(flight, &last);
    end->joined = flight != NULL;
    end->stayed = flight != NULL && !atomic_load(&flight->left);
    end->left = flight != NULL && !end->stayed && (!known || (last.done && last.status == HVD_OK)) &&
                atomic_load(&flight->failure_bytes) == 0;
    end->told = known && last.done && last.status == HVD_ERR_RANK_LOST;
    end->lost[0] = 0;
    if (known && (!last.done || end->told))
        snprintf(end->lost, sizeof(end->lost), "%s", last.title);
}

/* Copy what the rank wrote: [count] bytes, but at most [size] of them, without what a terminal might obey. */
static void copy_text(const char *from, size_t count, size_t size, char *text)
{
    count = count < size ? count : size;
    snprintf(text, size + 1, "%.*s", (int)count, from);
    for (char *at = text; *at != 0; at++)
        *at = is_printable_byte((unsigned char)*at) ? *at : '?';
}

static void describe_doing(struct flight *flight, char *text, size_t text_bytes)
{
    struct flight_last last;
    char failure[FLIGHT_FAILURE_BYTES + 1];
    copy_text(flight->failure, atomic_load(&flight->failure_bytes), sizeof(flight->failure), failure);
    struct sentence sentence = {.text = text, .capacity = text_bytes};
    struct state_words words = {.verb = STATE_COMPUTES, .for_us = -1};
    bool known = flight_find_last(flight, &last);
    bool failed = known && last.done && (last.status != HVD_OK || failure[0] != 0);
    if (known && last.waits)
        words.verb = STATE_IN;
    if (known && last.done)
        words.last = last.title;
    else if (known)
        words.operation = last.title;
    if (!failed)
        state_words_add(&sentence, &words);
    else if (last.status == HVD_OK) /* the next operation was refused */
        snprintf(text, text_bytes, "after %.250s, when the job had failed: %s", last.title, failure);
    else
        snprintf(text, text_bytes, "after %s failed: %s", last.title,
                 failure[0] != 0 ? failure : status_text(last.status));
}

void rank_traces_of_flight(struct flight *flight, struct verdict_facts *facts, char crash[CRASH_TEXT_BYTES])
{
    crash[0] = 0;
    if (flight == NULL)
        return;
    describe_doing(flight, facts->doing, sizeof(facts->doing));
    copy_text(flight->crash, atomic_load(&flight->crash_bytes), sizeof(flight->crash), crash);
}

static void describe_memory(const struct memory_events *memory_events, char *text, size_t text_bytes)
{
    int64_t limit = 0;
    if (!memory_events_killed(memory_events, &limit))
        return;
    if (limit < 0)
        snprintf(text, text_bytes, "out of memory");
    else
        snprintf(text, text_bytes, "out of memory: limit %" PRId64 " MiB", limit / MIB);
}

static void describe_core(char *text, size_t text_bytes)
{
    char pattern[200];
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, pattern, sizeof(pattern) - 1);
    descriptors_close(&fd);
    if (length <= 0)
        return;
    pattern[length] = 0;
    pattern[strcspn(pattern, "\n")] = 0;
    if (pattern[0] == '|')
        snprintf(text, text_bytes, "given to %.*s", (int)strcspn(pattern + 1, " "), pattern + 1);
    else
        snprintf(text, text_bytes, "core_pattern is %s", pattern);
}

void rank_traces_of_system(int wait_status, const struct memory_events *memory_events,
                           struct verdict_facts *facts)
{
    if (!WIFSIGNALED(wait_status))
        return;
    if (WTERMSIG(wait_status) == SIGKILL)
        describe_memory(memory_events, facts->memory, sizeof(facts->memory));
    if (WCOREDUMP(wait_status))
        describe_core(facts->core, sizeof(facts->core));
}
