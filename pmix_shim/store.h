/* store.h: the blobs that ranks have put, by rank and key, and the pages in which they travel. */
#ifndef PMIX_SHIM_STORE_H
#define PMIX_SHIM_STORE_H

#include "bootstrap/wireup.h"

#define STORE_KEY_BYTES 64 /* longest key */
#define STORE_PAGE_BYTES \
    (4 * (WIREUP_BLOB_BYTES + 128)) /* longest page: what one rank puts between two fences */

struct store;

/* For [size] ranks; NULL where memory is out. */
struct store *store_create(int size);
/* NULL is fine. */
void store_destroy(struct store *store);

/* Add a blob to this rank's own page, which nobody sees yet. */
int store_put(struct store *store, const char *key, const void *bytes, size_t length, struct hvd_error *err);
/* That page, valid until the next put; and forget it, once it is merged everywhere. */
const void *store_page(const struct store *store, size_t *lengthp);
void store_forget_page(struct store *store);

/* Take in a page of [rank], which may come from a peer: checked as a whole first, HVD_ERR_INVALID where it is
 * broken. */
int store_merge(struct store *store, int rank, const void *page, size_t length, struct hvd_error *err);
/* All pages of [rank] one after the other: the newest is what lies behind the length before it was merged. */
const unsigned char *store_pages(const struct store *store, int rank, size_t *lengthp);

/* A copy of what [rank] put last under [key]; HVD_ERR_MISMATCH where there is nothing. */
int store_get(const struct store *store, int rank, const char *key, struct wireup_blob *blob,
              struct hvd_error *err);

#endif
