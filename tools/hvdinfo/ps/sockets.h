/* sockets.h: which connection of a process does not get through, by what the kernel says of it. */
#ifndef TOOLS_HVDINFO_PS_SOCKETS_H
#define TOOLS_HVDINFO_PS_SOCKETS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The TCP connections of one network namespace for which the kernel has sent the same at least twice without
 * an answer. A zeroed one knows none yet. */
struct stuck_sockets {
    ino_t space;
    int64_t read_us; /* it stays for a second */
    struct tcp_connection *list;
    int count;
};
void stuck_sockets_free(struct stuck_sockets *stuck);

/* The address of the other end of that connection of the process which has been tried most often; "": there
 * is none, or this user may not look. */
void stuck_sockets_find(struct stuck_sockets *stuck, pid_t pid, char *address, size_t address_bytes);

#endif
