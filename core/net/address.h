/* address.h: which addresses of a node are worth trying, and in which order. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>

#define ADDRESS_TEXT_BYTES 64
#define ADDRESS_MAX_NETS   64

/* One address of an interface of this node, with its subnet. IPv4 as ::ffff:a.b.c.d, prefix + 96. */
struct address_net {
    struct in6_addr address;
    int prefix_bits;
    bool bridge; /* of containers or virtual machines: the same on many nodes, and reaches none of them */
    bool loopback;
};

/* The interfaces that are up, without link-local addresses; at most [room]. */
int address_nets(struct address_net *nets, int room);

/* Sort the [addresses] of another rank, best first and otherwise in their order: those on a subnet of [nets],
 * those further away, those on a bridge's subnet, and last those that are this node's own. Pure. */
void address_sort(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count);

/* Sorted [addresses] of which the first is on a subnet of [nets]: rotate those that are too by [lane] places,
 * so that connections of different turns go through different cards, where there are several. Others stay:
 * which card leads beyond a router, and whether the address answers there, is not known. Pure. */
void address_rotate(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count,
                    int lane);

/* What a node of [nets] tells others: no loopback where there is anything else, bridges last. Returns how
 * many, at most [room]. Pure. */
int address_select_advertised(const struct address_net *nets, int net_count, struct in6_addr *addresses,
                              int room);

bool address_in_subnet(const struct in6_addr *address, const struct in6_addr *net, int prefix_bits);

/* IPv4 as ::ffff:a.b.c.d. */
void address_map_ipv4(const struct in_addr *from, struct in6_addr *to);

/* "10.0.0.1" or "fd00::1". */
void address_text(const struct in6_addr *address, char text[ADDRESS_TEXT_BYTES]);

/* The other end of a socket, or "an unknown address". */
void address_peer_text(int fd, char text[ADDRESS_TEXT_BYTES]);

/* Of one end of a socket: the other's, or ours. False where it has none. */
bool address_of_socket_end(int fd, bool ours, struct in6_addr *address);

/* For bind and connect; returns the length. */
socklen_t address_to_sockaddr(const struct in6_addr *address, uint16_t port,
                              struct sockaddr_storage *storage);
uint16_t address_sockaddr_port(const struct sockaddr_storage *storage);

#endif
