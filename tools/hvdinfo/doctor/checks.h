/* checks.h: the checks of a node, for their table and for tests. */
#ifndef TOOLS_HVDINFO_DOCTOR_CHECKS_H
#define TOOLS_HVDINFO_DOCTOR_CHECKS_H

#include "tools/hvdinfo/doctor/doctor.h"

/* launch.c */
void check_options(const struct patient *patient, struct finding *finding);
void check_launcher(const struct patient *patient, struct finding *finding);
void check_pmix_settings(const struct patient *patient, struct finding *finding);

/* elastic.c */
void check_elastic(const struct patient *patient, struct finding *finding);

/* names.c */
void check_names(const struct patient *patient, struct finding *finding);

/* plugin.c */
void check_plugin(const struct patient *patient, struct finding *finding);

/* The file of the plug-in that Slurm's plugstack.conf names, "" if it names none, in [path]. */
void plugin_path(const struct patient *patient, char *path, size_t path_bytes);

/* A number for what is in the file; 0 if it cannot be read. */
uint64_t plugin_print(const char *path);

/* srun.c */
void check_srun_port(const struct patient *patient, struct finding *finding);

/* libraries.c */
void check_pmix(const struct patient *patient, struct finding *finding);
void check_mpi(const struct patient *patient, struct finding *finding);
void check_mpi_gpu(const struct patient *patient, struct finding *finding);
void check_driver(const struct patient *patient, struct finding *finding);
void check_nccl(const struct patient *patient, struct finding *finding);
void check_python(const struct patient *patient, struct finding *finding);

/* hardware.c */
void check_hwloc(const struct patient *patient, struct finding *finding);
void check_interfaces(const struct patient *patient, struct finding *finding);

/* limits.c */
void check_shm(const struct patient *patient, struct finding *finding);
void check_memlock(const struct patient *patient, struct finding *finding);
void check_nofile(const struct patient *patient, struct finding *finding);
void check_stack(const struct patient *patient, struct finding *finding);

#endif
