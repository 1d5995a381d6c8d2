/* secret.c: the secret that the ranks of a job share by their environment. */
#include "base/secret.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/env.h"
#include "base/launch_variables.h"

static const char *const launchers[] = {SECRET_OF_HVDRUN, SECRET_OF_SLURM};

int random_hex_draw(char text[RANDOM_HEX_BYTES])
{
    unsigned char bytes[(RANDOM_HEX_BYTES - 1) / 2];
    ssize_t length = 0;
    do
        length = getrandom(bytes, sizeof(bytes), 0);
    while (length < 0 && errno == EINTR);
    if (length != (ssize_t)sizeof(bytes)) /* the kernel never returns fewer of so few */
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int secret_draw(const char *launcher, char text[SECRET_TEXT_BYTES])
{
    char digits[2][RANDOM_HEX_BYTES];
    if (random_hex_draw(digits[0]) < 0 || random_hex_draw(digits[1]) < 0)
        return -1;
    snprintf(text, SECRET_TEXT_BYTES, "%s:%s%s", launcher, digits[0], digits[1]);
    return 0;
}

/* The launcher that drew the secret; NULL: the user chose it. */
static const char *launcher_of(const char *text)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        size_t length = strlen(launchers[i]);
        if (strncmp(text, launchers[i], length) == 0 && text[length] == ':')
            return launchers[i];
    }
    return NULL;
}

bool secret_is_drawn(const char *text)
{
    return launcher_of(text) != NULL;
}

static bool namespace_is_of(const char *namespace, const char *launcher)
{
    size_t length = strlen(launcher);
    return strncmp(namespace, launcher, length) == 0 && namespace[length] == '.';
}

/* Only Slurm's PMI gives the job a name. */
bool slurm_wires_up_job(char *const *environment)
{
    const char *namespace = environment_value(environment, "PMIX_NAMESPACE");
    if (namespace != NULL)
        return strncmp(namespace, "slurm.pmix.", 11) == 0;
    return environment_value(environment, "PMI_FD") != NULL &&
           environment_value(environment, "PMI_JOBID") != NULL &&
           environment_value(environment, "SLURM_STEP_ID") != NULL;
}

/* A step with --mpi=none, whose ranks meet at MASTER_ADDR. */
static bool is_plain_step(char *const *environment)
{
    return environment_value(environment, "SLURM_STEP_ID") != NULL &&
           environment_value(environment, "PMIX_NAMESPACE") == NULL &&
           environment_value(environment, "PMI_FD") == NULL;
}

bool slurm_launches_job(char *const *environment)
{
    return slurm_wires_up_job(environment) || is_plain_step(environment);
}

const char *secret_of_job(char *const *environment)
{
    const char *text = environment_value(environment, SECRET_VARIABLE);
    const char *namespace = environment_value(environment, "PMIX_NAMESPACE");
    const char *launcher = text != NULL ? launcher_of(text) : NULL;
    if (launcher == NULL)
        return text;
    if (namespace != NULL)
        return namespace_is_of(namespace, launcher) ? text : NULL;
    bool is_slurms = strcmp(launcher, SECRET_OF_SLURM) == 0;
    bool counts = is_slurms ? slurm_launches_job(environment) : launch_is_newcomer(environment);
    return counts ? text : NULL;
}
