/* commit_folder.h: the folder of --hvd-state-dir: the last two commits of each state, as files that only this
 * user may read.
 *
 * Each state has two files, hvd-state.N.a and hvd-state.N.b. A commit is written to a temporary file, which
 * then replaces the file that is not the last good one, so that one of the two is whole at any time, also
 * when the machine fails. Temporary files have names of their own, so that two processes that write at the
 * same time, such as a rank that does not know yet that it was lost, and its successor, cannot mix. */
#ifndef ELASTIC_COMMIT_FOLDER_H
#define ELASTIC_COMMIT_FOLDER_H

#include <limits.h>

#include "elastic/commit_file.h"

enum { COMMIT_SLOTS = 2 };

struct commit_folder {
    char path[PATH_MAX]; /* absolute */
    int state;           /* N */
};

/* What is in one of the two files. */
struct commit_found {
    int64_t number;       /* of the commit, if it fits; 0: none */
    int64_t identity;     /* equal for the same file on two nodes, never negative */
    int status;           /* HVD_OK, also where there is no file; or what is wrong with it, */
    struct hvd_error why; /* and its sentence */
};

/* [path] may be relative to the working directory. HVD_ERR_INVALID if it is too long.
 * [folder] has an empty path after a failure if it had one before. */
int commit_folder_init(struct commit_folder *folder, const char *path, int state, struct hvd_error *err);

/* Look at both files: which commits, of states with these pieces, are there? Their contents are not checked
 * yet. A folder that does not exist has none. */
void commit_folder_look(const struct commit_folder *folder, const struct commit_piece *pieces, int count,
                        struct commit_found found[COMMIT_SLOTS]);

/* The newest of them that fits, or -1. */
int commit_found_newest(const struct commit_found found[COMMIT_SLOTS]);

/* Read the commit of [slot] into the data of [pieces]; a piece of -1 bytes gets its size, and memory that the
 * caller frees. If it fails the data is of no use. */
int commit_folder_read(const struct commit_folder *folder, int slot, struct commit_piece *pieces, int count,
                       struct hvd_error *err);

/* Write a commit, which is on the disk when this returns, in place of that in [slot]. Makes the folder, but
 * not those above it. On failure both files are what they were. */
int commit_folder_write(const struct commit_folder *folder, int slot, int64_t number,
                        const struct commit_piece *pieces, int count, struct hvd_error *err);

/* Remove temporary files that processes left which were killed while they wrote. */
void commit_folder_tidy(const struct commit_folder *folder);

#endif
