/* erf_state.h: words of explicit resource files that reading and writing share. Only for core/topo/erf*.c. */
#ifndef TOPO_ERF_STATE_H
#define TOPO_ERF_STATE_H

#include <stddef.h>

#include "topo/erf.h"

/* A key of the preamble whose value is an enum erf_answer. */
struct erf_key {
    const char *name;
    size_t offset; /* in struct erf */
};

extern const struct erf_key erf_keys[7];

/* NULL-terminated, indexed by enum erf_answer. */
extern const char *const erf_answers[4];

#endif
