/* nic_env.c: the variables that tell NCCL, UCX, Gloo and Open MPI which interfaces and RDMA devices of
 * this node to use. */
#include "topo/nic_env.h"

#include <stdio.h>
#include <string.h>

#include "base/token.h"
#include "topo/nic.h"

const char *const setting_variables[SETTING_COUNT] = {
    [SETTING_NCCL_SOCKETS] = "NCCL_SOCKET_IFNAME",
    [SETTING_NCCL_RDMA] = "NCCL_IB_HCA",
    [SETTING_UCX] = "UCX_NET_DEVICES",
    [SETTING_GLOO] = "GLOO_SOCKET_IFNAME",
    [SETTING_OPEN_MPI] = "OMPI_MCA_btl_tcp_if_include",
};

const char *setting_opposite(enum setting_id id)
{
    return id == SETTING_OPEN_MPI ? "OMPI_MCA_btl_tcp_if_exclude" : NULL;
}

/* The kernel lets an interface have almost any name; the readers of a list split it, and know wildcards. */
static bool is_plain(const char *name)
{
    return name[0] != 0 && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                             "0123456789_.:@+-")] == 0;
}

void setting_list_add(struct setting_list *list, const char *name)
{
    size_t used = strlen(list->text);
    if (list->failed)
        return;
    int length = snprintf(list->text + used, SETTING_BYTES - used, "%s%s", used > 0 ? "," : "", name);
    if (is_plain(name) && used + (size_t)length < SETTING_BYTES)
        return;
    list->text[0] = 0;
    list->failed = true;
}

void setting_list_add_card(struct setting_list *list, const char *verbs, int port)
{
    char name[NIC_VERBS_BYTES + 16];
    snprintf(name, sizeof(name), "%.*s:%d", NIC_VERBS_BYTES - 1, verbs, port > 0 ? port : 1);
    setting_list_add(list, name);
}

/* NCCL takes names for the beginnings of names where no '=' stands before them. */
static void set_exact(char value[SETTING_BYTES], const char *list)
{
    if (list[0] != 0 && strlen(list) + 1 < SETTING_BYTES)
        snprintf(value, SETTING_BYTES, "=%.*s", SETTING_BYTES - 2, list);
}

void settings_of_lists(const struct setting_list *interfaces, const struct setting_list *cards,
                       struct settings *settings)
{
    bool rdma = cards->text[0] != 0 || cards->failed;
    *settings = (struct settings){.values = {""}};
    set_exact(settings->values[SETTING_NCCL_RDMA], cards->text);
    set_exact(settings->values[SETTING_NCCL_SOCKETS], interfaces->text);
    memcpy(settings->values[SETTING_UCX], rdma ? cards->text : interfaces->text, SETTING_BYTES);
    memcpy(settings->values[SETTING_GLOO], interfaces->text, SETTING_BYTES);
    memcpy(settings->values[SETTING_OPEN_MPI], interfaces->text, SETTING_BYTES);
}

/* ---- What a launcher has set ---- */

void settings_write(const struct settings *settings, char text[NETWORK_SET_BYTES])
{
    size_t used = 0;
    text[0] = 0;
    for (int id = 0; id < SETTING_COUNT; id++)
        if (settings->values[id][0] != 0)
            used += (size_t)snprintf(text + used, NETWORK_SET_BYTES - used, "%s%s=%s", used > 0 ? ";" : "",
                                     setting_variables[id], settings->values[id]);
}

static int read_entry(struct word entry, struct settings *settings)
{
    const char *equals = memchr(entry.text, '=', entry.length);
    if (equals == NULL)
        return -1;
    struct word name = {entry.text, (size_t)(equals - entry.text)};
    struct word value = {equals + 1, entry.length - name.length - 1};
    if (value.length == 0 || value.length >= SETTING_BYTES)
        return -1;
    for (int id = 0; id < SETTING_COUNT; id++) {
        if (!word_is(name, setting_variables[id]))
            continue;
        memcpy(settings->values[id], value.text, value.length);
        settings->values[id][value.length] = 0;
    }
    return 0;
}

int settings_read(const char *text, struct settings *settings)
{
    struct settings read = {.values = {""}};
    struct word entry;
    for (const char *at = text; at != NULL;) {
        at = word_next(at, ';', &entry);
        if (read_entry(entry, &read) < 0)
            return -1;
    }
    *settings = read;
    return 0;
}
