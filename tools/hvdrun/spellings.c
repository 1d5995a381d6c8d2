/* spellings.c: options of torchrun and mpirun that hvdrun has by another name, or does not need. */
#include "tools/hvdrun/spellings.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define BIND "--hvd-bind says where ranks are bound"

/* With one or two hyphens in front; _ stands for - as well. */
static const struct spelling {
    const char *theirs, *here;
} spellings[] = {
    /* torchrun */
    {"rdzv-conf",
     "leave it out: --hvd-start-timeout and --elastic-timeout say how long ranks are waited for"},
    {"master-addr", "leave it out: the ranks find each other by themselves"},
    {"master-port", "leave it out: hvdrun finds one that is free; -x MASTER_PORT=N sets it for the ranks"},
    {"local-addr", "leave it out: the ranks find each other by themselves"},
    {"start-method", "leave it out: hvdrun starts programs"},
    {"event-log-handler", "--events FILE writes what becomes of the job"},
    {"run-path", "name the interpreter: hvdrun -n N python3 SCRIPT"},
    {"t", "that is --tee 3 here"},
    {"r", "that is --redirects 3 here"},
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
