/* map.h: hvdinfo map: show the cores, memory, GPUs and NICs that each task of a node gets. */
#ifndef TOOLS_HVDINFO_MAP_H
#define TOOLS_HVDINFO_MAP_H

/* [arguments]: what follows "map" on the command line, NULL-terminated. Returns the exit status. */
int hvdinfo_map(char *const *arguments);

#endif
