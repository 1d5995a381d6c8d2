/* horovod.c: what Horovod's variables mean to hvd. */
#include "options/horovod.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "options/parse.h"

#define BACKENDS_INSTEAD "hvd chooses by itself how data travels; HVD_BACKENDS limits the choice"
#define MPI_GLOO_INSTEAD "hvd needs neither MPI nor Gloo to negotiate; HVD_BACKENDS says what carries tensors"
#define GPU_INSTEAD      "hvd has no setting like this for tensors on GPUs"
#define AUTOTUNE_INSTEAD "hvd's autotuner has no such setting; HVD_AUTOTUNE=on starts it"
#define RENDEZVOUS_INSTEAD \
    "hvd's ranks find each other by PMIx, or by MASTER_ADDR and MASTER_PORT; start them by srun or hvdrun"

const struct horovod_variable horovod_variables[] = {
    {"HOROVOD_CONTROLLER", NULL, MPI_GLOO_INSTEAD},
    {"HOROVOD_CPU_OPERATIONS", NULL, MPI_GLOO_INSTEAD},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE", "0", BACKENDS_INSTEAD},
    {"HOROVOD_HIERARCHICAL_ALLGATHER", "0", BACKENDS_INSTEAD},
    {"HOROVOD_TORUS_ALLREDUCE", "0", BACKENDS_INSTEAD},
    {"HOROVOD_BATCH_D2D_MEMCOPIES", NULL, GPU_INSTEAD},
    {"HOROVOD_NUM_NCCL_STREAMS", NULL, GPU_INSTEAD},
    {"HOROVOD_ENABLE_ASYNC_COMPLETION", "0", GPU_INSTEAD},
    {"HOROVOD_ENABLE_XLA_OPS", "0", GPU_INSTEAD},
    {"HOROVOD_DISABLE_NVTX_RANGES", "1", "hvd marks no NVTX ranges; HVD_TIMELINE=DIR shows operations"},
    {"HOROVOD_CCL_CACHE", "0", "hvd does not use oneCCL; HVD_CACHE limits hvd's own cache"},
    {"HOROVOD_DISABLE_GROUP_FUSION", "0", "hvd fuses groups like other tensors; HVD_FUSION=0 fuses nothing"},
    {"HOROVOD_DYNAMIC_PROCESS_SETS", "1", "hvd's process sets can always be added and removed"},
    {"HOROVOD_ELASTIC_TIMEOUT", NULL, "HVD_START_TIMEOUT limits the start of each epoch of an elastic job"},
    {"HOROVOD_TIMELINE_MARK_CYCLES", "0", "hvd has no cycles; HVD_TIMELINE=DIR shows operations"},
    {"HOROVOD_AUTOTUNE_LOG", NULL, "HVD_AUTOTUNE_FILE names the file that gets what HVD_AUTOTUNE=on came to"},
    {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", NULL, AUTOTUNE_INSTEAD},
    {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", NULL, AUTOTUNE_INSTEAD},
    {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", NULL, AUTOTUNE_INSTEAD},
    {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", NULL, AUTOTUNE_INSTEAD},
    {"HOROVOD_MPI_THREADS_DISABLE", "0", "hvd's backend mpi asks MPI for MPI_THREAD_SERIALIZED"},
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", NULL, "HVD_CHUNK is the nearest, for a node's shared memory"},
    {"HOROVOD_THREAD_AFFINITY", NULL, "HVD_BIND says which cores a rank and its threads get"},
    {"HOROVOD_LOG_HIDE_TIME", "0", "hvd's log always has the time; HVD_LOG sets its level"},
    {"HOROVOD_GLOO_TIMEOUT_SECONDS", NULL,
     "HVD_START_TIMEOUT limits the start, HVD_LEASE and HVD_STALL_ABORT operations"},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", NULL, RENDEZVOUS_INSTEAD},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", NULL, RENDEZVOUS_INSTEAD},
    /* launchers set these, hvd's own too */
    {"HOROVOD_RANK", NULL, NULL},
    {"HOROVOD_SIZE", NULL, NULL},
    {"HOROVOD_LOCAL_RANK", NULL, NULL},
    {"HOROVOD_LOCAL_SIZE", NULL, NULL},
    {"HOROVOD_CROSS_RANK", NULL, NULL},
    {"HOROVOD_CROSS_SIZE", NULL, NULL},
    {"HOROVOD_HOSTNAME", NULL, NULL},
    {"HOROVOD_ELASTIC", NULL, NULL},
};

const int horovod_variable_count = (int)(sizeof(horovod_variables) / sizeof(horovod_variables[0]));

/* How the names of variables begin that Horovod's installation reads and its ranks do not. */
static const char *const built_with[] = {
    "HOROVOD_WITH_",  "HOROVOD_WITHOUT_",     "HOROVOD_GPU",
    "HOROVOD_CUDA_",  "HOROVOD_NCCL_",        "HOROVOD_ROCM_",
    "HOROVOD_BUILD_", "HOROVOD_CMAKE",        "HOROVOD_ALLOW_MIXED_GPU_IMPL",
    "HOROVOD_DEBUG",  "HOROVOD_SKIP_COMPILE", "HOROVOD_LOCAL_VERSION"};

int horovod_switch_off(const char *given, char *text, const char **whyp)
{
    bool off = strcmp(given, "1") == 0;
    *whyp = off || given[0] == 0 || strcmp(given, "0") == 0 ? NULL : "expected 0 or 1; it is ignored";
    snprintf(text, OPTION_VALUE_BYTES + 1, "0");
    return off ? HVD_OK : HVD_IN_PROGRESS;
}

static int find_synonym(const struct hvd_option *option, const char *given, char *text, const char **whyp)
{
    for (const struct option_synonym *at = option->horovod_synonyms; at->theirs != NULL; at++) {
        if (strcasecmp(given, at->theirs) == 0) {
            snprintf(text, OPTION_VALUE_BYTES + 1, "%s", at->ours);
            return HVD_OK;
        }
    }
    *whyp = "not a value that Horovod knows; it is ignored";
    return HVD_IN_PROGRESS;
}

int horovod_value(const struct hvd_option *option, const char *given, char *text, const char **whyp,
                  struct hvd_error *err)
{
    int64_t number;
    const char *why;
    *whyp = option->retired != NULL ? option->retired : option->horovod_never;
    if (*whyp == NULL && strcmp(given, "0") == 0)
        *whyp = option->horovod_zero;
    if (*whyp != NULL || given[0] == 0) /* Horovod takes an empty variable for one that is not set */
        return HVD_IN_PROGRESS;
    if (strlen(given) > OPTION_VALUE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: the value is longer than %d bytes", option->horovod,
                         OPTION_VALUE_BYTES);
    if (option->horovod_synonyms != NULL)
        return find_synonym(option, given, text, whyp);
    const char *unit = option->horovod_unit == NULL ? "" : option->horovod_unit;
    if (unit[0] != 0 && (strlen(given) > 20 || parse_count(given, &number, &why) < 0))
        return error_set(err, HVD_ERR_INVALID,
                         "%s=%.64s: expected a whole number of %s; --hvd-%s takes units", option->horovod,
                         given, unit, option->name);
    snprintf(text, OPTION_VALUE_BYTES + 1, "%s%s", given, unit);
    return HVD_OK;
}

static bool only_built_with(const char *name)
{
    for (size_t i = 0; i < sizeof(built_with) / sizeof(built_with[0]); i++)
        if (strncmp(name, built_with[i], strlen(built_with[i])) == 0)
            return true;
    return false;
}

static const char *unknown(const char *name, char hint[NEAREST_HINT_BYTES])
{
    struct nearest nearest = {.word = name};
    for (int i = 0; i < option_count; i++) {
        if (option_table[i].horovod != NULL)
            nearest_try(&nearest, option_table[i].horovod);
        if (option_table[i].horovod_zero_if != NULL)
            nearest_try(&nearest, option_table[i].horovod_zero_if);
    }
    for (int i = 0; i < horovod_variable_count; i++)
        nearest_try(&nearest, horovod_variables[i].name);
    return nearest_hint(&nearest, "neither Horovod nor hvd has such an option; it is ignored", hint);
}

const char *horovod_remark(const char *name, const char *value, char hint[NEAREST_HINT_BYTES])
{
    for (int i = 0; i < horovod_variable_count; i++) {
        const struct horovod_variable *variable = &horovod_variables[i];
        if (strcmp(name, variable->name) != 0)
            continue;
        bool agreed = value[0] == 0 || (variable->agreed != NULL && strcmp(value, variable->agreed) == 0);
        return agreed ? NULL : variable->answer;
    }
    return only_built_with(name) ? NULL : unknown(name, hint);
}
