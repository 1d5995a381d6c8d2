/* news.h: the socket by which a process of an elastic job hears, while it starts, that the launcher has lost
 * another rank. Whatever waits in a start watches it too, as that rank may be the one that is waited for. */
#ifndef BASE_NEWS_H
#define BASE_NEWS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* [newsp] is where the socket's number is, which is -1 outside of a start; NULL in jobs without news. */
static inline struct pollfd news_poller(const int *newsp)
{
    return (struct pollfd){.fd = newsp != NULL ? *newsp : -1, .events = POLLIN};
}

static inline bool news_came(const int *newsp)
{
    struct pollfd poller = news_poller(newsp);
    return poll(&poller, 1, 0) > 0;
}

static inline int news_error(struct hvd_error *err)
{
    return error_set(err, HVD_ERR_RANK_LOST, "another rank was lost as the job began again");
}

#endif
