/* programs.c: find the programs that hvdbench starts. */
#include "tools/hvdbench/programs.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int programs_find(struct programs *programs, struct hvd_error *err)
{
    char copy[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", programs->hvdbench, sizeof(programs->hvdbench) - 1);
    if (length < 0)
        return error_set_errno(err, "cannot read /proc/self/exe");
    programs->hvdbench[length] = 0;
    memcpy(copy, programs->hvdbench, sizeof(copy));
    char *folder = dirname(copy);
    size_t end = strlen(folder);
    if (end > 6 && strcmp(folder + end - 6, "/.libs") == 0)
        folder[end - 6] = 0;
    int used = snprintf(programs->hvdrun, sizeof(programs->hvdrun), "%s/hvdrun", folder);
    if (used >= (int)sizeof(programs->hvdrun) || access(programs->hvdrun, X_OK) != 0)
        snprintf(programs->hvdrun, sizeof(programs->hvdrun), "hvdrun");
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
