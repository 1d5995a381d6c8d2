/* identity.h: numbers by which processes find out whether they are on one node. */
#ifndef BASE_IDENTITY_H
#define BASE_IDENTITY_H

#include <stdint.h>

/* Equal in processes that see the same kernel, network, processes and user; random if these cannot be read.
 */
uint64_t identity_of_node(void);

/* Equal in processes that have the same network interfaces; 0 if these cannot be read. */
uint64_t identity_of_network(void);

#endif
