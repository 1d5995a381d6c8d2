/* srun_port.h: a socket where srun listens for the nodes of its step. */
#ifndef SPANK_SRUN_PORT_H
#define SPANK_SRUN_PORT_H

/* Listen at a port of SrunPortRange, or at any port where the cluster has no such range. Returns the socket,
 * and writes the port; -1 if srun cannot listen. */
int srun_port_listen(int *portp);

#endif
