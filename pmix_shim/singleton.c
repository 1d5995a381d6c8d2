/* singleton.c: the provider for a job of one rank: get finds what was put before the last fence. */
#include "pmix_shim/provider.h"

#include "pmix_shim/store.h"

static int singleton_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                          struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    (void)log;
    (void)deadline_us;
    struct store *store = store_create(1);
    if (store == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    job->rank = 0;
    job->size = 1;
    job->local_rank = 0;
    job->local_size = 1;
    *statep = store;
    return HVD_OK;
}

static int singleton_put(void *state, const char *key, const void *bytes, size_t length,
                         struct hvd_error *err)
{
    return store_put(state, key, bytes, length, err);
}

static int singleton_fence(void *state, int64_t deadline_us, struct hvd_error *err)
{
    (void)deadline_us;
    size_t length = 0;
    const void *page = store_page(state, &length);
    int rc = store_merge(state, 0, page, length, err);
    if (rc == HVD_OK)
        store_forget_page(state);
    return rc;
}

static int singleton_get(void *state, int rank, const char *key, int64_t deadline_us,
                         struct wireup_blob *blob, struct hvd_error *err)
{
    (void)deadline_us;
    return store_get(state, rank, key, blob, err);
}

static void singleton_close(void *state)
{
    store_destroy(state);
}

const struct wireup_ops wireup_singleton_ops = {.name = "singleton",
                                                .open = singleton_open,
                                                .put = singleton_put,
                                                .fence = singleton_fence,
                                                .get = singleton_get,
                                                .close = singleton_close};
