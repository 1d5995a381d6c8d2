/* hosts.h: lists of hosts with their slots, as -H, --hostfile and LSF give them. Only host_list_read opens a
 * file. */
#ifndef TOOLS_HVDRUN_LAUNCHER_HOSTS_H
#define TOOLS_HVDRUN_LAUNCHER_HOSTS_H

#include "base/status.h"

#define HOST_NAME_BYTES 256
#define HOSTS_MAX       65536
#define HOST_SLOTS_MAX  1048576
#define HOST_FILE_BYTES (16 << 20) /* the longest file */

struct host {
    char name[HOST_NAME_BYTES];
    int slots;
    int ranks; /* by host_list_fill or host_list_spread */
};

/* All zero: no hosts. Free it with host_list_free. */
struct host_list {
    struct host *hosts;
    int count, room;
};

void host_list_free(struct host_list *list);

/* "h1:4,h2:4"; a host without a number has one slot, and one that is named again has more. All of these
 * return HVD_OK, or HVD_ERR_INVALID or HVD_ERR_NO_MEMORY with *list as it was. [where] is named in
 * sentences. */
int host_list_parse(struct host_list *list, const char *where, const char *text, struct hvd_error *err);

/* The text of a hostfile: a line for each host, "h1 slots=4 max_slots=8" as for mpirun, or "h1:4" as for -H;
 * # begins a comment. A host without a number has [slots]. */
int host_list_parse_file(struct host_list *list, const char *path, const char *text, int slots,
                         struct hvd_error *err);
int host_list_read(struct host_list *list, const char *path, int slots, struct hvd_error *err);

/* The hosts of the LSF job that [environment] describes, in LSF's order: the first is where the job's script
 * runs. No hosts if the variables do not tell. */
int host_list_of_lsf(struct host_list *list, char *const *environment, struct hvd_error *err);

/* The nodes of the Slurm job that [environment] describes. A node has [slots]; if that is 0, as many as CPUs,
 * or as tasks of --cpus-per-task fit there, or as --ntasks-per-node says. */
int host_list_of_slurm(struct host_list *list, char *const *environment, int slots, struct hvd_error *err);

/* Add slots of a host. */
int host_list_add(struct host_list *list, const char *name, int slots, struct hvd_error *err);

/* The host of this name; NULL: there is none. */
const struct host *host_list_find(const struct host_list *list, const char *name);

int host_list_slots(const struct host_list *list);

/* The first host that is not this machine, which is named [here]; NULL: there is none. */
const char *host_list_elsewhere(const struct host_list *list, const char *here);

/* Share [ranks] out: fill the slots of one host after the other, for which there must be enough slots; or in
 * even blocks, whatever the slots are. */
void host_list_fill(struct host_list *list, int ranks);
void host_list_spread(struct host_list *list, int ranks);

#endif
