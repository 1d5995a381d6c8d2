/* munge.h: seal a few bytes so that only processes of this user can open them, on any node of the cluster.
 * munge's daemons, which Slurm needs too, hold the key for that. Its library is opened at run time. */
#ifndef AUTH_MUNGE_H
#define AUTH_MUNGE_H

#include <stddef.h>

#include "base/status.h"

/* Seal [bytes]; the credential, a text, goes into *textp, which the caller frees. HVD_ERR_INVALID if munge is
 * not here or its daemon does not answer. */
int munge_seal(const void *bytes, size_t length, char **textp, struct hvd_error *err);

/* Open the credential [text], which must hold [length] bytes, have been made by a process of this user, and
 * be meant for this user. Others of the node may have opened it before. */
int munge_open(const char *text, void *bytes, size_t length, struct hvd_error *err);

#endif
