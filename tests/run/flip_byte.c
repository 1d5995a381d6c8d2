/* flip_byte.c: a library to preload that changes one bit of what a process sends: in the FLIP_AFTER-th send
 * of at least 1000 bytes, as somebody on the network might. */
#include "config.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SEEN __attribute__((visibility("default")))

SEEN ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    static int large_sends;
    ssize_t (*real)(int, const void *, size_t, int) =
        (ssize_t(*)(int, const void *, size_t, int))(uintptr_t)dlsym(RTLD_NEXT, "send");
    const char *after = getenv("FLIP_AFTER");
    if (after == NULL || length < 1000 || ++large_sends != strtol(after, NULL, 10))
        return real(fd, bytes, length, flags);
    unsigned char *changed = malloc(length);
    if (changed == NULL)
        abort();
    memcpy(changed, bytes, length);
    changed[length / 2] ^= 4;
    ssize_t sent = real(fd, changed, length, flags);
    free(changed);
    return sent;
}
