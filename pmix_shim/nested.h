/* nested.h: where launchers run inside one another, which of them started this process. */
#ifndef PMIX_SHIM_NESTED_H
#define PMIX_SHIM_NESTED_H

#include "pmix_shim/provider.h"

#define NESTED_BIT(provider) (1U << (provider))

/* The providers, as bits of NESTED_BIT, whose variables this process has from a launcher further out: the
 * process above this one that lacks those of the innermost launcher has them already. 0 if launchers are not
 * nested, or this user may not look at the processes above. */
unsigned nested_outer(void);

/* For tests: of the providers [asked] those whose variable is the same in [environment] and in [above], that
 * of a process above. Pure. */
unsigned nested_same(unsigned asked, char *const *environment, char *const *above);

#endif
