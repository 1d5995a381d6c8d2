/* fuzz_arena.c: the table of regions in the memory that the ranks of a node share, into which each of them
 * can write. The first byte of an input says how much is asked for; the others are the table. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz.h"
#include "node/arena.h"

#define MEBI 1048576

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static _Alignas(4096) char memory[8 * MEBI];
    static const char nothing[4096];
    const struct arena arena = {memory, sizeof(memory)};
    struct hvd_error err = {""};
    void *region = NULL;
    if (length < 1 || length > sizeof(nothing))
        return 0;
    const struct arena_request request = {
        .set = bytes[0] % 4, .users = 2, .bytes = (size_t)(bytes[0] / 4 + 1) * 65536, .zeroed = 65536};
    memcpy(memory, nothing, sizeof(nothing));
    memcpy(memory, bytes + 1, length - 1);
    int rc = arena_acquire(&arena, &request, 0, &region, &err);
    if (rc == HVD_OK) {
        const char *begin = region;
        assert(begin > memory && begin + request.bytes <= memory + sizeof(memory));
        arena_release(&arena, request.set);
    } else {
        assert(region == NULL && err.text[0] != 0);
    }
    return 0;
}
