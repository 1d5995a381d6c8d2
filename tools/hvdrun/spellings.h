/* spellings.h: options of torchrun and mpirun that hvdrun has by another name, or does not need. */
#ifndef TOOLS_HVDRUN_SPELLINGS_H
#define TOOLS_HVDRUN_SPELLINGS_H

/* What to do in place of such an option, as a clause; NULL: [name] is none of them. */
const char *spelling_here(const char *name);

#endif
