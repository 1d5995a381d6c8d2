/* node_memory.c: the layout of the memory that the ranks of a node share, and the checks before it is used.
 */
#include "config.h"
#include "node/node_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/round_up.h"
#include "node/shared_file.h"

enum node_abort_state { ABORT_NONE, ABORT_WRITING, ABORT_PUBLISHED };

#define ALIGN_BYTES ((size_t)2 << 20)

/* Where the arena begins. */
static size_t arena_offset(int member_count)
{
    size_t bytes = sizeof(struct node_memory) + (size_t)member_count * sizeof(struct node_member) +
                   (size_t)member_count * sizeof(int32_t);
    return (size_t)round_up(bytes, ALIGN_BYTES);
}

size_t node_memory_bytes(int member_count)
{
    return arena_offset(member_count) + (size_t)member_count * NODE_MEMORY_ARENA_BYTES;
}

int32_t *node_memory_ranks(struct node_memory *memory, int member_count)
{
    return (int32_t *)&memory->members[member_count];
}

void *node_memory_arena(struct node_memory *memory, int member_count)
{
    return (char *)memory + arena_offset(member_count);
}

static int node_memory_map(int fd, int member_count, struct node_memory **memoryp, struct hvd_error *err)
{
    size_t bytes = node_memory_bytes(member_count);
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
    /* A core dump would hold all of the arena, used or not. Where madvise fails, dumps are only larger. */
    madvise(node_memory_arena(memory, member_count), (size_t)member_count * NODE_MEMORY_ARENA_BYTES,
            MADV_DONTDUMP);
    *memoryp = memory;
    return HVD_OK;
}

int node_memory_create(int member_count, uint32_t epoch, struct node_memory **memoryp, int *fdp,
                       struct hvd_error *err)
{
    struct node_memory *memory = NULL;
    int fd = -1;
    int status = shared_file_create(NODE_MEMORY_NAME, node_memory_bytes(member_count), &fd, err);
    if (status != HVD_OK)
        return status;
    status = node_memory_map(fd, member_count, &memory, err);
    if (status != HVD_OK) {
        close(fd);
        return status;
    }
    memory->magic = NODE_MEMORY_MAGIC;
    memory->version = NODE_MEMORY_VERSION;
    memory->epoch = epoch;
    memory->member_count = (uint32_t)member_count;
    memory->member_bytes = sizeof(struct node_member);
    *memoryp = memory;
    *fdp = fd;
    return HVD_OK;
}

int node_memory_attach(int fd, int member_count, uint32_t epoch, struct node_memory **memoryp,
                       struct hvd_error *err)
{
    int64_t bytes = 0;
    int status = shared_file_size(fd, &bytes, err);
    if (status != HVD_OK)
        return status;
    if (bytes != (int64_t)node_memory_bytes(member_count))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the memory that this node's first rank made has %lld bytes, expected %zu: all "
                         "ranks need the same libhvd",
                         (long long)bytes, node_memory_bytes(member_count));
    struct node_memory *memory = NULL;
    status = node_memory_map(fd, member_count, &memory, err);
    if (status != HVD_OK)
        return status;
    if (memory->magic != NODE_MEMORY_MAGIC || memory->version != NODE_MEMORY_VERSION ||
        memory->epoch != epoch || memory->member_count != (uint32_t)member_count ||
        memory->member_bytes != sizeof(struct node_member)) {
        node_memory_detach(memory, member_count);
        return error_set(
            err, HVD_ERR_SYSTEM,
            "the memory that this node's first rank made is laid out for another libhvd or start of the job");
    }
    *memoryp = memory;
    return HVD_OK;
}

void node_memory_detach(struct node_memory *memory, int member_count)
{
    if (memory != NULL)
        munmap(memory, node_memory_bytes(member_count));
}

bool node_memory_publish_abort(struct node_memory *memory, const struct frame_abort *abort)
{
    uint32_t none = ABORT_NONE;
    if (!atomic_compare_exchange_strong(&memory->abort.state, &none, ABORT_WRITING))
        return false;
    memory->abort.length = (uint32_t)frame_abort_encode(memory->abort.payload, abort);
    atomic_store(&memory->abort.state, ABORT_PUBLISHED);
    return true;
}

bool node_memory_published_abort(struct node_memory *memory, int size, struct frame_abort *abort)
{
    if (atomic_load(&memory->abort.state) != ABORT_PUBLISHED)
        return false;
    /* Copy first, then check the copy: other ranks can write there. */
    unsigned char payload[FRAME_ABORT_BYTES];
    uint32_t length = memory->abort.length;
    if (length > sizeof(payload))
        return false;
    memcpy(payload, memory->abort.payload, length);
    return frame_abort_decode(payload, length, size, abort, NULL) == HVD_OK;
}
