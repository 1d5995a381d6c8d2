/* fuzz_network.c: what a node tells of its interfaces, and of what it tried, from hostile bytes. */
#include <assert.h>
#include <string.h>

#include "net/nic_offer.h"
#include "fuzz.h"

static void no_line(void *arg, const char *text)
{
    (void)arg;
    assert(strlen(text) < 500);
}

/* Two nodes say the same: whatever was let through can be planned with and told of. */
static void use(struct network_node nodes[2])
{
    static const struct network_probe_result probe_results[2];
    char why[NETWORK_ENV_WHY_BYTES];
    struct network_plan plan;
    struct network_choice choice;
    struct nic_env settings;
    if (network_plan(nodes, 2, &plan) != HVD_OK)
        return;
    network_choose(&plan, probe_results, &choice);
    network_env_of_choice(nodes, &plan, &choice, 1, &settings);
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        network_env_is_wrong((enum nic_env_id)id, nodes, &plan, &choice, 0, why);
    network_table(nodes, &plan, probe_results, no_line, NULL);
    network_plan_close(&plan);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static unsigned char written[NIC_OFFER_BYTES];
    struct network_node nodes[2] = {{.host = "a"}, {.host = "b"}};
    struct network_probe_result result;
    probe_result_decode(&result, 3, bytes, length);
    if (nic_offer_decode(&nodes[0], bytes, length) == HVD_OK) {
        size_t size = nic_offer_encode(&nodes[0], written);
        assert(size == length && memcmp(written, bytes, size) == 0);
        if (nic_offer_decode(&nodes[1], written, size) == HVD_OK)
            use(nodes);
    }
    nic_offer_free(&nodes[0]);
    nic_offer_free(&nodes[1]);
    return 0;
}
