/* nic_env.c: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use. */
#include "topo/nic_env.h"

#include <stdio.h>
#include <string.h>

#include "options/token.h"
#include "topo/nic.h"

const char *const nic_env_names[NIC_ENV_COUNT] = {
    [NIC_ENV_NCCL_SOCKETS] = "NCCL_SOCKET_IFNAME",
    [NIC_ENV_NCCL_RDMA] = "NCCL_IB_HCA",
    [NIC_ENV_UCX] = "UCX_NET_DEVICES",
    [NIC_ENV_GLOO] = "GLOO_SOCKET_IFNAME",
    [NIC_ENV_OPEN_MPI] = "OMPI_MCA_btl_tcp_if_include",
    [NIC_ENV_NCCL_NET] = "NCCL_NET",
};

const char *nic_env_opposite(enum nic_env_id id)
{
    return id == NIC_ENV_OPEN_MPI ? "OMPI_MCA_btl_tcp_if_exclude" : NULL;
}

/* The kernel allows almost any interface name, but the libraries split lists at some characters and expand
 * wildcards. */
static bool is_plain(const char *name)
{
    return name[0] != 0 && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                             "0123456789_.:@+-")] == 0;
}

void nic_env_list_add(struct nic_env_list *list, const char *name)
{
    size_t used = strlen(list->text);
    if (list->failed)
        return;
    int length = snprintf(list->text + used, NIC_ENV_BYTES - used, "%s%s", used > 0 ? "," : "", name);
    if (is_plain(name) && used + (size_t)length < NIC_ENV_BYTES)
        return;
    list->text[0] = 0;
    list->failed = true;
}

void nic_env_list_add_rdma(struct nic_env_list *list, const char *verbs, int port)
{
    char name[NIC_VERBS_BYTES + 16];
    snprintf(name, sizeof(name), "%.*s:%d", NIC_VERBS_BYTES - 1, verbs, port > 0 ? port : 1);
    nic_env_list_add(list, name);
}

/* Write the list with a leading '=', without which NCCL reads each name as a prefix. */
static void set_exact(char value[NIC_ENV_BYTES], const char *list)
{
    if (list[0] != 0 && strlen(list) + 1 < NIC_ENV_BYTES)
        snprintf(value, NIC_ENV_BYTES, "=%.*s", NIC_ENV_BYTES - 2, list);
}

void nic_env_from_lists(const struct nic_env_list *interfaces, const struct nic_env_list *cards,
                        struct nic_env *env)
{
    bool rdma = cards->text[0] != 0 || cards->failed;
    *env = (struct nic_env){.values = {""}};
    set_exact(env->values[NIC_ENV_NCCL_RDMA], cards->text);
    set_exact(env->values[NIC_ENV_NCCL_SOCKETS], interfaces->text);
    memcpy(env->values[NIC_ENV_UCX], rdma ? cards->text : interfaces->text, NIC_ENV_BYTES);
    memcpy(env->values[NIC_ENV_GLOO], interfaces->text, NIC_ENV_BYTES);
    memcpy(env->values[NIC_ENV_OPEN_MPI], interfaces->text, NIC_ENV_BYTES);
}

/* ---- The variables that a launcher has set ---- */

void nic_env_format(const struct nic_env *env, char text[NETWORK_SET_BYTES])
{
    size_t used = 0;
    text[0] = 0;
    for (int id = 0; id < NIC_ENV_COUNT; id++)
        if (env->values[id][0] != 0)
            used += (size_t)snprintf(text + used, NETWORK_SET_BYTES - used, "%s%s=%s", used > 0 ? ";" : "",
                                     nic_env_names[id], env->values[id]);
}

static int read_entry(struct token entry, struct nic_env *env)
{
    const char *equals = memchr(entry.text, '=', entry.length);
    if (equals == NULL)
        return -1;
    struct token name = {entry.text, (size_t)(equals - entry.text)};
    struct token value = {equals + 1, entry.length - name.length - 1};
    if (value.length == 0 || value.length >= NIC_ENV_BYTES)
        return -1;
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        if (!token_equals(name, nic_env_names[id]))
            continue;
        memcpy(env->values[id], value.text, value.length);
        env->values[id][value.length] = 0;
    }
    return 0;
}

int nic_env_parse(const char *text, struct nic_env *env)
{
    struct nic_env read = {.values = {""}};
    struct token entry;
    for (const char *at = text; at != NULL;) {
        at = token_next(at, ';', &entry);
        if (read_entry(entry, &read) < 0)
            return -1;
    }
    *env = read;
    return 0;
}
