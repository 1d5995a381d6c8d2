/* node_memory.c: what the ranks of a node share: where everything is, and who may trust it. */
#include "config.h"
#include "node/node_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node/shared_file.h"

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

int memory_create(int slot_count, uint32_t epoch, struct memory **memoryp, int *fdp, struct hvd_error *err)
{
    struct memory *memory = NULL;
    int fd = -1;
    int status = shared_file_make("hvd-node", memory_bytes(slot_count), &fd, err);
    if (status != HVD_OK)
        return status;
    status = memory_map(fd, slot_count, &memory, err);
    if (status != HVD_OK) {
        close(fd);
        return status;
    }
    memory->magic = MEMORY_MAGIC;
    memory->version = MEMORY_VERSION;
    memory->epoch = epoch;
    memory->slot_count = (uint32_t)slot_count;
    memory->slot_bytes = sizeof(struct memory_slot);
    *memoryp = memory;
    *fdp = fd;
    return HVD_OK;
}

int memory_attach(int fd, int slot_count, uint32_t epoch, struct memory **memoryp, struct hvd_error *err)
{
    int64_t bytes = 0;
    int status = shared_file_look(fd, &bytes, err);
    if (status != HVD_OK)
        return status;
    if (bytes != (int64_t)memory_bytes(slot_count))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the memory that this node's first rank made has %lld bytes, expected %zu: all "
                         "ranks need the same libhvd",
                         (long long)bytes, memory_bytes(slot_count));
    struct memory *memory = NULL;
    status = memory_map(fd, slot_count, &memory, err);
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
