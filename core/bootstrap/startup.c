/* startup.c: what several steps of the start of a job need. */
#include "bootstrap/startup.h"

#include <stdio.h>

#include "base/rank_list.h"
#include "bootstrap/memory_budget.h"
#include "options/tuned_settings.h"

/* Checked once, before the autotuner can change the fusion size. */
int startup_check_memory(const struct startup *startup, int rank_count, const char *host,
                         struct hvd_error *err)
{
    struct memory_budget budget;
    memory_budget_read(&budget);
    const struct tuned_settings settings = tuned_settings_at_start(startup->config);
    return memory_budget_check(&budget, settings.fusion_bytes, rank_count, host, err);
}

int startup_check_process_sets(const struct startup *startup, struct hvd_error *err)
{
    const struct hvd_start *start = startup->start;
    int rc = HVD_OK;
    if (start->set_count < 0)
        return error_set(err, HVD_ERR_INVALID, "hvd_init_with: set_count is %d; expected 0 or more",
                         start->set_count);
    if (start->set_count > 0 && start->sets == NULL)
        return error_set(err, HVD_ERR_INVALID, "hvd_init_with: set_count is %d, but sets is NULL",
                         start->set_count);
    for (int i = 0; rc == HVD_OK && i < start->set_count; i++) {
        char what[64];
        snprintf(what, sizeof(what), "hvd_init_with: sets[%d]", i);
        rc = rank_list_check(&start->sets[i], startup->bootstrap->job.size, what, err);
    }
    return rc;
}

int startup_fence(struct startup *startup, struct hvd_error *err)
{
    return startup->wireup.ops->fence(startup->wireup.state, startup->deadline_us, err);
}

struct leader_exchange startup_exchange(const struct startup *startup)
{
    return (struct leader_exchange){&startup->bootstrap->peer_table, &startup->wireup, startup->deadline_us};
}
