/* fuzz.h: the entry of a fuzz target, as libFuzzer calls it; replay.c calls it for a kept corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

#endif
