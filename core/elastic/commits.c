/* commits.c: the parts of a program's state, and copies of them: the last two commits. */
#include "config.h"
#include "elastic/commits.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"

enum { ALIGNMENT = 64 }; /* of each part in a copy */

/* A commit, or the place for one. */
struct commits_copy {
    int64_t number; /* 0: it holds no commit */
    char *memory;
    _Atomic int loans;
};

struct commits {
    struct commits_part *parts;
    int count;
    int64_t bytes; /* of a copy */
    bool reserved;
    struct commits_copy copies[COMMITS_COPIES_MAX];
    int copy_count;
    int newest; /* the copy with the newest commit, if it holds one */
    int spare;  /* the one that is being written; -1: none */
};

struct commits *commits_create(void)
{
    struct commits *commits = calloc(1, sizeof(*commits));
    if (commits != NULL)
        commits->spare = -1;
    return commits;
}

static void free_copies(struct commits *commits)
{
    while (commits->copy_count > 0)
        free(commits->copies[--commits->copy_count].memory);
}

void commits_destroy(struct commits *commits)
{
    if (commits == NULL)
        return;
    free_copies(commits);
    free(commits->parts);
    free(commits);
}

/* ---- Parts -------------------------------------------------------------------------------------- */

int commits_check_name(const char *call, const char *name, struct hvd_error *err)
{
    if (name == NULL || name[0] == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%s: a part needs a name: the same on all ranks, 1 to %d bytes", call, HVD_MAX_NAME);
    if (strnlen(name, HVD_MAX_NAME + 1) > HVD_MAX_NAME)
        return error_set(err, HVD_ERR_INVALID, "%s: the name \"%.40s...\" is longer than %d bytes", call,
                         name, HVD_MAX_NAME);
    for (int i = 0; name[i] != 0; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return error_set(err, HVD_ERR_INVALID,
                             "%s: byte %d of the name is the control character %d; use printable characters",
                             call, i, name[i]);
    return HVD_OK;
}

static int check_part(const struct commits *commits, const char *name, const void *data, int64_t bytes,
                      struct hvd_error *err)
{
    int rc = commits_check_name("hvd_state_add", name, err);
    if (rc != HVD_OK)
        return rc;
    if (bytes < 0 || bytes > BYTES_MAX)
        return error_set(err, HVD_ERR_INVALID,
                         "hvd_state_add: \"%s\" has %" PRId64 " bytes; expected 0 to 2^47", name, bytes);
    if (data == NULL && bytes > 0)
        return error_set(err, HVD_ERR_INVALID,
                         "hvd_state_add: \"%s\" has %" PRId64 " bytes, but data is NULL", name, bytes);
    if (commits->reserved)
        return error_set(
            err, HVD_ERR_STATE,
            "hvd_state_add: \"%s\" comes after the first hvd_state_sync; add all parts before it", name);
    for (int i = 0; i < commits->count; i++)
        if (strcmp(commits->parts[i].name, name) == 0)
            return error_set(
                err, HVD_ERR_DUPLICATE,
                "hvd_state_add: the state has a part \"%s\" already; give each part its own name", name);
    return HVD_OK;
}

int commits_add(struct commits *commits, const char *name, void *data, int64_t bytes, struct hvd_error *err)
{
    int64_t end = 0;
    int rc = check_part(commits, name, data, bytes, err);
    if (rc != HVD_OK)
        return rc;
    struct commits_part *parts = NULL;
    if (!__builtin_add_overflow(commits->bytes, bytes + ALIGNMENT - 1, &end))
        parts = realloc(commits->parts, ((size_t)commits->count + 1) * sizeof(*parts));
    if (parts == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "hvd_state_add: no memory for part \"%s\"", name);
    commits->parts = parts;
    struct commits_part *part = &parts[commits->count++];
    *part = (struct commits_part){.data = data, .bytes = bytes, .offset = commits->bytes};
    memcpy(part->name, name, strlen(name) + 1);
    commits->bytes = end / ALIGNMENT * ALIGNMENT;
    return HVD_OK;
}

int commits_count(const struct commits *commits)
{
    return commits->count;
}

const struct commits_part *commits_part(const struct commits *commits, int index)
{
    return &commits->parts[index];
}

void commits_place(struct commits *commits, int index, bool on_gpu)
{
    commits->parts[index].on_gpu = on_gpu;
}

uint64_t commits_fingerprint(const struct commits *commits)
{
    uint64_t hash = (uint64_t)commits->count;
    for (int i = 0; i < commits->count; i++) {
        const struct commits_part *part = &commits->parts[i];
        hash = hash_mix(hash, hash_bytes(part->name, strlen(part->name)));
        hash = hash_mix(hash, (uint64_t)part->bytes);
    }
    return hash;
}

/* ---- Copies ------------------------------------------------------------------------------------- */

int commits_reserve(struct commits *commits, int copies, struct hvd_error *err)
{
    while (commits->copy_count < copies) {
        char *memory = malloc((size_t)commits->bytes + 1);
        if (memory == NULL) {
            if (!commits->reserved)
                free_copies(commits);
            return error_set(err, HVD_ERR_NO_MEMORY,
                             "no memory for %d copies of the state, of %" PRId64 " bytes each", copies,
                             commits->bytes);
        }
        commits->copies[commits->copy_count++].memory = memory;
    }
    commits->reserved = true;
    return HVD_OK;
}

int64_t commits_newest(const struct commits *commits)
{
    return commits->copies[commits->newest].number;
}

/* Of the copies that nobody reads, but for the newest commit, the one with the oldest. */
static int choose_spare(const struct commits *commits)
{
    int spare = -1;
    for (int i = 0; i < commits->copy_count; i++) {
        const struct commits_copy *copy = &commits->copies[i];
        if (i == commits->newest || atomic_load_explicit(&copy->loans, memory_order_acquire) > 0)
            continue;
        if (spare < 0 || copy->number < commits->copies[spare].number)
            spare = i;
    }
    return spare;
}

void *commits_spare(struct commits *commits, int part)
{
    if (commits->spare < 0)
        commits->spare = choose_spare(commits);
    struct commits_copy *spare = &commits->copies[commits->spare];
    spare->number = 0; /* half of it may be another commit's from now on */
    return spare->memory + commits->parts[part].offset;
}

void commits_take(struct commits *commits, int64_t number)
{
    commits->newest =
        commits->spare < 0 ? choose_spare(commits) : commits->spare; /* -1: there are no parts */
    commits->copies[commits->newest].number = number;
    commits->spare = -1;
}

struct commits_copy *commits_lend(struct commits *commits)
{
    struct commits_copy *copy = &commits->copies[commits->newest];
    atomic_fetch_add_explicit(&copy->loans, 1, memory_order_relaxed);
    return copy;
}

void commits_return(struct commits_copy *copy)
{
    atomic_fetch_sub_explicit(&copy->loans, 1, memory_order_release);
}

static int copy_part(const struct commits_part *part, void *to, const void *from,
                     const struct commits_gpu *gpu, struct hvd_error *err)
{
    if (part->bytes == 0)
        return HVD_OK;
    if (part->on_gpu)
        return gpu->copy(gpu->arg, to, from, part->bytes, err);
    memcpy(to, from, (size_t)part->bytes);
    return HVD_OK;
}

int commits_save(struct commits *commits, const struct commits_gpu *gpu, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < commits->count; i++)
        rc = copy_part(&commits->parts[i], commits_spare(commits, i), commits->parts[i].data, gpu, err);
    if (rc == HVD_OK)
        commits_take(commits, commits_newest(commits) + 1);
    return rc;
}

void *commits_saved(const struct commits *commits, int part)
{
    return commits->copies[commits->newest].memory + commits->parts[part].offset;
}

bool commits_go_back(struct commits *commits, int64_t number)
{
    int found = -1;
    for (int i = 0; i < commits->copy_count; i++)
        if (commits->copies[i].number == number)
            found = i;
    if (found < 0)
        return false;
    for (int i = 0; i < commits->copy_count; i++)
        if (commits->copies[i].number > number)
            commits->copies[i].number = 0;
    commits->newest = found;
    commits->spare = -1;
    return true;
}

int commits_restore(const struct commits *commits, const struct commits_gpu *gpu, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < commits->count; i++)
        rc = copy_part(&commits->parts[i], commits->parts[i].data, commits_saved(commits, i), gpu, err);
    return rc;
}
