/* peer_info.h: what a rank tells all others of itself at the job's start, and its bytes. */
#ifndef BOOTSTRAP_PEER_INFO_H
#define BOOTSTRAP_PEER_INFO_H

#include <stdbool.h>

#include "base/rank_list.h"
#include "net/peer_table.h"

#define CARD_BYTES        32768 /* no card is longer */
#define CARD_SOURCE_BYTES 128

struct card_option {
    char value[OPTION_VALUE_BYTES + 1]; /* as config_value writes it */
    char source[CARD_SOURCE_BYTES];
};

/* What a rank gave to hvd_init_with. */
struct card_start {
    int32_t launcher_rank; /* its rank in the launcher's job */
    int32_t rank_count;    /* of its list of the job's ranks: all of them where it gave none */
    uint64_t ranks_hash;
    char ranks[RANKS_TEXT_BYTES]; /* the list, in words */
    int32_t set_count;
};

struct card {
    struct roster_peer peer; /* without leader */
    struct card_start start;
    struct card_option options[OPT_COUNT]; /* of the job-wide ones */
};

/* The card of this process. */
void card_fill(struct card *card, const char *host, uint16_t port, const struct hvd_config *config);

/* Fill its [start]: of rank [rank] of a job whose ranks are [launcher_ranks] (NULL: 0 to [size] - 1). Returns
 * HVD_OK, or HVD_ERR_NO_MEMORY. */
int card_fill_start(struct card *card, const int *launcher_ranks, int size, int rank, int set_count);

/* To bytes, returns how many; and back. Pure. What card_encode would not have written is refused, with a
 * phrase such as "is cut short" in [err]: HVD_ERR_MISMATCH where it is from another version of hvd, else
 * HVD_ERR_INVALID. */
size_t card_encode(const struct card *card, unsigned char bytes[CARD_BYTES]);
int card_decode(struct card *card, const unsigned char *bytes, size_t length, struct hvd_error *err);

/* Did both ranks give the same list? Pure. */
bool card_same_ranks(const struct card *a, const struct card *b);

/* The job-wide option in which two cards differ, or OPT_COUNT. Pure. */
enum option_id card_difference(const struct card *a, const struct card *b);

#endif
