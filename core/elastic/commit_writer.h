/* commit_writer.h: a thread that writes commits to the folder of --hvd-state-dir while training goes on.
 *
 * Nobody waits for the disk. While a commit is being written, the newest one waits, and takes the place of
 * one that waited: what counts after a failure is the newest one that is whole, and so a slow disk writes
 * fewer commits and costs no more memory. A disk that fails costs a warning, and not the training. One thread
 * at a time calls it. */
#ifndef ELASTIC_COMMIT_WRITER_H
#define ELASTIC_COMMIT_WRITER_H

#include <stdbool.h>

#include "elastic/commit_folder.h"

struct commit_writer;

/* [last] is the slot of the commit that was read, which the first write must leave; -1: the newest one that
 * looks good. HVD_ERR_NO_MEMORY. */
int commit_writer_create(struct commit_writer **writerp, const struct commit_folder *folder, int last,
                         struct hvd_error *err);

/* Ends the thread when all is written. NULL is fine. */
void commit_writer_destroy(struct commit_writer *writer);

/* Hand over a commit. Its contents stay as they are until [release] is called with [arg], once, on any
 * thread. Numbers grow on disk: one that is not greater than the last one there is replaced by the next. */
typedef void commit_release_f(void *arg);
void commit_writer_hand(struct commit_writer *writer, int64_t number, const struct commit_piece *pieces,
                        int count, commit_release_f *release, void *arg);

/* What was wrong with the first of the commits in a row that could not be written: once. False: nothing. */
bool commit_writer_problem(struct commit_writer *writer, struct hvd_error *problem);

/* Wait until all is written, or cannot be, for at most [wait_ms]. False: not yet. */
bool commit_writer_wait(struct commit_writer *writer, int wait_ms);

#endif
