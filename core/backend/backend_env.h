/* backend_env.h: what a backend may use of its process and its job. */
#ifndef BACKEND_BACKEND_ENV_H
#define BACKEND_BACKEND_ENV_H

#include "backend/backend.h"
#include "options/config.h"
#include "base/log.h"
#include "base/tree_shape.h"
#include "net/establishment.h"
#include "node/arena.h"
#include "node/windows.h"

/* Memory like that of hvd_alloc, for hvd's own use. Calls are those of allocations.h. Zeroed: there is none.
 */
struct host_memory {
    int (*allocate)(void *arg, int64_t bytes, void **memoryp, struct hvd_error *err);
    int (*free)(void *arg, void *memory, struct hvd_error *err);
    void *arg;
};

/* Everything that it points to outlives the backend. */
struct backend_env {
    const struct hvd_config *config;
    const struct hvd_log *log;
    const struct hvd_job *job;
    const struct peer_table *peer_table;
    const struct tree_shape *shape;
    struct endpoint *endpoint;
    struct endpoint *message_endpoint; /* for messages, not for backends */
    struct arena arena;                /* the memory that this rank shares with the others of its node */
    const struct windows *windows;     /* the memory of this program that those ranks may map; NULL: none */
    struct host_memory host_memory;    /* in those windows where they have room */
    bool oversubscribed;               /* ranks of this node share cores: one that waits yields its core */
    bool no_spare_core; /* some rank has a single core: a thread beside the program's must give way to it */
    int epoll_fd; /* what the driver sleeps on. A backend adds its descriptors, edge-triggered; the data of an
                   * event is not looked at. -1: none wanted */
};

#endif
