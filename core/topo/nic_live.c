/* nic_live.c: read the state of network interfaces and RDMA devices from /sys, and addresses from the kernel.
 */
#include "topo/nic.h"
#include "topo/sys_file.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below, a path is a folder in /sys, and a name is a file in that folder. */

/* Read a file's first line into [text]; "" if it cannot be read. */
static void read_line(const char *path, const char *name, char *text, size_t text_bytes)
{
    char whole[SYS_PATH_BYTES + 64];
    snprintf(whole, sizeof(whole), "%s/%s", path, name);
    text[0] = 0;
    sys_file_read_line(whole, "", text, text_bytes);
}

static int64_t read_number(const char *path, const char *name, int base)
{
    char text[64];
    read_line(path, name, text, sizeof(text));
    return strtoll(text, NULL, base);
}

static bool exists(const char *path, const char *name)
{
    char whole[SYS_PATH_BYTES + 64];
    struct stat status;
    snprintf(whole, sizeof(whole), "%s/%s", path, name);
    return stat(whole, &status) == 0;
}

/* Read the last part of a link's target; "" if there is no link or it does not fit. */
static void read_link_name(const char *path, const char *name, char *text, size_t text_bytes)
{
    char whole[SYS_PATH_BYTES + 64], target[SYS_PATH_BYTES];
    snprintf(whole, sizeof(whole), "%s/%s", path, name);
    text[0] = 0;
    ssize_t bytes = readlink(whole, target, sizeof(target) - 1);
    if (bytes <= 0)
        return;
    target[bytes] = 0;
    const char *last = strrchr(target, '/') != NULL ? strrchr(target, '/') + 1 : target;
    if (strlen(last) < text_bytes)
        memcpy(text, last, strlen(last) + 1);
}

/* ---- Interfaces ---- */

/* Ignore the speed of a virtual interface such as a veth: the kernel makes it up. */
static void read_speed(struct nic *nic, const char *path)
{
    bool real = exists(path, "device") || exists(path, "bonding");
    int64_t mbps = real ? read_number(path, "speed", 10) : 0;
    if (mbps > 0 && mbps < INT64_C(100000000))
        nic->mbps = mbps;
}

static void read_interface(struct nic *nic, const char *path)
{
    char state[32];
    int64_t flags = read_number(path, "flags", 16);
    if (exists(path, "flags"))
        nic->link = (flags & IFF_UP) != 0 ? NIC_LINK_UP : NIC_LINK_DOWN;
    read_line(path, "operstate", state, sizeof(state));
    if (strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0 ||
        strcmp(state, "notpresent") == 0)
        nic->link = NIC_LINK_DOWN;
    nic->loopback = (flags & IFF_LOOPBACK) != 0;
    if (exists(path, "master/bonding"))
        read_link_name(path, "master", nic->master, sizeof(nic->master));
    if (read_number(path, "type", 10) == 32)
        nic->fabric = NIC_INFINIBAND;
    else if (nic->fabric == NIC_OTHER && read_number(path, "type", 10) == 1)
        nic->fabric = NIC_ETHERNET;
    if (exists(path, "dev_port"))
        nic->port = (int)read_number(path, "dev_port", 10) + 1;
    read_speed(nic, path);
}

/* ---- RDMA devices ---- */

/* The state of the RDMA port overrides that of its interface. */
static void read_verbs(struct nic *nic, const char *sys)
{
    char path[SYS_PATH_BYTES], state[64];
    snprintf(path, sizeof(path), "%.300s/class/infiniband/%s/ports/%d", sys, nic->verbs,
             nic->port > 0 ? nic->port : 1);
    read_line(path, "state", state, sizeof(state));
    if (state[0] != 0)
        nic->link = strncmp(state, "4:", 2) == 0 ? NIC_LINK_UP : NIC_LINK_DOWN;
    int64_t gbps = read_number(path, "rate", 10); /* "200 Gb/sec (4X HDR)" */
    if (gbps > 0 && gbps < 100000)
        nic->mbps = gbps * 1000;
    read_line(path, "link_layer", state, sizeof(state));
    if (strcmp(state, "Ethernet") == 0)
        nic->fabric = NIC_ETHERNET;
    else if (strcmp(state, "InfiniBand") == 0 && nic->fabric != NIC_OMNIPATH)
        nic->fabric = NIC_INFINIBAND;
}

/* ---- The node ---- */

struct nic *nics_find_netdev(struct nic *nics, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(nics[i].netdev, name) == 0)
            return &nics[i];
    return NULL;
}

/* Is it an interface? The bonding module also has files in this folder. */
static bool is_interface(const char *folder, const char *name)
{
    char path[SYS_PATH_BYTES];
    snprintf(path, sizeof(path), "%.400s/%.64s", folder, name);
    return name[0] != '.' && strlen(name) < NIC_NAME_BYTES && exists(path, "ifindex");
}

int nics_read_sys(struct nic *nics, int count, int max, const char *sys)
{
    char folder[SYS_PATH_BYTES], path[SYS_PATH_BYTES];
    snprintf(folder, sizeof(folder), "%.300s/class/net", sys);
    DIR *interfaces = opendir(folder);
    for (struct dirent *i = interfaces == NULL ? NULL : readdir(interfaces); i != NULL;
         i = readdir(interfaces)) {
        if (!is_interface(folder, i->d_name))
            continue;
        struct nic *nic = nics_find_netdev(nics, count, i->d_name);
        if (nic == NULL && count == max)
            continue;
        if (nic == NULL) {
            nic = &nics[count++];
            *nic = (struct nic){.fabric = NIC_OTHER};
            snprintf(nic->netdev, sizeof(nic->netdev), "%.15s", i->d_name);
        }
        snprintf(path, sizeof(path), "%.300s/class/net/%s", sys, nic->netdev);
        read_interface(nic, path);
    }
    if (interfaces != NULL)
        closedir(interfaces);
    for (int i = 0; i < count; i++)
        if (nics[i].verbs[0] != 0)
            read_verbs(&nics[i], sys);
    return count;
}

/* ---- Addresses ---- */

static int count_bits(const unsigned char *bytes, size_t length)
{
    int bits = 0;
    for (size_t i = 0; i < length; i++)
        bits += __builtin_popcount(bytes[i]);
    return bits;
}

static void add_address(struct nic *nic, const struct ifaddrs *from)
{
    struct nic_address address = {.family = from->ifa_addr->sa_family};
    unsigned char mask[16] = {0};
    size_t length = 0;
    if (address.family == AF_INET) {
        length = 4;
        memcpy(address.bytes, (const char *)from->ifa_addr + offsetof(struct sockaddr_in, sin_addr), length);
        memcpy(mask, (const char *)from->ifa_netmask + offsetof(struct sockaddr_in, sin_addr), length);
    } else if (address.family == AF_INET6) {
        length = 16;
        memcpy(address.bytes, (const char *)from->ifa_addr + offsetof(struct sockaddr_in6, sin6_addr),
               length);
        memcpy(mask, (const char *)from->ifa_netmask + offsetof(struct sockaddr_in6, sin6_addr), length);
    }
    if (length == 0 || nic->address_count == NIC_MAX_ADDRESSES)
        return;
    address.prefix = count_bits(mask, length);
    nic->addresses[nic->address_count++] = address;
}

int nics_read_addresses(struct nic *nics, int count, struct hvd_error *err)
{
    struct ifaddrs *interfaces = NULL;
    if (getifaddrs(&interfaces) < 0)
        return error_set_errno(err, "cannot ask for the addresses of this node");
    for (int i = 0; i < count; i++) {
        nics[i].addresses_known = true;
        nics[i].address_count = 0;
    }
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next) {
        struct nic *nic = nics_find_netdev(nics, count, i->ifa_name);
        if (nic != NULL && i->ifa_addr != NULL && i->ifa_netmask != NULL)
            add_address(nic, i);
    }
    freeifaddrs(interfaces);
    return HVD_OK;
}
