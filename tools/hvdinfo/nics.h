/* nics.h: hvdinfo nics: list the network interfaces of this node, and why a job would use each or not. */
#ifndef TOOLS_HVDINFO_NICS_H
#define TOOLS_HVDINFO_NICS_H

/* [arguments]: what follows "nics" on the command line, NULL-terminated. Returns the exit status. */
int hvdinfo_nics(char *const *arguments);

#endif
