/* spellings.c: options of torchrun and mpirun that hvdrun has by another name, or does not need. */
#include "tools/hvdrun/spellings.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define FOUND "leave it out: the ranks find each other by themselves"
#define NODES "hvdrun starts ranks on this machine: use srun -N, or -H h1:4,h2:4"
#define BIND  "--hvd-bind says where ranks are bound"

/* With one or two hyphens in front; _ stands for - as well. */
static const struct spelling {
    const char *theirs, *here;
} spellings[] = {
    /* torchrun */
    {"nproc-per-node", "that is -n N here"},
    {"nnodes", NODES},
    {"node-rank", NODES},
    {"rdzv-backend", FOUND},
    {"rdzv-endpoint", FOUND},
    {"rdzv-id", FOUND},
    {"rdzv-conf", FOUND},
    {"standalone", FOUND},
    {"master-addr", FOUND},
    {"master-port", FOUND},
    {"log-dir", "that is --output-dir DIR here"},
    {"tee", "--output-dir DIR writes files, and shows the output as well"},
    {"redirects", "--output-dir DIR with --only-rank none writes files only"},
    {"module", "name the interpreter: hvdrun -n N python3 -m MODULE"},
    {"no-python", "leave it out: hvdrun starts any program"},
    /* mpirun */
    {"host", "that is -H h1:4,h2:4 here"},
    {"machinefile", "that is --hostfile FILE here"},
    {"bind-to", BIND},
    {"map-by", BIND},
    {"rank-by", BIND},
    {"report-bindings", "hvdinfo map shows where ranks are bound"},
    {"oversubscribe", "leave it out: hvdrun starts as many ranks as -n says"},
    {"allow-run-as-root", "leave it out: root may use hvdrun"},
    {"mca", "give Open MPI's parameters as variables: -x OMPI_MCA_NAME=VALUE"},
    {"tag-output", "leave it out: each line has its rank, unless --no-prefix is given"},
    {"timestamp-output", "that is --timestamps here"},
    {"output-filename", "that is --output-dir DIR here"},
    {"wdir", "change to that directory before hvdrun"},
};

static bool is_spelled(const char *name, const char *theirs)
{
    for (; *name != 0 && *theirs != 0; name++, theirs++)
        if (*name != *theirs && !(*name == '_' && *theirs == '-'))
            return false;
    return *name == *theirs;
}

const char *spelling_here(const char *name)
{
    const char *bare = name + strspn(name, "-");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
        if (is_spelled(bare, spellings[i].theirs))
            return spellings[i].here;
    return NULL;
}
