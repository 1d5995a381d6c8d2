/* commits.c: the parts of a program's state, and copies of them: the last two commits. */
#include "config.h"
#include "elastic/commits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"

enum { ALIGNMENT = 64 }; /* of each part in a copy */

/* A commit, or the place for one. */
struct kept_copy {
    int64_t number; /* 0: it holds no commit */
    char *memory;
};

struct commits {
    struct commits_part *parts;
    int count;
    int64_t bytes; /* of a copy */
    bool reserved;
    struct kept_copy copies[2];
    int newest; /* the copy with the newest commit, if it holds one */
};

struct commits *commits_create(void)
{
    return calloc(1, sizeof(struct commits));
}

void commits_destroy(struct commits *commits)
{
    if (commits == NULL)
        return;
    free(commits->copies[0].memory);
    free(commits->copies[1].memory);
    free(commits->parts);
    free(commits);
}

/* ---- Parts -------------------------------------------------------------------------------------- */

static int check_name(const char *name, struct hvd_error *err)
{
    if (name == NULL || name[0] == 0)
        return error_set(err, HVD_ERR_INVALID,
                         "hvd_state_add: a part needs a name: the same on all ranks, 1 to %d bytes",
                         HVD_MAX_NAME);
    if (strnlen(name, HVD_MAX_NAME + 1) > HVD_MAX_NAME)
        return error_set(err, HVD_ERR_INVALID, "hvd_state_add: the name \"%.40s...\" is longer than %d bytes",
                         name, HVD_MAX_NAME);
    for (int i = 0; name[i] != 0; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return error_set(err, HVD_ERR_INVALID,
                             "hvd_state_add: byte %d of the name is the control character %d; use printable "
                             "characters",
                             i, name[i]);
    return HVD_OK;
}

static int check_part(const struct commits *commits, const char *name, const void *data, int64_t bytes,
                      struct hvd_error *err)
{
    int rc = check_name(name, err);
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

int commits_reserve(struct commits *commits, struct hvd_error *err)
{
    if (commits->reserved)
        return HVD_OK;
    for (int i = 0; i < 2; i++) {
        if (commits->copies[i].memory == NULL)
            commits->copies[i].memory = malloc((size_t)commits->bytes + 1);
        if (commits->copies[i].memory == NULL) {
            free(commits->copies[0].memory);
            commits->copies[0].memory = NULL;
            return error_set(err, HVD_ERR_NO_MEMORY,
                             "no memory for two copies of the state, of %" PRId64 " bytes each",
                             commits->bytes);
        }
    }
    commits->reserved = true;
    return HVD_OK;
}

int64_t commits_newest(const struct commits *commits)
{
    return commits->copies[commits->newest].number;
}

void *commits_spare(struct commits *commits, int part)
{
    struct kept_copy *spare = &commits->copies[1 - commits->newest];
    spare->number = 0; /* half of it may be another commit's from now on */
    return spare->memory + commits->parts[part].offset;
}

void commits_take(struct commits *commits, int64_t number)
{
    commits->newest = 1 - commits->newest;
    commits->copies[commits->newest].number = number;
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

bool commits_go_back(struct commits *commits, int64_t number)
{
    struct kept_copy *newest = &commits->copies[commits->newest];
    if (newest->number == number)
        return true;
    if (commits->copies[1 - commits->newest].number != number)
        return false;
    newest->number = 0;
    commits->newest = 1 - commits->newest;
    return true;
}

int commits_restore(const struct commits *commits, const struct commits_gpu *gpu, struct hvd_error *err)
{
    const char *memory = commits->copies[commits->newest].memory;
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < commits->count; i++)
        rc = copy_part(&commits->parts[i], commits->parts[i].data, memory + commits->parts[i].offset, gpu,
                       err);
    return rc;
}
