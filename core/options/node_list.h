/* node_list.h: names of nodes in a list as Slurm writes it: "n[1-3,7],rack[1-2]node[04-09]". Without Slurm.
 */
#ifndef OPTIONS_NODE_LIST_H
#define OPTIONS_NODE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* How many names the list has; 0 where it is none. */
long node_list_count(const char *list);

/* Write the name at [index], from 0 on, into [host]. False where the list ends before it, is none, or has a
 * name that does not fit. */
bool node_list_at(const char *list, long index, char *host, size_t host_bytes);

/* Is [host] one of the list? */
bool node_list_has(const char *list, const char *host);

#endif
