/* commit_file.c: a commit as a file: which one it is, the names and sizes of its parts, their contents, and
 * checksums of both.
 *
 * A magic text of 16 bytes; the commit's number, 8 bytes; how many parts, 4; the bytes of the table, 4; the
 * table, which has 8 bytes of size and the name of each part; a checksum of all that. Then the contents of
 * the parts, one behind the other, and a checksum of the first one and them. */
#include "config.h"
#include "elastic/commit_file.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/descriptors.h"
#include "base/dtype.h"

enum {
    MAGIC_BYTES = 16,
    FIXED_BYTES = MAGIC_BYTES + 8 + 4 + 4,       /* before the table */
    ROW_BYTES_MAX = 8 + 2 + HVD_MAX_NAME,        /* of the table */
    TABLE_BYTES_MAX = (1 << 20) * ROW_BYTES_MAX, /* more than there is memory for parts */
    SLICE_BYTES = 1 << 20                        /* hashed while it is in the cache */
};

static const char magic[MAGIC_BYTES] = "hvd commit 1\n";

static void hash_head(const unsigned char *head, size_t length, unsigned char hash[COMMIT_HASH_BYTES])
{
    crypto_generichash(hash, COMMIT_HASH_BYTES, head, length, NULL, 0);
}

static void hash_begin(crypto_generichash_state *state, const unsigned char head_hash[COMMIT_HASH_BYTES])
{
    crypto_generichash_init(state, NULL, 0, COMMIT_HASH_BYTES);
    crypto_generichash_update(state, head_hash, COMMIT_HASH_BYTES);
}

/* ---- Writing ------------------------------------------------------------------------------------ */

/* The head of a commit and its checksum, which the caller frees. NULL with errno. */
static unsigned char *make_head(int64_t number, const struct commit_piece *pieces, int count, size_t *lengthp)
{
    size_t table = 0;
    for (int i = 0; i < count; i++)
        table += 8 + 2 + strlen(pieces[i].name);
    if (table > TABLE_BYTES_MAX) {
        errno = EFBIG;
        return NULL;
    }
    *lengthp = FIXED_BYTES + table + COMMIT_HASH_BYTES;
    unsigned char *head = malloc(*lengthp);
    if (head == NULL)
        return NULL;
    struct encoder encoder = {.at = head, .left = FIXED_BYTES + table};
    encode_raw(&encoder, magic, MAGIC_BYTES);
    encode_number(&encoder, (uint64_t)number, 8);
    encode_number(&encoder, (uint64_t)count, 4);
    encode_number(&encoder, table, 4);
    for (int i = 0; i < count; i++) {
        encode_number(&encoder, (uint64_t)pieces[i].bytes, 8);
        encode_text(&encoder, pieces[i].name, sizeof(pieces[i].name));
    }
    hash_head(head, FIXED_BYTES + table, head + FIXED_BYTES + table);
    return head;
}

static bool write_piece(int fd, const struct commit_piece *piece, crypto_generichash_state *state)
{
    const unsigned char *at = piece->data;
    for (int64_t left = piece->bytes; left > 0;) {
        size_t slice = left < SLICE_BYTES ? (size_t)left : SLICE_BYTES;
        crypto_generichash_update(state, at, slice);
        if (!descriptors_write(fd, at, slice))
            return false;
        at += slice;
        left -= (int64_t)slice;
    }
    return true;
}

int commit_file_write(int fd, int64_t number, const struct commit_piece *pieces, int count)
{
    unsigned char hash[COMMIT_HASH_BYTES];
    crypto_generichash_state state;
    size_t length = 0;
    unsigned char *head = make_head(number, pieces, count, &length);
    if (head == NULL)
        return -1;
    hash_begin(&state, head + length - COMMIT_HASH_BYTES);
    bool good = descriptors_write(fd, head, length);
    for (int i = 0; good && i < count; i++)
        good = write_piece(fd, &pieces[i], &state);
    crypto_generichash_final(&state, hash, sizeof(hash));
    good = good && descriptors_write(fd, hash, sizeof(hash));
    free(head);
    return good ? 0 : -1;
}

/* ---- Reading ------------------------------------------------------------------------------------ */

/* Read [length] bytes, which the file had when it was opened. */
static int read_all(int fd, void *bytes, size_t length, struct hvd_error *err)
{
    ssize_t got = descriptors_read(fd, bytes, length);
    if (got < 0)
        return error_set_errno(err, "cannot be read");
    return (size_t)got == length ? HVD_OK : error_set(err, HVD_ERR_INVALID, "is cut off");
}

/* What the first bytes say, of which nothing is known to be true yet. */
struct fixed {
    int64_t number;
    int count;
    size_t table_bytes;
};

static int decode_fixed(const unsigned char *bytes, int64_t file_bytes, struct fixed *fixed,
                        struct hvd_error *err)
{
    struct decoder decoder = {.at = bytes, .left = FIXED_BYTES};
    const unsigned char *text = decode_view(&decoder, MAGIC_BYTES);
    bool ours = text != NULL && memcmp(text, magic, MAGIC_BYTES) == 0;
    fixed->number = (int64_t)decode_at_most(&decoder, 8, COMMIT_NUMBER_MAX);
    fixed->count = (int)decode_at_most(&decoder, 4, TABLE_BYTES_MAX / ROW_BYTES_MAX);
    fixed->table_bytes = (size_t)decode_at_most(&decoder, 4, TABLE_BYTES_MAX);
    if (!ours)
        return error_set(err, HVD_ERR_INVALID, "is no commit of this version of hvd");
    if (decoder.failed || fixed->number < 1)
        return error_set(err, HVD_ERR_INVALID, "is damaged: its first %d bytes are out of range",
                         FIXED_BYTES);
    if ((int64_t)(FIXED_BYTES + fixed->table_bytes + 2 * COMMIT_HASH_BYTES) > file_bytes)
        return error_set(err, HVD_ERR_INVALID, "is cut off after %" PRId64 " bytes", file_bytes);
    return HVD_OK;
}

/* Read the head, and check it by its checksum. The caller frees *headp. */
static int read_head(int fd, int64_t file_bytes, struct fixed *fixed, unsigned char **headp,
                     struct hvd_error *err)
{
    unsigned char bytes[FIXED_BYTES], hash[COMMIT_HASH_BYTES];
    if (file_bytes < FIXED_BYTES)
        return error_set(err, HVD_ERR_INVALID, "is cut off after %" PRId64 " bytes", file_bytes);
    int rc = read_all(fd, bytes, sizeof(bytes), err);
    if (rc == HVD_OK)
        rc = decode_fixed(bytes, file_bytes, fixed, err);
    if (rc != HVD_OK)
        return rc;
    size_t length = FIXED_BYTES + fixed->table_bytes;
    unsigned char *head = malloc(length + COMMIT_HASH_BYTES);
    if (head == NULL)
        return error_set_errno(err, "needs %zu bytes of memory to be read", length);
    memcpy(head, bytes, sizeof(bytes));
    rc = read_all(fd, head + FIXED_BYTES, fixed->table_bytes + COMMIT_HASH_BYTES, err);
    hash_head(head, length, hash);
    if (rc == HVD_OK && memcmp(hash, head + length, sizeof(hash)) != 0)
        rc = error_set(err, HVD_ERR_INVALID, "is damaged: the checksum of its table is wrong");
    if (rc == HVD_OK)
        *headp = head;
    else
        free(head);
    return rc;
}

/* Compare a row of the table with the piece that is expected there. */
static int compare_piece(int index, const char *name, int64_t bytes, const struct commit_piece *expected,
                         struct hvd_error *err)
{
    if (strcmp(name, expected->name) == 0 && (expected->bytes == bytes || expected->bytes < 0))
        return HVD_OK;
    if (expected->bytes < 0)
        return error_set(err, HVD_ERR_MISMATCH, "holds \"%.160s\", and this program has \"%.160s\"", name,
                         expected->name);
    return error_set(err, HVD_ERR_MISMATCH,
                     "is of another state: its part %d is \"%.80s\", %" PRId64
                     " bytes, and that of this program is \"%.80s\", %" PRId64 " bytes",
                     index + 1, name, bytes, expected->name, expected->bytes);
}

/* Compare the table with the pieces; the sum of the sizes goes into *bytesp. */
static int compare_table(const unsigned char *head, const struct fixed *fixed,
                         const struct commit_piece *pieces, int64_t *bytesp, struct hvd_error *err)
{
    char name[HVD_MAX_NAME + 1];
    struct decoder decoder = {.at = head + FIXED_BYTES, .left = fixed->table_bytes};
    int rc = HVD_OK;
    *bytesp = 0;
    for (int i = 0; rc == HVD_OK && i < fixed->count; i++) {
        int64_t bytes = (int64_t)decode_at_most(&decoder, 8, BYTES_MAX);
        decode_printable(&decoder, name, sizeof(name));
        if (decoder.failed || __builtin_add_overflow(*bytesp, bytes, bytesp))
            return error_set(err, HVD_ERR_INVALID, "is damaged: part %d of its table is out of range", i + 1);
        rc = compare_piece(i, name, bytes, &pieces[i], err);
    }
    if (rc == HVD_OK && decoder.left > 0)
        return error_set(err, HVD_ERR_INVALID, "is damaged: its table is too long");
    return rc;
}

static int check_pieces(const unsigned char *head, const struct fixed *fixed, int64_t file_bytes,
                        const struct commit_piece *pieces, int64_t *bytesp, struct hvd_error *err)
{
    int64_t expected = (int64_t)(FIXED_BYTES + fixed->table_bytes + 2 * COMMIT_HASH_BYTES);
    int rc = compare_table(head, fixed, pieces, bytesp, err);
    if (rc == HVD_OK && (__builtin_add_overflow(expected, *bytesp, &expected) || expected != file_bytes))
        rc = error_set(err, HVD_ERR_INVALID,
                       "is cut off or damaged: it has %" PRId64 " bytes, expected %" PRId64, file_bytes,
                       expected);
    return rc;
}

int commit_file_check(int fd, const struct commit_piece *pieces, int count, struct commit_head *head,
                      struct hvd_error *err)
{
    struct stat about;
    struct fixed fixed = {.number = 0};
    unsigned char *bytes = NULL;
    if (fstat(fd, &about) < 0)
        return error_set_errno(err, "cannot be read");
    int rc = read_head(fd, about.st_size, &fixed, &bytes, err);
    if (rc == HVD_OK && fixed.count != count)
        rc = error_set(err, HVD_ERR_MISMATCH,
                       "is of another state: it has %d parts, and that of this program has %d", fixed.count,
                       count);
    if (rc == HVD_OK)
        rc = check_pieces(bytes, &fixed, about.st_size, pieces, &head->bytes, err);
    if (rc == HVD_OK) {
        head->number = fixed.number;
        memcpy(head->hash, bytes + FIXED_BYTES + fixed.table_bytes, COMMIT_HASH_BYTES);
    }
    free(bytes);
    return rc;
}

static int read_piece(int fd, const struct commit_piece *piece, crypto_generichash_state *state,
                      struct hvd_error *err)
{
    unsigned char *at = piece->data;
    int rc = HVD_OK;
    for (int64_t left = piece->bytes; rc == HVD_OK && left > 0;) {
        size_t slice = left < SLICE_BYTES ? (size_t)left : SLICE_BYTES;
        rc = read_all(fd, at, slice, err);
        if (rc == HVD_OK)
            crypto_generichash_update(state, at, slice);
        at += slice;
        left -= (int64_t)slice;
    }
    return rc;
}

int commit_file_read(int fd, const struct commit_head *head, const struct commit_piece *pieces, int count,
                     struct hvd_error *err)
{
    unsigned char hash[COMMIT_HASH_BYTES], expected[COMMIT_HASH_BYTES];
    crypto_generichash_state state;
    int rc = HVD_OK;
    hash_begin(&state, head->hash);
    for (int i = 0; rc == HVD_OK && i < count; i++)
        rc = read_piece(fd, &pieces[i], &state, err);
    if (rc == HVD_OK)
        rc = read_all(fd, expected, sizeof(expected), err);
    crypto_generichash_final(&state, hash, sizeof(hash));
    if (rc == HVD_OK && memcmp(hash, expected, sizeof(hash)) != 0)
        rc = error_set(err, HVD_ERR_INVALID, "is damaged: the checksum of its parts is wrong");
    return rc;
}
