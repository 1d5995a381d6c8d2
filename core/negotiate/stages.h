/* stages.h: the stages of one rank's negotiation, joined. Included by negotiate.c, which passes each call to
 * its stage, and by tests that look inside. */
#ifndef NEGOTIATE_STAGES_H
#define NEGOTIATE_STAGES_H

#include "negotiate/state.h"

struct negotiate {
    struct negotiate_params params;
    struct submit_stage submit;
    struct delivery delivery;
    struct stall_stage stall;
    struct up_stage up;
    struct down_stage down;
    struct decide_stage decide;
};

#endif
