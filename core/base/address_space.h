/* address_space.h: the limit of this process's address space, and whether it leaves room for a library. */
#ifndef BASE_ADDRESS_SPACE_H
#define BASE_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Whether there is a limit. If so, *mibp is the limit in MiB; otherwise it is left unchanged. */
bool address_space_limit(unsigned long long *mibp);

/* Look whether the limit leaves room for [bytes] more, before [user], such as "PMIx", starts: libraries that
 * do not look whether they got memory crash. Returns HVD_OK, also where there is no limit; otherwise
 * HVD_ERR_NO_MEMORY, with a sentence in [err]. */
int address_space_need(const char *user, size_t bytes, struct hvd_error *err);

#endif
