/* nic.c: which network cards and interfaces a job may use, and why not the others. */
#include "topo/nic.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "options/nic_filter.h"

#define UNKNOWN_MBPS 10000

const char *nic_name(const struct nic *nic)
{
    return nic->verbs[0] != 0 ? nic->verbs : nic->netdev[0] != 0 ? nic->netdev : nic->pci.id;
}

/* The bandwidth in Mb/s; 0: unknown. */
static int64_t known_mbps(const struct nic *nic)
{
    int64_t pci = nic->pci.mbps / 4 * 3;
    return nic->mbps == 0 || (pci > 0 && pci < nic->mbps) ? pci : nic->mbps;
}

int64_t nic_mbps(const struct nic *nic)
{
    int64_t mbps = known_mbps(nic);
    return mbps > 0 ? mbps : UNKNOWN_MBPS;
}

/* ---- Addresses ---- */

bool nic_is_link_local(const struct nic_address *address)
{
    if (address->family == AF_INET)
        return address->bytes[0] == 169 && address->bytes[1] == 254;
    return address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;
}

static bool in_subnet(const struct nic_address *address, int family, const unsigned char *net, int prefix)
{
    int whole = prefix / 8;
    unsigned int mask = 0xff00u >> (prefix % 8) & 0xff;
    return address->family == family && memcmp(address->bytes, net, (size_t)whole) == 0 &&
           (mask == 0 || ((address->bytes[whole] ^ net[whole]) & mask) == 0);
}

bool nic_has_address(const struct nic *nic)
{
    for (int i = 0; i < nic->address_count; i++)
        if (nic->netdev[0] != 0 && !nic_is_link_local(&nic->addresses[i]))
            return true;
    return false;
}

bool nic_shares_subnet(const struct nic *nic, const struct nic_address *own, const struct nic_address *other)
{
    for (int i = 0; i < nic->address_count; i++) {
        const struct nic_address *mine = &nic->addresses[i];
        if (mine->family == own->family && memcmp(mine->bytes, own->bytes, sizeof(own->bytes)) == 0)
            return in_subnet(other, mine->family, mine->bytes, mine->prefix);
    }
    return false;
}

/* ---- Selection by state and speed ---- */

static void exclude(struct nic *nic, enum nic_exclusion reason, const char *why)
{
    nic->exclusion = reason;
    snprintf(nic->why, sizeof(nic->why), "%s", why);
}

/* RDMA needs no IP address of ours. An interface without an address is of no use. */
static enum nic_exclusion check_addresses(const struct nic *nic)
{
    bool usable = !nic->addresses_known || nic->verbs[0] != 0 || nic_has_address(nic);
    return usable ? NIC_NOT_EXCLUDED : NIC_LINK_LOCAL;
}

static void select_by_state(struct nic *nic)
{
    nic->exclusion = NIC_NOT_EXCLUDED;
    nic->why[0] = 0;
    if (nic->loopback)
        exclude(nic, NIC_LOOPBACK, "loopback");
    else if (nic_filter_is_virtual(nic->netdev))
        exclude(nic, NIC_CONTAINER, "leads to containers or virtual machines of this node only");
    else if (nic->netdev[0] == 0 && nic->verbs[0] == 0)
        exclude(nic, NIC_NO_DEVICE, "no driver has made a network device of it");
    else if (nic->link == NIC_LINK_DOWN)
        exclude(nic, NIC_DOWN, "its link is down");
    else if (nic->master[0] != 0)
        snprintf(nic->why, sizeof(nic->why), "part of %s, which is to be used instead", nic->master);
    else if (check_addresses(nic) != NIC_NOT_EXCLUDED)
        exclude(nic, NIC_LINK_LOCAL,
                nic->address_count > 0 ? "has link-local addresses only" : "has no address");
    if (nic->exclusion == NIC_NOT_EXCLUDED && nic->master[0] != 0)
        nic->exclusion = NIC_BOND_MEMBER;
}

static void select_by_speed(struct nic *nics, int count)
{
    const struct nic *best = NULL;
    for (int i = 0; i < count; i++)
        if (nics[i].exclusion == NIC_NOT_EXCLUDED &&
            (best == NULL || known_mbps(&nics[i]) > known_mbps(best)))
            best = &nics[i];
    for (int i = 0; i < count; i++) {
        int64_t mbps = known_mbps(&nics[i]);
        if (nics[i].exclusion != NIC_NOT_EXCLUDED || mbps == 0 || mbps * 2 >= known_mbps(best))
            continue;
        nics[i].exclusion = NIC_SLOW;
        snprintf(nics[i].why, sizeof(nics[i].why), "%lld Gb/s, less than half of %s's %lld Gb/s",
                 (long long)(mbps / 1000), nic_name(best), (long long)(known_mbps(best) / 1000));
    }
}

static void select_auto(struct nic *nics, int count)
{
    for (int i = 0; i < count; i++)
        select_by_state(&nics[i]);
    select_by_speed(nics, count);
    for (int i = 0; i < count; i++)
        if (nics[i].exclusion == NIC_NOT_EXCLUDED)
            snprintf(nics[i].why, sizeof(nics[i].why), "%s",
                     nics[i].link == NIC_LINK_UP ? "its link is up" : "whether its link is up is not known");
}

/* ---- --hvd-nics ---- */

static bool matches_entry(const struct nic *nic, const struct nic_filter *entry)
{
    if (entry->family == 0)
        return strcmp(nic->netdev, entry->name) == 0 || strcmp(nic->verbs, entry->name) == 0;
    for (int i = 0; i < nic->address_count; i++)
        if (in_subnet(&nic->addresses[i], entry->family, entry->bytes, entry->prefix))
            return true;
    return false;
}

static void list_names(const struct nic *nics, int count, char *text, size_t text_bytes)
{
    size_t used = 0;
    snprintf(text, text_bytes, "none");
    for (int i = 0; i < count && used + 2 * NIC_VERBS_BYTES < text_bytes; i++) {
        if (nics[i].netdev[0] == 0 && nics[i].verbs[0] == 0)
            continue;
        used +=
            (size_t)snprintf(text + used, text_bytes - used, "%s%s%s%s", used > 0 ? ", " : "", nics[i].verbs,
                             nics[i].verbs[0] != 0 && nics[i].netdev[0] != 0 ? "/" : "", nics[i].netdev);
    }
}

static int check_listed(const struct nic *nics, int count, const struct nic_filter *entry,
                        struct hvd_error *err)
{
    const struct nic *found = NULL;
    char names[300];
    for (int i = 0; i < count; i++)
        if (matches_entry(&nics[i], entry) && (found == NULL || found->exclusion == NIC_DOWN))
            found = &nics[i];
    list_names(nics, count, names, sizeof(names));
    if (found == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "--hvd-nics=%s: no network device of this node %s; there are %s", entry->name,
                         entry->family == 0 ? "has that name" : "is in that subnet", names);
    if (found->exclusion == NIC_DOWN)
        return error_set(err, HVD_ERR_INVALID, "--hvd-nics=%s: the link of %s is down; there are %s",
                         entry->name, nic_name(found), names);
    return HVD_OK;
}

static void select_listed(struct nic *nic, const struct nic_filter *entries, int entry_count)
{
    for (int k = 0; k < entry_count; k++) {
        if (!matches_entry(nic, &entries[k]) || nic->exclusion == NIC_DOWN)
            continue;
        nic->exclusion = NIC_NOT_EXCLUDED;
        snprintf(nic->why, sizeof(nic->why), "asked for by --hvd-nics");
        return;
    }
    if (nic->exclusion == NIC_NOT_EXCLUDED || nic->exclusion == NIC_SLOW)
        exclude(nic, NIC_NOT_LISTED, "--hvd-nics names others");
}

int nics_select(struct nic *nics, int count, const char *asked, struct hvd_error *err)
{
    struct nic_filter entries[NIC_FILTER_MAX];
    int entry_count = 0;
    const char *why = "";
    select_auto(nics, count);
    if (asked == NULL)
        return HVD_OK;
    if (nic_filter_parse(asked, entries, &entry_count, &why) < 0)
        return error_set(err, HVD_ERR_INVALID, "--hvd-nics=%.64s: the value %s; expected %s", asked, why,
                         nic_filter_expected);
    for (int k = 0; k < entry_count; k++) {
        int rc = check_listed(nics, count, &entries[k], err);
        if (rc != HVD_OK)
            return rc;
    }
    for (int i = 0; i < count && entry_count > 0; i++)
        select_listed(&nics[i], entries, entry_count);
    return HVD_OK;
}
