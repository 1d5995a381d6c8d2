/* leader_exchange.h: what the leaders of the nodes tell each other by wire-up in the start.
 *
 * Where there are few nodes, each leader reads what every other has put. Where there are more than
 * LEADERS_DIRECT, it takes two rounds: the leaders form groups of about the square root of their number; the
 * first of a group reads what the others of it have put, and hands it on as one list; then each leader reads
 * the list of each group. So a leader gets twice the square root of the number of nodes, and not one of each.
 */
#ifndef BOOTSTRAP_LEADER_EXCHANGE_H
#define BOOTSTRAP_LEADER_EXCHANGE_H

#include <stdbool.h>

#include "bootstrap/wireup.h"
#include "net/peer_table.h"

#define LEADERS_DIRECT 16 /* the most leaders that read what each of the others has put */

/* The ranks that act for their nodes in the start, ascending. */
struct leader_list {
    int *ranks; /* owned by whoever keeps the list */
    int count;
    uint64_t warnings; /* hvd_config.warnings of the first of them */
};

/* How large a group is, of [count] leaders. */
int leader_group_size(int count);

/* ---- Blobs ---- */

/* Where leaders put blobs in this start, and until when they read them. */
struct leader_exchange {
    const struct peer_table *peer_table;
    const struct wireup *wireup;
    int64_t deadline_us;
};

int leader_put(const struct leader_exchange *exchange, const char *what, const void *bytes, size_t length,
               struct hvd_error *err);
int leader_get(const struct leader_exchange *exchange, int rank, const char *what, struct wireup_blob *blob,
               struct hvd_error *err);

/* ---- Lists of blobs ---- */

#define BLOB_LIST_BYTES (64 << 20) /* the longest list */

/* What several ranks have put. A zeroed list is empty. */
struct blob_list {
    unsigned char *bytes;
    size_t length, room;
};

struct blob_entry {
    int rank;
    const unsigned char *bytes; /* in the list */
    size_t length;
};

/* Append what [rank] has put. HVD_OK; HVD_ERR_NO_MEMORY; HVD_ERR_UNSUPPORTED if the list gets too long. */
int blob_list_append(struct blob_list *list, int rank, const void *bytes, size_t length,
                     struct hvd_error *err);

/* Append all entries of [more]. The same errors. */
int blob_list_join(struct blob_list *list, const struct blob_list *more, struct hvd_error *err);

/* Read the entry at *[atp], which is 0 for the first, and go on to the next. Returns false at the end. */
bool blob_list_next(const struct blob_list *list, size_t *atp, struct blob_entry *entry);

/* Put the list, in as many blobs as it needs; and get that of [rank] into a zeroed [list]. A list with
 * entries that do not ascend by rank is HVD_ERR_INVALID. */
int blob_list_put(const struct leader_exchange *exchange, const char *what, const struct blob_list *list,
                  struct hvd_error *err);
int blob_list_get(const struct leader_exchange *exchange, int rank, const char *what, struct blob_list *list,
                  struct hvd_error *err);

void blob_list_free(struct blob_list *list);

/* ---- All leaders ---- */

/* The leaders are known, and each has put [what]; all ranks have passed a fence. 1. Where there are many
 * leaders, those that are the first of their group hand on what it has put. On failure they hand on what they
 * have got. Then all ranks pass a second fence. */
bool leader_exchange_has_two_rounds(const struct leader_list *leaders);
int leader_exchange_hand_on(const struct leader_exchange *exchange, const struct leader_list *leaders,
                            const char *what, struct hvd_error *err);

/* 2. Read what all leaders have put into a zeroed [list], in their order. The caller frees it, on failure,
 * too. */
int leader_exchange_read(const struct leader_exchange *exchange, const struct leader_list *leaders,
                         const char *what, struct blob_list *list, struct hvd_error *err);

#endif
