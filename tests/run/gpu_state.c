/* gpu_state.c: a state of which half is on the GPU: copied by commits, sent to a rank without one, and gone
 * back to. Run by every rank of a job: `gpu_state CASE`. Exits 0 if it held. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu_tensor.h"
#include "ranks.h"

static hvd_state half_state(float *memory, int64_t *step)
{
    hvd_state state = 0;
    must(hvd_state_create(&state), "a state");
    must(hvd_state_add(state, "weights", memory, COUNT * sizeof(float)), "a part on the GPU");
    must(hvd_state_add(state, "step", step, sizeof(*step)), "a part in the host's memory");
    return state;
}

static void set_half_state(float *memory, int64_t *step, int64_t value)
{
    static void *stream;
    static float data[COUNT];
    *step = value;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(value + i);
    if (stream == NULL)
        stream = gpu_memory_stream();
    gpu_memory_copy_in(stream, memory, data, sizeof(data)); /* nobody waits for it */
}

static void check_half_state(const float *memory, int64_t step, int64_t value, const char *when)
{
    static float data[COUNT];
    gpu_memory_copy(data, memory, sizeof(data));
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)(value + i) || step != value)
            ranks_fail("%s: step %d, element %d is %g", when, (int)step, i, (double)data[i]);
}

static void begin_again(void)
{
    must(hvd_shutdown(), "hvd_shutdown");
    must(hvd_init(), "hvd_init");
}

static void commits(void)
{
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    int64_t step = 0;
    hvd_state both = half_state(memory, &step);
    set_half_state(memory, &step, 100 + rank);
    must(hvd_state_sync(both), "the first sync");
    check_half_state(memory, step, 100, "what rank 0 had");
    set_half_state(memory, &step, 200);
    must(hvd_state_commit(both), "a commit");
    set_half_state(memory, &step, 300);
    begin_again();
    must(hvd_state_sync(both), "back to the commit");
    check_half_state(memory, step, 200, "the commit");
    if (rank == size - 1 && size > 1) { /* as a new rank */
        must(hvd_state_free(both), "hvd_state_free");
        both = half_state(memory, &step);
        set_half_state(memory, &step, 400);
    }
    begin_again();
    must(hvd_state_sync(both), "a sync with a rank without a commit");
    check_half_state(memory, step, 200, "what the others had");
    must(hvd_state_commit(both), "another commit");
    must(hvd_state_free(both), "hvd_state_free");
    gpu_memory_free((char *)memory);
}

/* Reads what the case before wrote to disk. */
static void disk(void)
{
    float *memory = (float *)(void *)gpu_memory_new(COUNT * sizeof(float));
    int64_t step = 0;
    hvd_state both = half_state(memory, &step);
    set_half_state(memory, &step, 100 + rank);
    must(hvd_state_sync(both), "the first sync");
    check_half_state(memory, step, 200, "the commit on disk");
    must(hvd_state_free(both), "hvd_state_free");
    gpu_memory_free((char *)memory);
}

static const struct ranks_case cases[] = {
    {"commits", commits, false},
    {"disk", disk, false},
};

int main(int argc, char **argv)
{
    return gpu_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
