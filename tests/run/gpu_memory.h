/* gpu_memory.h: memory on a GPU for programs of tests, by CUDA's driver, or by the double that stands for it
 * where LD_LIBRARY_PATH names that first. */
#ifndef GPU_MEMORY_H
#define GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* The device of this rank: 0, or with the variable GPU_OF_EACH one of its own. */
int gpu_memory_ordinal(void);

/* Load the driver and use device [ordinal]; false, with the reason on stderr, where there is none. */
bool gpu_memory_open(int ordinal);

/* The test fails where one of these does. Addresses are those of the device. */
char *gpu_memory_new(size_t bytes);
void gpu_memory_free(char *memory);
void gpu_memory_hold(int ms); /* CUDA's default stream does nothing else for so long */
void gpu_memory_copy(void *to, const void *from, size_t bytes);

#endif
