/* fuzz_pmi.c: what a launcher answers by PMI: fields, where ranks are, and pieces of blobs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pmix_shim/pmi_text.h"
#include "fuzz.h"

#define MOST_RANKS 64

static void try_mapping(struct token mapping)
{
    int ranks[MOST_RANKS];
    for (int size = 1; size <= MOST_RANKS; size *= 4) {
        int count = pmi_text_local_ranks(mapping, size, size - 1, ranks);
        assert(count >= 0 && count <= size);
        assert(count == 0 || ranks[count - 1] == size - 1);
        for (int i = 1; i < count; i++)
            assert(ranks[i] > ranks[i - 1]);
    }
}

/* The value of each line is a piece. */
static void try_pieces(const char *text)
{
    struct pmi_blob_text blob_text = {NULL, 0, 0};
    struct wireup_blob blob = {NULL, 0};
    struct token piece;
    int rc = HVD_IN_PROGRESS;
    while (text != NULL && rc == HVD_IN_PROGRESS) {
        text = token_next(text, '\n', &piece);
        rc = pmi_blob_text_add(&blob_text, piece, NULL);
    }
    if (rc == HVD_OK && pmi_blob_text_decode(&blob_text, &blob, NULL) == HVD_OK) {
        char *again = pmi_text_from_blob(blob.bytes, blob.length);
        assert(blob.length <= WIREUP_BLOB_BYTES && again != NULL);
        assert(strcmp(strchr(again, '.'), strchr(blob_text.text, '.')) == 0);
        free(again);
        free(blob.bytes);
    }
    pmi_blob_text_free(&blob_text);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static char text[65537];
    struct token value;
    if (length >= sizeof(text))
        return 0;
    memcpy(text, bytes, length);
    text[length] = 0;
    if (pmi_text_field(text, "value", &value))
        try_mapping(value);
    try_mapping((struct token){text, length});
    try_pieces(text);
    return 0;
}
