/* pace.h: how fast a rank works, and what with, by the operations that its record still has. Pure. */
#ifndef TOOLS_HVDINFO_PS_PACE_H
#define TOOLS_HVDINFO_PS_PACE_H

#include "tools/hvdinfo/ps/rank.h"

/* For so long back. */
#define PACE_S 10

/* The pace of [rank], whose operations have been read. [sums]: of its record; NULL: they are not known. */
struct pace pace_of(const struct rank *rank, const struct flight_sums *sums);

#endif
