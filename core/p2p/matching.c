/* matching.c: which receive gets which message: the oldest whose process set, tag and sender fit. */
#include "p2p/matching.h"

#include <stddef.h>
#include <stdint.h>

void matching_init(struct p2p_matching *matching)
{
    for (int i = 0; i < MATCHING_BUCKETS; i++) {
        TAILQ_INIT(&matching->receives[i]);
        TAILQ_INIT(&matching->arrivals[i]);
    }
}

static unsigned bucket_of(const struct envelope *envelope)
{
    uint32_t mixed = (uint32_t)envelope->tag + (uint32_t)envelope->set * UINT32_C(0x9e3779b1);
    return mixed % MATCHING_BUCKETS;
}

void matching_add_receive(struct p2p_matching *matching, struct envelope *receive)
{
    TAILQ_INSERT_TAIL(&matching->receives[bucket_of(receive)], receive, link);
}

void matching_add_arrival(struct p2p_matching *matching, struct envelope *arrival)
{
    TAILQ_INSERT_TAIL(&matching->arrivals[bucket_of(arrival)], arrival, link);
}

static bool fits(const struct envelope *receive, const struct envelope *arrival)
{
    return receive->set == arrival->set && receive->tag == arrival->tag &&
           (receive->source == HVD_ANY_SOURCE || receive->source == arrival->source);
}

static struct envelope *take(struct envelope_list *list, struct envelope *envelope)
{
    TAILQ_REMOVE(list, envelope, link);
    return envelope;
}

struct envelope *matching_take_receive(struct p2p_matching *matching, const struct envelope *arrival)
{
    struct envelope_list *list = &matching->receives[bucket_of(arrival)];
    struct envelope *receive;
    for (receive = TAILQ_FIRST(list); receive != NULL; receive = TAILQ_NEXT(receive, link))
        if (fits(receive, arrival))
            return take(list, receive);
    return NULL;
}

struct envelope *matching_take_arrival(struct p2p_matching *matching, const struct envelope *receive)
{
    struct envelope_list *list = &matching->arrivals[bucket_of(receive)];
    struct envelope *arrival;
    for (arrival = TAILQ_FIRST(list); arrival != NULL; arrival = TAILQ_NEXT(arrival, link))
        if (fits(receive, arrival))
            return take(list, arrival);
    return NULL;
}

static struct envelope *remove_first(struct envelope_list *lists, hvd_set set, int source)
{
    for (int i = 0; i < MATCHING_BUCKETS; i++) {
        struct envelope *envelope;
        for (envelope = TAILQ_FIRST(&lists[i]); envelope != NULL; envelope = TAILQ_NEXT(envelope, link))
            if ((set == MATCHING_ANY_SET || envelope->set == set) &&
                (source == HVD_ANY_SOURCE || envelope->source == source))
                return take(&lists[i], envelope);
    }
    return NULL;
}

struct envelope *matching_remove_receive(struct p2p_matching *matching, hvd_set set, int source)
{
    return remove_first(matching->receives, set, source);
}

struct envelope *matching_remove_arrival(struct p2p_matching *matching, hvd_set set)
{
    return remove_first(matching->arrivals, set, HVD_ANY_SOURCE);
}
