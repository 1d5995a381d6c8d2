/* descriptors.h: how many descriptors this process may have open, and the sentence when all of them are. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdbool.h>

#include "base/status.h"

/* Raise the soft limit to the hard one, or to a million where that is higher. Never lowers it. Programs that
 * this process starts inherit the new limit. */
void descriptors_raise(void);

/* Does this errno say that no descriptor is left, in this process or on this machine? */
bool descriptors_are_used_up(int error);

/* [error] is such an errno: write "WHAT: ...", with the limit that stands in the way, and, if [more] > 0, the
 * limit that leaves room for that many more. Returns HVD_ERR_NO_MEMORY. */
int descriptors_error(struct hvd_error *err, int error, const char *what, int more);

/* HVD_OK if this process can open [count] more; otherwise as descriptors_error. */
int descriptors_check(int count, const char *what, struct hvd_error *err);

#endif
