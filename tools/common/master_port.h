/* master_port.h: find a port for MASTER_PORT. */
#ifndef TOOLS_COMMON_MASTER_PORT_H
#define TOOLS_COMMON_MASTER_PORT_H

/* A port on this node that nobody uses now; 0 if none was found. */
int master_port_find(void);

#endif
