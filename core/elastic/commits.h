/* commits.h: the parts of a program's state, and copies of them: the last two commits.
 *
 * Commits have numbers from 1. A rank saves commit n, and goes on when all ranks have saved it, so a rank
 * that is lost leaves ranks whose newest commits are n and n - 1. Each of them has n - 1, to which all can go
 * back: the copy of commit n + 1 takes the place of n - 1 only after all ranks have n.
 *
 * A third copy lets another thread read a commit while two more are saved.
 *
 * Local: no other rank is asked. No function but commits_add and commits_reserve needs memory. Only copies of
 * parts on a GPU fail. */
#ifndef ELASTIC_COMMITS_H
#define ELASTIC_COMMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct commits;

enum { COMMITS_COPIES = 2, COMMITS_COPIES_MAX = 3 };

/* One part of the state. The memory is the program's. */
struct commits_part {
    char name[HVD_MAX_NAME + 1];
    void *data;
    int64_t bytes;
    int64_t offset; /* of its copies */
    bool on_gpu;    /* the copies are in host memory all the same */
};

/* Copies between host memory and that of a GPU, and waits for it. */
struct commits_gpu {
    int (*copy)(void *arg, void *to, const void *from, int64_t bytes, struct hvd_error *err);
    void *arg;
};

/* NULL if there is not enough memory. */
struct commits *commits_create(void);
void commits_destroy(struct commits *commits);

/* HVD_OK if a part can have this name; otherwise HVD_ERR_INVALID with a sentence that begins with [call]. */
int commits_check_name(const char *call, const char *name, struct hvd_error *err);

/* Add a part. HVD_ERR_INVALID, HVD_ERR_DUPLICATE, HVD_ERR_STATE after commits_reserve, or
 * HVD_ERR_NO_MEMORY. */
int commits_add(struct commits *commits, const char *name, void *data, int64_t bytes, struct hvd_error *err);

int commits_count(const struct commits *commits);
const struct commits_part *commits_part(const struct commits *commits, int index);
void commits_place(struct commits *commits, int index, bool on_gpu); /* where the part is; a new one: not */

/* A hash of all names and sizes, in their order. */
uint64_t commits_fingerprint(const struct commits *commits);

/* Get the memory of COMMITS_COPIES, or COMMITS_COPIES_MAX to lend commits, unless that was done before.
 * HVD_ERR_NO_MEMORY; then parts may still be added, if none were reserved before. All functions below are
 * called after it. */
int commits_reserve(struct commits *commits, int copies, struct hvd_error *err);

/* The number of the newest commit; 0: there is none. */
int64_t commits_newest(const struct commits *commits);

/* Copy the parts: the commit after the newest one. After an error the newest one is what it was. [gpu] is
 * used for parts that are there. */
int commits_save(struct commits *commits, const struct commits_gpu *gpu, struct hvd_error *err);

/* The copy of a part in the newest commit. There is one. */
void *commits_saved(const struct commits *commits, int part);

/* The copies of the newest commit stay as they are until they are returned, which any thread may do. At most
 * two commits are lent when another one is saved or comes from elsewhere, one of them the newest. */
struct commits_copy *commits_lend(struct commits *commits);
void commits_return(struct commits_copy *copy);

/* A commit that comes from elsewhere: write its parts to the memory of commits_spare, which has the copy
 * before the newest one until then; then make it the newest commit, with this number. */
void *commits_spare(struct commits *commits, int part);
void commits_take(struct commits *commits, int64_t number);

/* Forget what is newer than commit [number]. False if there is no such commit. */
bool commits_go_back(struct commits *commits, int64_t number);

/* Copy the newest commit to the parts. There is one. */
int commits_restore(const struct commits *commits, const struct commits_gpu *gpu, struct hvd_error *err);

#endif
