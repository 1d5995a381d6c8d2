/* hash.h: a 64-bit hash of bytes, for tables. Not for secrets. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Add eight bytes to the hash. The upper half depends on all bits so far; it is folded into the lower half,
 * which tables use as an index. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static inline uint64_t hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = hash_mix(UINT64_C(0xcbf29ce484222325), length);
    uint64_t word = 0;
    for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = hash_mix(hash, word);
    }
    word = 0;
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return length > 0 ? hash_mix(hash, word) : hash;
}

#endif
