/* ulimit.h: limits of this process that end it before a call can fail: so look first. */
#ifndef BASE_ULIMIT_H
#define BASE_ULIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* May a file have [bytes] bytes (`ulimit -f`)? If not, errno is EFBIG. A write beyond that raises SIGXFSZ.
 * Safe in signal handlers. */
bool ulimit_allows_file(int64_t bytes);

/* Whether the address space has a limit (`ulimit -v`). If so, *mibp is that limit in MiB; otherwise it is
 * left unchanged. */
bool ulimit_address_space(unsigned long long *mibp);

/* Look whether [user], such as "PMIx", gets [bytes] of address space when it starts: libraries that do not
 * look whether they got memory crash. Returns HVD_OK, also where there is no limit; otherwise
 * HVD_ERR_NO_MEMORY, with a sentence in [err]. */
int ulimit_leaves_room(const char *user, size_t bytes, struct hvd_error *err);

#endif
