/* made_nics.h: network interfaces of a test's own making. */
#ifndef TESTS_UNIT_MADE_NICS_H
#define TESTS_UNIT_MADE_NICS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/nic.h"
#include "unit.h"

/* "10.1.0.1/16"; without a prefix it is 0. */
static inline struct nic_address address(const char *text)
{
    struct nic_address made = {.family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET};
    char host[64];
    size_t length = strcspn(text, "/");
    memcpy(host, text, length);
    host[length] = 0;
    ck_assert_int_eq(inet_pton(made.family, host, made.bytes), 1);
    made.prefix = text[length] == 0 ? 0 : (int)strtol(text + length + 1, NULL, 10);
    return made;
}

/* An interface whose link is up; [verbs] is its RDMA device and [net] its only address, or "". */
static inline struct nic interface(const char *netdev, const char *verbs, int64_t mbps, const char *net)
{
    struct nic nic = {.link = NIC_LINK_UP, .mbps = mbps, .addresses_known = true};
    snprintf(nic.netdev, sizeof(nic.netdev), "%s", netdev);
    snprintf(nic.verbs, sizeof(nic.verbs), "%s", verbs);
    if (net[0] != 0)
        nic.addresses[nic.address_count++] = address(net);
    return nic;
}

#endif
