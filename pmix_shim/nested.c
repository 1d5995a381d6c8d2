/* nested.c: where launchers run inside one another, find out which of them started this process. The
 * variables of all of them are in its environment, but only those of the innermost are not in its
 * launcher's. */
#include "config.h"
#include "pmix_shim/nested.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/process_stat.h"
#include "options/parse.h"
#include "pmix_shim/pmi_client.h"

#define ANCESTORS 16

/* What differs from one job of a launcher to the next. Scripts set RANK and WORLD_SIZE themselves; torchrun's
 * own variable none of them does. */
static const char *const marks[] = {
    [PROVIDER_PMIX] = "PMIX_NAMESPACE", [PROVIDER_PMI] = "PMI_FD", [PROVIDER_ENV] = "TORCHELASTIC_RUN_ID"};

#define MARKS (sizeof(marks) / sizeof(marks[0]))

unsigned nested_same(unsigned asked, char *const *environment, char *const *above)
{
    unsigned same = 0;
    for (size_t i = 0; i < MARKS; i++) {
        const char *here = environment_value(environment, marks[i]);
        const char *there = environment_value(above, marks[i]);
        if ((asked & NESTED_BIT(i)) != 0 && here != NULL && there != NULL && strcmp(here, there) == 0)
            same |= NESTED_BIT(i);
    }
    return same;
}

static bool is_one(unsigned bits)
{
    return (bits & (bits - 1)) == 0;
}

static bool pmi_is_connected(void)
{
    struct pmi_client client;
    int64_t fd = parse_count_or(environment_value(NULL, marks[PROVIDER_PMI]), -1);
    return fd >= 0 && fd <= INT_MAX && pmi_client_open(&client, (int)fd, NULL) == HVD_OK;
}

/* MPICH's mpiexec sends its own variables to the ranks on other nodes, so that those of both launchers are
 * new there. Then the connection tells: no launcher of PMIx leaves another one's open. */
static unsigned add_by_connection(unsigned asked, unsigned same)
{
    const unsigned both = NESTED_BIT(PROVIDER_PMIX) | NESTED_BIT(PROVIDER_PMI);
    bool undecided = (asked & ~same & both) == both;
    return undecided && pmi_is_connected() ? same | NESTED_BIT(PROVIDER_PMIX) : same;
}

unsigned nested_outer(void)
{
    unsigned asked = nested_same(~0U, environ, environ), same = asked;
    struct process_stat stat = {.parent = getppid()};
    for (int i = 0; i < ANCESTORS && same == asked && !is_one(asked); i++) {
        char **above = stat.parent > 1 ? process_environment(stat.parent) : NULL;
        same = above == NULL ? 0 : nested_same(asked, environ, above);
        free(above);
        if (!process_stat_read(stat.parent, &stat))
            break;
    }
    return same == asked ? 0 : add_by_connection(asked, same);
}
