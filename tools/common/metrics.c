/* metrics.c: metrics in the text format of Prometheus. */
#include "tools/common/metrics.h"

void metrics_write_head(FILE *to, const char *name, const char *help, enum metric_type type)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
            type == METRIC_COUNTER ? "counter" : "gauge");
}

void metrics_write_label(FILE *to, const char *name, const char *value)
{
    fprintf(to, "%s=\"", name);
    for (; *value != 0; value++) {
        if (*value == '\\' || *value == '"')
            putc('\\', to);
        if (*value == '\n')
            fputs("\\n", to);
        else
            putc(*value, to);
    }
    putc('"', to);
}
