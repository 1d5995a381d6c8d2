/* commit_writer.c: a thread that writes commits to the folder of --hvd-state-dir while training goes on. */
#include "config.h"
#include "elastic/commit_writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stack.h"

/* A commit that was handed over. */
struct handed {
    int64_t number; /* 0: none */
    struct commit_piece *pieces;
    int count;
    commit_release_f *release;
    void *arg;
};

struct commit_writer {
    struct commit_folder folder;
    pid_t owner; /* a forked child has no thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t handed_over, written;
    bool ends;
    struct handed waiting;
    bool writes;      /* the thread has a commit */
    bool fails, told; /* the last commit could not be written; the program knows why */
    struct hvd_error problem;
    /* the thread's */
    int last_slot;
    int64_t last_number; /* on disk */
};

/* ---- The thread --------------------------------------------------------------------------------- */

/* NULL without memory. */
static struct commit_piece *copy_pieces(const struct commit_piece *pieces, int count)
{
    size_t bytes = (size_t)count * sizeof(*pieces);
    struct commit_piece *copy = malloc(bytes);
    return copy == NULL ? NULL : memcpy(copy, pieces, bytes);
}

/* Find the file with the newest commit, which the next one must not replace, unless it is known, and its
 * number. Earlier commits may differ in size. */
static int find_last(struct commit_writer *writer, const struct handed *commit, struct hvd_error *err)
{
    struct commit_found found[COMMIT_SLOTS];
    struct commit_piece *pieces = copy_pieces(commit->pieces, commit->count);
    if (pieces == NULL)
        return error_set_errno(err, "no memory for the names of %d parts", commit->count);
    for (int i = 0; i < commit->count; i++)
        pieces[i].bytes = -1;
    commit_folder_look(&writer->folder, pieces, commit->count, found);
    free(pieces);
    if (writer->last_slot < 0)
        writer->last_slot = commit_found_newest(found);
    for (int slot = 0; slot < COMMIT_SLOTS; slot++)
        if (found[slot].number > writer->last_number)
            writer->last_number = found[slot].number;
    return HVD_OK;
}

static int write_commit(struct commit_writer *writer, const struct handed *commit, struct hvd_error *err)
{
    int rc = writer->last_number == 0 ? find_last(writer, commit, err) : HVD_OK;
    if (rc != HVD_OK)
        return rc;
    int slot = writer->last_slot == 0 ? 1 : 0;
    int64_t number = commit->number > writer->last_number ? commit->number : writer->last_number + 1;
    rc = commit_folder_write(&writer->folder, slot, number, commit->pieces, commit->count, err);
    if (rc == HVD_OK) {
        writer->last_slot = slot;
        writer->last_number = number;
    }
    return rc;
}

static void note_locked(struct commit_writer *writer, int rc, const struct hvd_error *why)
{
    if (rc != HVD_OK && !writer->fails) {
        writer->problem = *why;
        writer->told = false;
    }
    writer->fails = rc != HVD_OK;
}

static void give_back(struct handed *commit)
{
    if (commit->number == 0)
        return;
    free(commit->pieces);
    commit->release(commit->arg);
}

/* Wait for a commit. False: none will come. */
static bool take_locked(struct commit_writer *writer, struct handed *commit)
{
    while (writer->waiting.number == 0 && !writer->ends)
        pthread_cond_wait(&writer->handed_over, &writer->lock);
    *commit = writer->waiting;
    writer->waiting.number = 0;
    writer->writes = commit->number != 0;
    return writer->writes;
}

static void *write_commits(void *arg)
{
    struct commit_writer *writer = arg;
    struct handed commit;
    struct hvd_error why;
    pthread_mutex_lock(&writer->lock);
    while (take_locked(writer, &commit)) {
        pthread_mutex_unlock(&writer->lock);
        int rc = write_commit(writer, &commit, &why);
        give_back(&commit);
        pthread_mutex_lock(&writer->lock);
        note_locked(writer, rc, &why);
        writer->writes = false;
        pthread_cond_broadcast(&writer->written);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* ---- The caller --------------------------------------------------------------------------------- */

static void free_writer(struct commit_writer *writer)
{
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->handed_over);
    pthread_cond_destroy(&writer->written);
    free(writer);
}

int commit_writer_create(struct commit_writer **writerp, const struct commit_folder *folder, int last,
                         struct hvd_error *err)
{
    pthread_condattr_t attributes;
    struct commit_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return error_set_errno(err, "no memory for %zu bytes", sizeof(*writer));
    writer->folder = *folder;
    writer->owner = getpid();
    writer->last_slot = last;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->handed_over, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->written, &attributes);
    pthread_condattr_destroy(&attributes);
    int rc = stack_create_thread(&writer->thread, write_commits, writer);
    if (rc != 0) {
        free_writer(writer);
        return error_set(err, HVD_ERR_NO_MEMORY,
                         "cannot start the thread that writes commits: pthread_create returned %d", rc);
    }
    *writerp = writer;
    return HVD_OK;
}

void commit_writer_destroy(struct commit_writer *writer)
{
    if (writer == NULL || writer->owner != getpid())
        return;
    pthread_mutex_lock(&writer->lock);
    writer->ends = true;
    pthread_cond_signal(&writer->handed_over);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    free_writer(writer);
}

void commit_writer_hand(struct commit_writer *writer, int64_t number, const struct commit_piece *pieces,
                        int count, commit_release_f *release, void *arg)
{
    struct hvd_error why;
    struct handed commit = {.number = number, .count = count, .release = release, .arg = arg};
    commit.pieces = copy_pieces(pieces, count);
    bool taken = commit.pieces != NULL && writer->owner == getpid();
    pthread_mutex_lock(&writer->lock);
    struct handed before = writer->waiting;
    writer->waiting = taken ? commit : (struct handed){.number = 0};
    if (!taken)
        note_locked(writer, error_set_errno(&why, "no memory for the names of %d parts", count), &why);
    pthread_cond_signal(&writer->handed_over);
    pthread_mutex_unlock(&writer->lock);
    give_back(&before); /* in any case: the caller saves the next commit in its memory */
    if (!taken)
        give_back(&commit);
}

bool commit_writer_problem(struct commit_writer *writer, struct hvd_error *problem)
{
    if (writer->owner != getpid())
        return false;
    pthread_mutex_lock(&writer->lock);
    bool is_new = writer->problem.text[0] != 0 && !writer->told;
    writer->told = true;
    *problem = writer->problem;
    pthread_mutex_unlock(&writer->lock);
    return is_new;
}

bool commit_writer_wait(struct commit_writer *writer, int wait_ms)
{
    int64_t until_us = clock_us() + wait_ms * INT64_C(1000);
    const struct timespec until = clock_timespec(until_us);
    int rc = 0;
    if (writer->owner != getpid())
        return true;
    pthread_mutex_lock(&writer->lock);
    while (rc == 0 && (writer->waiting.number != 0 || writer->writes))
        rc = pthread_cond_timedwait(&writer->written, &writer->lock, &until);
    bool done = writer->waiting.number == 0 && !writer->writes;
    pthread_mutex_unlock(&writer->lock);
    return done;
}
