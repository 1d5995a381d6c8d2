/* node_address.c: does a name, or an address, lead to a node? */
#include "options/node_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool node_address_leads(const char *text, bool here)
{
    struct in_addr old;
    struct in6_addr new;
    if (inet_pton(AF_INET, text, &old) == 1) {
        uint32_t number = ntohl(old.s_addr);
        return number != INADDR_ANY && !IN_MULTICAST(number) && (here || number >> 24 != IN_LOOPBACKNET);
    }
    return inet_pton(AF_INET6, text, &new) == 1 && !IN6_IS_ADDR_UNSPECIFIED(&new) &&
           !IN6_IS_ADDR_MULTICAST(&new) && !IN6_IS_ADDR_LINKLOCAL(&new) && !IN6_IS_ADDR_V4MAPPED(&new) &&
           (here || !IN6_IS_ADDR_LOOPBACK(&new));
}

bool node_name_leads(const char *name, bool here)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char text[INET6_ADDRSTRLEN];
    bool leads = false;
    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL && !leads; at = at->ai_next)
        leads = getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0 &&
                node_address_leads(text, here);
    freeaddrinfo(found);
    return leads;
}
