/* identity.c: numbers by which processes find out whether they are on one node. */
#include "base/identity.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"

#define HOST_BYTES 256

/* Read a file of /proc, or a link there, into [text]; empty if it cannot be read. */
static void read_identity(const char *path, char *text, size_t text_bytes)
{
    ssize_t length = readlink(path, text, text_bytes - 1);
    if (length < 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            length = read(fd, text, text_bytes - 1);
            close(fd);
        }
    }
    text[length > 0 ? length : 0] = 0;
}

/* The hardware addresses of this process's network interfaces, into [text]. */
static void read_hardware_addresses(char *text, size_t text_bytes)
{
    struct ifaddrs *list = NULL;
    size_t used = 0;
    if (getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *entry = list; entry != NULL && used + 64 < text_bytes;
         entry = entry->ifa_next) {
        if (entry->ifa_addr == NULL || entry->ifa_addr->sa_family != AF_PACKET)
            continue;
        const struct sockaddr_ll *link = (const struct sockaddr_ll *)entry->ifa_addr;
        used += (size_t)snprintf(text + used, text_bytes - used, "%d:%02x%02x%02x%02x%02x%02x ",
                                 link->sll_ifindex, link->sll_addr[0], link->sll_addr[1], link->sll_addr[2],
                                 link->sll_addr[3], link->sll_addr[4], link->sll_addr[5]);
    }
    freeifaddrs(list);
}

/* Without /proc: a text that is equal on ranks of one network namespace, and on hardly any others. Should it
 * be equal on others, they do not find each other's memory, and use the network. 0 if there is none. */
static uint64_t substitute_key(void)
{
    char text[1024] = "";
    gethostname(text, HOST_BYTES);
    text[HOST_BYTES] = 0;
    size_t used = strlen(text);
    read_hardware_addresses(text + used, sizeof(text) - used);
    return text[used] == 0 ? 0 : hash_bytes(text, strlen(text));
}

/* Hash the files, or links, of /proc at [paths]; 0 if one of them cannot be read. */
static uint64_t identity_key(const char *const *paths, size_t count)
{
    char text[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        read_identity(paths[i], text + used, 100);
        if (text[used] == 0)
            return 0;
        used += strlen(text + used);
    }
    return hash_bytes(text, used);
}

uint64_t identity_of_node(void)
{
    static const char *const paths[] = {"/proc/sys/kernel/random/boot_id", "/proc/self/ns/net",
                                        "/proc/self/ns/pid"};
    uint64_t key[2] = {identity_key(paths, sizeof(paths) / sizeof(paths[0])), geteuid()};
    if (key[0] == 0)
        key[0] = substitute_key();
    if (key[0] == 0 && getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        key[0] = (uint64_t)getpid();
    return hash_bytes(key, sizeof(key));
}

uint64_t identity_of_network(void)
{
    static const char *const paths[] = {"/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"};
    uint64_t key = identity_key(paths, sizeof(paths) / sizeof(paths[0]));
    return key != 0 ? key : substitute_key();
}
