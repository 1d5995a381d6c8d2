/* checks.c: the table of what hvdinfo doctor looks at on a node. */
#include "tools/hvdinfo/doctor/checks.h"

#include <stdarg.h>
#include <stdio.h>

const struct check node_checks[] = {
    /* how it was launched */
    {"options", check_options},
    {"launcher", check_launcher},
    {"elastic", check_elastic},
    {"plug-in", check_plugin},
    {"srun's port", check_srun_port},
    /* what it finds on this node */
    {"PMIx", check_pmix},
    {"PMIx settings", check_pmix_settings},
    {"MPI", check_mpi},
    {"MPI on GPUs", check_mpi_gpu},
    {"NVIDIA driver", check_driver},
    {"NCCL", check_nccl},
    {"hwloc", check_hwloc},
    {"interfaces", check_interfaces},
    {"names", check_names},
    {"/dev/shm", check_shm},
    {"memlock", check_memlock},
    {"nofile", check_nofile},
    {"stack", check_stack},
    {"Python", check_python},
};

const int node_check_count = (int)(sizeof(node_checks) / sizeof(node_checks[0]));

void find(struct finding *finding, enum check_result result, const char *mend, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *finding = (struct finding){.result = result};
    vsnprintf(finding->what, sizeof(finding->what), format, args);
    snprintf(finding->mend, sizeof(finding->mend), "%s", mend == NULL ? "" : mend);
    va_end(args);
}
