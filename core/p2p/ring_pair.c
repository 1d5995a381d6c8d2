/* ring_pair.c: two rings in the memory that the ranks of a node share, in place of a socket. */
#include "config.h"
#include "p2p/ring_pair.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* Pairs lie in blocks, each a region of the arena, which has few of them. Ranks that send to more ranks than
 * this do so over connections. */
#define BLOCK_PAIRS     8
#define BLOCKS          8
#define ACQUIRE_US      10000 /* for a lock that is held for microseconds */
#define CLAIM_OF_BLOCKS (7 * ARENA_SET_STRIDE)

/* The other end gets what was written, or its room back, after so many bytes: both ends work at once. */
#define PIECE_BYTES ((size_t)BYTE_RING_BYTES / 4)

/* ---- Beginning and end ---- */

void ring_pairs_init(struct ring_pairs *pairs, const struct arena *arena, int epoll_fd)
{
    *pairs = (struct ring_pairs){.arena = *arena, .epoll_fd = epoll_fd, .doorbell = {.fd = -1}};
}

void ring_pairs_close(struct ring_pairs *pairs)
{
    if (pairs->doorbell_opened)
        doorbell_close(&pairs->doorbell);
    pairs->doorbell_opened = false;
}

static int open_doorbell(struct ring_pairs *pairs, struct hvd_error *err)
{
    if (pairs->doorbell_opened)
        return HVD_OK;
    int rc = doorbell_open(&pairs->doorbell, pairs->epoll_fd, err);
    pairs->doorbell_opened = rc == HVD_OK;
    if (rc == HVD_OK)
        randombytes_buf(pairs->token, sizeof(pairs->token));
    return rc;
}

/* The arena gives a region to whoever asks for its number. Nobody else asks for those of this rank. */
static int open_block(struct ring_pairs *pairs, int rank, struct hvd_error *err)
{
    void *region = NULL;
    struct arena_request request = {.users = 1, .bytes = BLOCK_PAIRS * sizeof(struct ring_pair_memory)};
    if (pairs->made == BLOCKS * BLOCK_PAIRS || rank >= ARENA_SET_STRIDE / BLOCKS)
        return error_set(err, HVD_ERR_UNSUPPORTED, "this rank has made as many as it may");
    request.set = CLAIM_OF_BLOCKS + rank * BLOCKS + pairs->made / BLOCK_PAIRS;
    int rc = arena_acquire(&pairs->arena, &request, clock_us() + ACQUIRE_US, &region, err);
    pairs->block = region;
    return rc;
}

static void open_view(struct ring_pairs *pairs, struct ring_pair_memory *memory, int own,
                      struct ring_pair *pair)
{
    *pair = (struct ring_pair){.memory = memory, .own = own, .peer = RING_ENDS - 1 - own, .pairs = pairs};
    pair->out.ring = &memory->rings[own];
    pair->in.ring = &memory->rings[pair->peer];
    memcpy(memory->ends[own].doorbell, pairs->doorbell.name, DOORBELL_NAME_BYTES);
}

/* The region may hold what an earlier one left there. */
static void reset(struct ring_pair_memory *memory)
{
    for (int end = 0; end < RING_ENDS; end++) {
        memory->ends[end] = (struct ring_pair_end){0};
        byte_ring_reset(&memory->rings[end]);
    }
    memory->withdrawn = memory->reads = 0;
}

int ring_pair_make(struct ring_pairs *pairs, int rank, struct ring_pair *pair, uint64_t *atp,
                   struct hvd_error *err)
{
    int place = pairs->made % BLOCK_PAIRS;
    int rc = open_doorbell(pairs, err);
    if (rc == HVD_OK && place == 0)
        rc = open_block(pairs, rank, err);
    if (rc != HVD_OK)
        return rc;
    struct ring_pair_memory *memory = pairs->block + place;
    reset(memory);
    memory->source = (struct ring_source){.pid = (int32_t)getpid(), .token_address = (uintptr_t)pairs->token};
    memcpy(memory->source.token, pairs->token, sizeof(pairs->token));
    open_view(pairs, memory, RING_SENDER, pair);
    pairs->made++;
    *atp = (uint64_t)((char *)memory - (char *)pairs->arena.base);
    return HVD_OK;
}

int ring_pair_join(struct ring_pairs *pairs, uint64_t at, struct ring_pair *pair, struct hvd_error *err)
{
    size_t bytes = pairs->arena.base == NULL ? 0 : pairs->arena.bytes;
    if (bytes < sizeof(struct ring_pair_memory) || at > bytes - sizeof(struct ring_pair_memory) ||
        at % CACHE_LINE_BYTES != 0)
        return error_set(err, HVD_ERR_SYSTEM, "a place for rings where none can be");
    int rc = open_doorbell(pairs, err);
    if (rc != HVD_OK)
        return rc;
    struct ring_pair_memory *memory = (void *)((char *)pairs->arena.base + at);
    open_view(pairs, memory, RING_RECEIVER, pair);
    pair->source = *(volatile struct ring_source *)&memory->source;
    if (!ring_pair_read(pair, NULL, 0, 0))
        pair->source.pid = 0;
    return HVD_OK;
}

/* ---- Waking ---- */

void ring_pair_arm(struct ring_pair *pair, enum ring_wish wish)
{
    _Atomic uint32_t *own = &pair->memory->ends[pair->own].wish;
    if (pair->wish == wish && atomic_load(own) == wish)
        return;
    pair->pairs->rung |= atomic_exchange(own, wish) == RING_RUNG;
    pair->wish = wish;
}

/* The kernel queues only a few rings. */
void ring_pairs_clear(struct ring_pairs *pairs)
{
    if (pairs->rung)
        doorbell_clear(&pairs->doorbell);
    pairs->rung = false;
}

/* There is [news] for the other end. */
static void wake(const struct ring_pair *pair, enum ring_wish news)
{
    struct ring_pair_end *end = &pair->memory->ends[pair->peer];
    unsigned char name[DOORBELL_NAME_BYTES];
    if (atomic_load(&end->wish) < (uint32_t)news || atomic_exchange(&end->wish, RING_RUNG) == RING_RUNG)
        return;
    memcpy(name, end->doorbell, sizeof(name));
    doorbell_ring(&pair->pairs->doorbell, name);
    pair->pairs->has_rung = true;
}

/* ---- Bytes ---- */

/* Write of [part] what there is room for, piece by piece; -1: the position of the other end is impossible. */
static ssize_t write_part(struct ring_pair *pair, const struct iovec *part)
{
    size_t done = 0;
    while (done < part->iov_len) {
        size_t left = part->iov_len - done;
        ssize_t count = byte_ring_write(&pair->out, (const char *)part->iov_base + done,
                                        left < PIECE_BYTES ? left : PIECE_BYTES);
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        done += (size_t)count;
        if (done < part->iov_len)
            byte_ring_commit(&pair->out);
    }
    return (ssize_t)done;
}

/* The same for all parts. 0: there is no room. */
static ssize_t write_parts(struct ring_pair *pair, const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++) {
        ssize_t count = write_part(pair, &parts[i]);
        if (count < 0)
            return -1;
        total += (size_t)count;
        if ((size_t)count < parts[i].iov_len)
            break;
    }
    return (ssize_t)total;
}

ssize_t ring_pair_send(struct ring_pair *pair, const struct iovec *parts, int part_count)
{
    ssize_t total = write_parts(pair, parts, part_count);
    if (total == 0) { /* a rank that sleeps without a wish for news must make room */
        byte_ring_request_room(&pair->out);
        wake(pair, RING_ROOM);
        total = write_parts(pair, parts, part_count);
    }
    if (total <= 0) {
        errno = total < 0 ? EPROTO : EAGAIN;
        return -1;
    }
    byte_ring_commit(&pair->out);
    wake(pair, RING_NEWS);
    return total;
}

ssize_t ring_pair_receive(struct ring_pair *pair, const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++) {
        size_t room = parts[i].iov_len < PIECE_BYTES ? parts[i].iov_len : PIECE_BYTES;
        ssize_t count = byte_ring_read(&pair->in, parts[i].iov_base, room);
        if (count < 0) {
            errno = EPROTO;
            return -1;
        }
        total += (size_t)count;
        if ((size_t)count < parts[i].iov_len)
            break;
    }
    if (total == 0) {
        errno = EAGAIN;
        return -1;
    }
    prefetch_to_write((const char *)&pair->memory->ends[pair->own].wish); /* the sender has looked at it */
    if (byte_ring_release(&pair->in))
        wake(pair, RING_ROOM);
    return (ssize_t)total;
}

bool ring_pair_has_news(const struct ring_pair *pair)
{
    bool was_read = pair->own == RING_SENDER && atomic_load(&pair->memory->reads) != pair->reads;
    return was_read || !byte_ring_is_empty(&pair->in);
}

/* ---- Long messages ---- */

/* The token is read by the same call: another process may have the pid by now. */
bool ring_pair_read(const struct ring_pair *pair, void *to, uint64_t address, int64_t bytes)
{
    const struct ring_source *source = &pair->source;
    unsigned char token[RING_TOKEN_BYTES];
    struct iovec local[2] = {{to, (size_t)bytes}, {token, sizeof(token)}};
    struct iovec remote[2] = {{(void *)(uintptr_t)address, (size_t)bytes},
                              {(void *)(uintptr_t)source->token_address, sizeof(token)}};
    if (source->pid <= 0)
        return false;
    ssize_t count = process_vm_readv(source->pid, local, 2, remote, 2, 0);
    atomic_fetch_add(&pair->memory->reads, 1);
    return count == (ssize_t)(bytes + RING_TOKEN_BYTES) && memcmp(token, source->token, sizeof(token)) == 0;
}

bool ring_pair_was_read(struct ring_pair *pair)
{
    uint64_t reads = atomic_load(&pair->memory->reads);
    bool more = reads != pair->reads;
    pair->reads = reads;
    return more;
}

void ring_pair_withdraw(struct ring_pair *pair, uint64_t id)
{
    if (pair->memory != NULL && id > atomic_load(&pair->memory->withdrawn))
        atomic_store(&pair->memory->withdrawn, id);
}

bool ring_pair_withdrawn(const struct ring_pair *pair, uint64_t id)
{
    return atomic_load(&pair->memory->withdrawn) >= id;
}
