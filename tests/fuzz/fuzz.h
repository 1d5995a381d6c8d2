/* fuzz.h: the entry of a fuzz target, as libFuzzer calls it; replay.c calls it for a kept corpus. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

#endif
