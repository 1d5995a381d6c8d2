/* bind.h: the values of --hvd-bind, which say how tasks are placed. Needs no hwloc, so the plug-in can check
 * them. */
#ifndef OPTIONS_BIND_H
#define OPTIONS_BIND_H

#include <stdbool.h>
#include <stddef.h>

enum bind_policy {
    BIND_AUTO,   /* gpu if GPUs are granted; otherwise even shares, of whole NUMA nodes first, then L3 groups,
                    then cores */
    BIND_GPU,    /* each task gets the cores nearest to its GPUs */
    BIND_NUMA,   /* no task in more than one NUMA node */
    BIND_SOCKET, /* no task in more than one package */
    BIND_L3,     /* no task in more than one group of cores that share an L3 cache */
    BIND_CORE,   /* one core for each task */
    BIND_NONE,   /* every task may use all that is granted */
    BIND_COUNT
};

/* The choices of --hvd-gpu-visible. */
enum gpu_visible {
    GPU_VISIBLE_ALL, /* all GPUs of the step, so that tasks reach each other's */
    GPU_VISIBLE_ONE  /* the task's own */
};

#define BIND_MAX_SMT     64
#define BIND_MAX_RESERVE 4096

struct bind_options {
    enum bind_policy policy;
    bool verbose; /* print one line for each task */
    bool force;   /* also place tasks that Slurm or the user has bound; otherwise their binding is kept */
    int smt;      /* hardware threads of each core to use; 0: all that are granted */
    int reserve;  /* cores left to the system, taken evenly from all NUMA nodes and L3 groups */
};

/* NULL-terminated, indexed by enum bind_policy. */
extern const char *const bind_policy_names[BIND_COUNT + 1];

/* The values that are accepted, for error sentences. */
extern const char bind_expected[];

/* Read "POLICY[,verbose][,force][,smt:K][,reserve:N]", each at most once and in any order. Without a policy
 * it is auto. Strict: no spaces, no signs, no capital letters. Returns 0, or -1 with *options unchanged and
 * *whyp a phrase that says what is wrong with the value. Allocates nothing and ignores the locale. */
int bind_parse(const char *text, struct bind_options *options, const char **whyp);

#endif
