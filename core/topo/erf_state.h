/* erf_state.h: the keys of explicit resource files that say what to do about conflicts. For erf_read.c, and
 * for tests that write out what was read. */
#ifndef TOPO_ERF_STATE_H
#define TOPO_ERF_STATE_H

#include <stddef.h>

#include "topo/erf.h"

/* A key of the preamble whose value is an enum erf_action. */
struct erf_action_key {
    const char *name;
    size_t offset; /* in struct erf */
};

extern const struct erf_action_key erf_action_keys[7];

/* NULL-terminated, indexed by enum erf_action. */
extern const char *const erf_action_names[4];

#endif
