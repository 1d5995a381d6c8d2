/* peers_file.c: how a node's leader hands its members what it knows of all ranks: one file that all of them
 * map, and that nobody can change once it is written. */
#include "bootstrap/peers_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "node/shared_file.h"

#define PEERS_FILE_MAGIC UINT64_C(0x7372656570647668) /* "hvdpeers" as bytes */

/* Behind it lie the peers, then node_of_rank. */
struct peers_file {
    uint64_t magic;
    uint32_t epoch;
    int32_t size;
    struct peers_summary summary;
    struct peer peers[];
};

static size_t file_bytes(int size)
{
    return sizeof(struct peers_file) + (size_t)size * (sizeof(struct peer) + sizeof(int));
}

int peers_file_write(int fd, const struct peer_table *peer_table, const struct peers_summary *summary,
                     struct hvd_error *err)
{
    size_t size = (size_t)peer_table->size;
    struct peers_file *file = calloc(1, file_bytes(peer_table->size));
    if (file == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %zu ranks", size);
    file->magic = PEERS_FILE_MAGIC;
    file->epoch = peer_table->epoch;
    file->size = peer_table->size;
    file->summary = *summary;
    memcpy(file->peers, peer_table->peers, size * sizeof(struct peer));
    memcpy(&file->peers[size], peer_table->node_of_rank, size * sizeof(int));
    int rc = shared_file_fill(fd, file, file_bytes(peer_table->size), err);
    free(file);
    return rc;
}

int peers_file_map(int fd, struct peer_table *peer_table, struct peers_summary *summary,
                   struct hvd_error *err)
{
    const void *bytes = NULL;
    size_t length = 0;
    int rc = shared_file_map(fd, &bytes, &length, err);
    if (rc != HVD_OK)
        return rc;
    const struct peers_file *file = bytes;
    if (length != file_bytes(peer_table->size) || file->magic != PEERS_FILE_MAGIC ||
        file->epoch != peer_table->epoch || file->size != peer_table->size) {
        munmap((void *)bytes, length);
        return error_set(err, HVD_ERR_SYSTEM,
                         "what this node's first rank wrote of the other ranks is of another libhvd or job");
    }
    *summary = file->summary;
    peer_table_use_mapping(peer_table, (void *)bytes, length, file->peers,
                           (const int *)&file->peers[peer_table->size]);
    return HVD_OK;
}
