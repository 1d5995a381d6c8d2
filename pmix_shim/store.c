/* store.c: the blobs that ranks have put, by rank and key, and the pages in which ranks send them. */
#include "pmix_shim/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"

/* An entry of a page: the length of the key in 1 byte, the length of the blob in 4; the key; the blob. */
#define ENTRY_HEAD 5

struct pages {
    unsigned char *bytes;
    size_t length;
};

struct store {
    int size;
    struct pages own;     /* put since the last fence */
    struct pages ranks[]; /* [size] */
};

struct entry {
    const unsigned char *key, *blob;
    size_t key_length, blob_length;
};

struct store *store_create(int size)
{
    struct store *store = calloc(1, sizeof(*store) + (size_t)size * sizeof(store->ranks[0]));
    if (store != NULL)
        store->size = size;
    return store;
}

void store_destroy(struct store *store)
{
    if (store == NULL)
        return;
    for (int i = 0; i < store->size; i++)
        free(store->ranks[i].bytes);
    free(store->own.bytes);
    free(store);
}

/* Make room for [more] bytes at the end; the length does not change. NULL if memory is out. */
static unsigned char *extend(struct pages *pages, size_t more)
{
    unsigned char *bytes = realloc(pages->bytes, pages->length + more + 1);
    if (bytes == NULL)
        return NULL;
    pages->bytes = bytes;
    return bytes + pages->length;
}

int store_put(struct store *store, const char *key, const void *bytes, size_t length, struct hvd_error *err)
{
    size_t key_length = strlen(key);
    if (key_length == 0 || key_length > STORE_KEY_BYTES || length > WIREUP_BLOB_BYTES)
        return error_set(err, HVD_ERR_INVALID,
                         "wire-up: %zu bytes under '%.64s': expected at most %d, and a key of 1 to %d",
                         length, key, WIREUP_BLOB_BYTES, STORE_KEY_BYTES);
    size_t more = ENTRY_HEAD + key_length + length;
    if (store->own.length + more > STORE_PAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "wire-up: more than %d bytes between two fences",
                         STORE_PAGE_BYTES);
    unsigned char *to = extend(&store->own, more);
    if (to == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    struct encoder encoder = {to, more, false};
    encode_number(&encoder, key_length, 1);
    encode_number(&encoder, length, 4);
    encode_raw(&encoder, key, key_length);
    encode_raw(&encoder, bytes, length);
    store->own.length += more;
    return HVD_OK;
}

const void *store_page(const struct store *store, size_t *lengthp)
{
    *lengthp = store->own.length;
    return store->own.bytes;
}

void store_forget_page(struct store *store)
{
    store->own.length = 0;
}

/* Find the next entry of a page, in place; false at the end of the page or if the page is damaged. */
static bool next_entry(struct decoder *page, struct entry *entry)
{
    entry->key_length = (size_t)decode_at_most(page, 1, STORE_KEY_BYTES);
    entry->blob_length = (size_t)decode_at_most(page, 4, WIREUP_BLOB_BYTES);
    decode_check(page, entry->key_length > 0);
    entry->key = decode_view(page, entry->key_length);
    entry->blob = decode_view(page, entry->blob_length);
    return !page->failed;
}

int store_merge(struct store *store, int rank, const void *page, size_t length, struct hvd_error *err)
{
    struct entry entry;
    if (rank < 0 || rank >= store->size || length > STORE_PAGE_BYTES)
        return error_set(err, HVD_ERR_INVALID,
                         "wire-up: a page of %zu bytes of rank %d; expected at most %d of one of %d ranks",
                         length, rank, STORE_PAGE_BYTES, store->size);
    struct decoder decoder = {page, length, false};
    while (decoder.left > 0) {
        size_t begin = length - decoder.left;
        if (!next_entry(&decoder, &entry))
            return error_set(err, HVD_ERR_INVALID, "wire-up: the page of rank %d is damaged at byte %zu",
                             rank, begin);
    }
    if (length == 0)
        return HVD_OK;
    unsigned char *to = extend(&store->ranks[rank], length);
    if (to == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(to, page, length);
    store->ranks[rank].length += length;
    return HVD_OK;
}

int store_get(const struct store *store, int rank, const char *key, struct wireup_blob *blob,
              struct hvd_error *err)
{
    struct entry entry;
    struct entry last = {NULL, NULL, 0, 0};
    if (rank < 0 || rank >= store->size)
        return error_set(err, HVD_ERR_INVALID, "wire-up: rank %d was asked for; the job has %d", rank,
                         store->size);
    struct decoder decoder = {store->ranks[rank].bytes, store->ranks[rank].length, false};
    while (next_entry(&decoder, &entry)) {
        if (entry.key_length == strlen(key) && memcmp(entry.key, key, entry.key_length) == 0)
            last = entry;
    }
    if (last.key == NULL)
        return error_set(err, HVD_ERR_MISMATCH,
                         "rank %d has put nothing under '%.64s'; do all ranks run the same hvd?", rank, key);
    char *copy = malloc(last.blob_length + 1);
    if (copy == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    memcpy(copy, last.blob, last.blob_length);
    copy[last.blob_length] = 0;
    *blob = (struct wireup_blob){copy, last.blob_length};
    return HVD_OK;
}
