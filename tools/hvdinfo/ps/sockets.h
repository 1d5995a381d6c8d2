/* sockets.h: which connection of a process does not get through, by what the kernel says of it. */
#ifndef TOOLS_HVDINFO_PS_SOCKETS_H
#define TOOLS_HVDINFO_PS_SOCKETS_H

#include <stddef.h>
#include <sys/types.h>

/* The address of the other end of the TCP connection of the process for which the kernel has sent the same
 * most often without an answer, at least twice; "": there is none, or this user may not look. */
void sockets_find_unreached(pid_t pid, char *address, size_t address_bytes);

#endif
