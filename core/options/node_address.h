/* node_address.h: does a name, or an address, lead to a node? */
#ifndef OPTIONS_NODE_ADDRESS_H
#define OPTIONS_NODE_ADDRESS_H

#include <stdbool.h>

/* Is [text] an address, as a number, at which a node can be reached from this one? Loopback counts only if
 * they are the same one, [here]. */
bool node_address_leads(const char *text, bool here);

/* Has [name] such an address? It asks the resolver, which may block for long. */
bool node_name_leads(const char *name, bool here);

#endif
