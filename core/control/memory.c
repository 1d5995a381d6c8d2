/* memory.c: what the ranks of a node share: where everything is, and who may trust it. */
#include "config.h"
#include "control/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

enum memory_abort_state { ABORT_NONE, ABORT_WRITING, ABORT_THERE };

#define ALIGN_BYTES ((size_t)2 << 20)

/* Where the arena begins. */
static size_t arena_offset(int slot_count)
{
    size_t bytes = sizeof(struct memory) + (size_t)slot_count * sizeof(struct memory_slot);
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

size_t memory_bytes(int slot_count)
{
    return arena_offset(slot_count) + (size_t)slot_count * MEMORY_ARENA_BYTES;
}

void *memory_arena(struct memory *memory, int slot_count)
{
    return (char *)memory + arena_offset(slot_count);
}

static int memory_map(int fd, int slot_count, struct memory **memoryp, struct hvd_error *err)
{
    size_t bytes = memory_bytes(slot_count);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, "cannot map %zu bytes that the ranks of this node share", bytes);
    /* A forked child must not keep the job's memory, nor write into it. */
    if (madvise(memory, bytes, MADV_DONTFORK) != 0) {
        int status = error_set_errno(
            err, "cannot keep the memory that the ranks of this node share from forked children");
        munmap(memory, bytes);
        return status;
    }
    /* A dump of the core would hold all of the arena, used or not: it is left out where the kernel can. */
    madvise(memory_arena(memory, slot_count), (size_t)slot_count * MEMORY_ARENA_BYTES, MADV_DONTDUMP);
    *memoryp = memory;
    return HVD_OK;
}

/* Never executable where the kernel knows how to say so; some sites insist. */
static int memory_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("hvd-node", flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create("hvd-node", flags) : fd;
}

/* A file beyond the limit is SIGXFSZ, before it is an error. */
static int check_limit(size_t bytes, struct hvd_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_SYSTEM,
        "the ranks of this node share %zu bytes, more than a file may have here (%llu bytes); raise "
        "`ulimit -f`",
        bytes, (unsigned long long)limit.rlim_cur);
}

int memory_create(int slot_count, uint32_t epoch, struct memory **memoryp, int *fdp, struct hvd_error *err)
{
    struct memory *memory = NULL;
    int status = check_limit(memory_bytes(slot_count), err);
    if (status != HVD_OK)
        return status;
    int fd = memory_file();
    if (fd < 0)
        return error_set_errno(err, "cannot make memory that the ranks of this node share (memfd_create)");
    if (ftruncate(fd, (off_t)memory_bytes(slot_count)) != 0 ||
        fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) != 0) {
        status = error_set_errno(err, "cannot size and seal %zu bytes that the ranks of this node share",
                                 memory_bytes(slot_count));
        goto fail;
    }
    status = memory_map(fd, slot_count, &memory, err);
    if (status != HVD_OK)
        goto fail;
    memory->magic = MEMORY_MAGIC;
    memory->version = MEMORY_VERSION;
    memory->epoch = epoch;
    memory->slot_count = (uint32_t)slot_count;
    memory->slot_bytes = sizeof(struct memory_slot);
    *memoryp = memory;
    *fdp = fd;
    return HVD_OK;

fail:
    close(fd);
    return status;
}

int memory_attach(int fd, int slot_count, uint32_t epoch, struct memory **memoryp, struct hvd_error *err)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0)
        return error_set_errno(err, "cannot look at the memory that this node's first rank made");
    if ((seals & SIZE_SEALS) != SIZE_SEALS)
        return error_set(
            err, HVD_ERR_SYSTEM,
            "the memory that this node's first rank made is not sealed (0x%x), so it could vanish",
            (unsigned)seals);
    if (file.st_size != (off_t)memory_bytes(slot_count))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the memory that this node's first rank made has %lld bytes, expected %zu: all "
                         "ranks need the same libhvd",
                         (long long)file.st_size, memory_bytes(slot_count));
    struct memory *memory = NULL;
    int status = memory_map(fd, slot_count, &memory, err);
    if (status != HVD_OK)
        return status;
    if (memory->magic != MEMORY_MAGIC || memory->version != MEMORY_VERSION || memory->epoch != epoch ||
        memory->slot_count != (uint32_t)slot_count || memory->slot_bytes != sizeof(struct memory_slot)) {
        memory_detach(memory, slot_count);
        return error_set(
            err, HVD_ERR_SYSTEM,
            "the memory that this node's first rank made is laid out for another libhvd or start of the job");
    }
    *memoryp = memory;
    return HVD_OK;
}

void memory_detach(struct memory *memory, int slot_count)
{
    if (memory != NULL)
        munmap(memory, memory_bytes(slot_count));
}

void memory_publish_abort(struct memory *memory, const struct frame_abort *abort)
{
    uint32_t none = ABORT_NONE;
    if (!atomic_compare_exchange_strong(&memory->abort.state, &none, ABORT_WRITING))
        return;
    memory->abort.length = (uint32_t)frame_abort_encode(memory->abort.payload, abort);
    atomic_store(&memory->abort.state, ABORT_THERE);
}

bool memory_published_abort(struct memory *memory, int size, struct frame_abort *abort)
{
    if (atomic_load(&memory->abort.state) != ABORT_THERE)
        return false;
    /* Copied before it is checked: others can write there. */
    unsigned char payload[FRAME_ABORT_BYTES];
    uint32_t length = memory->abort.length;
    if (length > sizeof(payload))
        return false;
    memcpy(payload, memory->abort.payload, length);
    return frame_abort_decode(payload, length, size, abort, NULL) == HVD_OK;
}
