/* peer_exchange.h: exchanges the ranks' peer infos and the job's key by wire-up. */
#ifndef BOOTSTRAP_PEER_EXCHANGE_H
#define BOOTSTRAP_PEER_EXCHANGE_H

#include "bootstrap/peer_info.h"
#include "bootstrap/wireup.h"

/* Put this rank's [peer_info], and on rank 0 a new job key; fence; then fill [peer_table] with what all
 * ranks have put. Collective. Every rank gets HVD_ERR_MISMATCH if a job-wide option differs. */
int peer_exchange(struct peer_table *peer_table, const struct wireup *wireup,
                  const struct peer_info *peer_info, int64_t deadline_us, struct hvd_error *err);

#endif
