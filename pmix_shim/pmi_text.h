/* pmi_text.h: what PMI writes as text: the fields of an answer, where ranks are, and blobs in pieces. Pure.
 *
 * All of it comes from a launcher or from other ranks, and is checked here. */
#ifndef PMIX_SHIM_PMI_TEXT_H
#define PMIX_SHIM_PMI_TEXT_H

#include "bootstrap/wireup.h"
#include "options/token.h"

/* Find a field of an answer, "cmd=get_result rc=0 value=abc". */
bool pmi_text_field(const char *answer, const char *name, struct token *value);

/* Read PMI_process_mapping, "(vector,(0,2,4))": node 0 and the next, 2 in all, hold 4 ranks each. If there
 * are more ranks it begins again. Write the ranks on the node of [rank] into [ranks], room for [size],
 * ascending. Returns how many; 0 if it is no such text. */
int pmi_text_local_ranks(struct token mapping, int size, int rank, int *ranks);

/* A blob as text: its length, a dot, and its bytes in base64. Returns NULL if memory is out; else the caller
 * frees it. */
char *pmi_text_from_blob(const void *bytes, size_t length);

/* A blob that is put together again from pieces of its text. {NULL} is empty. */
struct pmi_blob_text {
    char *text;
    size_t used, expected;
};

/* Append a piece. Returns HVD_IN_PROGRESS if more must follow, HVD_OK if it was the last, else the piece is
 * none of such a text. */
int pmi_blob_text_add(struct pmi_blob_text *blob_text, struct token piece, struct hvd_error *err);
/* The blob, when the last piece has come, in memory that the caller frees. */
int pmi_blob_text_decode(const struct pmi_blob_text *blob_text, struct wireup_blob *blob,
                         struct hvd_error *err);
void pmi_blob_text_free(struct pmi_blob_text *blob_text);

#endif
