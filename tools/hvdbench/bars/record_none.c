/* record_none.c: replaces record.c in builds without jansson. */
#include "config.h"

#include "tools/hvdbench/bars/record.h"

int record_read(struct record *record, const char *text, struct hvd_error *err)
{
    (void)text;
    *record = (struct record){.count = 0};
    return error_set(err, HVD_ERR_UNSUPPORTED, "it needs jansson, to read JSON: %s", BUILT_WITH_JANSSON);
}
