/* trace_none.c: replaces trace.c in builds without jansson. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/hvdinfo/commands.h"

int hvdinfo_trace(char *const *arguments)
{
    (void)arguments;
    fprintf(stderr, "hvdinfo: trace is not built in: jansson: %s\n", BUILT_WITH_JANSSON);
    return EXIT_FAILURE;
}
