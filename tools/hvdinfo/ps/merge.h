/* merge.h: ranks that are in the same state, as one that stands for all of them. Pure.
 *
 * The same state: nothing differs from which judge.c finds what a rank does, or which words.c puts into a
 * sentence. What else differs becomes what the text of hvdinfo ps shows of all ranks of a line and of a job:
 * the times of the one that has been in its state longest, the number of operations of the first one, the
 * mean of each share and rate, and who waits least and most. Process ids, cores and sums get lost. */
#ifndef TOOLS_HVDINFO_PS_MERGE_H
#define TOOLS_HVDINFO_PS_MERGE_H

#include "base/codec.h"
#include "tools/hvdinfo/ps/rank.h"

#define MERGED_RANKS 262144 /* at most, of all nodes */

/* A rank and its share of waiting. */
struct waiting_share {
    int rank;
    double waiting;
};

struct merged {
    struct rank rank;          /* that stands for all; the operations are those of one of them */
    const struct rank **ranks; /* ascending */
    int count;
    struct waiting_share least, most;
};

struct merged_ranks {
    struct merged *list;
    const struct rank **ranks; /* of all */
    int count;
};

/* Let each stand for itself, or one for all in the same state; the latter have been judged. *merged is zeroed
 * before, and has pointers into [ranks]. HVD_OK, or HVD_ERR_NO_MEMORY. */
int merge_none(const struct ranks *ranks, struct merged_ranks *merged);
int merge_same(const struct ranks *ranks, struct merged_ranks *merged);
void merged_ranks_free(struct merged_ranks *merged);

/* As rank_encode; the second one writes at most as many bytes as the first one says. */
size_t merged_encoded_most(const struct merged *merged);
void merged_encode(struct encoder *encoder, const struct merged *merged, int64_t now_us);

/* Add all ranks that one stands for. HVD_OK also where the decoder failed, or HVD_ERR_NO_MEMORY. */
int merged_decode(struct decoder *decoder, struct ranks *ranks, int64_t now_us);

#endif
