/* rank_places.c: where the ranks of a job run on this machine. */
#include "config.h"

#include "tools/hvdrun/rank_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "topo/apply.h"
#include "topo/erf.h"
#include "topo/node_placement.h"

#define YIELD_VARIABLE                                                                                   \
    "OMPI_MCA_mpi_yield_when_idle" /* set when there are more ranks than CPUs, so that Open MPI does not \
                                      spin */

struct rank_variables {
    char *strings[APPLY_MAX + 2];
};

struct start_turn {
    int rank;
    int turn; /* the number of ranks before it that have the same CPUs, one after the other */
};

struct rank_places {
    const struct hvdrun_options *options;
    char *const *environment;
    struct hvd_config config;
    struct erf *erf;          /* NULL: no explicit resource file was given */
    struct erf_tasks settled; /* the tasks of [erf], resolved for this machine */
    int count;
    struct bitmap granted;
    bool placed;                      /* false: the ranks are not placed, and may place themselves */
    struct plan *plan;                /* NULL: every rank may run on all granted CPUs */
    struct rank_variables *variables; /* each rank's own variables */
    struct start_turn *starts;        /* all ranks, in the order in which they are started */
};

/* ---- The request ------------------------------------------------------------------------------ */

static int read_erf(struct rank_places *places, struct hvd_error *err)
{
    const char *path = places->options->erf;
    char source[128];
    config_source_text(&places->config, OPTION_OF(rs), source, sizeof(source));
    if (places->config.rs.given)
        return error_set(err, HVD_ERR_INVALID,
                         "--erf_input, but resource sets are asked for as well, by the %s; leave one out",
                         source);
    int status = erf_read(path, &places->erf, err);
    if (status != HVD_OK)
        return status;
    places->count = places->erf->rank_count;
    if (places->count > HVDRUN_MAX_RANKS)
        return error_set(err, HVD_ERR_INVALID, "%.200s: %d ranks; hvdrun starts up to %d", path,
                         places->count, HVDRUN_MAX_RANKS);
    for (int i = 0; i < places->count; i++)
        if (places->erf->ranks[i].app != ERF_NONE)
            return error_set(err, HVD_ERR_INVALID,
                             "%.200s, line %d: hvdrun runs the command that it is given, no app of the file; "
                             "leave \": app %d\" out",
                             path, places->erf->ranks[i].line, places->erf->ranks[i].app);
    return HVD_OK;
}

static int read_all(struct rank_places *places, int asked, struct hvd_error *err)
{
    struct hvd_config *config = &places->config;
    int status =
        config_load(config, places->environment, NULL, err); /* the ranks print the warnings themselves */
    if (status != HVD_OK)
        return status;
    if (places->options->erf != NULL)
        return read_erf(places, err);
    return rank_count(asked, config->rs.given ? &config->rs : NULL, &places->count, err);
}

int rank_places_create(struct rank_places **placesp, const struct hvdrun_options *options, int asked,
                       char *const *environment, struct hvd_error *err)
{
    struct rank_places *places = calloc(1, sizeof(*places));
    if (places == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place ranks");
    places->options = options;
    places->environment = environment;
    int status = read_all(places, asked, err);
    if (status == HVD_OK) {
        places->variables = calloc((size_t)places->count, sizeof(*places->variables));
        places->starts = calloc((size_t)places->count, sizeof(*places->starts));
        if (places->variables == NULL || places->starts == NULL)
            status = error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d ranks", places->count);
    }
    if (status != HVD_OK) {
        rank_places_destroy(places);
        return status;
    }
    *placesp = places;
    return HVD_OK;
}

void rank_places_destroy(struct rank_places *places)
{
    if (places == NULL)
        return;
    for (int rank = 0; places->variables != NULL && rank < places->count; rank++)
        for (char **string = places->variables[rank].strings; *string != NULL; string++)
            free(*string);
    free(places->variables);
    free(places->starts);
    plan_destroy(places->plan);
    erf_tasks_free(&places->settled);
    erf_destroy(places->erf);
    free(places);
}

int rank_places_count(const struct rank_places *places)
{
    return places->count;
}

/* ---- The placement ---------------------------------------------------------------------------- */

/* Without GPUs, the topology is not needed if nothing is bound, or if one rank gets everything. */
static bool is_plain(const struct rank_places *places)
{
    const struct hvd_config *config = &places->config;
    const struct bind_options *bind = &config->bind;
    bool all = bind->policy == BIND_NONE || (bind->policy == BIND_AUTO && places->count == 1);
    return all && bind->smt == 0 && bind->reserve == 0 && !bind->verbose && !config->rs.given &&
           places->erf == NULL && !node_has_gpus(NULL);
}

static void warn(const char *sentence)
{
    fprintf(stderr, "hvdrun: warning: %s\n", sentence);
}

/* The file must place all ranks on this host. */
static int resolve_erf(struct rank_places *places, const struct machine *machine, const char *host,
                       struct hvd_error *err)
{
    const struct erf *erf = places->erf;
    struct erf_host here = {.name = strdup(host), .index = 1};
    if (here.name == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d ranks", places->count);
    int status = erf_tasks(erf, machine, &here, &places->settled, warn, err);
    free(here.name);
    if (status != HVD_OK)
        return status;
    for (int i = 0; i < erf->rank_count; i++) {
        char number[16];
        if (i < places->settled.count && places->settled.ranks[i] == i)
            continue;
        const struct erf_host *there = &erf->hosts[erf->ranks[i].host];
        snprintf(number, sizeof(number), "%d", there->index);
        return error_set(err, HVD_ERR_INVALID,
                         "%.200s, line %d: rank %d is to run on host %.100s, but hvdrun starts ranks on this "
                         "one only, %.100s, which is host 1",
                         places->options->erf, erf->ranks[i].line, i,
                         there->name != NULL ? there->name : number, host);
    }
    return HVD_OK;
}

static int make_plan(struct rank_places *places, const char *host, struct hvd_error *err)
{
    const struct hvd_config *config = &places->config;
    struct machine *machine = NULL;
    struct node_placement place = {.task_count = places->count,
                                   .cpus = &places->granted,
                                   .bind = config->bind,
                                   .rs = config->rs.given ? &config->rs : NULL,
                                   .nics = config->bind.verbose ? config->nics : NULL,
                                   .environment = places->environment};
    place.cores_only = places->erf == NULL && !node_placement_needs_devices(&place);
    int status = node_placement_load_machine(&place, &machine, err);
    if (status == HVD_OK && places->erf != NULL) {
        status = resolve_erf(places, machine, host, err);
        place.tasks = places->settled.tasks;
        place.bind = (struct bind_options){.policy = BIND_AUTO}; /* the file has decided everything */
    }
    if (status == HVD_OK)
        status = node_placement_plan(&place, machine, &places->plan, err);
    machine_destroy(machine);
    return status;
}

static int add_string(struct rank_variables *variables, const char *name, const char *value,
                      struct hvd_error *err)
{
    char **string = variables->strings;
    while (*string != NULL)
        string++;
    if (asprintf(string, "%s=%s", name, value) >= 0)
        return HVD_OK;
    *string = NULL;
    return error_set(err, HVD_ERR_NO_MEMORY, "no memory for the environment of a rank");
}

/* Set the variables that tell a rank its place. */
static int set_rank_variables(struct rank_places *places, int rank, struct hvd_error *err)
{
    static const struct plan_task anywhere;
    struct env_variable variables[APPLY_MAX];
    const struct launched_task launched = {.task =
                                               places->plan != NULL ? &places->plan->tasks[rank] : &anywhere,
                                           .launcher = "hvdrun",
                                           .gpu_visible = places->config.gpu_visible,
                                           .environment = places->environment};
    int count = places->placed ? apply_variables(&launched, variables, err) : 0;
    int status = count < 0 ? count : HVD_OK;
    for (int i = 0; status == HVD_OK && i < count; i++)
        status = add_string(&places->variables[rank], variables[i].name, variables[i].value, err);
    bool oversubscribed = places->count > bitmap_weight(&places->granted);
    if (status == HVD_OK && oversubscribed && environment_value(places->environment, YIELD_VARIABLE) == NULL)
        status = add_string(&places->variables[rank], YIELD_VARIABLE, "1", err);
    return status;
}

/* Containers may refuse to bind. Setting what is set already shows it before any rank has started. */
static int check_binding(struct rank_places *places, struct hvd_error *err)
{
    bool binds = false;
    for (int rank = 0; places->plan != NULL && rank < places->count; rank++)
        binds = binds || places->plan->tasks[rank].bound;
    return binds ? apply_cpus(0, &places->granted, err) : HVD_OK;
}

static void leave_unbound(struct rank_places *places, const char *why)
{
    char sentence[sizeof(struct hvd_error) + 128];
    snprintf(sentence, sizeof(sentence),
             "ranks are not bound: %s; --hvd-bind=none starts them in the same way, without this warning",
             why);
    warn(sentence);
    for (int rank = 0; rank < places->count; rank++)
        places->plan->tasks[rank].bound = false;
}

const struct plan_task *rank_places_task(const struct rank_places *places, int rank)
{
    const struct plan_task *task = places->plan != NULL ? &places->plan->tasks[rank] : NULL;
    return task != NULL && task->bound ? task : NULL;
}

/* ---- The order of starting -------------------------------------------------------------------- */

static bool shares_cpus(const struct rank_places *places, int a, int b)
{
    const struct plan_task *first = rank_places_task(places, a);
    const struct plan_task *second = rank_places_task(places, b);
    return first != NULL && second != NULL && bitmap_is_equal(&first->cpus, &second->cpus);
}

static int compare_starts(const void *a, const void *b)
{
    const struct start_turn *first = a;
    const struct start_turn *second = b;
    return first->turn != second->turn ? first->turn - second->turn : first->rank - second->rank;
}

/* Where ranks share CPUs, start one rank on each in turn: in the order of ranks, all that share the first CPU
 * would start while the other CPUs are idle. */
static void decide_start_order(struct rank_places *places)
{
    struct start_turn *starts = places->starts;
    for (int rank = 0; rank < places->count; rank++) {
        bool shared = rank > 0 && shares_cpus(places, rank, rank - 1);
        starts[rank] = (struct start_turn){.rank = rank, .turn = shared ? starts[rank - 1].turn + 1 : 0};
    }
    qsort(starts, (size_t)places->count, sizeof(*starts), compare_starts);
}

int rank_places_to_start(const struct rank_places *places, int started_count)
{
    return places->starts[started_count].rank;
}

/* ---- The decision ------------------------------------------------------------------------------ */

/* Place and bind the ranks. Where that is not required and cannot be done, they start without. */
static int place_ranks(struct rank_places *places, const char *host, struct hvd_error *err)
{
    struct hvd_error why = {""};
    bool required = config_requires_placement(&places->config) || places->erf != NULL;
    int status = apply_read_cpus(0, &places->granted, &why);
    if (status == HVD_OK && !is_plain(places))
        status = make_plan(places, host, &why);
    places->placed = status == HVD_OK;
    if (status != HVD_OK && required)
        return error_set(err, status, "%s", why.text);
    if (status != HVD_OK) {
        if (places->config.log_level >= LOG_DEBUG)
            fprintf(stderr, "hvdrun: ranks are not placed: %s\n", why.text);
        return HVD_OK;
    }
    status = check_binding(places, &why);
    if (status != HVD_OK && required)
        return error_set(err, status, "ranks cannot be bound: %s; --hvd-bind=none does not bind them",
                         why.text);
    if (status != HVD_OK)
        leave_unbound(places, why.text);
    return HVD_OK;
}

int rank_places_decide(struct rank_places *places, const char *host, struct hvd_error *err)
{
    int status = place_ranks(places, host, err);
    if (status != HVD_OK)
        return status;
    decide_start_order(places);
    for (int rank = 0; status == HVD_OK && rank < places->count; rank++)
        status = set_rank_variables(places, rank, err);
    return status;
}

void rank_places_print(const struct rank_places *places)
{
    char text[1024];
    if (!places->config.bind.verbose)
        return;
    for (int rank = 0; rank < places->count; rank++)
        fprintf(stderr, "hvdrun: %s\n", plan_task_text(&places->plan->tasks[rank], rank, text, sizeof(text)));
    if (places->plan->note[0] != 0)
        fprintf(stderr, "hvdrun: %s\n", places->plan->note);
}

char *const *rank_places_environment(const struct rank_places *places, int rank)
{
    return places->variables[rank].strings;
}
