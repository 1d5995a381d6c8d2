/* record.c: parse the JSON output of a case of hvdbench. */
#include "tools/hvdbench/bars/record.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int add(struct record *record, const char *key, double number, struct hvd_error *err)
{
    if (record->count == RECORD_FIELDS || strlen(key) >= sizeof(record->fields[0].key))
        return error_set(err, HVD_ERR_INVALID, "more than %d fields, or one with a long name: %.40s",
                         RECORD_FIELDS, key);
    snprintf(record->fields[record->count].key, sizeof(record->fields[0].key), "%s", key);
    record->fields[record->count++].number = number;
    return HVD_OK;
}

int record_read(struct record *record, const char *text, struct hvd_error *err)
{
    json_error_t why;
    const char *key = NULL;
    json_t *value = NULL;
    int status = HVD_OK;
    *record = (struct record){.count = 0};
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (object == NULL)
        return error_set(err, HVD_ERR_INVALID, "no JSON object was written, but: %.60s (%.100s)", text,
                         why.text);
    if (!json_is_object(object))
        status = error_set(err, HVD_ERR_INVALID, "no JSON object was written, but: %.60s", text);
    json_object_foreach(object, key, value)
    {
        if (json_is_number(value) && status == HVD_OK)
            status = add(record, key, json_number_value(value), err);
        else if (json_is_string(value) && strcmp(key, "no_mpi") == 0)
            snprintf(record->no_mpi, sizeof(record->no_mpi), "%s", json_string_value(value));
    }
    json_decref(object);
    return status;
}
