/* erf.h: explicit resource files, as jsrun has them: they give the host, CPUs and GPUs of each rank. Pure. */
#ifndef TOPO_ERF_H
#define TOPO_ERF_H

#include "topo/plan/plan.h"

#define ERF_BYTES      (16 << 20) /* the longest file */
#define ERF_MAX_RANKS  131072
#define ERF_MAX_APPS   64
#define ERF_TEXT_BYTES 4096 /* the longest host name or command line */

/* What to do if a file names a resource that does not exist, or one resource twice. */
enum erf_action { ERF_ERROR, ERF_WARN, ERF_ALLOW };

#define ERF_ALL  (-1) /* "*": all; for a host: any */
#define ERF_NONE (-2) /* the line does not name it */

struct erf_rank {
    int host; /* index in erf->hosts; ERF_ALL: any host will do */
    int cpus; /* index in erf->sets, or ERF_ALL */
    int gpus; /* the same, of positions by PCI id; or ERF_NONE */
    int mems; /* ERF_ALL or ERF_NONE */
    int app;  /* index in erf->apps, or ERF_NONE */
    int line; /* line number in the file */
};

struct erf_host {
    char *name; /* NULL: the host is given by [index] */
    int index;  /* from 1, in the order of the allocation */
};

struct erf {
    enum rs_distribution distribution;
    int plane;
    enum erf_action overlapping_rs;
    enum erf_action oversubscribe_cpu, oversubscribe_gpu, oversubscribe_mem;
    enum erf_action skip_missing_cpu, skip_missing_gpu, skip_missing_mem;
    bool memory_amounts; /* "mem: {...}" asks for amounts of memory, which hvd ignores */
    bool physical; /* cpu_index_using: CPUs are the system's numbers; otherwise positions in the order of
                      cores */
    int app_count, host_count, set_count, rank_count;
    char **apps; /* command lines */
    struct erf_host *hosts;
    struct bitmap *sets;
    struct erf_rank *ranks; /* indexed by rank */
};

/* Read an explicit resource file. Returns HVD_ERR_INVALID with [path] and line, HVD_ERR_SYSTEM or
 * HVD_ERR_NO_MEMORY with *erfp unchanged. Free *erfp with erf_destroy, which accepts NULL. */
int erf_read(const char *path, struct erf **erfp, struct hvd_error *err);
void erf_destroy(struct erf *erf);

/* For tests: the same from [text]; sentences call it [name]. */
int erf_parse(const char *name, const char *text, size_t text_bytes, struct erf **erfp,
              struct hvd_error *err);

/* The tasks of one host. */
struct erf_tasks {
    int count;
    int *ranks;                 /* the rank of each task in the job */
    struct request_task *tasks; /* for struct plan_request */
    struct bitmap *cpus;        /* the sets to which [tasks] point */
    int *gpus;
    char (*whys)[PLAN_WHY_BYTES];
};

/* Find the ranks of [erf] on the host named [name], number [index] from 1, and what the file fixes for them
 * on [machine]. Ranks of any host ("*") are on the first. Returns HVD_ERR_INVALID if a CPU or GPU does not
 * exist and the file does not say to skip it, if lines overlap and the file does not allow that, or if a line
 * has more ranks than CPUs and the file does not allow that. Calls [warn] (may be NULL) with a sentence where
 * the file asks for a warning. Free *tasks with erf_tasks_free. */
int erf_tasks(const struct erf *erf, const struct machine *machine, const struct erf_host *host,
              struct erf_tasks *tasks, void (*warn)(const char *sentence), struct hvd_error *err);
void erf_tasks_free(struct erf_tasks *tasks);

/* Write the plans of hosts as an explicit resource file in Horovod's form, into *textp, which the caller
 * frees:
 *   rank: 0: { hostname: h; cpu: {0-3} ; gpu: * ; mem: * }
 * CPUs are positions in the order of cores, and ranks continue from host to host. */
struct erf_plan {
    const char *host;
    const struct machine *machine;
    const struct plan *plan;
};
int erf_from_plans(const struct erf_plan *plans, int count, char **textp, struct hvd_error *err);

#endif
