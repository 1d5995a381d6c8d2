/* startup_reunion.c: in the first start of their processes the ranks agree where they meet in the later ones.
 */
#include "bootstrap/startup.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"

enum { PORT_BYTES = 2 };

_Static_assert(WIREUP_REUNION_KEY_BYTES == JOB_KEY_BYTES, "the key of the job leads to that of the reunion");

/* A sub-job has not all ranks of the launcher's job, which come to a start together. */
static bool takes_part(const struct startup *startup)
{
    return startup->bootstrap->launcher_ranks == NULL && wireup_needs_reunion(&startup->wireup);
}

static void blob_name(const struct startup *startup, char name[64])
{
    snprintf(name, 64, "hvd.%u.reunion", startup->bootstrap->job.epoch);
}

int startup_offer_reunion(struct startup *startup, struct hvd_error *err)
{
    char name[64];
    unsigned char bytes[PORT_BYTES];
    if (!takes_part(startup) || startup->bootstrap->job.rank != 0)
        return HVD_OK;
    struct encoder encoder = {bytes, sizeof(bytes), false};
    encode_number(&encoder, wireup_open_reunion(), PORT_BYTES);
    blob_name(startup, name);
    return startup->wireup.ops->put(startup->wireup.state, name, bytes, sizeof(bytes), err);
}

int startup_read_reunion(struct startup *startup, struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    if (!takes_part(startup))
        return HVD_OK;
    blob_name(startup, name);
    int rc = startup->wireup.ops->get(startup->wireup.state, 0, name, startup->deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    struct decoder decoder = {blob.bytes, blob.length, false};
    startup->reunion_port = (uint16_t)decode_number(&decoder, PORT_BYTES);
    free(blob.bytes);
    return HVD_OK;
}

void startup_plan_reunion(const struct startup *startup)
{
    const struct bootstrap *bootstrap = startup->bootstrap;
    if (takes_part(startup))
        wireup_plan_reunion(&bootstrap->job, &bootstrap->peer_table.peers[0].addresses[0],
                            startup->reunion_port, bootstrap->peer_table.key);
}
