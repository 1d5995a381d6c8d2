/* commit_file.h: a commit as a file: which one it is, the names and sizes of its parts, their contents, and
 * checksums of both.
 *
 * Whoever reads it trusts nothing in it before the checksum that covers it was right. The checksums find
 * damage; they prove nothing about who wrote the file, which commit_folder.h looks at. */
#ifndef ELASTIC_COMMIT_FILE_H
#define ELASTIC_COMMIT_FILE_H

#include <stdint.h>

#include "base/status.h"

/* The largest number of a commit. Ranks put it and a rank into one word. */
#define COMMIT_NUMBER_MAX (INT64_C(1) << 40)

#define COMMIT_HASH_BYTES 32

/* A part of a state. */
struct commit_piece {
    char name[HVD_MAX_NAME + 1];
    int64_t bytes; /* to read: -1 if any number will do, for the only piece of a state */
    void *data;    /* borrowed */
};

/* The beginning of a file, whose checksum was right. */
struct commit_head {
    int64_t number;
    int64_t bytes;                         /* of all pieces */
    unsigned char hash[COMMIT_HASH_BYTES]; /* its checksum */
};

/* Write a commit at the start of [fd]. Returns 0, or -1 with errno. */
int commit_file_write(int fd, int64_t number, const struct commit_piece *pieces, int count);

/* Read the beginning of the file [fd], and leave [fd] behind it. HVD_ERR_MISMATCH if it has other pieces than
 * these [count], HVD_ERR_INVALID for a file that is damaged, cut off or no commit, otherwise HVD_ERR_SYSTEM
 * or HVD_ERR_NO_MEMORY. Sentences go on after the name of the file. */
int commit_file_check(int fd, const struct commit_piece *pieces, int count, struct commit_head *head,
                      struct hvd_error *err);

/* After commit_file_check: read the contents of [pieces] to their data. HVD_ERR_INVALID if the checksum is
 * wrong, or HVD_ERR_SYSTEM; then the data is of no use. */
int commit_file_read(int fd, const struct commit_head *head, const struct commit_piece *pieces, int count,
                     struct hvd_error *err);

#endif
