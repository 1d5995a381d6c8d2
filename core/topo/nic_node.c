/* nic_node.c: the network interfaces and RDMA devices of this node, as this process's network namespace has
 * them. */
#include "topo/nic.h"
#include "topo/sys_file.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- The network namespace ---- */

/* Is the interface of this name in /sys the same as our [link]? /sys may show another network namespace. */
static bool is_same_device(const struct nic *nic, const struct sockaddr_ll *link, const char *sys)
{
    char path[SYS_PATH_BYTES], text[64] = "", own[64] = "";
    snprintf(path, sizeof(path), "%.300s/class/net/%s/address", sys, nic->netdev);
    sys_file_read_line(path, "", text, sizeof(text));
    for (int i = 0; i < link->sll_halen && i < (int)sizeof(link->sll_addr); i++)
        snprintf(own + strlen(own), sizeof(own) - strlen(own), "%s%02x", i > 0 ? ":" : "", link->sll_addr[i]);
    return own[0] != 0 && strncmp(text, own, strlen(own)) == 0;
}

/* Find the interface in [nics], as read from /sys, or add it. Returns NULL if there is no room. */
static struct nic *find_netdev_or_add(struct nic *nics, int *countp, int max, const struct ifaddrs *interface,
                                      const char *sys)
{
    struct sockaddr_ll link;
    memcpy(&link, interface->ifa_addr, sizeof(link));
    struct nic *nic = nics_find_netdev(nics, *countp, interface->ifa_name);
    if (nic != NULL && ((interface->ifa_flags & IFF_LOOPBACK) != 0 || is_same_device(nic, &link, sys)))
        return nic;
    if (nic != NULL)
        nic->netdev[0] = 0;
    if (*countp == max)
        return NULL;
    nic = &nics[(*countp)++];
    *nic = (struct nic){.fabric = link.sll_hatype == ARPHRD_INFINIBAND ? NIC_INFINIBAND
                                  : link.sll_hatype == ARPHRD_ETHER    ? NIC_ETHERNET
                                                                       : NIC_OTHER};
    snprintf(nic->netdev, sizeof(nic->netdev), "%.15s", interface->ifa_name);
    return nic;
}

/* Keep only the interfaces that the kernel lists, RDMA devices, and cards on PCI. The kernel's state
 * overrides that of /sys. Returns the new count. */
static int keep_own_netdevs(struct nic *nics, int count, int max, const struct ifaddrs *interfaces,
                            const char *sys)
{
    bool own[NIC_MAX] = {false};
    int kept = 0;
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_PACKET)
            continue;
        struct nic *nic = find_netdev_or_add(nics, &count, max, i, sys);
        if (nic == NULL)
            continue;
        own[nic - nics] = true;
        nic->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        if (nic->verbs[0] == 0)
            nic->link = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0 ? NIC_LINK_UP
                                                                                          : NIC_LINK_DOWN;
    }
    for (int i = 0; i < count; i++) {
        if (!own[i])
            nics[i].netdev[0] = 0;
        if (own[i] || nics[i].verbs[0] != 0 || nics[i].pci.id[0] != 0)
            nics[kept++] = nics[i];
    }
    return kept;
}

/* ---- RDMA devices ---- */

/* Write the name of the interface above a port into [name]; "" if there is none. */
static void find_port_netdev(const char *device, int port, char name[NIC_NAME_BYTES])
{
    char path[SYS_PATH_BYTES];
    snprintf(path, sizeof(path), "%.300s/device/net", device);
    DIR *folder = opendir(path);
    for (struct dirent *i = folder == NULL ? NULL : readdir(folder); i != NULL; i = readdir(folder)) {
        char number[32] = "0";
        if (i->d_name[0] == '.' || strlen(i->d_name) >= NIC_NAME_BYTES)
            continue;
        snprintf(path, sizeof(path), "%.300s/device/net/%.15s/dev_port", device, i->d_name);
        sys_file_read_line(path, "", number, sizeof(number));
        if (strtol(number, NULL, 10) == port - 1)
            memcpy(name, i->d_name, strlen(i->d_name) + 1);
    }
    if (folder != NULL)
        closedir(folder);
}

static int add_ports(struct nic *nics, int count, int max, const char *device, const char *name)
{
    char path[SYS_PATH_BYTES];
    snprintf(path, sizeof(path), "%.400s/ports", device);
    DIR *folder = opendir(path);
    for (struct dirent *i = folder == NULL ? NULL : readdir(folder); i != NULL; i = readdir(folder)) {
        int port = (int)strtol(i->d_name, NULL, 10);
        if (port < 1 || count == max)
            continue;
        struct nic *nic = &nics[count++];
        *nic = (struct nic){.fabric = strncmp(name, "hfi", 3) == 0 ? NIC_OMNIPATH : NIC_OTHER, .port = port};
        snprintf(nic->verbs, sizeof(nic->verbs), "%.63s", name);
        find_port_netdev(device, port, nic->netdev);
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static int add_rdma(struct nic *nics, int max, const char *sys)
{
    char path[SYS_PATH_BYTES];
    int count = 0;
    snprintf(path, sizeof(path), "%.300s/class/infiniband", sys);
    DIR *folder = opendir(path);
    for (struct dirent *i = folder == NULL ? NULL : readdir(folder); i != NULL; i = readdir(folder)) {
        char device[SYS_PATH_BYTES];
        if (i->d_name[0] == '.' || strlen(i->d_name) >= NIC_VERBS_BYTES)
            continue;
        snprintf(device, sizeof(device), "%.300s/class/infiniband/%.63s", sys, i->d_name);
        count = add_ports(nics, count, max, device, i->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* ---- The node ---- */

static int compare_names(const void *a, const void *b)
{
    const struct nic *left = a, *right = b;
    int order = strcmp(left->netdev, right->netdev);
    if (order == 0)
        order = strcmp(left->verbs, right->verbs);
    return order != 0 ? order : left->port - right->port;
}

int nics_read_own(struct nic *nics, int max, const char *sys, int *countp, struct hvd_error *err)
{
    struct ifaddrs *interfaces = NULL;
    if (getifaddrs(&interfaces) < 0)
        return error_set_errno(err, "cannot ask for the network interfaces of this node");
    int count = nics_read_sys(nics, *countp, max, sys);
    *countp = keep_own_netdevs(nics, count, max, interfaces, sys);
    freeifaddrs(interfaces);
    return nics_read_addresses(nics, *countp, err);
}

int nics_read_node(struct nic *nics, int max, const char *sys, int *countp, struct hvd_error *err)
{
    int room = max < NIC_MAX ? max : NIC_MAX;
    int count = add_rdma(nics, room, sys);
    int rc = nics_read_own(nics, room, sys, &count, err);
    *countp = rc == HVD_OK ? count : 0;
    qsort(nics, (size_t)*countp, sizeof(*nics), compare_names);
    return rc;
}
