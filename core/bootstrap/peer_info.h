/* peer_info.h: what a rank publishes about itself at the job's start, and its encoding. */
#ifndef BOOTSTRAP_PEER_INFO_H
#define BOOTSTRAP_PEER_INFO_H

#include <stdbool.h>

#include "options/config.h"
#include "base/rank_list.h"
#include "bootstrap/job_key.h"
#include "net/peer_table.h"

#define PEER_INFO_BYTES        49152 /* the longest encoded peer info */
#define PEER_INFO_BRIEF_BYTES  2048  /* the longest without options */
#define PEER_INFO_SOURCE_BYTES 128

struct peer_info_option {
    char value[OPTION_VALUE_BYTES + 1]; /* as config_value writes it */
    char source[PEER_INFO_SOURCE_BYTES];
};

/* What a rank passed to hvd_init_with. */
struct peer_info_start {
    int32_t launcher_rank; /* its rank in the launcher's job */
    int32_t rank_count;    /* the length of its list of the job's ranks; all ranks if it passed none */
    uint64_t ranks_hash;
    char ranks[RANK_LIST_TEXT_BYTES]; /* the list, as text */
    int32_t set_count;
};

struct peer_info {
    struct peer peer; /* without leader */
    struct peer_info_start start;
    enum job_key_guard key_guard;                /* job_key_find_guard says it */
    struct peer_info_option options[OPTION_MAX]; /* by option_index; only the job-wide ones are filled */
};

/* Fill in the peer info of this process. */
void peer_info_fill(struct peer_info *peer_info, const char *host, uint16_t port,
                    const struct hvd_config *config);

/* Fill its [start] for rank [rank] of a job with the ranks [launcher_ranks] (NULL: 0 to [size] - 1).
 * Returns HVD_OK or HVD_ERR_NO_MEMORY. */
int peer_info_fill_start(struct peer_info *peer_info, const int *launcher_ranks, int size, int rank,
                         int set_count);

/* Encode, which returns the length; and decode. Pure. Decoding refuses what peer_info_encode would not
 * have written, with a phrase such as "is cut short" in [err]: HVD_ERR_MISMATCH if it is from another
 * version of hvd, else HVD_ERR_INVALID. */
size_t peer_info_encode(const struct peer_info *peer_info, unsigned char bytes[PEER_INFO_BYTES]);
int peer_info_decode(struct peer_info *peer_info, const unsigned char *bytes, size_t length,
                     struct hvd_error *err);

/* The same without the options, which decoding leaves empty. */
size_t peer_info_encode_brief(const struct peer_info *peer_info, unsigned char bytes[PEER_INFO_BRIEF_BYTES]);
int peer_info_decode_brief(struct peer_info *peer_info, const unsigned char *bytes, size_t length,
                           struct hvd_error *err);

/* Did both ranks pass the same list? Pure. */
bool peer_info_same_ranks(const struct peer_info *a, const struct peer_info *b);

/* A job-wide option in which two peer infos differ, or NULL. Pure. */
const struct hvd_option *peer_info_differing_option(const struct peer_info *a, const struct peer_info *b);

#endif
