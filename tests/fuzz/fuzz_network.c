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
    static const struct network_proof proofs[2];
    char why[SETTING_WHY_BYTES];
    struct network_plan plan;
    struct network_choice choice;
    struct settings settings;
    if (network_plan(nodes, 2, &plan) != HVD_OK)
        return;
    network_choose(&plan, proofs, &choice);
    settings_of_choice(nodes, &plan, &choice, 1, &settings);
    for (int id = 0; id < SETTING_COUNT; id++)
        setting_is_wrong((enum setting_id)id, nodes, &plan, &choice, 0, why);
    network_table(nodes, &plan, proofs, no_line, NULL);
    network_plan_close(&plan);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static unsigned char written[CANDIDATES_BYTES];
    struct network_node nodes[2] = {{.host = "a"}, {.host = "b"}};
    struct network_proof proof;
    proof_decode(&proof, 3, bytes, length);
    if (candidates_decode(&nodes[0], bytes, length) == HVD_OK) {
        size_t size = candidates_encode(&nodes[0], written);
        assert(size == length && memcmp(written, bytes, size) == 0);
        if (candidates_decode(&nodes[1], written, size) == HVD_OK)
            use(nodes);
    }
    candidates_free(&nodes[0]);
    candidates_free(&nodes[1]);
    return 0;
}
