/* file_limit.h: how large this process may make a file (`ulimit -f`). A write beyond that raises SIGXFSZ,
 * which ends the process, before the call can fail: so look first. */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* May a file have [bytes] bytes? If not, errno is EFBIG. Safe in signal handlers. */
bool file_limit_allows(int64_t bytes);

#endif
