/* pmi_text.c: what PMI writes as text: the fields of an answer, where ranks are, and blobs in pieces. Pure.
 */
#include "config.h"
#include "pmix_shim/pmi_text.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

/* PMI keeps a blank, '=', ';' and the end of a line for itself. None is in this kind of base64. */
#define BASE64          sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define HEAD_BYTES      8 /* "65536." */
#define MAPPING_HIGHEST 1000000

/* ---- Answers -------------------------------------------------------------------------------------- */

bool pmi_text_field(const char *answer, const char *name, struct token *value)
{
    struct token field;
    size_t length = strlen(name);
    while (answer != NULL) {
        answer = token_next(answer, ' ', &field);
        if (field.length > length && memcmp(field.text, name, length) == 0 && field.text[length] == '=') {
            *value = (struct token){field.text + length + 1, field.length - length - 1};
            return true;
        }
    }
    return false;
}

/* ---- Where ranks are ------------------------------------------------------------------------------ */

/* Some nodes that follow each other and hold the same number of ranks. */
struct node_block {
    int first, count, ranks;
};

/* Take a number and the [end] behind it off the beginning of [text]. */
static bool take_number(struct token *text, char end, int min, int *valuep)
{
    const char *why = NULL;
    const char *at = memchr(text->text, end, text->length);
    if (at == NULL)
        return false;
    struct token number = {text->text, (size_t)(at - text->text)};
    *text = (struct token){at + 1, text->length - number.length - 1};
    return token_parse_number(number, min, MAPPING_HIGHEST, valuep, &why) == 0;
}

/* Take ",(0,2,4)" off the beginning of [text]. */
static bool take_block(struct token *text, struct node_block *block)
{
    return token_strip_prefix(*text, ",(", text) && take_number(text, ',', 0, &block->first) &&
           take_number(text, ',', 1, &block->count) && take_number(text, ')', 1, &block->ranks);
}

/* The ranks in the order of the blocks. A node is found for each, or the text is wrong. */
struct mapping_walk {
    struct token all, left;
    struct node_block block;
    int node, rank_of_node; /* where the next rank is, in the block */
    bool failed;
};

/* Begin with the next block, or with the first again. */
static void enter_block(struct mapping_walk *walk)
{
    if (token_equals(walk->left, ")"))
        walk->left = walk->all;
    walk->failed = !take_block(&walk->left, &walk->block);
    walk->node = walk->rank_of_node = 0;
}

static int node_of_next_rank(struct mapping_walk *walk)
{
    if (walk->node == walk->block.count)
        enter_block(walk);
    int node = walk->block.first + walk->node;
    if (++walk->rank_of_node == walk->block.ranks) {
        walk->node++;
        walk->rank_of_node = 0;
    }
    return node;
}

/* The node of [rank]; or, if [ranks] is not NULL, how many of the ranks below [rank] are on [node]. */
static int walk_mapping(struct token blocks, int rank, int node, int *ranks)
{
    struct mapping_walk walk = {.all = blocks, .left = blocks};
    int found = 0, count = 0;
    for (int i = 0; i < rank && !walk.failed; i++) {
        found = node_of_next_rank(&walk);
        if (ranks != NULL && found == node)
            ranks[count++] = i;
    }
    if (walk.failed)
        return -1;
    return ranks != NULL ? count : found;
}

int pmi_text_local_ranks(struct token mapping, int size, int rank, int *ranks)
{
    struct token blocks;
    if (!token_strip_prefix(mapping, "(vector", &blocks))
        return 0;
    int node = walk_mapping(blocks, rank + 1, -1, NULL);
    int count = node < 0 ? 0 : walk_mapping(blocks, size, node, ranks);
    return count < 0 ? 0 : count;
}

/* ---- Blobs ---------------------------------------------------------------------------------------- */

char *pmi_text_from_blob(const void *bytes, size_t length)
{
    size_t text_bytes = HEAD_BYTES + sodium_base64_ENCODED_LEN(length, BASE64);
    char *text = malloc(text_bytes);
    if (text == NULL)
        return NULL;
    int head = snprintf(text, text_bytes, "%zu.", length);
    sodium_bin2base64(text + head, text_bytes - (size_t)head, bytes, length, BASE64);
    return text;
}

/* Read the head of the first piece, and make room for the whole text. */
static int begin_text(struct pmi_blob_text *blob_text, struct token piece, struct hvd_error *err)
{
    int length = 0;
    struct token body = piece;
    if (!take_number(&body, '.', 0, &length) || length > WIREUP_BLOB_BYTES)
        return error_set(err, HVD_ERR_MISMATCH, "it does not begin with a length of at most %d",
                         WIREUP_BLOB_BYTES);
    size_t text_bytes = sodium_base64_ENCODED_LEN((size_t)length, BASE64); /* with the final 0 */
    blob_text->expected = piece.length - body.length + text_bytes - 1;
    blob_text->text = malloc(blob_text->expected + 1);
    return blob_text->text != NULL ? HVD_OK : error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
}

int pmi_blob_text_add(struct pmi_blob_text *blob_text, struct token piece, struct hvd_error *err)
{
    int rc = blob_text->text == NULL ? begin_text(blob_text, piece, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    if (piece.length == 0 || piece.length > blob_text->expected - blob_text->used)
        return error_set(err, HVD_ERR_MISMATCH,
                         "a piece of it has %zu characters; expected between 1 and %zu", piece.length,
                         blob_text->expected - blob_text->used);
    for (size_t i = 0; i < piece.length; i++)
        if ((unsigned char)piece.text[i] > 127) /* which libsodium 1.0.18 takes for base64 */
            return error_set(err, HVD_ERR_MISMATCH, "it is no base64");
    memcpy(blob_text->text + blob_text->used, piece.text, piece.length);
    blob_text->used += piece.length;
    blob_text->text[blob_text->used] = 0;
    return blob_text->used < blob_text->expected ? HVD_IN_PROGRESS : HVD_OK;
}

int pmi_blob_text_decode(const struct pmi_blob_text *blob_text, struct wireup_blob *blob,
                         struct hvd_error *err)
{
    const char *body = strchr(blob_text->text, '.') + 1;
    size_t body_length = blob_text->used - (size_t)(body - blob_text->text);
    size_t room = body_length / 4 * 3 + 3, length = 0;
    unsigned char *bytes = malloc(room);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    if (sodium_base642bin(bytes, room, body, body_length, NULL, &length, NULL, BASE64) != 0) {
        free(bytes);
        return error_set(err, HVD_ERR_MISMATCH, "it is no base64");
    }
    *blob = (struct wireup_blob){bytes, length};
    return HVD_OK;
}

void pmi_blob_text_free(struct pmi_blob_text *blob_text)
{
    free(blob_text->text);
    *blob_text = (struct pmi_blob_text){NULL, 0, 0};
}
