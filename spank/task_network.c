/* task_network.c: tell programs that never call hvd_init which network joins the nodes of their step. */
#include "config.h"
#include "spank/task_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "options/nic_filter.h"
#include "options/token.h"
#include "spank/options.h"
#include "spank/step.h"
#include "verdict/failure_report.h"

#define DISCARD_PORT 9 /* nothing is ever sent to it */

/* ---- The choice ---- */

static bool is_usable(const struct nic *nic)
{
    return (nic->exclusion == NIC_NOT_EXCLUDED || nic->exclusion == NIC_SLOW) && nic_has_address(nic);
}

/* Has the node no faster interface for sockets? An interface that leads to the launching node may be there
 * for Slurm alone. A slow one is good enough if there is no other: RDMA devices carry the data then. */
static bool is_best(const struct nic *nics, int count, const struct nic *nic)
{
    bool best = is_usable(nic);
    for (int i = 0; i < count; i++)
        if (is_usable(&nics[i]) && (nic_mbps(&nics[i]) > nic_mbps(nic) ||
                                    (nics[i].exclusion == NIC_NOT_EXCLUDED && nic->exclusion == NIC_SLOW)))
            best = false;
    return best;
}

static bool is_chosen(const struct nic *nics, int count, const struct nic *nic, bool requested,
                      const struct task_route *route)
{
    if (requested)
        return nic->exclusion == NIC_NOT_EXCLUDED && nic_has_address(nic);
    return route != NULL && is_best(nics, count, nic) &&
           nic_shares_subnet(nic, &route->source, &route->launch);
}

bool task_network_choose(const struct nic *nics, int count, bool requested, const struct task_route *route,
                         struct nic_env *env)
{
    struct nic_env_list interfaces = {.failed = false}, cards = interfaces, both = interfaces;
    for (int i = 0; i < count; i++) {
        if (nics[i].exclusion != NIC_NOT_EXCLUDED || nics[i].verbs[0] == 0)
            continue;
        nic_env_list_add_rdma(&cards, nics[i].verbs, nics[i].port);
        nic_env_list_add_rdma(&both, nics[i].verbs, nics[i].port);
    }
    for (int i = 0; i < count; i++) {
        if (!is_chosen(nics, count, &nics[i], requested, route))
            continue;
        nic_env_list_add(&interfaces, nics[i].netdev);
        nic_env_list_add(&both, nics[i].netdev);
    }
    nic_env_from_lists(&interfaces, &cards, env);
    /* this node cannot know whether the others have RDMA devices; UCX finds out */
    memcpy(env->values[NIC_ENV_UCX], both.text, NIC_ENV_BYTES);
    return interfaces.text[0] != 0;
}

/* ---- Where the step was launched ---- */

static bool read_address(const char *text, struct nic_address *address)
{
    *address = (struct nic_address){.family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET};
    return inet_pton(address->family, text, address->bytes) == 1;
}

/* Find the source address that the kernel chooses for packets to [to]. No packet is sent. */
static bool find_source_address(const struct nic_address *to, struct nic_address *source)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT)};
    bool old = to->family == AF_INET;
    struct sockaddr *name = old ? (struct sockaddr *)&ipv4 : (struct sockaddr *)&ipv6;
    void *bytes = old ? (void *)&ipv4.sin_addr : (void *)&ipv6.sin6_addr;
    socklen_t length = old ? sizeof(ipv4) : sizeof(ipv6), own_length = length;
    size_t byte_count = old ? sizeof(ipv4.sin_addr) : sizeof(ipv6.sin6_addr);
    int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    memcpy(bytes, to->bytes, byte_count);
    bool known = connect(fd, name, length) == 0 && getsockname(fd, name, &own_length) == 0;
    close(fd);
    *source = (struct nic_address){.family = to->family};
    memcpy(source->bytes, bytes, byte_count);
    return known;
}

static bool find_route(spank_t spank, struct task_route *route)
{
    char text[INET6_ADDRSTRLEN];
    return spank_getenv(spank, "SLURM_LAUNCH_NODE_IPADDR", text, sizeof(text)) == ESPANK_SUCCESS &&
           read_address(text, &route->launch) && find_source_address(&route->launch, &route->source);
}

/* ---- What --hvd-nics says ---- */

struct nics_option {
    char text[OPTION_VALUE_BYTES + 1];
};

/* Find a value in a list of name=value separated by ';'. The last one wins. */
static bool find_in_list(const char *list, const char *name, struct nics_option *value)
{
    struct token entry, rest;
    bool found = false;
    for (const char *at = list; at != NULL;) {
        at = token_next(at, ';', &entry);
        if (!token_strip_prefix(entry, name, &rest) || rest.length == 0 || rest.text[0] != '=' ||
            rest.length > sizeof(value->text))
            continue;
        memcpy(value->text, rest.text + 1, rest.length - 1);
        value->text[rest.length - 1] = 0;
        found = true;
    }
    return found;
}

static spank_err_t read_variable(spank_t spank, const struct hvd_option *option, struct nics_option *value)
{
    char name[64];
    option_env_name(option, name);
    return spank_getenv(spank, name, value->text, sizeof(value->text));
}

/* Find the value with the highest authority. Returns false if it cannot be known: a configuration file is for
 * the program to read, not for the plug-in. */
static bool find_nics_option(spank_t spank, const char *cli, const char *site, struct nics_option *value)
{
    const struct hvd_option *nics = OPTION_OF(nics), *config = OPTION_OF(config_file);
    struct nics_option file;
    if (find_in_list(cli, nics->name, value))
        return true;
    spank_err_t rc = read_variable(spank, nics, value);
    if (rc != ESPANK_ENV_NOEXIST)
        return rc == ESPANK_SUCCESS;
    if (find_in_list(cli, config->name, &file) || find_in_list(site, config->name, &file) ||
        read_variable(spank, config, &file) != ESPANK_ENV_NOEXIST)
        return false;
    if (!find_in_list(site, nics->name, value))
        memcpy(value->text, "auto", sizeof("auto"));
    return true;
}

/* ---- The task ---- */

static bool is_set(spank_t spank, const char *name)
{
    char start[2];
    return spank_getenv(spank, name, start, sizeof(start)) != ESPANK_ENV_NOEXIST;
}

static void unset_outer_variables(spank_t spank)
{
    char list[NETWORK_SET_BYTES], value[NIC_ENV_BYTES];
    struct nic_env outer;
    if (spank_getenv(spank, NETWORK_SET_VARIABLE, list, sizeof(list)) != ESPANK_SUCCESS)
        return;
    if (nic_env_parse(list, &outer) < 0)
        outer = (struct nic_env){.values = {""}};
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        if (outer.values[id][0] != 0 &&
            spank_getenv(spank, nic_env_names[id], value, sizeof(value)) == ESPANK_SUCCESS &&
            strcmp(value, outer.values[id]) == 0)
            spank_unsetenv(spank, nic_env_names[id]);
    spank_unsetenv(spank, NETWORK_SET_VARIABLE);
}

/* Set the list before the variables: a variable that is not on the list would count as the user's. */
static void put_variables(spank_t spank, struct nic_env *env)
{
    char list[NETWORK_SET_BYTES];
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        const char *opposite = nic_env_opposite((enum nic_env_id)id);
        if (is_set(spank, nic_env_names[id]) || (opposite != NULL && is_set(spank, opposite)))
            env->values[id][0] = 0;
    }
    nic_env_format(env, list);
    if (list[0] == 0 || spank_setenv(spank, NETWORK_SET_VARIABLE, list, 1) != ESPANK_SUCCESS)
        return;
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        if (env->values[id][0] != 0)
            spank_setenv(spank, nic_env_names[id], env->values[id], 0);
}

/* Print a sentence, from one task of each node. */
static void complain(spank_t spank, const char *sentence)
{
    int task = 0;
    char node[FAILURE_NODE_BYTES];
    if (spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0)
        return;
    slurm_spank_log("hvd: NCCL, Gloo, UCX and Open MPI are told of no network on %s: %s",
                    failure_report_name_node(node), sentence);
}

static void set_variables(spank_t spank, const char *filter)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    struct task_route route;
    struct nic_env env;
    struct hvd_error err = {""};
    const char *why = "";
    int count = 0, entry_count = 0;
    struct nic *nics = calloc(NIC_MAX, sizeof(*nics));
    if (nics == NULL || nics_read_node(nics, NIC_MAX, "/sys", &count, &err) != HVD_OK)
        goto done;
    if (nics_select(nics, count, filter, &err) != HVD_OK) {
        complain(spank, err.text);
        goto done;
    }
    if (nic_filter_parse(filter, entries, &entry_count, &why) == 0 &&
        task_network_choose(nics, count, entry_count > 0, find_route(spank, &route) ? &route : NULL, &env))
        put_variables(spank, &env);
done:
    free(nics);
}

void task_network_init(spank_t spank, const struct site *site)
{
    uint32_t node_count = 0;
    char cli[CONFIG_LIST_BYTES + 1] = "";
    struct nics_option option;
    struct hvd_error err;
    if (!step_is_normal(spank))
        return;
    unset_outer_variables(spank);
    if (!options_use_hvd(site, step_environment(spank)) || options_list(cli, &err) != HVD_OK ||
        spank_get_item(spank, S_JOB_NNODES, &node_count) != ESPANK_SUCCESS || node_count < 2)
        return;
    if (find_nics_option(spank, cli, site->list, &option))
        set_variables(spank, option.text);
}
