/* network_env.c: the variables that tell NCCL, UCX, Gloo and Open MPI which network to use. */
#include "net/network_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/nic_filter.h"
#include "options/token.h"
#include "net/address.h"
#include "net/network.h"

/* ---- What hvd sets ---- */

static bool is_rdma_device(const struct network_nic *nic)
{
    return nic->verbs[0] != 0 && nic->use == NETWORK_KEPT;
}

static bool has_rdma_device(const struct network_node *node)
{
    bool has = false;
    for (int i = 0; i < node->nic_count; i++)
        has = has || is_rdma_device(&node->nics[i]);
    return has;
}

/* Would NCCL find RDMA devices on some node, which it then uses there whatever the others have? */
static bool some_have_verbs(const struct network_node *nodes, int node_count)
{
    for (int node = 0; node < node_count; node++)
        for (int i = 0; i < nodes[node].nic_count; i++)
            if (nodes[node].nics[i].verbs[0] != 0)
                return true;
    return false;
}

void network_env_of_choice(const struct network_node *nodes, const struct network_plan *plan,
                           const struct network_choice *choice, int node, struct nic_env *settings)
{
    struct nic_env_list interfaces = {.failed = false}, rdma_devices = {.failed = false};
    bool rdma = choice->rail_count > 0;
    for (int i = 0; i < choice->rail_count; i++)
        nic_env_list_add(&interfaces,
                         nodes[node].nics[network_rail_nic(plan, node, choice->rails[i])->nic].name);
    for (int i = 0; i < plan->node_count; i++)
        rdma = rdma && has_rdma_device(&nodes[i]);
    for (int i = 0; rdma && i < nodes[node].nic_count; i++)
        if (is_rdma_device(&nodes[node].nics[i]))
            nic_env_list_add_rdma(&rdma_devices, nodes[node].nics[i].verbs, nodes[node].nics[i].port);
    nic_env_from_lists(&interfaces, &rdma_devices, settings);
    if (choice->rail_count > 0 && !rdma && some_have_verbs(nodes, plan->node_count))
        snprintf(settings->values[NIC_ENV_NCCL_NET], NIC_ENV_BYTES, "Socket");
}

/* ---- What a user set ---- */

/* A variable's value as a list of names, and how to read them. */
struct user_value {
    const char *list;
    bool excludes; /* NCCL's ^: all interfaces except these */
    bool prefixes; /* NCCL: a name in the list matches every name that begins with it */
};

static bool is_name(const char *name, struct token word, bool prefix)
{
    return strncmp(name, word.text, word.length) == 0 && (prefix || name[word.length] == 0);
}

static bool is_rdma_device_named(const struct network_nic *nic, struct token word, bool prefix)
{
    const char *colon = memchr(word.text, ':', word.length);
    if (nic->verbs[0] == 0)
        return false;
    if (colon == NULL)
        return is_name(nic->verbs, word, prefix);
    return strtol(colon + 1, NULL, 10) == nic->port &&
           is_name(nic->verbs, (struct token){word.text, (size_t)(colon - word.text)}, prefix);
}

static bool is_in_subnet(const struct network_nic *nic, struct token word)
{
    struct nic_filter entries[NIC_FILTER_MAX], *entry = entries;
    struct in_addr ipv4;
    struct in6_addr net;
    char text[NIC_FILTER_NAME_BYTES];
    const char *why;
    int count = 0;
    if (word.length >= sizeof(text) || memchr(word.text, '/', word.length) == NULL)
        return false;
    memcpy(text, word.text, word.length);
    text[word.length] = 0;
    if (nic_filter_parse(text, entries, &count, &why) < 0 || count != 1)
        return false;
    memcpy(&net, entry->bytes, sizeof(net));
    memcpy(&ipv4, entry->bytes, sizeof(ipv4));
    if (entry->family == AF_INET)
        address_map_ipv4(&ipv4, &net);
    int prefix_bits = entry->prefix + (entry->family == AF_INET ? 96 : 0);
    for (int i = 0; i < nic->address_count; i++)
        if (address_in_subnet(&nic->addresses[i].address, &net, prefix_bits))
            return true;
    return false;
}

/* Does [word] of the value name this interface or RDMA device? */
static bool is_named(enum nic_env_id id, const struct user_value *user_value, struct token word,
                     const struct network_nic *nic)
{
    if (word.length == 0)
        return false;
    switch (id) {
    case NIC_ENV_NCCL_SOCKETS:
        return nic->name[0] != 0 && is_name(nic->name, word, user_value->prefixes);
    case NIC_ENV_NCCL_RDMA:
        return is_rdma_device_named(nic, word, user_value->prefixes);
    case NIC_ENV_UCX:
        return is_rdma_device_named(nic, word, false) || is_name(nic->name, word, false);
    case NIC_ENV_OPEN_MPI:
        return is_in_subnet(nic, word) || is_name(nic->name, word, false);
    case NIC_ENV_GLOO:
    case NIC_ENV_NCCL_NET:
    case NIC_ENV_COUNT:
        break;
    }
    return is_name(nic->name, word, false);
}

static bool is_chosen(const struct network_plan *plan, const struct network_choice *choice, int node, int nic)
{
    for (int i = 0; i < choice->rail_count; i++)
        if (network_rail_nic(plan, node, choice->rails[i])->nic == nic)
            return true;
    return false;
}

/* How a value fits a node. */
struct match {
    bool found;           /* it names a NIC of the node */
    struct token missing; /* the first name that no NIC of the node has */
    bool proven;          /* among the NICs that it allows, one is on a chosen rail, or is an RDMA device */
};

static bool is_named_by_any(enum nic_env_id id, const struct user_value *user_value,
                            const struct network_nic *nic)
{
    struct token word;
    for (const char *at = user_value->list; at != NULL;) {
        at = token_next(at, ',', &word);
        if (is_named(id, user_value, word, nic))
            return true;
    }
    return false;
}

static struct match match_of(enum nic_env_id id, const struct user_value *user_value,
                             const struct network_node *nodes, const struct network_plan *plan,
                             const struct network_choice *choice, int node)
{
    struct match match = {.found = false};
    struct token word;
    for (const char *at = user_value->list; at != NULL;) {
        bool found = false;
        at = token_next(at, ',', &word);
        for (int i = 0; i < nodes[node].nic_count; i++)
            found = found || is_named(id, user_value, word, &nodes[node].nics[i]);
        match.found = match.found || found;
        if (!found && match.missing.length == 0)
            match.missing = word;
    }
    for (int i = 0; i < nodes[node].nic_count; i++) {
        const struct network_nic *nic = &nodes[node].nics[i];
        bool used = is_named_by_any(id, user_value, nic) != user_value->excludes;
        match.proven = match.proven || (used && (is_chosen(plan, choice, node, i) ||
                                                 (nic->verbs[0] != 0 && id != NIC_ENV_NCCL_SOCKETS)));
    }
    return match;
}

/* False if the value has a form that hvd does not check, or names something else than cards of a node. */
static bool parse_user_value(enum nic_env_id id, const char *value, struct user_value *user_value)
{
    bool nccl = id == NIC_ENV_NCCL_SOCKETS || id == NIC_ENV_NCCL_RDMA;
    *user_value = (struct user_value){.list = value, .prefixes = nccl};
    if (id == NIC_ENV_NCCL_NET)
        return false;
    if (id == NIC_ENV_UCX && (strcmp(value, "all") == 0 || strpbrk(value, "^*?[") != NULL))
        return false;
    if (nccl && *user_value->list == '^') {
        user_value->excludes = true;
        user_value->list++;
    }
    if (nccl && *user_value->list == '=') {
        user_value->prefixes = false;
        user_value->list++;
    }
    return *user_value->list != 0;
}

bool network_env_is_wrong(enum nic_env_id id, const struct network_node *nodes,
                          const struct network_plan *plan, const struct network_choice *choice, int node,
                          char why[NETWORK_ENV_WHY_BYTES])
{
    struct user_value user_value;
    const struct network_node *of = &nodes[node];
    if (of->settings[id] == NULL || choice->rail_count == 0 ||
        !parse_user_value(id, of->settings[id], &user_value))
        return false;
    struct match match = match_of(id, &user_value, nodes, plan, choice, node);
    bool absent = user_value.prefixes ? !match.found : match.missing.length > 0;
    if (!user_value.excludes && absent && of->left_out == 0) {
        snprintf(why, NETWORK_ENV_WHY_BYTES, "names %.*s, which is not there",
                 match.missing.length < 60 ? (int)match.missing.length : 60, match.missing.text);
        return true;
    }
    if (match.proven || id == NIC_ENV_NCCL_RDMA)
        return false;
    snprintf(why, NETWORK_ENV_WHY_BYTES, "leaves nothing that was proven to reach the other nodes");
    return true;
}
