/* nic_filter.c: the values of --hvd-nics. */
#include "base/nic_filter.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/token.h"

const char nics_expected[] = "auto, or names of network interfaces or RDMA devices, or subnets such as "
                             "10.1.0.0/16, with commas between";

static const char *const container_names[] = {"docker", "virbr", "br-",   "veth", "cni",
                                              "podman", "lxcbr", "lxdbr", NULL};

bool nics_of_containers(const char *name)
{
    for (int i = 0; container_names[i] != NULL; i++)
        if (strncmp(name, container_names[i], strlen(container_names[i])) == 0)
            return true;
    return false;
}

/* "10.1.0.0/16": the name is an address with a prefix. */
static int read_subnet(struct nics_entry *entry, const char **whyp)
{
    char address[NICS_NAME_BYTES];
    struct word word;
    const char *prefix = word_next(entry->name, '/', &word);
    memcpy(address, word.text, word.length);
    address[word.length] = 0;
    entry->family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
    *whyp = "has a subnet whose address is not one";
    if (inet_pton(entry->family, address, entry->bytes) != 1)
        return -1;
    word_next(prefix, 0, &word);
    return word_number(word, 0, entry->family == AF_INET ? 32 : 128, &entry->prefix, whyp);
}

static int read_entry(struct word word, struct nics_entry *entry, const char **whyp)
{
    *entry = (struct nics_entry){.family = 0};
    *whyp = word.length == 0 ? "has an empty name" : "has a name that is too long";
    if (word.length == 0 || word.length >= sizeof(entry->name))
        return -1;
    memcpy(entry->name, word.text, word.length);
    *whyp = "has a name with a character that names do not have";
    for (size_t i = 0; i < word.length; i++)
        if (entry->name[i] <= ' ' || entry->name[i] > '~' || entry->name[i] == ';')
            return -1;
    return strchr(entry->name, '/') != NULL ? read_subnet(entry, whyp) : 0;
}

int nics_parse(const char *text, struct nics_entry *entries, int *countp, const char **whyp)
{
    int count = 0;
    struct word word;
    if (strcmp(text, "auto") == 0) {
        *countp = 0;
        return 0;
    }
    for (const char *at = text; at != NULL; count++) {
        at = word_next(at, ',', &word);
        *whyp = "has more than 32 names";
        if (count == NICS_MAX || read_entry(word, &entries[count], whyp) < 0)
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

int nics_check(const char *text, const char **whyp)
{
    struct nics_entry entries[NICS_MAX];
    int count;
    return nics_parse(text, entries, &count, whyp);
}
