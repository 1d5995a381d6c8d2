/* print_error.h: what hvdrun says on standard error when it cannot go on. */
#ifndef TOOLS_HVDRUN_PRINT_ERROR_H
#define TOOLS_HVDRUN_PRINT_ERROR_H

#include <stdio.h>

#include "base/status.h"

/* Returns HVD_ERR_INVALID. */
static inline int print_error(const char *sentence)
{
    fprintf(stderr, "hvdrun: %s\n", sentence);
    return HVD_ERR_INVALID;
}

#endif
