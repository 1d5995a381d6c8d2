/* network_env.c: the variables that tell NCCL, UCX, Gloo and Open MPI which network to use. */
#include "net/network_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nic_filter.h"
#include "base/token.h"
#include "net/address.h"
#include "net/network.h"

/* ---- What they are to say ---- */

static bool is_card(const struct network_nic *nic)
{
    return nic->verbs[0] != 0 && nic->verdict == NETWORK_KEPT;
}

static bool has_card(const struct network_node *node)
{
    bool has = false;
    for (int i = 0; i < node->nic_count; i++)
        has = has || is_card(&node->nics[i]);
    return has;
}

void settings_of_choice(const struct network_node *nodes, const struct network_plan *plan,
                        const struct network_choice *choice, int node, struct settings *settings)
{
    struct setting_list interfaces = {.failed = false}, cards = {.failed = false};
    bool rdma = choice->rail_count > 0;
    for (int i = 0; i < choice->rail_count; i++)
        setting_list_add(&interfaces,
                         nodes[node].nics[network_place(plan, node, choice->rails[i])->nic].name);
    for (int i = 0; i < plan->node_count; i++)
        rdma = rdma && has_card(&nodes[i]);
    for (int i = 0; rdma && i < nodes[node].nic_count; i++)
        if (is_card(&nodes[node].nics[i]))
            setting_list_add_card(&cards, nodes[node].nics[i].verbs, nodes[node].nics[i].port);
    settings_of_lists(&interfaces, &cards, settings);
}

/* ---- What a user gave ---- */

/* A value: its list, and how to read it. */
struct given {
    const char *list;
    bool excludes; /* NCCL's ^: all but these */
    bool prefixes; /* NCCL's names: the beginnings of names */
};

static bool is_name(const char *name, struct word word, bool prefix)
{
    return strncmp(name, word.text, word.length) == 0 && (prefix || name[word.length] == 0);
}

static bool is_card_named(const struct network_nic *nic, struct word word, bool prefix)
{
    const char *colon = memchr(word.text, ':', word.length);
    if (nic->verbs[0] == 0)
        return false;
    if (colon == NULL)
        return is_name(nic->verbs, word, prefix);
    return strtol(colon + 1, NULL, 10) == nic->port &&
           is_name(nic->verbs, (struct word){word.text, (size_t)(colon - word.text)}, prefix);
}

static bool is_in_subnet(const struct network_nic *nic, struct word word)
{
    struct nics_entry entries[NICS_MAX], *entry = entries;
    struct in_addr ipv4;
    struct in6_addr net;
    char text[NICS_NAME_BYTES];
    const char *why;
    int count = 0;
    if (word.length >= sizeof(text) || memchr(word.text, '/', word.length) == NULL)
        return false;
    memcpy(text, word.text, word.length);
    text[word.length] = 0;
    if (nics_parse(text, entries, &count, &why) < 0 || count != 1)
        return false;
    memcpy(&net, entry->bytes, sizeof(net));
    memcpy(&ipv4, entry->bytes, sizeof(ipv4));
    if (entry->family == AF_INET)
        address_map(&ipv4, &net);
    int prefix_bits = entry->prefix + (entry->family == AF_INET ? 96 : 0);
    for (int i = 0; i < nic->address_count; i++)
        if (address_in_subnet(&nic->addresses[i].address, &net, prefix_bits))
            return true;
    return false;
}

/* Is the interface or card one that [word] of the value names? */
static bool is_named(enum setting_id id, const struct given *given, struct word word,
                     const struct network_nic *nic)
{
    if (word.length == 0)
        return false;
    switch (id) {
    case SETTING_NCCL_SOCKETS:
        return nic->name[0] != 0 && is_name(nic->name, word, given->prefixes);
    case SETTING_NCCL_RDMA:
        return is_card_named(nic, word, given->prefixes);
    case SETTING_UCX:
        return is_card_named(nic, word, false) || is_name(nic->name, word, false);
    case SETTING_OPEN_MPI:
        return is_in_subnet(nic, word) || is_name(nic->name, word, false);
    case SETTING_GLOO:
    case SETTING_COUNT:
        break;
    }
    return is_name(nic->name, word, false);
}

static bool is_chosen(const struct network_plan *plan, const struct network_choice *choice, int node, int nic)
{
    for (int i = 0; i < choice->rail_count; i++)
        if (network_place(plan, node, choice->rails[i])->nic == nic)
            return true;
    return false;
}

/* How the value fits the node. */
struct fit {
    bool found;          /* it names something that the node has */
    struct word missing; /* the first name that the node has not */
    bool proven;         /* what it leaves to be used has something that was proven, or is RDMA */
};

static bool is_named_by_any(enum setting_id id, const struct given *given, const struct network_nic *nic)
{
    struct word word;
    for (const char *at = given->list; at != NULL;) {
        at = word_next(at, ',', &word);
        if (is_named(id, given, word, nic))
            return true;
    }
    return false;
}

static struct fit fit_of(enum setting_id id, const struct given *given, const struct network_node *nodes,
                         const struct network_plan *plan, const struct network_choice *choice, int node)
{
    struct fit fit = {.found = false};
    struct word word;
    for (const char *at = given->list; at != NULL;) {
        bool found = false;
        at = word_next(at, ',', &word);
        for (int i = 0; i < nodes[node].nic_count; i++)
            found = found || is_named(id, given, word, &nodes[node].nics[i]);
        fit.found = fit.found || found;
        if (!found && fit.missing.length == 0)
            fit.missing = word;
    }
    for (int i = 0; i < nodes[node].nic_count; i++) {
        const struct network_nic *nic = &nodes[node].nics[i];
        bool used = is_named_by_any(id, given, nic) != given->excludes;
        fit.proven = fit.proven || (used && (is_chosen(plan, choice, node, i) ||
                                             (nic->verbs[0] != 0 && id != SETTING_NCCL_SOCKETS)));
    }
    return fit;
}

/* False where the value is of a form that is not looked into. */
static bool read_given(enum setting_id id, const char *value, struct given *given)
{
    bool nccl = id == SETTING_NCCL_SOCKETS || id == SETTING_NCCL_RDMA;
    *given = (struct given){.list = value, .prefixes = nccl};
    if (id == SETTING_UCX && (strcmp(value, "all") == 0 || strpbrk(value, "^*?[") != NULL))
        return false;
    if (nccl && *given->list == '^') {
        given->excludes = true;
        given->list++;
    }
    if (nccl && *given->list == '=') {
        given->prefixes = false;
        given->list++;
    }
    return *given->list != 0;
}

bool setting_is_wrong(enum setting_id id, const struct network_node *nodes, const struct network_plan *plan,
                      const struct network_choice *choice, int node, char why[SETTING_WHY_BYTES])
{
    struct given given;
    const struct network_node *of = &nodes[node];
    if (of->settings[id] == NULL || choice->rail_count == 0 || !read_given(id, of->settings[id], &given))
        return false;
    struct fit fit = fit_of(id, &given, nodes, plan, choice, node);
    bool absent = given.prefixes ? !fit.found : fit.missing.length > 0;
    if (!given.excludes && absent && of->left_out == 0) {
        snprintf(why, SETTING_WHY_BYTES, "names %.*s, which is not there",
                 fit.missing.length < 60 ? (int)fit.missing.length : 60, fit.missing.text);
        return true;
    }
    if (fit.proven || id == SETTING_NCCL_RDMA)
        return false;
    snprintf(why, SETTING_WHY_BYTES, "leaves nothing that was proven to reach the other nodes");
    return true;
}
