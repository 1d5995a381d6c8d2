/* record.h: the numbers that a case of hvdbench has written as JSON. */
#ifndef TOOLS_HVDBENCH_BARS_RECORD_H
#define TOOLS_HVDBENCH_BARS_RECORD_H

#include <string.h>

#include "base/status.h"

#define RECORD_FIELDS 64

struct record {
    struct {
        char key[32];
        double number;
    } fields[RECORD_FIELDS];
    int count;
    char no_mpi[256]; /* why MPI was left out; "" where it was not */
};

/* Read one object: [text]. Texts in it but no_mpi are left out, as are numbers that are null.
 * HVD_ERR_UNSUPPORTED where hvd was built without what reads JSON. */
int record_read(struct record *record, const char *text, struct hvd_error *err);

/* The number of that name; NULL where there is none. */
static inline const double *record_find(const struct record *record, const char *key)
{
    for (int i = 0; i < record->count; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return &record->fields[i].number;
    return NULL;
}

#endif
