/* provider.c: chooses the provider of wire-up from the environment, and opens it. */
#include "config.h"
#include "pmix_shim/provider.h"

#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/module.h"
#include "base/env.h"
#include "base/launch_variables.h"
#include "base/secret.h"
#include "options/config.h"
#include "options/parse.h"
#include "options/slurm_step.h"
#include "pmix_shim/nested.h"

/* Variables in which a launcher says how many ranks it started, and what to do if hvd finds only one. */
static const struct size_variable {
    const char *variable;
    const char *mend;
} claims[] = {
    {"SLURM_STEP_NUM_TASKS",
     "Slurm started this step without PMIx; use srun --hvd with the plug-in, or srun --mpi=pmix"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun's PMIx variables are gone; do not remove PMIX_* from the environment"},
    {"PMI_SIZE",
     "the launcher's PMI connection is gone; do not remove PMI_FD from the environment, and start "
     "mpiexec without -pmi-port"},
    {"JSM_NAMESPACE_SIZE",
     "jsrun's PMIx variables are gone; do not remove PMIX_* from the environment, or give "
     "all ranks MASTER_ADDR, MASTER_PORT and HVD_JOB_KEY"},
    {"WORLD_SIZE",
     "another launcher's PMIx describes this process; start the ranks with srun --mpi=pmix or hvdrun"},
};

/* Read a variable that holds a number; [number] is unchanged if it is not set. */
static int read_number(char *const *environment, const char *name, int64_t *number, struct hvd_error *err)
{
    const char *why = NULL;
    const char *text = environment_value(environment, name);
    if (text != NULL && parse_count(text, number, &why) < 0)
        return error_set(err, HVD_ERR_INVALID,
                         "%s=%.64s: the value %s; expected a whole number, as launchers set it", name, text,
                         why);
    return HVD_OK;
}

int launch_number_read(const struct launch_number *number, int *numberp, struct hvd_error *err)
{
    int64_t value = -1;
    const char *why = NULL;
    const char *text = environment_value(NULL, number->name);
    if (text == NULL && number->reason == NULL) {
        *numberp = -1;
        return HVD_OK;
    }
    if (text == NULL)
        return error_set(err, HVD_ERR_INVALID, "%s, but %s is not set; %s", number->reason, number->name,
                         number->mend);
    if (parse_count(text, &value, &why) < 0 || value < number->min || value > number->max)
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: expected a whole number between %lld and %lld",
                         number->name, text, (long long)number->min, (long long)number->max);
    *numberp = (int)value;
    return HVD_OK;
}

int provider_read_epoch(char *const *environment, uint32_t *epochp, struct hvd_error *err)
{
    /* hvdrun counts restarts for torchrun's scripts too, and those of a rank are no epochs */
    bool own = environment_value(environment, "HVD_EPOCH") != NULL ||
               environment_value(environment, RESTART_VARIABLE) != NULL;
    const char *name = own ? "HVD_EPOCH" : "TORCHELASTIC_RESTART_COUNT";
    int64_t number = 0;
    int rc = read_number(environment, name, &number, err);
    if (rc != HVD_OK)
        return rc;
    if (number > UINT32_MAX)
        return error_set(err, HVD_ERR_INVALID, "%s=%lld: the value is too large; expected at most %u", name,
                         (long long)number, UINT32_MAX);
    *epochp = (uint32_t)number;
    return HVD_OK;
}

/* Does SLURM_STEP_NUM_TASKS count the ranks of this process's job? It does not if srun did not start it, nor
 * if another launcher inside the step made the PMIx namespace. */
static bool slurm_counts_us(char *const *environment, enum provider provider)
{
    bool has_server = provider == PROVIDER_PMIX || provider == PROVIDER_PMI;
    return slurm_step_is_users(environment) && (!has_server || slurm_wires_up_job(environment));
}

int provider_check_single(char *const *environment, enum provider provider, struct hvd_error *err)
{
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        const char *variable = claims[i].variable;
        int64_t count = 1;
        if (strcmp(variable, "SLURM_STEP_NUM_TASKS") == 0 && !slurm_counts_us(environment, provider))
            continue;
        int rc = read_number(environment, variable, &count, err);
        if (rc != HVD_OK)
            return rc;
        if (count > 1)
            return error_set(
                err, HVD_ERR_INVALID,
                "%s=%lld says that the job has %lld ranks, but this process finds only itself: %s, "
                "or unset %s where one rank is meant",
                variable, (long long)count, (long long)count, claims[i].mend, variable);
    }
    return HVD_OK;
}

/* How many hosts LSB_MCPU_HOSTS lists, "h1 4 h2 4"; 0 where this is no LSF job, or a task of jsrun. */
static int lsf_hosts(char *const *environment)
{
    const char *at = environment_value(environment, "LSB_MCPU_HOSTS");
    int words = 0;
    if (at == NULL || environment_value(environment, "LSB_JOBID") == NULL ||
        environment_value(environment, "JSM_NAMESPACE_RANK") != NULL)
        return 0;
    for (at += strspn(at, " "); *at != 0; at += strspn(at, " ")) {
        at += strcspn(at, " ");
        words++;
    }
    return words / 2;
}

int provider_check_launcher(char *const *environment, struct hvd_error *warningp, struct hvd_error *err)
{
    int64_t tasks = 1;
    const char *options = environment_value(environment, CONFIG_CLI_VARIABLE);
    bool given = (options != NULL && options[0] != 0) || slurm_job_has_hvd(environment);
    const char *also = given ? " and was given options of hvd" : "";
    *warningp = (struct hvd_error){""};
    int rc = read_number(environment, "SLURM_NTASKS", &tasks, err);
    if (rc != HVD_OK)
        return rc;
    bool slurm = environment_value(environment, "SLURM_JOB_ID") != NULL &&
                 !slurm_step_is_users(environment) && tasks > 1;
    if (slurm)
        error_set(
            given ? err : warningp, HVD_ERR_INVALID,
            "this is rank 0 of 1, but the Slurm job has %lld tasks%s: start the program with srun, or with "
            "'srun -n1' or 'hvdrun -n 1' where one rank is meant",
            (long long)tasks, also);
    else if (lsf_hosts(environment) > 1)
        error_set(
            given ? err : warningp, HVD_ERR_INVALID,
            "this is rank 0 of 1, but the LSF job has %d hosts%s: start the program with jsrun or hvdrun, or "
            "with 'hvdrun --launcher=local -n 1' where one rank is meant",
            lsf_hosts(environment), also);
    else
        return HVD_OK;
    return given ? HVD_ERR_INVALID : HVD_OK;
}

int provider_choose(char *const *environment, unsigned outer, enum provider *providerp, struct hvd_error *err)
{
    const char *namespace = environment_value(environment, "PMIX_NAMESPACE");
    const char *rank = environment_value(environment, "PMIX_RANK");
    int64_t world_size = 1;
    if ((namespace == NULL) != (rank == NULL))
        return error_set(
            err, HVD_ERR_INVALID,
            "%s is set, but %s is not: the launcher's PMIx variables are damaged; do not remove some of them",
            namespace != NULL ? "PMIX_NAMESPACE" : "PMIX_RANK",
            namespace != NULL ? "PMIX_RANK" : "PMIX_NAMESPACE");
    if (namespace != NULL && (outer & NESTED_BIT(PROVIDER_PMIX)) == 0) {
        *providerp = PROVIDER_PMIX;
        return HVD_OK;
    }
    if (environment_value(environment, "PMI_FD") != NULL && (outer & NESTED_BIT(PROVIDER_PMI)) == 0) {
        *providerp = PROVIDER_PMI;
        return HVD_OK;
    }
    if (launch_is_newcomer(environment)) { /* its place is told by the launcher, whatever the variables say */
        *providerp = PROVIDER_ENV;
        return HVD_OK;
    }
    int rc = read_number(environment, "WORLD_SIZE", &world_size, err);
    if (rc != HVD_OK)
        return rc;
    bool meet = environment_value(environment, MASTER_ADDR_VARIABLE) != NULL;
    if (meet && environment_value(environment, "WORLD_SIZE") == NULL)
        rc = read_number(environment, "JSM_NAMESPACE_SIZE", &world_size, err);
    if (rc != HVD_OK)
        return rc;
    if (world_size != 1) { /* which refuses 0 */
        *providerp = PROVIDER_ENV;
        return HVD_OK;
    }
    rc = provider_check_single(environment, PROVIDER_SINGLETON, err);
    if (rc == HVD_OK)
        *providerp = PROVIDER_SINGLETON;
    return rc;
}

/* The variables that name a rank and its job, the rank first. */
static const struct identity_variables {
    const char *names[6];
    const char *text;
} identities[] = {
    [PROVIDER_PMIX] = {{"PMIX_RANK", "PMIX_NAMESPACE"}, "PMIX_RANK and PMIX_NAMESPACE"},
    [PROVIDER_PMI] = {{"PMI_RANK", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"}, "PMI_RANK and PMI_FD"},
    [PROVIDER_ENV] = {{"RANK", "WORLD_SIZE", MASTER_ADDR_VARIABLE, MASTER_PORT_VARIABLE},
                      "RANK and WORLD_SIZE"},
};
static const struct identity_variables jsrun_identity = {
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", MASTER_ADDR_VARIABLE, MASTER_PORT_VARIABLE},
    "JSM_NAMESPACE_RANK and JSM_NAMESPACE_SIZE"};

/* PMI tells the job by a connection only, which ranks of other jobs do not share. */
static uint64_t pmi_connection(void)
{
    struct stat about;
    int64_t fd = parse_count_or(getenv("PMI_FD") != NULL ? getenv("PMI_FD") : "", -1);
    return fd >= 0 && fd <= INT_MAX && fstat((int)fd, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

bool wireup_identify(struct wireup_identity *identity)
{
    enum provider provider = PROVIDER_SINGLETON;
    uint64_t numbers[3] = {0, geteuid(), 0};
    uint32_t epoch = 0;
    unsigned char hash[32];
    crypto_generichash_state state;
    const char *secret = secret_of_job(NULL);
    if (sodium_init() < 0 || provider_choose(environ, nested_outer(), &provider, NULL) != HVD_OK ||
        provider_read_epoch(environ, &epoch, NULL) != HVD_OK || provider == PROVIDER_SINGLETON)
        return false;
    const struct identity_variables *variables = &identities[provider];
    if (provider == PROVIDER_ENV && environment_value(NULL, "RANK") == NULL)
        variables = &jsrun_identity;
    numbers[0] = epoch;
    numbers[2] = provider == PROVIDER_PMI ? pmi_connection() : 0;
    crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    crypto_generichash_update(&state, (const unsigned char *)numbers, sizeof(numbers));
    for (size_t i = 0; i < sizeof(variables->names) / sizeof(variables->names[0]); i++) {
        const char *value = variables->names[i] == NULL ? NULL : environment_value(NULL, variables->names[i]);
        if (value != NULL)
            crypto_generichash_update(&state, (const unsigned char *)value, strlen(value) + 1);
    }
    if (secret != NULL)
        crypto_generichash_update(&state, (const unsigned char *)secret, strlen(secret));
    crypto_generichash_final(&state, hash, sizeof(hash));
    sodium_bin2hex(identity->name, sizeof(identity->name), hash, sizeof(hash));
    identity->rank = environment_value(NULL, variables->names[0]);
    identity->variables = variables->text;
    return identity->rank != NULL;
}

static const struct wireup_ops *find_ops(enum provider provider, void **modulep, struct hvd_error *err)
{
    struct hvd_error why = {""};
    int size = 0;
    if (epochs_follow(provider))
        return &wireup_epochs_ops;
    if (provider == PROVIDER_PMI)
        return &wireup_pmi_ops;
    if (provider == PROVIDER_ENV)
        return &wireup_env_ops;
    if (provider == PROVIDER_SINGLETON)
        return &wireup_singleton_ops;
    if (reunion_is_planned(&size))
        return size == 1 ? &wireup_singleton_ops : &wireup_reunion_ops;
    const struct wireup_ops *ops = module_open("wireup_pmix.so", "wireup_pmix_ops", modulep, &why);
#ifdef HAVE_PMIX
    if (ops == NULL)
        error_set(err, HVD_ERR_INVALID, "PMIX_NAMESPACE says that PMIx started this job, but %.400s",
                  why.text);
#else
    if (ops == NULL)
        error_set(
            err, HVD_ERR_INVALID,
            "PMIX_NAMESPACE says that PMIx started this job, but hvd was built without PMIx (%s): %.300s",
            BUILT_WITH_PMIX, why.text);
#endif
    return ops;
}

/* Fill in what every provider leaves to hvd: the node's name and the epoch. */
static int begin_job(struct hvd_job *job, struct hvd_error *err)
{
    *job = (struct hvd_job){.local_rank = -1, .local_size = -1};
    const char *node = environment_value(environ, "SLURMD_NODENAME");
    if (node != NULL && node[0] != 0 && strlen(node) < sizeof(job->host))
        memcpy(job->host, node, strlen(node) + 1);
    else if (gethostname(job->host, sizeof(job->host) - 1) < 0)
        return error_set_errno(err, "gethostname");
    for (char *at = job->host; *at != 0; at++)
        if (!is_printable_byte((unsigned char)*at))
            *at = '?'; /* the name is shown in sentences */
    return provider_read_epoch(environ, &job->epoch, err);
}

bool wireup_foresee(struct hvd_job *job)
{
    const char *secret = secret_of_job(NULL);
    struct launch_place place = {-1, -1, -1, -1, -1, -1};
    struct hvd_job found;
    if (secret == NULL || !secret_is_drawn(secret) || begin_job(&found, NULL) != HVD_OK)
        return false;
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        const struct launch_number number = {.name = launch_variable_name(i), .max = LAUNCH_MOST_RANKS};
        int *known = launch_variable_of(i, &place), value = -1;
        if (launch_number_read(&number, &value, NULL) != HVD_OK || value < 0 ||
            (*known >= 0 && *known != value))
            return false;
        *known = value;
    }
    if (place.rank >= place.size || place.local_rank >= place.local_size || place.local_size > place.size)
        return false;
    found.rank = place.rank;
    found.size = place.size;
    found.local_rank = place.local_rank;
    found.local_size = place.local_size;
    *job = found;
    return true;
}

int wireup_open(struct wireup *wireup, const struct hvd_config *config, const struct hvd_log *log,
                int64_t deadline_us, struct hvd_job *job, struct hvd_error *err)
{
    struct wireup opened = {NULL, NULL, NULL};
    struct hvd_job found;
    struct hvd_error forgotten = {""};
    enum provider provider = PROVIDER_SINGLETON;
    int rc = provider_choose(environ, nested_outer(), &provider, err);
    if (rc == HVD_OK)
        rc = begin_job(&found, err);
    if (rc != HVD_OK)
        return rc;
    opened.ops = find_ops(provider, &opened.module, err);
    if (opened.ops == NULL)
        return HVD_ERR_INVALID;
    if (opened.ops == &wireup_singleton_ops && provider == PROVIDER_SINGLETON)
        rc = provider_check_launcher(environ, &forgotten, err);
    if (rc != HVD_OK)
        return rc;
    if (forgotten.text[0] != 0)
        log_write(log, LOG_WARN, "wire-up", "%s", forgotten.text);
    rc = opened.ops->open(config, log, deadline_us, &found, &opened.state, err);
    found.provider = opened.ops->name;
    if (rc != HVD_OK)
        opened.ops = NULL;
    else if (found.size == 1 && opened.ops != &wireup_epochs_ops) /* an epoch may have one rank */
        rc = provider_check_single(environ, provider, err);
    if (rc != HVD_OK) {
        wireup_close(&opened);
        return rc;
    }
    log_write(log, LOG_INFO, "wire-up", "rank %d of %d on %s, by %s", found.rank, found.size, found.host,
              found.provider);
    if (opened.module != NULL)
        epochs_begin();
    *wireup = opened;
    *job = found;
    return HVD_OK;
}

bool wireup_needs_reunion(const struct wireup *wireup)
{
    return wireup->module != NULL && !epochs_follow(PROVIDER_PMIX);
}

void wireup_close(struct wireup *wireup)
{
    if (wireup->ops != NULL)
        wireup->ops->close(wireup->state);
    *wireup = (struct wireup){NULL, NULL, NULL};
}
