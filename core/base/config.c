/* config.c: the options in force in one process, and who set each; opens no file itself. */
#include "base/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

/* What launchers, tests and wire-up use and no user mistyped. */
static const char *const known_variables[] = {CONFIG_CLI_VARIABLE, CONFIG_SITE_VARIABLE, "HVD_JOB_KEY",
                                              "HVD_EPOCH",         "HVD_MODULE_PATH",    "HVD_BUILD",
                                              "HVD_SOURCE",        "HVD_PLACED",         "HVD_GPU_PCI",
                                              "HVD_LOCAL_DEVICE",  "HVD_NETWORK_SET",    NULL};

/* Horovod's words for how much to say, and ours. */
static const struct {
    const char *theirs, *ours;
} log_level_names[] = {{"trace", "debug"},  {"debug", "debug"}, {"info", "info"},
                       {"warning", "warn"}, {"error", "error"}, {"fatal", "error"}};

/* One value that somebody gave. */
struct candidate {
    enum option_id id;
    enum config_source source;
    const char *where;   /* the variable or file */
    const char *spelled; /* how the sentence begins: "--hvd-fusion" */
    const char *given;   /* the value as it was typed */
    const char *text;    /* the same in our syntax */
};

/* A configuration in the making, and what the environment holds for it. */
struct loader {
    struct hvd_config config;
    const char *own[OPT_COUNT];     /* HVD_FUSION; NULL where it is not set */
    const char *horovod[OPT_COUNT]; /* HOROVOD_FUSION_THRESHOLD */
    const char *cli, *site;
    void (*warn)(const char *sentence);
    const char *file;        /* that is being read */
    bool in_file[OPT_COUNT]; /* options it has named so far */
};

/* [text] has passed option_parse, so parsers do not fail. */
static void set_value(struct hvd_config *config, enum option_id id, uint64_t value, const char *text)
{
    const char *why;
    switch (id) {
    case OPT_FUSION:
        config->fusion_bytes = (int64_t)value;
        break;
    case OPT_BACKENDS:
        config->backends = value;
        break;
    case OPT_TCP_STREAMS:
        config->tcp_streams = (int)value;
        break;
    case OPT_START_TIMEOUT:
        config->start_timeout_us = (int64_t)value;
        break;
    case OPT_LEASE:
        config->lease_us = (int64_t)value;
        break;
    case OPT_KILL_WAIT:
        config->kill_wait_us = (int64_t)value;
        break;
    case OPT_CACHE:
        config->cache_limit = (int64_t)value;
        break;
    case OPT_INFLIGHT:
        config->inflight = (int64_t)value;
        break;
    case OPT_CHUNK:
        config->chunk_bytes = (int64_t)value;
        break;
    case OPT_AUTOTUNE:
        config->autotune = value != 0;
        break;
    case OPT_AUTOTUNE_FILE:
        snprintf(config->autotune_file, sizeof(config->autotune_file), "%s", text);
        break;
    case OPT_STALL_WARN:
        config->stall_warn_us = (int64_t)value;
        break;
    case OPT_STALL_ABORT:
        config->stall_abort_us = (int64_t)value;
        break;
    case OPT_TIMELINE:
        snprintf(config->timeline, sizeof(config->timeline), "%s", text);
        break;
    case OPT_DUMP_DIR:
        snprintf(config->dump_dir, sizeof(config->dump_dir), "%s", text);
        break;
    case OPT_STOP_SIGNAL:
        config->stop_signal = option_signal(value);
        break;
    case OPT_PROGRESS:
        config->progress = (enum progress_mode)value;
        break;
    case OPT_LOG:
        config->log_level = (int)value;
        break;
    case OPT_BIND:
        bind_parse(text, &config->bind, &why);
        break;
    case OPT_GPU_VISIBLE:
        config->gpu_visible = (enum gpu_visible)value;
        break;
    case OPT_NICS:
        snprintf(config->nics, sizeof(config->nics), "%s", text);
        break;
    case OPT_RS:
        config->has_rs = rs_parse(text, &config->rs, &why) == 0;
        break;
    case OPT_CONFIG:
    case OPT_CYCLE_TIME:
    case OPT_COUNT:
        break;
    }
}

static uint64_t signal_choice(int signal_number)
{
    uint64_t choice = 0;
    while (option_signal(choice) != signal_number)
        choice++;
    return choice;
}

static uint64_t get_value(const struct hvd_config *config, enum option_id id)
{
    switch (id) {
    case OPT_FUSION:
        return (uint64_t)config->fusion_bytes;
    case OPT_BACKENDS:
        return config->backends;
    case OPT_TCP_STREAMS:
        return (uint64_t)config->tcp_streams;
    case OPT_START_TIMEOUT:
        return (uint64_t)config->start_timeout_us;
    case OPT_LEASE:
        return (uint64_t)config->lease_us;
    case OPT_KILL_WAIT:
        return (uint64_t)config->kill_wait_us;
    case OPT_CACHE:
        return (uint64_t)config->cache_limit;
    case OPT_INFLIGHT:
        return (uint64_t)config->inflight;
    case OPT_CHUNK:
        return (uint64_t)config->chunk_bytes;
    case OPT_AUTOTUNE:
        return config->autotune;
    case OPT_STALL_WARN:
        return (uint64_t)config->stall_warn_us;
    case OPT_STALL_ABORT:
        return (uint64_t)config->stall_abort_us;
    case OPT_STOP_SIGNAL:
        return signal_choice(config->stop_signal);
    case OPT_PROGRESS:
        return (uint64_t)config->progress;
    case OPT_LOG:
        return (uint64_t)config->log_level;
    case OPT_GPU_VISIBLE:
        return (uint64_t)config->gpu_visible;
    case OPT_TIMELINE:
    case OPT_DUMP_DIR:
    case OPT_AUTOTUNE_FILE:
    case OPT_CONFIG:
    case OPT_BIND:
    case OPT_NICS:
    case OPT_RS:
    case OPT_CYCLE_TIME:
    case OPT_COUNT:
        break;
    }
    return 0;
}

static void warn_about(const struct loader *loader, const char *variable, const char *sentence)
{
    struct hvd_error text;
    if (loader->warn == NULL)
        return;
    error_set(&text, HVD_OK, "%.64s: %s", variable, sentence);
    loader->warn(text.text);
}

/* Check a value, and on_entry it unless somebody of more authority has set the option. Of equals the later
 * one wins. */
static int apply_candidate(struct hvd_config *config, const struct candidate *candidate,
                           struct hvd_error *err)
{
    struct config_origin *origin = &config->origin[candidate->id];
    uint64_t value = 0;
    int rc = option_parse(&option_table[candidate->id], candidate->spelled, candidate->text, &value, err);
    if (rc != HVD_OK || candidate->source < origin->source)
        return rc;
    size_t length = strlen(candidate->where);
    size_t skip = length < sizeof(origin->where) ? 0 : length - sizeof(origin->where) + 1;
    origin->source = candidate->source;
    snprintf(origin->where, sizeof(origin->where), "%s", candidate->where + skip);
    snprintf(origin->text, sizeof(origin->text), "%s", candidate->given);
    set_value(config, candidate->id, value, candidate->text);
    return HVD_OK;
}

static int load_defaults(struct hvd_config *config, struct hvd_error *err)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        const struct hvd_option *option = &option_table[id];
        struct candidate candidate = {id, CONFIG_DEFAULT, "", option->name, option->def, option->def};
        int rc = option->def[0] == 0 ? HVD_OK : apply_candidate(config, &candidate, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int apply_list_entry(struct hvd_config *config, enum config_source source, char *entry,
                            struct hvd_error *err)
{
    const char *variable = source == CONFIG_SITE ? CONFIG_SITE_VARIABLE : CONFIG_CLI_VARIABLE;
    char spelled[96];
    char *equals = strchr(entry, '=');
    if (equals == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s: '%.64s' is not name=value; only launchers write this variable", variable,
                         entry);
    *equals = 0;
    const struct hvd_option *option = option_find(entry);
    if (option == NULL)
        return error_set(
            err, HVD_ERR_INVALID,
            "%s: no option is named '%.64s'; the launcher is of another version of hvd than this library",
            variable, entry);
    if (source == CONFIG_SITE)
        snprintf(spelled, sizeof(spelled), "%s in %s", option->name, variable);
    else
        snprintf(spelled, sizeof(spelled), "--hvd-%s", option->name);
    struct candidate candidate = {
        (enum option_id)(option - option_table), source, variable, spelled, equals + 1, equals + 1};
    return apply_candidate(config, &candidate, err);
}

/* A list of name=value with ';' between. */
static int load_list(struct hvd_config *config, enum config_source source, const char *list,
                     struct hvd_error *err)
{
    char copy[CONFIG_LIST_BYTES + 1];
    if (list == NULL || list[0] == 0)
        return HVD_OK;
    if (strlen(list) > CONFIG_LIST_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: longer than %d bytes",
                         source == CONFIG_SITE ? CONFIG_SITE_VARIABLE : CONFIG_CLI_VARIABLE,
                         CONFIG_LIST_BYTES);
    memcpy(copy, list, strlen(list) + 1);
    for (char *entry = copy; entry != NULL;) {
        char *next = strchr(entry, ';');
        if (next != NULL)
            *next++ = 0;
        int rc = apply_list_entry(config, source, entry, err);
        if (rc != HVD_OK)
            return rc;
        entry = next;
    }
    return HVD_OK;
}

/* Horovod's value in our syntax, or HVD_IN_PROGRESS where a warning was given and it is left out. */
static int translate_horovod(const struct loader *loader, const struct hvd_option *option, const char *given,
                             char *text, struct hvd_error *err)
{
    int64_t number;
    const char *why;
    const char *not_taken = option->retired != NULL ? option->retired : option->horovod_never;
    if (not_taken == NULL && strcmp(given, "0") == 0)
        not_taken = option->horovod_zero;
    if (not_taken != NULL) {
        warn_about(loader, option->horovod, not_taken);
        return HVD_IN_PROGRESS;
    }
    if (strlen(given) > OPTION_VALUE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: the value is longer than %d bytes", option->horovod,
                         OPTION_VALUE_BYTES);
    snprintf(text, OPTION_VALUE_BYTES + 1, "%s", given);
    if (option->horovod_unit != NULL && option->horovod_unit[0] != 0) {
        if (strlen(given) > 20 || parse_count(given, &number, &why) < 0)
            return error_set(err, HVD_ERR_INVALID,
                             "%s=%.64s: expected a whole number of %s; --hvd-%s takes units", option->horovod,
                             given, option->horovod_unit, option->name);
        snprintf(text, OPTION_VALUE_BYTES + 1, "%s%s", given, option->horovod_unit);
    }
    if (option != &option_table[OPT_LOG])
        return HVD_OK;
    for (size_t i = 0; i < sizeof(log_level_names) / sizeof(log_level_names[0]); i++) {
        if (strcasecmp(given, log_level_names[i].theirs) == 0) {
            snprintf(text, OPTION_VALUE_BYTES + 1, "%s", log_level_names[i].ours);
            return HVD_OK;
        }
    }
    warn_about(loader, option->horovod, "not a level of hvd or Horovod; it is ignored");
    return HVD_IN_PROGRESS;
}

/* The user's own variables. HVD_FUSION comes after HOROVOD_FUSION_THRESHOLD, and so wins. */
static int load_variables(struct loader *loader, struct hvd_error *err)
{
    char text[OPTION_VALUE_BYTES + 1];
    char name[64];
    int rc = HVD_OK;
    for (int id = 0; id < OPT_COUNT && rc == HVD_OK; id++) {
        const struct hvd_option *option = &option_table[id];
        const char *given = loader->horovod[id];
        if (given != NULL) {
            rc = translate_horovod(loader, option, given, text, err);
            struct candidate candidate = {id,  CONFIG_ENVIRONMENT, option->horovod, option->horovod, given,
                                          text};
            if (rc == HVD_OK)
                rc = apply_candidate(&loader->config, &candidate, err);
            if (rc < 0)
                return rc;
            rc = HVD_OK;
        }
        given = loader->own[id];
        option_env_name(option, name);
        struct candidate candidate = {id, CONFIG_ENVIRONMENT, name, name, given, given};
        if (given != NULL)
            rc = apply_candidate(&loader->config, &candidate, err);
    }
    return rc;
}

static int apply_file_entry(void *arg, const char *name, const char *value, struct hvd_error *err)
{
    struct loader *loader = arg;
    char spelled[400];
    const struct hvd_option *option = option_find(name);
    snprintf(spelled, sizeof(spelled), "%.64s in %.300s", name, loader->file);
    if (option == NULL)
        return error_set(err, HVD_ERR_INVALID, "%s: no such option; hvdinfo --options lists them", spelled);
    enum option_id id = (enum option_id)(option - option_table);
    if (id == OPT_CONFIG)
        return error_set(err, HVD_ERR_INVALID, "%s: a configuration file cannot name another", spelled);
    if (loader->in_file[id])
        return error_set(err, HVD_ERR_INVALID, "%s: given twice", spelled);
    loader->in_file[id] = true;
    struct candidate candidate = {id, CONFIG_FILE, loader->file, spelled, value, value};
    return apply_candidate(&loader->config, &candidate, err);
}

static int load_file(struct loader *loader, config_read_file_f *read_file, struct hvd_error *err)
{
    char path[OPTION_VALUE_BYTES + 1];
    memcpy(path, loader->config.origin[OPT_CONFIG].text, sizeof(path));
    if (path[0] == 0 || read_file == NULL)
        return HVD_OK;
    loader->file = path;
    return read_file(path, apply_file_entry, loader, err);
}

/* Sort one "NAME=value" into the loader; warn of names that look like ours and are not. */
static void classify_variable(struct loader *loader, const char *variable)
{
    char name[64]; /* a longer one is cut and is no option's */
    const char *value = strchr(variable, '=');
    if (value == NULL)
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(value - variable), variable);
    value++;
    for (int id = 0; id < OPT_COUNT; id++) {
        char own[64];
        option_env_name(&option_table[id], own);
        const char **slot = strcmp(name, own) == 0 ? &loader->own[id] : NULL;
        if (option_table[id].horovod != NULL && strcmp(name, option_table[id].horovod) == 0)
            slot = &loader->horovod[id];
        if (slot == NULL)
            continue;
        if (*slot == NULL)
            *slot = value;
        return;
    }
    for (int i = 0; known_variables[i] != NULL; i++) {
        if (strcmp(name, known_variables[i]) == 0) {
            if (strcmp(name, CONFIG_CLI_VARIABLE) == 0)
                loader->cli = value;
            if (strcmp(name, CONFIG_SITE_VARIABLE) == 0)
                loader->site = value;
            return;
        }
    }
    if (strncmp(name, "HVD_", 4) == 0)
        warn_about(loader, name, "hvd has no such option; it is ignored (hvdinfo --options lists them)");
}

int config_load_with(config_read_file_f *read_file, struct hvd_config *config, char *const *environment,
                     void (*warn)(const char *sentence), struct hvd_error *err)
{
    struct loader *loader = calloc(1, sizeof(*loader));
    if (loader == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory while reading the options");
    loader->warn = warn;
    for (int i = 0; environment[i] != NULL; i++)
        classify_variable(loader, environment[i]);
    int rc = load_defaults(&loader->config, err);
    if (rc == HVD_OK)
        rc = load_list(&loader->config, CONFIG_SITE, loader->site, err);
    if (rc == HVD_OK)
        rc = load_variables(loader, err);
    if (rc == HVD_OK)
        rc = load_list(&loader->config, CONFIG_COMMAND_LINE, loader->cli, err);
    /* last, for only now is it known which file; what others of more authority have set stays */
    if (rc == HVD_OK)
        rc = load_file(loader, read_file, err);
    if (rc == HVD_OK)
        *config = loader->config;
    free(loader);
    return rc;
}

static void format_list(const struct hvd_option *option, uint64_t list, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "%s", list == 0 ? "auto" : "");
    for (int i = 0; option_list_choice(list, i) >= 0 && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i == 0 ? "" : ",",
                                 option->choices[option_list_choice(list, i)]);
}

void config_value(const struct hvd_config *config, enum option_id id, char *text, size_t text_bytes)
{
    const struct hvd_option *option = &option_table[id];
    uint64_t value = get_value(config, id);
    text[0] = 0;
    if (option->retired != NULL)
        return;
    switch (option->type) {
    case OPTION_SIZE:
        format_size((int64_t)value, text, text_bytes);
        break;
    case OPTION_TIME:
        format_time((int64_t)value, text, text_bytes);
        break;
    case OPTION_NUMBER:
        snprintf(text, text_bytes, "%" PRIu64, value);
        break;
    case OPTION_CHOICE:
        snprintf(text, text_bytes, "%s", option->choices[value]);
        break;
    case OPTION_LIST:
        format_list(option, value, text, text_bytes);
        break;
    case OPTION_FILE:
    case OPTION_FOLDER:
    case OPTION_CUSTOM:
        snprintf(text, text_bytes, "%s", config->origin[id].text);
        break;
    }
}

void config_source_text(const struct hvd_config *config, enum option_id id, char *text, size_t text_bytes)
{
    const struct config_origin *origin = &config->origin[id];
    switch (origin->source) {
    case CONFIG_DEFAULT:
        snprintf(text, text_bytes, "default");
        break;
    case CONFIG_SITE:
        snprintf(text, text_bytes, "site (%s)", origin->where);
        break;
    case CONFIG_FILE:
        snprintf(text, text_bytes, "file (%s)", origin->where);
        break;
    case CONFIG_ENVIRONMENT:
        snprintf(text, text_bytes, "environment (%s)", origin->where);
        break;
    case CONFIG_COMMAND_LINE:
        snprintf(text, text_bytes, "command line");
        break;
    }
}

bool config_has_placement(const struct hvd_config *config)
{
    static const enum option_id placing[] = {OPT_BIND, OPT_GPU_VISIBLE, OPT_RS};
    for (size_t i = 0; i < sizeof(placing) / sizeof(placing[0]); i++)
        if (config->origin[placing[i]].source != CONFIG_DEFAULT)
            return true;
    return false;
}

bool config_requires_placement(const struct hvd_config *config)
{
    return config_has_placement(config) && (config->bind.policy != BIND_NONE || config->bind.verbose ||
                                            config->has_rs || config->gpu_visible == GPU_VISIBLE_ONE);
}
