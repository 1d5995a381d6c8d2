/* gpu_memory.h: memory on a GPU for programs of tests, by CUDA's driver, or by the double that stands for it
 * where LD_LIBRARY_PATH names that first. */
#ifndef TESTS_RUN_GPU_MEMORY_H
#define TESTS_RUN_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* The device of this rank: 0, or with the variable GPU_OF_EACH one of its own. */
int gpu_memory_ordinal(void);

/* Load the driver and use device [ordinal]; false, with the reason on stderr, where there is none. */
bool gpu_memory_open(int ordinal);

/* The test fails where one of these does. Addresses are those of the device. */
char *gpu_memory_new(size_t bytes);
void gpu_memory_free(char *memory);
size_t gpu_memory_left(void); /* bytes that are free */
void gpu_memory_copy(void *to, const void *from, size_t bytes);

/* CUDA's default stream stands still until it is released, a minute at most. */
void gpu_memory_hold(void);
void gpu_memory_release(void);

/* How many calls this process has made that wait for the GPU, or may. -1: only the double tells. */
int gpu_memory_waits(void);

/* A new stream. */
void *gpu_memory_stream(void);
void gpu_memory_end_stream(void *stream);

/* Capture it into a graph. [local]: forbid to this thread alone what CUDA forbids in captures. */
void gpu_memory_capture(void *stream, bool local);

/* End that, and return what can be launched. */
void *gpu_memory_end_capture(void *stream);

/* End it without a graph, whether or not it has failed. */
void gpu_memory_drop_capture(void *stream);
void gpu_memory_launch(void *graph, void *stream);
void gpu_memory_discard(void *graph);

/* Copy in [stream], and wait for nothing; then wait for the stream. */
void gpu_memory_copy_in(void *stream, void *to, const void *from, size_t bytes);
void gpu_memory_wait(void *stream);

#endif
