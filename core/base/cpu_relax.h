/* cpu_relax.h: what a loop that looks again and again says to its core. */
#ifndef BASE_CPU_RELAX_H
#define BASE_CPU_RELAX_H

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
