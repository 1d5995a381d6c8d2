/* link_sim.h: simulated ranks of a job and the messages between them: each link keeps its order, but which
 * link goes next is drawn by random_state. */
#ifndef TESTS_UNIT_LINK_SIM_H
#define TESTS_UNIT_LINK_SIM_H

#include <stdlib.h>
#include <string.h>

#include "base/tree_shape.h"
#include "unit.h"

struct link_message {
    struct link_message *next;
    size_t length;
    unsigned char bytes[];
};

struct link_queue {
    struct link_message *first, **last;
};

struct link_sim {
    int size;
    struct tree_shape *shapes;                  /* by rank */
    struct link_queue (*boxes)[TREE_MAX_LINKS]; /* by rank, by the link that it came over */
    struct waiting {
        int rank, link;
    } * waiting; /* boxes that are not empty */
    int waiting_count;
    uint64_t messages, bytes;
    uint64_t random_state;
};

static inline uint64_t random_next(uint64_t *random_state)
{
    *random_state ^= *random_state << 13;
    *random_state ^= *random_state >> 7;
    *random_state ^= *random_state << 17;
    return *random_state >> 11;
}

static inline int random_below(uint64_t *random_state, int limit)
{
    return (int)(random_next(random_state) % (uint64_t)limit);
}

/* [size] ranks on up to [nodes] nodes of any sizes, neighbours or not. */
static inline void link_sim_open(struct link_sim *links, int size, int nodes, uint64_t seed)
{
    size_t count = (unsigned)size;
    int *leaders = calloc(count, sizeof(int));
    int *first = calloc((unsigned)nodes, sizeof(int));
    *links = (struct link_sim){.size = size, .random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    bool blocks = random_below(&links->random_state, 2) == 0;
    int node = 0;
    for (int i = 0; i < nodes; i++)
        first[i] = -1;
    for (int rank = 0; rank < size; rank++) {
        if (!blocks)
            node = random_below(&links->random_state, nodes);
        else if (rank > 0 && node < nodes - 1 && random_below(&links->random_state, size) < nodes)
            node++;
        if (first[node] < 0)
            first[node] = rank;
        leaders[rank] = first[node];
    }
    links->shapes = calloc(count, sizeof(struct tree_shape));
    links->boxes = calloc(count, sizeof(links->boxes[0]));
    links->waiting = calloc(count * 2, sizeof(links->waiting[0]));
    for (int rank = 0; rank < size; rank++)
        ck_assert_int_eq(tree_shape_of_rank(leaders, size, rank, &links->shapes[rank], NULL), HVD_OK);
    free(leaders);
    free(first);
}

static inline void link_sim_send(struct link_sim *links, int rank, int link, const void *bytes, size_t length)
{
    const struct tree_shape *shape = &links->shapes[rank];
    int to = link == TREE_PARENT ? shape->parent : shape->child_ranks[link - 1];
    int to_link = TREE_PARENT;
    if (link == TREE_PARENT) {
        to_link = 1;
        while (links->shapes[to].child_ranks[to_link - 1] != rank)
            to_link++;
    }
    struct link_message *message = malloc(sizeof(*message) + length);
    message->next = NULL;
    message->length = length;
    memcpy(message->bytes, bytes, length);
    struct link_queue *box = &links->boxes[to][to_link];
    if (box->first == NULL) {
        box->last = &box->first;
        links->waiting[links->waiting_count++] = (struct waiting){to, to_link};
    }
    *box->last = message;
    box->last = &message->next;
    links->messages++;
    links->bytes += length;
}

/* The next message of a link chosen at random by random_state. The caller frees it. NULL if no message is in
 * flight. */
static inline struct link_message *link_sim_receive(struct link_sim *links, int *rankp, int *linkp)
{
    if (links->waiting_count == 0)
        return NULL;
    int at = random_below(&links->random_state, links->waiting_count);
    *rankp = links->waiting[at].rank;
    *linkp = links->waiting[at].link;
    struct link_queue *box = &links->boxes[*rankp][*linkp];
    struct link_message *message = box->first;
    box->first = message->next;
    if (box->first == NULL)
        links->waiting[at] = links->waiting[--links->waiting_count];
    return message;
}

static inline void link_sim_close(struct link_sim *links)
{
    int rank = 0;
    int link = 0;
    struct link_message *message = link_sim_receive(links, &rank, &link);
    for (; message != NULL; message = link_sim_receive(links, &rank, &link))
        free(message);
    free(links->shapes);
    free(links->boxes);
    free(links->waiting);
}

#endif
