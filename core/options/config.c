/* config.c: the options in force in one process, and who set each. Opens no file itself. */
#include "options/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/hash.h"
#include "base/launch_variables.h"
#include "options/nearest.h"
#include "options/horovod.h"
#include "options/option_type.h"

#define LISTED "hvdinfo --options lists them"

/* How an entry of HVD_SITE begins whose value goes before what users set. */
#define FORCE "force="

/* Variables that begin with HVD_ but are no options: launchers, tests and wire-up set them, so nobody is
 * warned of them. */
static const char *const known_variables[] = {
    CONFIG_CLI_VARIABLE, CONFIG_SITE_VARIABLE, "HVD_JOB_KEY", "HVD_EPOCH",      EPOCHS_VARIABLE,
    "HVD_MODULE_PATH",   "HVD_BUILD",          "HVD_SOURCE",  "HVD_PLACED",     "HVD_GPU_PCI",
    "HVD_LOCAL_DEVICE",  "HVD_NETWORK_SET",    "HVD_LIBRARY", "HVD_MASTER_SET", "HVD_RESTART",
    "HVD_FLIGHT_MEMORY", "HVD_STEP_REPORT",    NULL};

/* A value that somebody gave for an option. */
struct candidate {
    const struct hvd_option *option;
    enum config_source source;
    const char *where;   /* the variable or file that it came from */
    const char *spelled; /* how error sentences begin: "--hvd-fusion" */
    const char *given;   /* the value as the user typed it */
    const char *text;    /* the value in our syntax */
};

/* A configuration while it is loaded, and the environment's values for it. */
struct loader {
    struct hvd_config config;
    struct hvd_config losing;        /* the values that are not in force */
    const char *own[OPTION_MAX];     /* HVD_FUSION; NULL where it is not set */
    const char *horovod[OPTION_MAX]; /* HOROVOD_FUSION_THRESHOLD */
    const char *zero_if[OPTION_MAX]; /* HOROVOD_STALL_CHECK_DISABLE */
    const char *refused_switch;      /* the value of zero_if that was warned about: options share it */
    const char *cli, *site;
    void (*warn)(const char *sentence);
    bool set_uid;             /* the environment is that of a user with fewer rights than this program */
    const char *file;         /* the file that is being read */
    bool in_file[OPTION_MAX]; /* options that the file has named so far */
};

static void warn_about(struct loader *loader, const char *variable, const char *sentence)
{
    struct hvd_error text;
    error_set(&text, HVD_OK, "%.64s: %s", variable, sentence);
    loader->config.warnings += hash_bytes(text.text, strlen(text.text)); /* in any order */
    if (loader->warn != NULL)
        loader->warn(text.text);
}

/* Does the value name a file that this program would open, and its caller perhaps could not? */
static bool is_withheld(const struct loader *loader, const struct candidate *candidate)
{
    const struct option_type *type = candidate->option->type;
    return loader->set_uid && candidate->source != CONFIG_DEFAULT &&
           (type == &option_file || type == &option_folder);
}

/* The site's own defaults may differ from what it forces. */
static void warn_if_overruled(struct loader *loader, const struct candidate *candidate)
{
    const struct hvd_option *option = candidate->option;
    char forced[OPTION_VALUE_BYTES + 1], given[OPTION_VALUE_BYTES + 1], sentence[256];
    if (loader->config.origin[option_index(option)].source != CONFIG_FORCED ||
        candidate->source == CONFIG_SITE)
        return;
    config_value(&loader->config, option, forced, sizeof(forced));
    snprintf(loader->losing.origin[option_index(option)].text, OPTION_VALUE_BYTES + 1, "%s", candidate->text);
    config_value(&loader->losing, option, given, sizeof(given));
    snprintf(sentence, sizeof(sentence),
             "%.64s is ignored: the administrator of this cluster has set %s=%.64s for all jobs", given,
             option->name, forced);
    if (strcmp(given, forced) != 0)
        warn_about(loader, candidate->spelled, sentence);
}

/* Check a value and put it in force, unless a value of higher authority is. Of two with equal authority the
 * later one wins. */
static int apply_candidate(struct loader *loader, const struct candidate *candidate, struct hvd_error *err)
{
    struct hvd_config *config = &loader->config;
    struct config_origin *origin = &config->origin[option_index(candidate->option)];
    if (is_withheld(loader, candidate)) {
        warn_about(loader, candidate->spelled,
                   "it names a file or a folder, and this program is set-uid: it is ignored");
        return HVD_OK;
    }
    bool wins = candidate->source >= origin->source;
    int rc = option_parse(candidate->option, candidate->spelled, candidate->text,
                          wins ? config : &loader->losing, err);
    if (rc == HVD_OK && !wins)
        warn_if_overruled(loader, candidate);
    if (rc != HVD_OK || !wins)
        return rc;
    size_t length = strlen(candidate->where);
    size_t skip = length < sizeof(origin->where) ? 0 : length - sizeof(origin->where) + 1;
    origin->source = candidate->source;
    snprintf(origin->where, sizeof(origin->where), "%s", candidate->where + skip);
    snprintf(origin->text, sizeof(origin->text), "%s", candidate->given);
    return HVD_OK;
}

static int load_defaults(struct loader *loader, struct hvd_error *err)
{
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        struct candidate candidate = {option, CONFIG_DEFAULT, "", option->name, option->def, option->def};
        int rc = option->def[0] == 0 ? HVD_OK : apply_candidate(loader, &candidate, err);
        if (rc != HVD_OK)
            return rc;
    }
    return HVD_OK;
}

static int apply_list_entry(struct loader *loader, enum config_source source, char *entry,
                            struct hvd_error *err)
{
    bool forced = source == CONFIG_SITE && strncmp(entry, FORCE, sizeof(FORCE) - 1) == 0;
    const char *variable = source == CONFIG_SITE ? CONFIG_SITE_VARIABLE : CONFIG_CLI_VARIABLE;
    char spelled[96];
    entry += forced ? sizeof(FORCE) - 1 : 0;
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
    struct candidate candidate = {option,    forced ? CONFIG_FORCED : source, variable, spelled, equals + 1,
                                  equals + 1};
    return apply_candidate(loader, &candidate, err);
}

/* Load a list of name=value separated by ';'. */
static int load_list(struct loader *loader, enum config_source source, const char *list,
                     struct hvd_error *err)
{
    if (list == NULL || list[0] == 0)
        return HVD_OK;
    if (strlen(list) > CONFIG_LIST_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: longer than %d bytes",
                         source == CONFIG_SITE ? CONFIG_SITE_VARIABLE : CONFIG_CLI_VARIABLE,
                         CONFIG_LIST_BYTES);
    char *copy = strdup(list);
    if (copy == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of options");
    int rc = HVD_OK;
    for (char *entry = copy; rc == HVD_OK && entry != NULL;) {
        char *next = strchr(entry, ';');
        if (next != NULL)
            *next++ = 0;
        rc = apply_list_entry(loader, source, entry, err);
        entry = next;
    }
    free(copy);
    return rc;
}

/* Apply one variable of the user's, with its value in our syntax. */
static int apply_variable(struct loader *loader, const struct hvd_option *option, const char *variable,
                          const char *given, const char *text, struct hvd_error *err)
{
    struct candidate candidate = {option, CONFIG_ENVIRONMENT, variable, variable, given, text};
    return apply_candidate(loader, &candidate, err);
}

/* Horovod's variables for an option: one has its value, another one turns it off, which is the value 0. */
static int load_horovod(struct loader *loader, int i, struct hvd_error *err)
{
    const struct hvd_option *option = &option_table[i];
    const char *const names[] = {option->horovod, option->horovod_zero_if};
    const char *const values[] = {loader->horovod[i], loader->zero_if[i]};
    char text[OPTION_VALUE_BYTES + 1];
    for (int k = 0; k < 2; k++) {
        const char *why = NULL;
        if (values[k] == NULL)
            continue;
        int rc = k == 0 ? horovod_value(option, values[k], text, &why, err)
                        : horovod_switch_off(values[k], text, &why);
        if (why != NULL && values[k] != loader->refused_switch)
            warn_about(loader, names[k], why);
        if (why != NULL && k == 1)
            loader->refused_switch = values[k];
        if (rc == HVD_OK)
            rc = apply_variable(loader, option, names[k], values[k], text, err);
        if (rc < 0)
            return rc;
    }
    return HVD_OK;
}

/* Load the user's own variables. HVD_FUSION is loaded after HOROVOD_FUSION_THRESHOLD, so it wins. */
static int load_variables(struct loader *loader, struct hvd_error *err)
{
    char name[64];
    int rc = HVD_OK;
    for (int i = 0; i < option_count && rc == HVD_OK; i++) {
        rc = load_horovod(loader, i, err);
        option_env_name(&option_table[i], name);
        if (rc == HVD_OK && loader->own[i] != NULL)
            rc = apply_variable(loader, &option_table[i], name, loader->own[i], loader->own[i], err);
    }
    return rc;
}

static int apply_file_entry(void *arg, const char *name, const char *value, struct hvd_error *err)
{
    struct loader *loader = arg;
    char spelled[400];
    const struct hvd_option *option = option_find(name);
    snprintf(spelled, sizeof(spelled), "%.64s in %.300s", name, loader->file);
    if (option == NULL) {
        char hint[NEAREST_HINT_BYTES];
        struct nearest nearest = {.word = name, .name = option_nearest(name)};
        return error_set(err, HVD_ERR_INVALID, "%s: no such option; %s", spelled,
                         nearest_hint(&nearest, LISTED, hint));
    }
    if (option == OPTION_OF(config_file))
        return error_set(err, HVD_ERR_INVALID, "%s: a configuration file cannot name another", spelled);
    if (loader->in_file[option_index(option)])
        return error_set(err, HVD_ERR_INVALID, "%s: given twice", spelled);
    loader->in_file[option_index(option)] = true;
    struct candidate candidate = {option, CONFIG_FILE, loader->file, spelled, value, value};
    return apply_candidate(loader, &candidate, err);
}

static int load_file(struct loader *loader, config_read_file_f *read_file, struct hvd_error *err)
{
    loader->file = loader->config.config_file;
    if (loader->file[0] == 0 || read_file == NULL)
        return HVD_OK;
    return read_file(loader->file, apply_file_entry, loader, err);
}

static void warn_of_unknown(struct loader *loader, const char *name)
{
    char own[OPTION_MAX][64], hint[NEAREST_HINT_BYTES], sentence[NEAREST_HINT_BYTES + 64];
    struct nearest nearest = {.word = name};
    for (int i = 0; i < option_count; i++) {
        option_env_name(&option_table[i], own[i]);
        nearest_try(&nearest, own[i]);
    }
    snprintf(sentence, sizeof(sentence), "hvd has no such option; it is ignored (%s)",
             nearest_hint(&nearest, LISTED, hint));
    warn_about(loader, name, sentence);
}

static bool is_name(const char *name, const char *other)
{
    return other != NULL && strcmp(name, other) == 0;
}

/* Keep [value] for each option whose row names the variable. The first of several with one name counts. */
static bool keep_value(struct loader *loader, const char *name, const char *value)
{
    bool kept = false;
    for (int i = 0; i < option_count; i++) {
        char own[64];
        option_env_name(&option_table[i], own);
        const char **slot = is_name(name, own)                               ? &loader->own[i]
                            : is_name(name, option_table[i].horovod)         ? &loader->horovod[i]
                            : is_name(name, option_table[i].horovod_zero_if) ? &loader->zero_if[i]
                                                                             : NULL;
        if (slot != NULL && *slot == NULL)
            *slot = value;
        kept = kept || slot != NULL;
    }
    return kept;
}

/* Store one "NAME=value" in the loader. Warn of names that only hvd's or Horovod's variables should have, and
 * that are none of them. */
static void classify_variable(struct loader *loader, const char *variable)
{
    char name[64]; /* a longer name is cut, and belongs to no option */
    char hint[NEAREST_HINT_BYTES];
    const char *value = strchr(variable, '=');
    bool horovod = strncmp(variable, "HOROVOD_", 8) == 0;
    if (value == NULL || (!horovod && strncmp(variable, "HVD_", 4) != 0))
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(value - variable), variable);
    value++;
    if (keep_value(loader, name, value))
        return;
    const char *remark = horovod ? horovod_remark(name, value, hint) : NULL;
    if (remark != NULL)
        warn_about(loader, name, remark);
    if (horovod)
        return;
    for (int i = 0; known_variables[i] != NULL; i++) {
        if (strcmp(name, known_variables[i]) == 0) {
            if (strcmp(name, CONFIG_CLI_VARIABLE) == 0)
                loader->cli = value;
            if (strcmp(name, CONFIG_SITE_VARIABLE) == 0)
                loader->site = value;
            return;
        }
    }
    warn_of_unknown(loader, name);
}

int config_load_with(config_read_file_f *read_file, struct hvd_config *config, char *const *environment,
                     void (*warn)(const char *sentence), struct hvd_error *err)
{
    struct loader *loader = calloc(1, sizeof(*loader));
    if (loader == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory while reading the options");
    loader->warn = warn;
    loader->set_uid = getauxval(AT_SECURE) != 0;
    for (int i = 0; environment[i] != NULL; i++)
        classify_variable(loader, environment[i]);
    int rc = load_defaults(loader, err);
    if (rc == HVD_OK)
        rc = load_list(loader, CONFIG_SITE, loader->site, err);
    if (rc == HVD_OK)
        rc = load_variables(loader, err);
    if (rc == HVD_OK)
        rc = load_list(loader, CONFIG_COMMAND_LINE, loader->cli, err);
    /* last, because only now is it known which file to read; values of higher authority stay in force */
    if (rc == HVD_OK)
        rc = load_file(loader, read_file, err);
    if (rc == HVD_OK)
        *config = loader->config;
    free(loader);
    return rc;
}

static int list_add(char *list, const char *prefix, const struct hvd_option *option, const char *value,
                    struct hvd_error *err)
{
    size_t used = strlen(list);
    size_t more = (used > 0) + strlen(prefix) + strlen(option->name) + 1 + strlen(value);
    if (strchr(value, ';') != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%s=%.64s: the value holds a ';', which cannot be handed on to the ranks",
                         option->name, value);
    if (used + more > CONFIG_LIST_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: all options together are longer than %d bytes",
                         option->name, value, CONFIG_LIST_BYTES);
    snprintf(list + used, CONFIG_LIST_BYTES + 1 - used, "%s%s%s=%s", used > 0 ? ";" : "", prefix,
             option->name, value);
    return HVD_OK;
}

int config_list_add(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err)
{
    return list_add(list, "", option, value, err);
}

int config_list_force(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err)
{
    return list_add(list, FORCE, option, value, err);
}

void config_value(const struct hvd_config *config, const struct hvd_option *option, char *text,
                  size_t text_bytes)
{
    text[0] = 0;
    if (option->retired != NULL)
        return;
    if (option->type->format == NULL)
        snprintf(text, text_bytes, "%s", config->origin[option_index(option)].text);
    else
        option->type->format(option, (const char *)config + option->offset, text, text_bytes);
}

void config_source_text(const struct hvd_config *config, const struct hvd_option *option, char *text,
                        size_t text_bytes)
{
    const struct config_origin *origin = &config->origin[option_index(option)];
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
    case CONFIG_FORCED:
        snprintf(text, text_bytes, "forced by the site (%s)", origin->where);
        break;
    }
}

bool config_has_placement(const struct hvd_config *config)
{
    for (int i = 0; i < option_count; i++)
        if (option_table[i].places_tasks && config->origin[i].source != CONFIG_DEFAULT)
            return true;
    return false;
}

bool config_requires_placement(const struct hvd_config *config)
{
    return config_has_placement(config) && (config->bind.policy != BIND_NONE || config->bind.verbose ||
                                            config->rs.given || config->gpu_visible == GPU_VISIBLE_ONE);
}
