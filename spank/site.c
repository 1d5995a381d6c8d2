/* site.c: what the administrator set: the arguments of our line in plugstack.conf. */
#include "spank/site.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "options/token.h"
#include "topo/plan/plan.h"

/* Set *chosenp if the value is [word], and not if it is [other]. */
static int read_choice(const char *name, bool *chosenp, const char *value, const char *word,
                       const char *other, struct hvd_error *err)
{
    bool chosen = strcmp(value, word) == 0;
    if (!chosen && strcmp(value, other) != 0)
        return error_set(err, HVD_ERR_INVALID, "plugstack.conf: %s=%.64s: expected %s or %s", name, value,
                         word, other);
    *chosenp = chosen;
    return HVD_OK;
}

/* "FIRST-LAST", or one port. */
static bool parse_ports(struct site *site, const char *value)
{
    struct token first, last = {"", 0};
    int first_port = 0, last_port = 0;
    const char *why = NULL;
    const char *rest = token_next(value, '-', &first);
    last = rest == NULL ? first : (struct token){rest, strlen(rest)};
    if (token_parse_number(first, 1, UINT16_MAX, &first_port, &why) < 0 ||
        token_parse_number(last, first_port, UINT16_MAX, &last_port, &why) < 0)
        return false;
    site->first_port = first_port;
    site->port_count = last_port - first_port + 1;
    return true;
}

/* Ports that the firewalls between the nodes let through. */
static int read_ports(struct site *site, const char *value, struct hvd_error *err)
{
    if (parse_ports(site, value))
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "plugstack.conf: ports=%.64s: expected FIRST-LAST, two ports between 1 and 65535, or "
                     "one port",
                     value);
}

bool site_describe_ports(const struct site *site, char text[SITE_PORTS_BYTES])
{
    if (site->port_count == 0)
        return false;
    snprintf(text, SITE_PORTS_BYTES, "%d-%d", site->first_port, site->first_port + site->port_count - 1);
    return true;
}

void site_take_ports(struct site *site, const char *text)
{
    parse_ports(site, text);
}

/* The path must be printable, because error sentences of tasks contain it. Whether it exists and who may
 * write it is checked when it is used. */
static int read_path(const char *name, char path[OPTION_VALUE_BYTES + 1], const char *value,
                     struct hvd_error *err)
{
    if (value[0] != '/' || !plan_text_valid(value, OPTION_VALUE_BYTES + 1))
        return error_set(err, HVD_ERR_INVALID,
                         "plugstack.conf: %s=%.64s: expected the full name of a file, of at most %d "
                         "printable bytes",
                         name, value, OPTION_VALUE_BYTES);
    memcpy(path, value, strlen(value) + 1);
    return HVD_OK;
}

/* How a value comes into the list: as a default, or forced. */
typedef int list_add_f(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err);

static int read_option(struct site *site, const char *name, const char *value, list_add_f *add,
                       struct hvd_error *err)
{
    const struct hvd_option *option = option_find(name);
    if (option == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "plugstack.conf: %.64s=%.64s: no such key; expected mpi, steps, kill, record, "
                         "ports, topology, epochs, force, off "
                         "or the name of an option, as in fusion=64M for --hvd-fusion",
                         name, value);
    char where[96];
    snprintf(where, sizeof(where), "plugstack.conf: %s", name);
    int rc = option_parse(option, where, value, NULL, err);
    if (rc < 0)
        return rc;
    struct hvd_error why = {""};
    rc = add(site->list, option, value, &why);
    return rc < 0 ? error_set(err, rc, "plugstack.conf: %s", why.text) : HVD_OK;
}

/* Returns what is behind the first '=', and copies what is before it into [name]; NULL: there is no name. */
static const char *split(const char *argument, char name[64])
{
    const char *equals = strchr(argument, '=');
    if (equals == NULL || equals == argument || equals - argument >= 64)
        return NULL;
    memcpy(name, argument, (size_t)(equals - argument));
    name[equals - argument] = 0;
    return equals + 1;
}

static int read_force(struct site *site, const char *argument, struct hvd_error *err)
{
    char name[64];
    const char *value = split(argument, name);
    if (value == NULL || option_find(name) == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "plugstack.conf: force=%.64s: expected an option and its value, as in "
                         "force=encrypt=on for --hvd-encrypt=on",
                         argument);
    return read_option(site, name, value, config_list_force, err);
}

static int read_argument(struct site *site, const char *argument, struct hvd_error *err)
{
    char name[64];
    const char *value = split(argument, name);
    if (value == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "plugstack.conf: %.64s: expected name=value, as in mpi=keep or fusion=64M",
                         argument);
    if (strcmp(name, "mpi") == 0)
        return read_choice(name, &site->keep_mpi, value, "keep", "pmix", err);
    if (strcmp(name, "steps") == 0)
        return read_choice(name, &site->all_steps, value, "all", "hvd", err);
    if (strcmp(name, "kill") == 0)
        return read_choice(name, &site->keep_kill, value, "keep", "early", err);
    if (strcmp(name, "record") == 0)
        return read_choice(name, &site->record, value, "comment", "off", err);
    if (strcmp(name, "ports") == 0)
        return read_ports(site, value, err);
    if (strcmp(name, "topology") == 0)
        return read_path(name, site->topology, value, err);
    if (strcmp(name, "epochs") == 0)
        return read_path(name, site->epochs, value, err);
    if (strcmp(name, "off") == 0)
        return read_path(name, site->off, value, err);
    if (strcmp(name, "force") == 0)
        return read_force(site, value, err);
    return read_option(site, name, value, config_list_add, err);
}

void site_read(struct site *site, int argc, char *const argv[], void (*complain)(const char *sentence))
{
    memset(site, 0, sizeof(*site));
    for (int i = 0; i < argc; i++) {
        struct hvd_error err = {""};
        int rc = read_argument(site, argv[i], &err);
        if (rc < 0 && complain != NULL)
            complain(err.text);
    }
}

bool site_is_off(const struct site *site)
{
    return site->off[0] != 0 && access(site->off, F_OK) == 0;
}
