/* resource_set.h: the values of --hvd-rs, and jsrun's options that mean the same: how a node is divided into
 * resource sets, each with some cores and GPUs for some tasks. Needs no hwloc, so the plug-in can check them.
 */
#ifndef OPTIONS_RESOURCE_SET_H
#define OPTIONS_RESOURCE_SET_H

#include <stdbool.h>
#include <stddef.h>

#define RS_MAX        1048576 /* the largest number that is accepted */
#define RS_TEXT_BYTES 256
#define RS_ALL        (-1) /* ALL_CPUS, ALL_GPUS */
#define RS_UNSET      0    /* not given: computed from the others */

enum rs_bind { RS_BIND_PACKED, RS_BIND_RS, RS_BIND_NONE };
enum rs_distribution { RS_DIST_PACKED, RS_DIST_CYCLIC, RS_DIST_PLANE };

/* Which resources should be near each other, most important first. */
enum rs_latency { RS_GPU_CPU, RS_CPU_CPU, RS_CPU_MEM, RS_LATENCY_COUNT };

struct rs_options {
    bool given;      /* set by rs_parse; false: the user asks for no resource sets */
    int nrs;         /* resource sets of the job; RS_UNSET: as many as the tasks need */
    int np;          /* tasks of the job; RS_UNSET: nrs * tasks */
    int tasks;       /* tasks in each set; RS_UNSET: 1 */
    int cpus;        /* cores in each set; RS_UNSET: 1; RS_ALL: an even share of the node */
    int gpus;        /* GPUs in each set; 0: none; RS_ALL: an even share of the node */
    int rs_per_host; /* RS_UNSET: as many as fit */
    enum rs_bind bind;
    int bind_cpus; /* RS_BIND_PACKED: cores for each task; default 1 */
    enum rs_distribution distribution;
    int plane; /* RS_DIST_PLANE: tasks at a time */
    int latency_count;
    enum rs_latency latency[RS_LATENCY_COUNT]; /* none given: gpu-cpu,cpu-mem,cpu-cpu */
    bool latency_strict; /* given in capital letters: fail if the resources cannot be that near */
};

/* Set jsrun's defaults. */
void rs_init(struct rs_options *options);

/* The values that are accepted, for error sentences. */
extern const char rs_expected[];

/* Read "tasks:1,cpus:7,gpus:1,bind:packed:7" over the defaults: KEY:VALUE separated by commas, each key at
 * most once. The keys are:
 *   nrs:N  np:N  tasks:N  cpus:N|all  gpus:N|all  rs_per_host:N  bind:none|rs|packed:N
 *   launch_distribution:packed|cyclic|plane:N
 *   latency_priority:gpu-cpu|cpu-cpu|cpu-mem, several separated by '+'
 * Strict: no spaces, no signs. Returns 0, or -1 with *options unchanged and *whyp a phrase. Allocates nothing
 * and ignores the locale. */
int rs_parse(const char *text, struct rs_options *options, const char **whyp);

/* Set one option by jsrun's name for it ("nrs", "np", "tasks_per_rs", "cpu_per_rs", "gpu_per_rs",
 * "rs_per_host", "bind", "launch_distribution", "latency_priority", which there separates entries by commas)
 * or by its key in --hvd-rs. Returns as rs_parse. */
int rs_set(struct rs_options *options, const char *name, const char *value, const char **whyp);

/* Write the options as --hvd-rs accepts them, without defaults, into [text] of RS_TEXT_BYTES, and return
 * [text]. */
const char *rs_text(const struct rs_options *options, char *text);

/* Find the resource set, of [rs_count], to which the job's [rank] belongs, and its task number in that set.
 * Returns false if the sets have too few tasks for that rank. */
bool rs_locate_rank(const struct rs_options *options, int rs_count, int rank, int *rsp, int *taskp);

#endif
