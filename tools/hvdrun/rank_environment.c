/* rank_environment.c: remove an outer launcher's variables from the environment, and add hvdrun's own. */
#include "config.h"

#include "tools/hvdrun/rank_environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "base/launch_variables.h"
#include "base/secret.h"
#include "options/config.h"
#include "topo/apply.h"
#include "verdict/error_file.h"
#include "verdict/failure_report.h"
#include "topo/nic_env.h"
#include "trace/flight_memory.h"

/* Variables by which an outer launcher identified hvdrun's own process. They would mislead the ranks. A name
 * that ends in * is a prefix. */
static const char *const removed[] = {
    "PMIX_*", "PMI_*", "PMI2_*", "OMPI_*", "PRTE_*", "ORTE_*", "MPIEXEC_*", "HYDRA_*", "HYDI_*",
    "MV2_COMM_WORLD_*", "JSM_NAMESPACE_*", "JSM_JSRUN_*", "FLUX_TASK_*",
    /* Slurm's step and task; the job and its resources stay */
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEPID",
    "SLURM_STEP_ID", "SLURM_STEP_NUM_*", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_STEP_LAUNCHER_PORT", "SLURM_STEP_RESV_PORTS", "SLURM_PMIX*", "SLURM_PMI_*", "SLURM_MPI_TYPE",
    "SLURM_SRUN_COMM_*", "SLURM_LAUNCH_NODE_IPADDR",
    /* torchrun's worker */
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_MAX_RESTARTS", CONFIG_CLI_VARIABLE,
    /* the secret of an outer job, or the user's for a job without a launcher; where an outer job's ranks ask
     */
    SECRET_VARIABLE, EPOCHS_VARIABLE,
    /* how the outer launcher placed hvdrun, and the networks it chose between its nodes */
    PLACED_VARIABLE, FLIGHT_MEMORY_VARIABLE, FAILURE_TASK_VARIABLE, "HVD_GPU_PCI", "HVD_LOCAL_DEVICE",
    NETWORK_SET_VARIABLE, NULL};

/* Exceptions from [removed]: where a PMIx that was moved has its plug-ins, variables by which users tune a
 * library, and what root allows an mpirun that a rank may start. Open MPI's mpirun passes its own settings in
 * the same form; those are removed all the same. */
static const char *const kept[] = {
    "OMPI_MCA_*", "PMIX_MCA_*", "PMIX_PKGLIBDIR", "OMPI_ALLOW_RUN_AS_ROOT*", "PRTE_ALLOW_RUN_AS_ROOT*", NULL};
static const char *const removed_despite_kept[] = {"OMPI_MCA_orte_*",
                                                   "OMPI_MCA_ess*",
                                                   "OMPI_MCA_schizo*",
                                                   "OMPI_MCA_pmix*",
                                                   "OMPI_MCA_plm*",
                                                   "OMPI_MCA_ras*",
                                                   "OMPI_MCA_rmaps*",
                                                   "OMPI_MCA_odls*",
                                                   "OMPI_MCA_initial_wdir",
                                                   "OMPI_MCA_shmem_RUNTIME_*",
                                                   "OMPI_MCA_mpi_oversubscribe",
                                                   "PMIX_MCA_mca_base_component_show_load_errors",
                                                   NULL};

/* Removed if the outer launcher told its ranks their places too; otherwise they are the user's. */
static const char *const meeting_place[] = {MASTER_ADDR_VARIABLE, MASTER_PORT_VARIABLE, "ROLE_NAME", NULL};

/* Removed if the outer launcher is an hvdrun; otherwise it is the user's. */
static const char *const trace_files[] = {ERROR_FILE_VARIABLE, NULL};

/* Removed where the ranks' output does not go to a terminal. */
static const char *const terminal[] = {"TERM", NULL};

struct env_default {
    const char *name, *value;
};

/* Set where the ranks' output does not go to a terminal: programs that see a pseudo-terminal would write
 * colours into a file. */
static const struct env_default no_colours[] = {{"TERM", "dumb"}, {"NO_COLOR", "1"}, {NULL, NULL}};

/* Set unless the user has set them. gds: PMIx's default store loses keys when a process joins twice.
 * shmem: Open MPI takes this component anyway; if it may look at the others, it makes /dev/shm/open_mpi.0000
 * to try one, and a rank that is killed meanwhile leaves that. PYTHONUNBUFFERED: without it, Python keeps
 * what it prints to a pipe until it has 8 KiB, and a program that is killed loses them. */
static const struct env_default defaults[] = {
    {"PMIX_MCA_gds", "hash"}, {"OMPI_MCA_shmem", "mmap"}, {"PYTHONUNBUFFERED", "1"}, {NULL, NULL}};

/* Always set. Open MPI 4 looks at its environment to find out whether it was launched. Its schizo component
 * "ompi" asks PMIx, so that it does not start a job of one rank. The others keep Open MPI from binding ranks,
 * which hvdrun has already done. */
static const struct env_default forced[] = {{"OMPI_MCA_schizo", "ompi"},
                                            {"OMPI_MCA_orte_externally_bound", "1"},
                                            {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                            {NULL, NULL}};

static bool matches(const char *entry, const char *const *patterns)
{
    for (; *patterns != NULL; patterns++) {
        size_t length = strcspn(*patterns, "*");
        if (strncmp(entry, *patterns, length) == 0 && ((*patterns)[length] == '*' || entry[length] == '='))
            return true;
    }
    return false;
}

/* What an outer launcher set when it placed hvdrun, such as OMP_NUM_THREADS, was meant for one task. The GPUs
 * that it granted, and their order, hold for the ranks too, as the granted CPUs do. */
static bool is_of_placement(const char *entry, const char *placed)
{
    static const char *const granted[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                          NULL};
    char name[64]; /* a longer name is truncated and matches none of them */
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
    return placed_has_variable(placed, name) && !matches(entry, granted);
}

/* The networks that an outer launcher chose, for communication with other nodes. */
static void read_networks(char *const *environment, struct nic_env *networks)
{
    const char *list = environment_value(environment, NETWORK_SET_VARIABLE);
    *networks = (struct nic_env){.values = {""}};
    if (list != NULL)
        nic_env_parse(list, networks);
}

static bool is_of_networks(const char *entry, const struct nic_env *networks)
{
    for (int id = 0; id < NIC_ENV_COUNT; id++) {
        size_t length = strlen(nic_env_names[id]);
        if (networks->values[id][0] != 0 && strncmp(entry, nic_env_names[id], length) == 0 &&
            entry[length] == '=' && strcmp(entry + length + 1, networks->values[id]) == 0)
            return true;
    }
    return false;
}

/* The outer launcher's settings that are recognised by more than their names. */
struct outer {
    const char *placed; /* PLACED_VARIABLE; NULL: not set */
    bool ranks;         /* it told its ranks their places, and so where they meet */
    bool traces;        /* it is an hvdrun, and named files for what its ranks leave behind */
    struct nic_env networks;
};

static bool is_removed(const char *entry, const struct outer *outer)
{
    return is_of_placement(entry, outer->placed) || is_of_networks(entry, &outer->networks) ||
           (outer->ranks && matches(entry, meeting_place)) ||
           (outer->traces && matches(entry, trace_files)) ||
           (matches(entry, removed) && (!matches(entry, kept) || matches(entry, removed_despite_kept)));
}

/* Builds an environment. After a failure [failed] stays set and further calls do nothing. */
struct builder {
    char **entries;
    size_t count, room;
    bool failed;
};

static void add_entry(struct builder *builder, char *entry_take)
{
    if (entry_take == NULL || builder->failed || builder->count + 1 >= builder->room) {
        free(entry_take);
        builder->failed = true;
        return;
    }
    builder->entries[builder->count++] = entry_take;
}

static void add_setting(struct builder *builder, const char *name, const char *value)
{
    char *entry = NULL;
    if (asprintf(&entry, "%s=%s", name, value) < 0)
        entry = NULL;
    add_entry(builder, entry);
}

static void add_unless_set(struct builder *builder, const struct env_default *settings)
{
    for (; settings->name != NULL; settings++) {
        if (!builder->failed && environment_value(builder->entries, settings->name) == NULL)
            add_setting(builder, settings->name, settings->value);
    }
}

static bool is_forced(const char *entry)
{
    for (const struct env_default *setting = forced; setting->name != NULL; setting++) {
        size_t length = strlen(setting->name);
        if (strncmp(entry, setting->name, length) == 0 && entry[length] == '=')
            return true;
    }
    return false;
}

/* Where ranks meet that do so by torch.distributed. What the user chose stays. */
static void add_master(struct builder *builder, int port)
{
    char digits[12];
    const struct env_default master[] = {
        {MASTER_ADDR_VARIABLE, "127.0.0.1"}, {MASTER_PORT_VARIABLE, digits}, {NULL, NULL}};
    snprintf(digits, sizeof(digits), "%d", port);
    if (port != 0)
        add_unless_set(builder, master);
}

/* What scripts for torchrun read. */
static void add_torchrun(struct builder *builder, const struct rank_environment *settings)
{
    char restarts[12];
    const struct env_default variables[] = {
        {"TORCHELASTIC_RUN_ID", settings->run_id},
        {"TORCHELASTIC_MAX_RESTARTS", restarts},
        {"TORCHELASTIC_RESTART_COUNT", settings->restart == NULL ? "0" : settings->restart},
        {"ROLE_NAME", settings->role},
        {NULL, NULL}};
    snprintf(restarts, sizeof(restarts), "%d", settings->max_restarts);
    add_unless_set(builder, variables);
}

/* Is the variable of [entry] among [variables]? */
static bool is_given(const char *entry, const char *const *variables)
{
    size_t length = strcspn(entry, "=");
    for (; variables != NULL && *variables != NULL; variables++) {
        if (strncmp(*variables, entry, length) == 0 && (*variables)[length] == '=')
            return true;
    }
    return false;
}

/* Is it a variable of hvdrun's own environment that counts for an outer job? */
static bool is_replaced(const char *entry, const struct rank_environment *settings)
{
    size_t length = strlen(RESTART_VARIABLE "=");
    return settings->restart != NULL && strncmp(entry, RESTART_VARIABLE "=", length) == 0;
}

char **rank_environment_create(char *const *environment, const struct rank_environment *settings)
{
    struct outer outer = {.placed = environment_value(environment, PLACED_VARIABLE),
                          .ranks = environment_value(environment, "RANK") != NULL,
                          .traces = environment_value(environment, FLIGHT_MEMORY_VARIABLE) != NULL};
    /* in a folder that the reaper removes, since a killed rank leaves its segments behind */
    const struct env_default segments[] = {{"OMPI_MCA_btl_vader_backing_directory", settings->shared},
                                           {NULL, NULL}};
    size_t count = 0;
    read_networks(environment, &outer.networks);
    while (environment[count] != NULL)
        count++;
    size_t given_count = 0;
    while (settings->variables != NULL && settings->variables[given_count] != NULL)
        given_count++;
    struct builder builder = {.room = count + given_count + 24};
    builder.entries = calloc(builder.room, sizeof(builder.entries[0]));
    if (builder.entries == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!is_removed(environment[i], &outer) && !is_replaced(environment[i], settings) &&
            !is_forced(environment[i]) && !is_given(environment[i], settings->variables) &&
            (settings->colours || !matches(environment[i], terminal)))
            add_entry(&builder, strdup(environment[i]));
    }
    for (size_t i = 0; i < given_count; i++) {
        if (!is_given(settings->variables[i], settings->variables + i + 1)) /* the last one counts */
            add_entry(&builder, strdup(settings->variables[i]));
    }
    add_unless_set(&builder, forced);
    add_unless_set(&builder, defaults);
    if (!settings->colours)
        add_unless_set(&builder, no_colours);
    if (settings->shared[0] != 0)
        add_unless_set(&builder, segments);
    add_master(&builder, settings->master_port);
    add_torchrun(&builder, settings);
    add_setting(&builder, SECRET_VARIABLE, settings->secret);
    if (home_is_unknown(environment))
        add_setting(&builder, "HOME", HOME_SUBSTITUTE);
    if (settings->restart != NULL)
        add_setting(&builder, RESTART_VARIABLE, settings->restart);
    if (settings->cli[0] != 0)
        add_setting(&builder, CONFIG_CLI_VARIABLE, settings->cli);
    if (!builder.failed)
        return builder.entries;
    rank_environment_free(builder.entries);
    return NULL;
}

void rank_environment_free(char **environment)
{
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++)
        free(*entry);
    free(environment);
}
