/* fuzz_wireup.h: wire-up in which every rank has put the fuzzer's input under every key. */
#ifndef TESTS_FUZZ_FUZZ_WIREUP_H
#define TESTS_FUZZ_FUZZ_WIREUP_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/wireup.h"

#define SIZE 40

static struct wireup_blob input;

static int put_nothing(void *state, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    (void)state, (void)key, (void)bytes, (void)err;
    assert(length <= WIREUP_BLOB_BYTES);
    return HVD_OK;
}

static int get_input(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                     struct hvd_error *err)
{
    (void)state, (void)key, (void)deadline_us;
    assert(rank >= 0 && rank < SIZE);
    blob->bytes = malloc(input.length + 1);
    if (blob->bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory");
    if (input.length > 0)
        memcpy(blob->bytes, input.bytes, input.length);
    blob->length = input.length;
    return HVD_OK;
}

static const struct wireup_ops ops = {.name = "fuzz", .put = put_nothing, .get = get_input};
static const struct wireup wireup = {&ops, NULL, NULL};

#endif
