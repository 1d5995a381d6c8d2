/* foreign_options.c: options of torchrun and mpirun: what those mean that hvdrun takes, and what it has in
 * place of the others. */
#include "tools/hvdrun/foreign_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "options/parse.h"

/* ---- Those that hvdrun takes -------------------------------------------------------------------- */

int torchrun_take_unneeded(void *to, const struct option_given *given, struct hvd_error *err)
{
    (void)to;
    (void)given;
    (void)err;
    return HVD_OK;
}

/* "2", or "1:4". */
int torchrun_take_nodes(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    char least[24] = "";
    int64_t min = 0, max = 0;
    const char *why = NULL, *colon = strchr(given->value, ':');
    size_t length = strcspn(given->value, ":");
    if (length < sizeof(least))
        memcpy(least, given->value, length);
    if (parse_count(least, &min, &why) < 0 || min < 1 ||
        parse_count(colon == NULL ? least : colon + 1, &max, &why) < 0 || max < min || max > HVDRUN_MAX_ASKED)
        return error_set(err, HVD_ERR_INVALID, "%s %.100s: expected N or MIN:MAX, such as 1 or 1:4",
                         given->where, given->value);
    options->nodes_fewest = (int)min;
    options->nodes_most = (int)max;
    return HVD_OK;
}

int torchrun_take_node_rank(void *to, const struct option_given *given, struct hvd_error *err)
{
    (void)to;
    if (strcmp(given->value, "0") == 0)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "%s %.100s: hvdrun starts ranks on this machine, which is node 0; use srun -N, or -H "
                     "h1:4,h2:4",
                     given->where, given->value);
}

/* hvdrun writes both streams of all ranks, or none. */
int torchrun_take_streams(void *to, const struct option_given *given, struct hvd_error *err)
{
    struct hvdrun_options *options = to;
    if (strcmp(given->value, "3") != 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%s %.100s: --log-dir writes both streams of all ranks; expected 3", given->where,
                         given->value);
    if (given->option->offset == 0) /* --tee, which shows them as well */
        return HVD_OK;
    options->output.only = true;
    options->output.ranks = (struct bitmap){{0}};
    return HVD_OK;
}

/* Only agents start ranks on several nodes. */
static int check_nodes(const struct hvdrun_options *options, struct hvd_error *err)
{
    if (options->launcher == LAUNCHER_AGENTS || options->nodes_fewest <= 1)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "--nnodes %.100s: hvdrun starts ranks on this machine; use srun -N, -H h1:4,h2:4, or in "
                     "a job of Slurm --launcher=agents",
                     options->values[LAUNCH_NNODES]);
}

/* With agents the numbers mean what they mean to torchrun: of nodes, and of ranks on each. The most ranks are
 * on some of the nodes; the others are there for when one is lost. */
static int count_on_nodes(struct hvdrun_options *options, struct hvd_error *err)
{
    bool given = hvdrun_option_given(options, LAUNCH_NPROC);
    const char *total = hvdrun_option_given(options, LAUNCH_RANKS) ? "-n"
                        : hvdrun_option_given(options, LAUNCH_NP)  ? "--np"
                                                                   : NULL;
    if (options->launcher != LAUNCHER_AGENTS || (!given && options->nodes_fewest == 0))
        return HVD_OK;
    if (!given)
        return error_set(err, HVD_ERR_INVALID,
                         "--nnodes %.100s: how many ranks a node gets is not given; give --nproc-per-node "
                         "too, or leave it out, and give --min-np and --max-np",
                         options->values[LAUNCH_NNODES]);
    if (total != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s and --nproc-per-node: with --launcher=agents the one counts all ranks, the "
                         "other those of each node; leave one of the two out",
                         total);
    int64_t each = options->ranks;
    if (each * options->nodes_most > HVDRUN_MAX_ASKED)
        return error_set(
            err, HVD_ERR_INVALID,
            "--nnodes %.100s: %lld ranks on each node are too many together; expected at most %d",
            options->values[LAUNCH_NNODES], (long long)each, HVDRUN_MAX_ASKED);
    options->ranks = 0;
    options->slots_per_host = (int)each;
    options->fewest = options->fewest > 0 ? options->fewest : (int)each * options->nodes_fewest;
    options->most = options->most > 0 ? options->most : (int)each * options->nodes_most;
    return HVD_OK;
}

int torchrun_check(struct hvdrun_options *options, struct hvd_error *err)
{
    static const enum launch_option needs_folder[] = {LAUNCH_TEE, LAUNCH_REDIRECTS};
    for (size_t i = 0;
         options->output.directory == NULL && i < sizeof(needs_folder) / sizeof(needs_folder[0]); i++)
        if (hvdrun_option_given(options, needs_folder[i]))
            return error_set(err, HVD_ERR_INVALID, "%s: no folder for the files is given; add --log-dir=DIR",
                             hvdrun_option_name(needs_folder[i]));
    if (options->module && options->app_count > 1)
        return error_set(err, HVD_ERR_INVALID,
                         "-m and several programs: it would hold for all of them; write python3 -m MODULE");
    int status = check_nodes(options, err);
    return status == HVD_OK ? count_on_nodes(options, err) : status;
}

/* ---- The others --------------------------------------------------------------------------------- */

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
