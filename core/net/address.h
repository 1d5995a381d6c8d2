/* address.h: the addresses of a node, and the order in which to try those of another. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>

#define ADDRESS_TEXT_BYTES 64
#define ADDRESS_MAX_NETS   64

/* One address of an interface of this node, with its subnet. IPv4 is written as ::ffff:a.b.c.d, and its
 * prefix length has 96 added. */
struct address_net {
    struct in6_addr address;
    int prefix_bits;
    bool bridge; /* for containers or virtual machines: many nodes have the same one, and it reaches none of
                    them */
    bool loopback;
};

/* Fills [nets], of [room] entries, with the addresses of the interfaces that are up, without link-local
 * ones; returns how many. */
int address_nets(struct address_net *nets, int room);

/* Sort the [addresses] of another rank, best first: those on a subnet of [nets], those further away, those
 * on a bridge's subnet, and last those that this node has itself. Addresses of one class keep their order.
 * Pure. */
void address_sort(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count);

/* [addresses] are sorted. Rotate those at their start that are on a subnet of [nets] by [lane] places, so
 * that the lanes use different NICs if there are several. The others stay in place: it is not known which
 * NIC leads beyond a router, nor whether the address answers there. Pure. */
void address_rotate(struct in6_addr *addresses, int count, const struct address_net *nets, int net_count,
                    int lane);

/* For tests: the addresses that a node with [nets] publishes: no loopback if there is any other, and bridges
 * last. Returns how many, at most [room]. Pure. */
int address_select_advertised(const struct address_net *nets, int net_count, struct in6_addr *addresses,
                              int room);

/* The addresses of this node that other nodes could reach, at most [room], which is at least 1; returns how
 * many. Interfaces that are down, loopback and link-local addresses are left out; if none is left, loopback.
 */
int address_advertised(struct in6_addr *addresses, int room);

bool address_in_subnet(const struct in6_addr *address, const struct in6_addr *net, int prefix_bits);

/* Write an IPv4 address as ::ffff:a.b.c.d. */
void address_map_ipv4(const struct in_addr *from, struct in6_addr *to);

/* "10.0.0.1" or "fd00::1". */
void address_text(const struct in6_addr *address, char text[ADDRESS_TEXT_BYTES]);

/* The other end of a socket, or "an unknown address". */
void address_peer_text(int fd, char text[ADDRESS_TEXT_BYTES]);

/* The address of one end of a socket: this process's if [ours], else the peer's. False if the socket has
 * none. */
bool address_of_socket_end(int fd, bool ours, struct in6_addr *address);

/* For bind and connect; returns the length. */
socklen_t address_to_sockaddr(const struct in6_addr *address, uint16_t port,
                              struct sockaddr_storage *storage);
uint16_t address_sockaddr_port(const struct sockaddr_storage *storage);

#endif
