/* programs.c: find the programs that hvdbench starts. */
#include "config.h"
#include "tools/hvdbench/bars/programs.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write [folder]/[name] into [path] if that file is executable; otherwise [other]/[name], or only the name if
 * [other] is NULL. */
static void find(char path[PATH_MAX], const char *folder, const char *name, const char *other)
{
    int used = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (used < PATH_MAX && access(path, X_OK) == 0)
        return;
    if (other != NULL)
        snprintf(path, PATH_MAX, "%s/%s", other, name);
    else
        snprintf(path, PATH_MAX, "%s", name);
}

int programs_find(struct programs *programs, struct hvd_error *err)
{
    char copy[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", programs->hvdbench, sizeof(programs->hvdbench) - 1);
    if (length < 0)
        return error_set_errno(err, "cannot read /proc/self/exe");
    programs->hvdbench[length] = 0;
    memcpy(copy, programs->hvdbench, sizeof(copy));
    char *folder = dirname(copy);
    size_t used = strlen(folder);
    if (used > 6 && strcmp(folder + used - 6, "/.libs") == 0)
        folder[used - 6] = 0;
    find(programs->hvdrun, folder, "hvdrun", NULL);
    find(programs->two_nodes, folder, "two-nodes", PKGLIBDIR);
    find(programs->plain, folder, "hvdbench_plain", PKGLIBDIR);
    return HVD_OK;
}

int programs_check_alone(const char *title, struct hvd_error *err)
{
    static const char *const marks[] = {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (getenv(marks[i]) != NULL)
            return error_set(
                err, HVD_ERR_INVALID,
                "hvdbench %s starts ranks itself, but is one (%s is set); run it without hvdrun, "
                "srun or mpirun",
                title, marks[i]);
    return HVD_OK;
}
