/* descriptors.h: how many descriptors this process may have open, the sentence when all of them are, and
 * calls that a signal does not cut short. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* A descriptor that nothing else uses. Programs that close all descriptors, as daemons do, close it too, and
 * its number may be another file's by then. */
struct descriptors_guard {
    int fd;
    dev_t device;
    ino_t inode;
};

int descriptors_guard_open(struct descriptors_guard *guard, struct hvd_error *err);

/* Is it still open? */
bool descriptors_guard_holds(const struct descriptors_guard *guard);

/* Nothing is closed that is not the guard's. */
void descriptors_guard_close(struct descriptors_guard *guard);

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

/* Make an eventfd readable. Nothing is written where its number is a file of the program by now, which has
 * closed hvd's descriptors: files are of some type, and an eventfd is of none. */
void descriptors_ring(int fd);

/* Close *fdp unless it is -1, and make it that. */
void descriptors_close(int *fdp);

/* open(2), again where a signal comes first, as on a file system that waits for a server. */
int descriptors_open(const char *path, int flags, mode_t mode);

/* read(2) until [most] bytes are there or the end is, again where a signal comes first. Returns how many
 * bytes, or -1 with errno. The second call is of pread(2), from [offset] on. */
ssize_t descriptors_read(int fd, void *bytes, size_t most);
ssize_t descriptors_read_at(int fd, void *bytes, size_t most, off_t offset);

/* write(2) until all is written, again where a signal comes first. False with errno if it cannot. */
bool descriptors_write(int fd, const void *bytes, size_t length);

#endif
