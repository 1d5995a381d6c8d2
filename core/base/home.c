/* home.c: the home folder of a user whom the system may not know, as in a container. */
#include "config.h"
#include "base/home.h"

#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <unistd.h>

#include "base/env.h"

/* As libpmix looks for it. */
bool home_is_unknown(char *const *environment)
{
    struct passwd entry, *found = NULL;
    char text[4096];
    if (environment_value(environment, "HOME") != NULL)
        return false;
    int rc = getpwuid_r(geteuid(), &entry, text, sizeof(text), &found);
    /* without any list of users, it fails; too long an entry is one */
    return rc != ERANGE && (found == NULL || found->pw_dir == NULL);
}
