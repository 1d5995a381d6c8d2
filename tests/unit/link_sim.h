/* link_sim.h: simulated ranks of a job and the messages between them: each link keeps its order, but which
 * link goes next is drawn by lot. */
#ifndef TESTS_UNIT_LINK_SIM_H
#define TESTS_UNIT_LINK_SIM_H

#include <stdlib.h>
#include <string.h>

#include "base/tree_shape.h"
#include "unit.h"

struct letter {
    struct letter *next;
    size_t length;
    unsigned char bytes[];
};

struct mailbox {
    struct letter *first, **last;
};

struct links {
    int size;
    struct shape *shapes;                       /* by rank */
    struct mailbox (*boxes)[CONTROL_MAX_LINKS]; /* by rank, by the link that it came over */
    struct waiting {
        int rank, link;
    } * waiting; /* boxes that are not empty */
    int waiting_count;
    uint64_t messages, bytes;
    uint64_t lot;
};

static inline uint64_t draw(uint64_t *lot)
{
    *lot ^= *lot << 13;
    *lot ^= *lot >> 7;
    *lot ^= *lot << 17;
    return *lot >> 11;
}

static inline int draw_below(uint64_t *lot, int limit)
{
    return (int)(draw(lot) % (uint64_t)limit);
}

/* [size] ranks on up to [nodes] nodes of any sizes, neighbours or not. */
static inline void links_open(struct links *links, int size, int nodes, uint64_t seed)
{
    size_t count = (unsigned)size;
    int *leaders = calloc(count, sizeof(int));
    int *first = calloc((unsigned)nodes, sizeof(int));
    *links = (struct links){.size = size, .lot = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    bool blocks = draw_below(&links->lot, 2) == 0;
    int node = 0;
    for (int i = 0; i < nodes; i++)
        first[i] = -1;
    for (int rank = 0; rank < size; rank++) {
        if (!blocks)
            node = draw_below(&links->lot, nodes);
        else if (rank > 0 && node < nodes - 1 && draw_below(&links->lot, size) < nodes)
            node++;
        if (first[node] < 0)
            first[node] = rank;
        leaders[rank] = first[node];
    }
    links->shapes = calloc(count, sizeof(struct shape));
    links->boxes = calloc(count, sizeof(links->boxes[0]));
    links->waiting = calloc(count * 2, sizeof(links->waiting[0]));
    for (int rank = 0; rank < size; rank++)
        ck_assert_int_eq(shape_of_rank(leaders, size, rank, &links->shapes[rank], NULL), HVD_OK);
    free(leaders);
    free(first);
}

static inline void links_send(struct links *links, int rank, int link, const void *bytes, size_t length)
{
    const struct shape *shape = &links->shapes[rank];
    int to = link == CONTROL_PARENT ? shape->parent : shape->child_ranks[link - 1];
    int to_link = CONTROL_PARENT;
    if (link == CONTROL_PARENT) {
        to_link = 1;
        while (links->shapes[to].child_ranks[to_link - 1] != rank)
            to_link++;
    }
    struct letter *letter = malloc(sizeof(*letter) + length);
    letter->next = NULL;
    letter->length = length;
    memcpy(letter->bytes, bytes, length);
    struct mailbox *box = &links->boxes[to][to_link];
    if (box->first == NULL) {
        box->last = &box->first;
        links->waiting[links->waiting_count++] = (struct waiting){to, to_link};
    }
    *box->last = letter;
    box->last = &letter->next;
    links->messages++;
    links->bytes += length;
}

/* The next letter of a link drawn by lot, to be freed; NULL where none is on its way. */
static inline struct letter *links_take(struct links *links, int *rankp, int *linkp)
{
    if (links->waiting_count == 0)
        return NULL;
    int at = draw_below(&links->lot, links->waiting_count);
    *rankp = links->waiting[at].rank;
    *linkp = links->waiting[at].link;
    struct mailbox *box = &links->boxes[*rankp][*linkp];
    struct letter *letter = box->first;
    box->first = letter->next;
    if (box->first == NULL)
        links->waiting[at] = links->waiting[--links->waiting_count];
    return letter;
}

static inline void links_close(struct links *links)
{
    int rank = 0;
    int link = 0;
    struct letter *letter = links_take(links, &rank, &link);
    for (; letter != NULL; letter = links_take(links, &rank, &link))
        free(letter);
    free(links->shapes);
    free(links->boxes);
    free(links->waiting);
}

#endif
