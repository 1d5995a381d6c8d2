/* metrics.h: what hvdinfo ps knows of ranks, as metrics. Pure. */
#ifndef TOOLS_HVDINFO_PS_RANK_METRICS_H
#define TOOLS_HVDINFO_PS_RANK_METRICS_H

#include <stdio.h>

#include "tools/hvdinfo/ps/rank.h"

/* A line for each judged rank and metric, if its value is known. */
void rank_metrics_write(FILE *to, const struct ranks *ranks);

#endif
