/* fuzz_commit_file.c: a commit on disk, which anybody may have written. An input is how to read it (1 byte)
 * and the file; with SEALED its checksums are made right first, so that what is behind them is reached. */
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "elastic/commit_file.h"
#include "fuzz.h"

enum { SEALED = 1, ANY_BYTES = 2 };   /* bits of the first byte */
enum { TABLE_AT = 32, SIZE_AT = 28 }; /* in a file */

static void seal(unsigned char *file, size_t length)
{
    crypto_generichash_state state;
    size_t table = 0;
    if (length < TABLE_AT + 2 * COMMIT_HASH_BYTES)
        return;
    for (size_t i = 0; i < 4; i++)
        table |= (size_t)file[SIZE_AT + i] << 8 * i;
    if (table > length - TABLE_AT - 2 * COMMIT_HASH_BYTES)
        return;
    unsigned char *head_hash = file + TABLE_AT + table, *end = file + length - COMMIT_HASH_BYTES;
    crypto_generichash(head_hash, COMMIT_HASH_BYTES, file, TABLE_AT + table, NULL, 0);
    crypto_generichash_init(&state, NULL, 0, COMMIT_HASH_BYTES);
    crypto_generichash_update(&state, head_hash, (size_t)(end - head_hash));
    crypto_generichash_final(&state, end, COMMIT_HASH_BYTES);
}

static int read_commit(int fd, struct commit_piece *pieces, int count, struct hvd_error *err)
{
    struct commit_head head = {.number = 0};
    int rc = commit_file_check(fd, pieces, count, &head, err);
    if (rc != HVD_OK)
        return rc;
    assert(head.number >= 1 && head.number <= COMMIT_NUMBER_MAX && head.bytes >= 0);
    if (pieces[0].bytes < 0) {
        pieces[0].bytes = head.bytes;
        pieces[0].data = malloc((size_t)head.bytes + 1);
    }
    return commit_file_read(fd, &head, pieces, count, err);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    unsigned char weights[24], nothing[1];
    struct commit_piece pieces[] = {{"weights", sizeof(weights), weights}, {"no", 0, nothing}};
    struct commit_piece any = {"bytes", -1, NULL};
    struct hvd_error err = {""};
    int fd = kernel_memfd_create("commit");
    unsigned char *file = malloc(length + 1);
    if (fd >= 0 && file != NULL && length > 1 && sodium_init() >= 0) {
        memcpy(file, bytes + 1, length - 1);
        if ((bytes[0] & SEALED) != 0)
            seal(file, length - 1);
        assert(write(fd, file, length - 1) == (ssize_t)(length - 1));
        assert(lseek(fd, 0, SEEK_SET) == 0);
        int rc =
            (bytes[0] & ANY_BYTES) != 0 ? read_commit(fd, &any, 1, &err) : read_commit(fd, pieces, 2, &err);
        assert(rc == HVD_OK || err.text[0] != 0);
        for (const char *at = err.text; *at != 0; at++)
            assert((unsigned char)*at >= ' ' && *at != 0x7f);
    }
    free(any.data);
    free(file);
    close(fd);
    return 0;
}
