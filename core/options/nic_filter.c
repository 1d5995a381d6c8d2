/* nic_filter.c: the values of --hvd-nics. */
#include "options/nic_filter.h"

#include <arpa/inet.h>
#include <string.h>

#include "options/token.h"

const char nic_filter_expected[] = "auto, or names of network interfaces or RDMA devices, or subnets such as "
                                   "10.1.0.0/16, with commas between";

static const char *const virtual_names[] = {"docker", "virbr", "br-",   "veth", "cni",
                                            "podman", "lxcbr", "lxdbr", NULL};

bool nic_filter_is_virtual(const char *name)
{
    for (int i = 0; virtual_names[i] != NULL; i++)
        if (strncmp(name, virtual_names[i], strlen(virtual_names[i])) == 0)
            return true;
    return false;
}

/* Read a name such as "10.1.0.0/16" as an address with a prefix. */
static int read_subnet(struct nic_filter *entry, const char **whyp)
{
    char address[NIC_FILTER_NAME_BYTES];
    struct token token;
    const char *prefix = token_next(entry->name, '/', &token);
    memcpy(address, token.text, token.length);
    address[token.length] = 0;
    entry->family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
    *whyp = "has a subnet whose address is not one";
    if (inet_pton(entry->family, address, entry->bytes) != 1)
        return -1;
    token_next(prefix, 0, &token);
    return token_parse_number(token, 0, entry->family == AF_INET ? 32 : 128, &entry->prefix, whyp);
}

static int read_entry(struct token token, struct nic_filter *entry, const char **whyp)
{
    *entry = (struct nic_filter){.family = 0};
    *whyp = token.length == 0 ? "has an empty name" : "has a name that is too long";
    if (token.length == 0 || token.length >= sizeof(entry->name))
        return -1;
    memcpy(entry->name, token.text, token.length);
    *whyp = "has a name with a character that names do not have";
    for (size_t i = 0; i < token.length; i++)
        if (entry->name[i] <= ' ' || entry->name[i] > '~' || entry->name[i] == ';')
            return -1;
    return strchr(entry->name, '/') != NULL ? read_subnet(entry, whyp) : 0;
}

int nic_filter_parse(const char *text, struct nic_filter *entries, int *countp, const char **whyp)
{
    int count = 0;
    struct token token;
    if (strcmp(text, "auto") == 0) {
        *countp = 0;
        return 0;
    }
    for (const char *at = text; at != NULL; count++) {
        at = token_next(at, ',', &token);
        *whyp = "has more than 32 names";
        if (count == NIC_FILTER_MAX || read_entry(token, &entries[count], whyp) < 0)
            return -1;
        for (int i = 0; i < count; i++) {
            *whyp = "has a name twice";
            if (strcmp(entries[i].name, entries[count].name) == 0)
                return -1;
        }
    }
    *countp = count;
    return 0;
}

int nic_filter_check(const char *text, const char **whyp)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    int count;
    return nic_filter_parse(text, entries, &count, whyp);
}
