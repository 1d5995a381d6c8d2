/* leader_exchange.c: what the leaders of the nodes tell each other by wire-up in the start. */
#include "bootstrap/leader_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "bootstrap/job_key.h"

int leader_group_size(int count)
{
    int size = 1;
    while ((int64_t)size * size < count)
        size++;
    return size;
}

/* ---- Blobs ---- */

int leader_put(const struct leader_exchange *exchange, const char *what, const void *bytes, size_t length,
               struct hvd_error *err)
{
    char name[64];
    job_key_blob_name(exchange->peer_table, what, name);
    return exchange->wireup->ops->put(exchange->wireup->state, name, bytes, length, err);
}

int leader_get(const struct leader_exchange *exchange, int rank, const char *what, struct wireup_blob *blob,
               struct hvd_error *err)
{
    char name[64];
    job_key_blob_name(exchange->peer_table, what, name);
    return exchange->wireup->ops->get(exchange->wireup->state, rank, name, exchange->deadline_us, blob, err);
}

/* ---- Lists of blobs ---- */

#define ENTRY_HEAD_BYTES 8 /* of an entry: the rank, and how long its blob is */
#define LIST_HEAD_BYTES  4 /* of the first blob of a list: how long the list is */

void blob_list_free(struct blob_list *list)
{
    free(list->bytes);
    *list = (struct blob_list){NULL, 0, 0};
}

static int reserve_blobs(struct blob_list *list, size_t more, struct hvd_error *err)
{
    size_t room = list->room;
    if (more > BLOB_LIST_BYTES - list->length)
        return error_set(err, HVD_ERR_UNSUPPORTED,
                         "what the nodes tell each other in the start is longer than %d bytes",
                         BLOB_LIST_BYTES);
    while (room < list->length + more)
        room = room == 0 ? WIREUP_BLOB_BYTES : 2 * room;
    unsigned char *bytes = room == list->room ? list->bytes : realloc(list->bytes, room);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %zu bytes of what the nodes tell each other",
                         room);
    list->bytes = bytes;
    list->room = room;
    return HVD_OK;
}

int blob_list_append(struct blob_list *list, int rank, const void *bytes, size_t length,
                     struct hvd_error *err)
{
    int rc = reserve_blobs(list, ENTRY_HEAD_BYTES + length, err);
    if (rc != HVD_OK)
        return rc;
    struct encoder encoder = {list->bytes + list->length, list->room - list->length, false};
    encode_number(&encoder, (uint32_t)rank, 4);
    encode_number(&encoder, length, 4);
    encode_raw(&encoder, bytes, length);
    list->length += ENTRY_HEAD_BYTES + length;
    return HVD_OK;
}

static int append_bytes(struct blob_list *list, const void *bytes, size_t length, struct hvd_error *err)
{
    int rc = length > 0 ? reserve_blobs(list, length, err) : HVD_OK;
    if (rc != HVD_OK || length == 0)
        return rc;
    memcpy(list->bytes + list->length, bytes, length);
    list->length += length;
    return HVD_OK;
}

int blob_list_join(struct blob_list *list, const struct blob_list *more, struct hvd_error *err)
{
    return append_bytes(list, more->bytes, more->length, err);
}

static bool decode_entry(struct decoder *decoder, struct blob_entry *entry)
{
    entry->rank = (int)decode_at_most(decoder, 4, INT32_MAX);
    entry->length = (size_t)decode_at_most(decoder, 4, WIREUP_BLOB_BYTES);
    entry->bytes = decode_view(decoder, entry->length);
    return !decoder->failed;
}

bool blob_list_next(const struct blob_list *list, size_t *atp, struct blob_entry *entry)
{
    if (*atp == list->length)
        return false;
    struct decoder decoder = {list->bytes + *atp, list->length - *atp, false};
    if (!decode_entry(&decoder, entry))
        return false;
    *atp = list->length - decoder.left;
    return true;
}

static bool ascends(const struct blob_list *list)
{
    struct decoder decoder = {list->bytes, list->length, false};
    struct blob_entry entry;
    for (int last = -1; decoder.left > 0; last = entry.rank)
        if (!decode_entry(&decoder, &entry) || entry.rank <= last)
            return false;
    return true;
}

static void name_piece(const char *what, size_t piece, char name[48])
{
    snprintf(name, 48, "%.16s.all%zu", what, piece);
}

static size_t piece_count(size_t length)
{
    return (LIST_HEAD_BYTES + length + WIREUP_BLOB_BYTES - 1) / WIREUP_BLOB_BYTES;
}

int blob_list_put(const struct leader_exchange *exchange, const char *what, const struct blob_list *list,
                  struct hvd_error *err)
{
    size_t length = LIST_HEAD_BYTES + list->length;
    unsigned char *bytes = malloc(length);
    if (bytes == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %zu bytes of what the nodes tell each other",
                         length);
    struct encoder encoder = {bytes, length, false};
    encode_number(&encoder, list->length, LIST_HEAD_BYTES);
    encode_raw(&encoder, list->bytes, list->length);
    int rc = HVD_OK;
    for (size_t piece = 0, at = 0; rc == HVD_OK && at < length; piece++, at += WIREUP_BLOB_BYTES) {
        char name[48];
        name_piece(what, piece, name);
        rc = leader_put(exchange, name, bytes + at,
                        length - at < WIREUP_BLOB_BYTES ? length - at : WIREUP_BLOB_BYTES, err);
    }
    free(bytes);
    return rc;
}

/* A list that is being got. */
struct list_reading {
    const struct leader_exchange *exchange;
    int rank;
    const char *what;
    struct blob_list *list;
    size_t missing; /* bytes that have not come; the first piece says how many there are */
};

static int fail_damaged(const struct list_reading *reading, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_INVALID, "what rank %d hands on (%s) is cut short or damaged",
                     reading->rank, reading->what);
}

static int get_piece(struct list_reading *reading, size_t piece, struct hvd_error *err)
{
    char name[48];
    struct wireup_blob blob = {NULL, 0};
    name_piece(reading->what, piece, name);
    int rc = leader_get(reading->exchange, reading->rank, name, &blob, err);
    if (rc != HVD_OK)
        return rc;
    struct decoder decoder = {blob.bytes, blob.length, false};
    if (piece == 0)
        reading->missing = (size_t)decode_at_most(&decoder, LIST_HEAD_BYTES, BLOB_LIST_BYTES);
    decode_check(&decoder, decoder.left <= reading->missing && (piece == 0 || decoder.left > 0));
    rc = decoder.failed ? fail_damaged(reading, err)
                        : append_bytes(reading->list, decoder.at, decoder.left, err);
    if (rc == HVD_OK)
        reading->missing -= decoder.left;
    free(blob.bytes);
    return rc;
}

int blob_list_get(const struct leader_exchange *exchange, int rank, const char *what, struct blob_list *list,
                  struct hvd_error *err)
{
    struct list_reading reading = {exchange, rank, what, list, 0};
    int rc = get_piece(&reading, 0, err);
    size_t pieces = rc == HVD_OK ? piece_count(list->length + reading.missing) : 0;
    for (size_t piece = 1; rc == HVD_OK && piece < pieces; piece++)
        rc = get_piece(&reading, piece, err);
    if (rc == HVD_OK && (reading.missing > 0 || !ascends(list)))
        rc = fail_damaged(&reading, err);
    return rc;
}

/* ---- All leaders ---- */

bool leader_exchange_has_two_rounds(const struct leader_list *leaders)
{
    return leaders->count > LEADERS_DIRECT;
}

/* The end of the group that begins with leader [first]. */
static int end_of_group(const struct leader_list *leaders, int first)
{
    int size = leader_exchange_has_two_rounds(leaders) ? leader_group_size(leaders->count) : leaders->count;
    return leaders->count - first > size ? first + size : leaders->count;
}

/* Append what each leader of the group that begins with leader [first] has put. */
static int read_group(const struct leader_exchange *exchange, const struct leader_list *leaders, int first,
                      const char *what, struct blob_list *list, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = first; rc == HVD_OK && i < end_of_group(leaders, first); i++) {
        struct wireup_blob blob = {NULL, 0};
        rc = leader_get(exchange, leaders->ranks[i], what, &blob, err);
        if (rc == HVD_OK)
            rc = blob_list_append(list, leaders->ranks[i], blob.bytes, blob.length, err);
        free(blob.bytes);
    }
    return rc;
}

int leader_exchange_hand_on(const struct leader_exchange *exchange, const struct leader_list *leaders,
                            const char *what, struct hvd_error *err)
{
    struct blob_list list = {NULL, 0, 0};
    int first = 0;
    while (first < leaders->count && leaders->ranks[first] < exchange->peer_table->rank)
        first = end_of_group(leaders, first);
    if (first == leaders->count || leaders->ranks[first] != exchange->peer_table->rank)
        return HVD_OK;
    int rc = read_group(exchange, leaders, first, what, &list, err);
    int put = blob_list_put(exchange, what, &list, rc == HVD_OK ? err : NULL);
    blob_list_free(&list);
    return rc == HVD_OK ? put : rc;
}

/* A group's list has an entry of each leader of the group. */
static int check_list(const struct leader_list *leaders, int first, const struct blob_list *list,
                      struct hvd_error *err)
{
    struct blob_entry entry;
    size_t at = 0;
    int end = end_of_group(leaders, first);
    for (int i = first; i < end; i++)
        if (!blob_list_next(list, &at, &entry) || entry.rank != leaders->ranks[i])
            return error_set(err, HVD_ERR_INVALID,
                             "rank %d, which hands on what the ranks %d to %d report, did not get it from "
                             "rank %d",
                             leaders->ranks[first], leaders->ranks[first], leaders->ranks[end - 1],
                             leaders->ranks[i]);
    return at == list->length
               ? HVD_OK
               : error_set(err, HVD_ERR_INVALID, "rank %d hands on more than its group has put",
                           leaders->ranks[first]);
}

/* Append the list that the first leader of a group hands on. */
static int read_list(const struct leader_exchange *exchange, const struct leader_list *leaders, int first,
                     const char *what, struct blob_list *list, struct hvd_error *err)
{
    struct blob_list group = {NULL, 0, 0};
    int rc = blob_list_get(exchange, leaders->ranks[first], what, &group, err);
    if (rc == HVD_OK)
        rc = check_list(leaders, first, &group, err);
    if (rc == HVD_OK)
        rc = blob_list_join(list, &group, err);
    blob_list_free(&group);
    return rc;
}

int leader_exchange_read(const struct leader_exchange *exchange, const struct leader_list *leaders,
                         const char *what, struct blob_list *list, struct hvd_error *err)
{
    int rc = HVD_OK;
    if (!leader_exchange_has_two_rounds(leaders))
        return read_group(exchange, leaders, 0, what, list, err);
    for (int first = 0; rc == HVD_OK && first < leaders->count; first = end_of_group(leaders, first))
        rc = read_list(exchange, leaders, first, what, list, err);
    return rc;
}
