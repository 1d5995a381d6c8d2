/* doctor.h: what hvdinfo doctor looks at, and what it finds. A check is one function in the file of its
 * topic, named in the table of checks.c; it looks at one process or node. job.c judges what all ranks are
 * like together. */
#ifndef TOOLS_HVDINFO_DOCTOR_DOCTOR_H
#define TOOLS_HVDINFO_DOCTOR_DOCTOR_H

#include <stddef.h>
#include <stdint.h>

#include "options/config.h"

enum check_result { CHECK_OK, CHECK_WARN, CHECK_FAIL };

/* What a check found. It travels between ranks as it is. */
struct finding {
    int32_t result;
    char what[200];
    char mend[220]; /* how to correct it; "" where nothing is wrong */
};

/* What checks look at. */
struct patient {
    char *const *environment;        /* NULL: that of this process, with what hvd_init has set in it */
    char *const *outer;              /* the environment in which its launcher was started, or NULL */
    const char *root;                /* before the names of files of the system; "", but in tests */
    const char *python_folder;       /* where hvd's Python package was installed */
    const struct hvd_config *config; /* as it is in force here, or the defaults */
    const char *config_error;        /* why the options in force cannot be read; "": they can */
    int ranks;                       /* of the job */
};

struct check {
    const char *name;
    void (*run)(const struct patient *patient, struct finding *finding);
};

/* The checks of one process and its node, in the order in which they are reported. */
extern const struct check node_checks[];
extern const int node_check_count;

/* Set *finding; the rest is as for printf. [mend] may be NULL. */
void find(struct finding *finding, enum check_result result, const char *mend, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The subcommand: arguments after "doctor". Returns the exit status. */
int hvdinfo_doctor(char *const *arguments);

#endif
