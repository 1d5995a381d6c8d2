/* store.h: the blobs that ranks have put, by rank and key, and the pages in which ranks send them. */
#ifndef PMIX_SHIM_STORE_H
#define PMIX_SHIM_STORE_H

#include "bootstrap/wireup.h"

#define STORE_KEY_BYTES 64 /* longest key */
#define STORE_PAGE_BYTES \
    (4 * (WIREUP_BLOB_BYTES + 128)) /* the longest page: all that one rank puts between two fences */

struct store;

/* For [size] ranks; NULL if memory is out. */
struct store *store_create(int size);
/* NULL is fine. */
void store_destroy(struct store *store);

/* Add a blob to this rank's own page. Other ranks do not see it before the fence. */
int store_put(struct store *store, const char *key, const void *bytes, size_t length, struct hvd_error *err);
/* Returns this rank's page, valid until the next put. store_forget_page empties it, once all ranks have
 * it. */
const void *store_page(const struct store *store, size_t *lengthp);
void store_forget_page(struct store *store);

/* Add a page of [rank], which may come from a peer. It is checked as a whole first: HVD_ERR_INVALID if it
 * is damaged. */
int store_merge(struct store *store, int rank, const void *page, size_t length, struct hvd_error *err);

/* A copy of what [rank] put last under [key]; HVD_ERR_MISMATCH if it put nothing there. */
int store_get(const struct store *store, int rank, const char *key, struct wireup_blob *blob,
              struct hvd_error *err);

#endif
