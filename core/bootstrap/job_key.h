/* job_key.h: the key of a job: rank 0 draws it, and hands it to the others by wire-up.
 *
 * Wire-up alone does not keep it from other users: PMIx's default security believes the user that a client on
 * the same node says it is. So the key is mixed with the secret that launchers hand to the ranks by their
 * environment (base/secret.h), or, in a step of Slurm without one, travels in a credential of munge that only
 * this user can open. What wire-up carries is then of no use to others.
 *
 * Slurm sends the secret over the network when it launches a step. So where connections are encrypted the key
 * of a step is both mixed with the secret and sealed by munge: who could read the network from the first
 * moment on has not seen it. */
#ifndef BOOTSTRAP_JOB_KEY_H
#define BOOTSTRAP_JOB_KEY_H

#include "bootstrap/wireup.h"
#include "net/peer_table.h"

/* What keeps the key from other users. All ranks must have the same. */
enum job_key_guard {
    JOB_KEY_BARE,
    JOB_KEY_SECRET,
    JOB_KEY_MUNGE,
    JOB_KEY_SECRET_AND_MUNGE,
    JOB_KEY_GUARD_COUNT
};

/* Determine the guard from this process's environment. HVD_ERR_INVALID if the secret is too short or too
 * long, or if connections are to be encrypted and nothing guards the key. */
int job_key_find_guard(bool encrypt, enum job_key_guard *guardp, struct hvd_error *err);

/* Are connections to be encrypted with a key that who read the network at the launch has seen? */
bool job_key_was_seen(bool encrypt, enum job_key_guard guard);

/* What the guard is, for messages. */
const char *job_key_guard_text(enum job_key_guard guard);

/* On rank 0: draw the key and put it. */
int job_key_put(const struct peer_table *peer_table, const struct wireup *wireup, enum job_key_guard guard,
                struct hvd_error *err);

/* After a fence, on all ranks: fill in the key of [peer_table]. */
int job_key_get(struct peer_table *peer_table, const struct wireup *wireup, enum job_key_guard guard,
                int64_t deadline_us, struct hvd_error *err);

/* Once the key is known: the name under which ranks put [what] in this start. It differs from start to start,
 * as PMIx may hand out what another node's rank put under the same name in an earlier start of its process.
 */
void job_key_blob_name(const struct peer_table *peer_table, const char *what, char name[64]);

#endif
