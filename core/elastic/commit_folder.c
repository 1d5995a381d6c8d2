/* commit_folder.c: the folder of --hvd-state-dir: the last two commits of each state, as files that only this
 * user may read. */
#include "config.h"
#include "elastic/commit_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/hash.h"

enum { NAME_BYTES = 64 };

static void slot_name(const struct commit_folder *folder, int slot, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "hvd-state.%d.%c", folder->state, 'a' + slot);
}

static void temporary_prefix(const struct commit_folder *folder, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "hvd-state.%d.new.", folder->state);
}

int commit_folder_init(struct commit_folder *folder, const char *path, int state, struct hvd_error *err)
{
    char here[PATH_MAX] = "";
    if (path[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return error_set_errno(err, "--hvd-state-dir=%.200s: the working directory has no name", path);
    folder->state = state;
    int length = snprintf(folder->path, sizeof(folder->path), "%s%s%s", here, here[0] != 0 ? "/" : "", path);
    if (length + NAME_BYTES < (int)sizeof(folder->path))
        return HVD_OK;
    folder->path[0] = 0;
    return error_set(err, HVD_ERR_INVALID, "--hvd-state-dir=%.200s...: the name is too long", path);
}

/* ---- Opening ------------------------------------------------------------------------------------ */

/* Open the folder. -1 with a sentence; if there is none, without, and ENOENT in errno. */
static int open_folder(const struct commit_folder *folder, struct hvd_error *err)
{
    struct stat about;
    if (lstat(folder->path, &about) == 0 && S_ISLNK(about.st_mode) && about.st_uid != geteuid() &&
        about.st_uid != 0) {
        error_set(err, HVD_ERR_INVALID, "the folder %.300s is a symbolic link of user %u; name another one",
                  folder->path, (unsigned)about.st_uid);
        errno = EPERM;
        return -1;
    }
    int fd = descriptors_open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 && errno != ENOENT)
        error_set_errno(err, "the folder %.300s cannot be opened", folder->path);
    return fd;
}

static int open_at(int folder_fd, const char *name, int flags)
{
    int fd = -1;
    do
        fd = openat(folder_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* A commit on the disk, of which only the beginning is read. */
struct opened {
    int fd; /* -1: there is none */
    int64_t identity;
    struct commit_head head;
};

static int64_t identify(const struct stat *about)
{
    uint64_t hash = hash_mix((uint64_t)about->st_ino, (uint64_t)about->st_size);
    hash = hash_mix(hash, (uint64_t)about->st_mtim.tv_sec);
    return (int64_t)(hash_mix(hash, (uint64_t)about->st_mtim.tv_nsec) >> 1);
}

static int check_file(struct opened *opened, const struct commit_piece *pieces, int count,
                      struct hvd_error *err)
{
    struct stat about;
    if (fstat(opened->fd, &about) < 0)
        return error_set_errno(err, "cannot be read");
    opened->identity = identify(&about);
    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid())
        return error_set(err, HVD_ERR_INVALID, "is no file of this user, but of user %u",
                         (unsigned)about.st_uid);
    return commit_file_check(opened->fd, pieces, count, &opened->head, err);
}

/* Write the sentence that begins with the name of the slot's file. */
static int name_file(const struct commit_folder *folder, int slot, int rc, const struct hvd_error *why,
                     struct hvd_error *err)
{
    char name[NAME_BYTES];
    slot_name(folder, slot, name);
    return error_set(err, rc, "%.200s/%s %s", folder->path, name, why->text);
}

/* Open the file of a slot, and check that it fits. The caller closes it, also after a failure. */
static int open_slot(const struct commit_folder *folder, int slot, const struct commit_piece *pieces,
                     int count, struct opened *opened, struct hvd_error *err)
{
    char name[NAME_BYTES];
    struct hvd_error why;
    *opened = (struct opened){.fd = -1};
    int folder_fd = open_folder(folder, err);
    if (folder_fd < 0)
        return errno == ENOENT ? HVD_OK : HVD_ERR_SYSTEM;
    slot_name(folder, slot, name);
    opened->fd = open_at(folder_fd, name, O_RDONLY);
    int rc = HVD_OK;
    if (opened->fd >= 0)
        rc = check_file(opened, pieces, count, &why);
    else if (errno != ENOENT)
        rc = error_set_errno(&why, "cannot be opened");
    close(folder_fd);
    return rc == HVD_OK ? HVD_OK : name_file(folder, slot, rc, &why, err);
}

/* ---- Reading ------------------------------------------------------------------------------------ */

void commit_folder_look(const struct commit_folder *folder, const struct commit_piece *pieces, int count,
                        struct commit_found found[COMMIT_SLOTS])
{
    for (int slot = 0; slot < COMMIT_SLOTS; slot++) {
        struct opened opened;
        found[slot].status = open_slot(folder, slot, pieces, count, &opened, &found[slot].why);
        found[slot].number = found[slot].status == HVD_OK ? opened.head.number : 0;
        found[slot].identity = opened.identity;
        descriptors_close(&opened.fd);
    }
}

int commit_found_newest(const struct commit_found found[COMMIT_SLOTS])
{
    int newest = -1;
    for (int slot = 0; slot < COMMIT_SLOTS; slot++)
        if (found[slot].number > (newest < 0 ? 0 : found[newest].number))
            newest = slot;
    return newest;
}

/* Read the contents behind the head. */
static int read_contents(const struct opened *opened, struct commit_piece *pieces, int count,
                         struct hvd_error *err)
{
    bool any = count == 1 && pieces[0].bytes < 0;
    if (any) {
        pieces[0].bytes = opened->head.bytes;
        pieces[0].data = malloc((size_t)opened->head.bytes + 1);
        if (pieces[0].data == NULL)
            return error_set_errno(err, "needs %" PRId64 " bytes of memory to be read", opened->head.bytes);
    }
    int rc = commit_file_read(opened->fd, &opened->head, pieces, count, err);
    if (any && rc != HVD_OK) {
        free(pieces[0].data);
        pieces[0].data = NULL;
    }
    return rc;
}

int commit_folder_read(const struct commit_folder *folder, int slot, struct commit_piece *pieces, int count,
                       struct hvd_error *err)
{
    struct opened opened;
    struct hvd_error why = {"is gone"};
    int rc = open_slot(folder, slot, pieces, count, &opened, err);
    if (rc == HVD_OK) {
        rc = opened.fd < 0 ? HVD_ERR_INVALID : read_contents(&opened, pieces, count, &why);
        rc = rc == HVD_OK ? HVD_OK : name_file(folder, slot, rc, &why, err);
    }
    descriptors_close(&opened.fd);
    return rc;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static int make_folder(const struct commit_folder *folder, int *fdp, struct hvd_error *err)
{
    *fdp = -1;
    if (mkdir(folder->path, 0700) < 0 && errno != EEXIST)
        return error_set_errno(err, "the folder %.300s cannot be made", folder->path);
    *fdp = open_folder(folder, err);
    if (*fdp < 0 && errno == ENOENT) /* a link to nowhere, or it was removed meanwhile */
        return error_set_errno(err, "the folder %.300s cannot be opened", folder->path);
    return *fdp < 0 ? HVD_ERR_SYSTEM : HVD_OK;
}

/* Write the temporary file, as far as the disk. 0, or -1 with errno. */
static int write_temporary(int folder_fd, const char *name, int64_t number, const struct commit_piece *pieces,
                           int count)
{
    int fd = open_at(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return -1;
    int rc = commit_file_write(fd, number, pieces, count);
    if (rc == 0)
        rc = fsync(fd);
    int saved_errno = errno;
    if (close(fd) < 0 && rc == 0) /* where a file system tells late, as over a network */
        return -1;
    errno = saved_errno;
    return rc;
}

int commit_folder_write(const struct commit_folder *folder, int slot, int64_t number,
                        const struct commit_piece *pieces, int count, struct hvd_error *err)
{
    char name[NAME_BYTES], temporary[NAME_BYTES];
    int folder_fd = -1;
    int rc = make_folder(folder, &folder_fd, err);
    if (rc != HVD_OK)
        return rc;
    slot_name(folder, slot, name);
    temporary_prefix(folder, temporary);
    size_t length = strlen(temporary);
    snprintf(temporary + length, sizeof(temporary) - length, "%08" PRIx32 "%08" PRIx32, randombytes_random(),
             randombytes_random());
    bool good = write_temporary(folder_fd, temporary, number, pieces, count) == 0 &&
                renameat(folder_fd, temporary, folder_fd, name) == 0;
    int saved_errno = errno;
    if (!good)
        unlinkat(folder_fd, temporary, 0);
    errno = saved_errno;
    if (!good || fsync(folder_fd) < 0)
        rc = error_set_errno(err, "a commit cannot be written into the folder %.300s", folder->path);
    close(folder_fd);
    return rc;
}

void commit_folder_tidy(const struct commit_folder *folder)
{
    char prefix[NAME_BYTES];
    int fd = open_folder(folder, NULL);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    temporary_prefix(folder, prefix);
    if (entries == NULL) {
        descriptors_close(&fd);
        return;
    }
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(fd, entry->d_name, 0);
    closedir(entries);
}
