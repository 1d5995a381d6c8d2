/* record.h: the numbers in the JSON output of a case of hvdbench. */
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
    char no_mpi[256]; /* why MPI was left out; "" if it was not */
};

/* Parse the JSON object [text]. Strings other than no_mpi, and null, are ignored. Returns HVD_ERR_UNSUPPORTED
 * if hvd was built without jansson. */
int record_read(struct record *record, const char *text, struct hvd_error *err);

/* Returns the number of that name, or NULL. */
static inline const double *record_find(const struct record *record, const char *key)
{
    for (int i = 0; i < record->count; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return &record->fields[i].number;
    return NULL;
}

#endif
