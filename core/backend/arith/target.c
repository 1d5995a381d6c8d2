/* target.c: which kernels this processor can run. */
#include "config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "backend/arith/kernels.h"

#ifdef HAVE_TARGET_AVX2
#include <cpuid.h>

/* __builtin_cpu_supports also checks that the system saves the AVX registers, which F16C uses too. clang does
 * not know "f16c" itself. */
static bool runs_avx2(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
}
#endif

#ifdef HAVE_TARGET_AVX512
/* VBMI2 is not used. But processors that lack it lower their clock while they use 512-bit registers. */
static bool runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi2");
}
#endif

static bool runs_plain(void)
{
    return true;
}

static const struct {
    const struct kernels *kernels;
    bool (*runs)(void);
} targets[] = {
#ifdef HAVE_TARGET_AVX512
    {&kernels_avx512, runs_avx512},
#endif
#ifdef HAVE_TARGET_AVX2
    {&kernels_avx2, runs_avx2},
#endif
    {&kernels_plain, runs_plain},
};

const struct kernels *kernels_usable(int i)
{
    for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++)
        if (targets[t].runs() && i-- == 0)
            return targets[t].kernels;
    return NULL;
}

/* Every reduction calls this, and CPUID is slow in virtual machines, so keep the answer. A race is harmless:
 * every thread finds the same. */
const struct kernels *kernels_best(void)
{
    static const struct kernels *_Atomic known;
    const struct kernels *best = atomic_load_explicit(&known, memory_order_relaxed);
    if (best == NULL) {
        best = kernels_usable(0);
        atomic_store_explicit(&known, best, memory_order_relaxed);
    }
    return best;
}
