/* address.c: the addresses of a node, and the order in which to try those of another. */
#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "options/nic_filter.h"

void address_map_ipv4(const struct in_addr *from, struct in6_addr *to)
{
    static const unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    memcpy(to->s6_addr, prefix, sizeof(prefix));
    memcpy(to->s6_addr + sizeof(prefix), from, sizeof(*from));
}

static int count_bits(const void *mask, size_t length)
{
    int bits = 0;
    for (size_t i = 0; i < length; i++)
        bits += __builtin_popcount(((const unsigned char *)mask)[i]);
    return bits;
}

static bool is_link_local(const struct in6_addr *address)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        return address->s6_addr[12] == 169 && address->s6_addr[13] == 254;
    return IN6_IS_ADDR_LINKLOCAL(address);
}

/* False if the interface has no address that a peer could use. */
static bool read_net(const struct ifaddrs *interface, struct address_net *net)
{
    if (interface->ifa_addr == NULL || interface->ifa_netmask == NULL || (interface->ifa_flags & IFF_UP) == 0)
        return false;
    *net = (struct address_net){.bridge = nic_filter_is_virtual(interface->ifa_name),
                                .loopback = (interface->ifa_flags & IFF_LOOPBACK) != 0};
    if (interface->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in address, mask;
        memcpy(&address, interface->ifa_addr, sizeof(address));
        memcpy(&mask, interface->ifa_netmask, sizeof(mask));
        address_map_ipv4(&address.sin_addr, &net->address);
        net->prefix_bits = 96 + count_bits(&mask.sin_addr, sizeof(mask.sin_addr));
    } else if (interface->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 address, mask;
        memcpy(&address, interface->ifa_addr, sizeof(address));
        memcpy(&mask, interface->ifa_netmask, sizeof(mask));
        net->address = address.sin6_addr;
        net->prefix_bits = count_bits(&mask.sin6_addr, sizeof(mask.sin6_addr));
    } else {
        return false;
    }
    return !is_link_local(&net->address);
}

int address_nets(struct address_net *nets, int room)
{
    struct ifaddrs *interfaces = NULL;
    int count = 0;
    if (getifaddrs(&interfaces) < 0)
        return 0;
    for (const struct ifaddrs *i = interfaces; i != NULL && count < room; i = i->ifa_next)
        if (read_net(i, &nets[count]))
            count++;
    freeifaddrs(interfaces);
    return count;
}

bool address_in_subnet(const struct in6_addr *address, const struct in6_addr *net, int prefix_bits)
{
    int whole = prefix_bits / 8, rest = prefix_bits % 8;
    if (memcmp(address->s6_addr, net->s6_addr, (size_t)whole) != 0)
        return false;
    return rest == 0 || (address->s6_addr[whole] ^ net->s6_addr[whole]) >> (8 - rest) == 0;
}

enum distance { NEAR, FAR, BRIDGE, OWN };

static enum distance distance(const struct in6_addr *address, const struct address_net *nets, int net_count)
{
    enum distance best = FAR;
    for (int i = 0; i < net_count; i++) {
        if (IN6_ARE_ADDR_EQUAL(address, &nets[i].address))
            return OWN;
        if (!address_in_subnet(address, &nets[i].address, nets[i].prefix_bits))
            continue;
        if (!nets[i].bridge)
            best = NEAR;
        else if (best == FAR)
            best = BRIDGE;
    }
    return best;
}

void address_sort(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count)
{
    for (int i = 1; i < count; i++) {
        struct in6_addr address = addresses[i];
        enum distance far = distance(&address, nets, net_count);
        int at = i;
        for (; at > 0 && distance(&addresses[at - 1], nets, net_count) > far; at--)
            addresses[at] = addresses[at - 1];
        addresses[at] = address;
    }
}

void address_rotate(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count,
                    int lane)
{
    int near = 0;
    while (near < count && distance(&addresses[near], nets, net_count) == NEAR)
        near++;
    for (int i = 0; near > 0 && i < lane % near; i++) {
        struct in6_addr first = addresses[0];
        memmove(addresses, addresses + 1, (size_t)(near - 1) * sizeof(first));
        addresses[near - 1] = first;
    }
}

static bool is_one_of(const struct in6_addr *address, const struct in6_addr *addresses, int count)
{
    for (int i = 0; i < count; i++)
        if (IN6_ARE_ADDR_EQUAL(address, &addresses[i]))
            return true;
    return false;
}

int address_select_advertised(const struct address_net *nets, int net_count, struct in6_addr *addresses,
                              int room)
{
    static const struct {
        bool loopback, bridge;
    } passes[] = {{false, false}, {false, true}, {true, false}};
    int count = 0;
    for (int pass = 0; pass < 3; pass++) {
        if (passes[pass].loopback && count > 0)
            break;
        for (int i = 0; i < net_count && count < room; i++)
            if (nets[i].loopback == passes[pass].loopback && nets[i].bridge == passes[pass].bridge &&
                !is_one_of(&nets[i].address, addresses, count))
                addresses[count++] = nets[i].address;
    }
    return count;
}

int address_advertised(struct in6_addr *addresses, int room)
{
    struct address_net nets[ADDRESS_MAX_NETS];
    int count = address_select_advertised(nets, address_nets(nets, ADDRESS_MAX_NETS), addresses, room);
    if (count > 0)
        return count;
    struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
    address_map_ipv4(&loopback, &addresses[0]);
    return 1;
}

void address_text(const struct in6_addr *address, char text[ADDRESS_TEXT_BYTES])
{
    bool mapped = IN6_IS_ADDR_V4MAPPED(address);
    const void *bytes = mapped ? address->s6_addr + 12 : address->s6_addr;
    if (inet_ntop(mapped ? AF_INET : AF_INET6, bytes, text, ADDRESS_TEXT_BYTES) == NULL)
        text[0] = 0;
}

socklen_t address_to_sockaddr(const struct in6_addr *address, uint16_t port, struct sockaddr_storage *storage)
{
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&ipv4.sin_addr, address->s6_addr + 12, sizeof(ipv4.sin_addr));
        memcpy(storage, &ipv4, sizeof(ipv4));
        return sizeof(ipv4);
    }
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *address};
    memcpy(storage, &ipv6, sizeof(ipv6));
    return sizeof(ipv6);
}

uint16_t address_sockaddr_port(const struct sockaddr_storage *storage)
{
    struct sockaddr_in ipv4; /* the port is at the same place in both families */
    memcpy(&ipv4, storage, sizeof(ipv4));
    return ntohs(ipv4.sin_port);
}

bool address_of_socket_end(int fd, bool ours, struct in6_addr *address)
{
    struct sockaddr_storage storage = {0};
    socklen_t length = sizeof(storage);
    int rc = ours ? getsockname(fd, (struct sockaddr *)&storage, &length)
                  : getpeername(fd, (struct sockaddr *)&storage, &length);
    if (rc == 0 && storage.ss_family == AF_INET)
        address_map_ipv4(&((const struct sockaddr_in *)&storage)->sin_addr, address);
    else
        *address = ((const struct sockaddr_in6 *)&storage)->sin6_addr;
    return rc == 0;
}

void address_peer_text(int fd, char text[ADDRESS_TEXT_BYTES])
{
    struct in6_addr address;
    if (address_of_socket_end(fd, false, &address))
        address_text(&address, text);
    else
        memcpy(text, "an unknown address", sizeof("an unknown address"));
}
