/* erf.h: explicit resource files, as jsrun has them: the host, CPUs and GPUs of each rank. Pure. */
#ifndef TOPO_ERF_H
#define TOPO_ERF_H

#include "topo/plan/plan.h"

#define ERF_BYTES      (16 << 20) /* longest file */
#define ERF_MAX_RANKS  131072
#define ERF_MAX_APPS   64
#define ERF_TEXT_BYTES 4096 /* longest host name or command line */

/* What to do where a file names a resource that does not exist, or one resource twice. */
enum erf_action { ERF_ERROR, ERF_WARN, ERF_ALLOW };

#define ERF_ALL  (-1) /* "*": all; of a host: any */
#define ERF_NONE (-2) /* not named */

struct erf_rank {
    int host; /* index of erf->hosts, ERF_ALL where any host will do */
    int cpus; /* index of erf->sets, or ERF_ALL */
    int gpus; /* positions by PCI id: the same, or ERF_NONE */
    int mems; /* ERF_ALL or ERF_NONE */
    int app;  /* index of erf->apps, or ERF_NONE */
    int line; /* of the file */
};

struct erf_host {
    char *name; /* NULL: it is given by [index] */
    int index;  /* from 1, in the allocation's order */
};

struct erf {
    enum rs_distribution distribution;
    int plane;
    enum erf_action overlapping_rs;
    enum erf_action oversubscribe_cpu, oversubscribe_gpu, oversubscribe_mem;
    enum erf_action skip_missing_cpu, skip_missing_gpu, skip_missing_mem;
    bool memory_amounts; /* "mem: {...}" asks for amounts of memory, which hvd does not see to */
    bool physical; /* cpu_index_using: the system's numbers; otherwise positions in the order of cores */
    int app_count, host_count, set_count, rank_count;
    char **apps; /* command lines */
    struct erf_host *hosts;
    struct bitmap *sets;
    struct erf_rank *ranks; /* by rank */
};

/* Read [text], [name] being the file's in sentences; or a file. HVD_ERR_INVALID with name and line,
 * HVD_ERR_SYSTEM, HVD_ERR_NO_MEMORY; *erfp is unchanged then. To be freed with erf_destroy, which takes NULL.
 */
int erf_parse(const char *name, const char *text, size_t text_bytes, struct erf **erfp,
              struct hvd_error *err);
int erf_read(const char *path, struct erf **erfp, struct hvd_error *err);
void erf_destroy(struct erf *erf);

/* The tasks of one host. */
struct erf_tasks {
    int count;
    int *ranks;                 /* the job's rank of each task */
    struct request_task *tasks; /* for struct plan_request */
    struct bitmap *cpus;        /* what those point to */
    int *gpus;
    char (*whys)[PLAN_WHY_BYTES];
};

/* Which ranks of [erf] the host named [name], number [index] from 1, has, and what is settled for them on
 * [machine]. Ranks of any host ("*") are on the first. HVD_ERR_INVALID where a CPU or GPU is not there and
 * the file does not say to skip it, where lines overlap and it does not allow that, or where the ranks of a
 * line are more than its CPUs and it does not allow that; what it wants to be warned of goes to [warn] (NULL:
 * nowhere). To be freed with erf_tasks_free. */
int erf_tasks(const struct erf *erf, const struct machine *machine, const struct erf_host *host,
              struct erf_tasks *tasks, void (*warn)(const char *sentence), struct hvd_error *err);
void erf_tasks_free(struct erf_tasks *tasks);

/* Plans of hosts as an explicit resource file in Horovod's form: "rank: 0: { hostname: h; cpu: {0-3} ; gpu: *
 * ; mem: * }", CPUs as positions in the order of cores, ranks counting on from host to host; into *textp, to
 * be freed. */
struct erf_plan {
    const char *host;
    const struct machine *machine;
    const struct plan *plan;
};
int erf_from_plans(const struct erf_plan *plans, int count, char **textp, struct hvd_error *err);

#endif
