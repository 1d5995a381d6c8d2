/* metrics.h: metrics in the text format of Prometheus: of each its help and type, then a line for each value.
 */
#ifndef TOOLS_COMMON_METRICS_H
#define TOOLS_COMMON_METRICS_H

#include <stdio.h>

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

/* The lines before the values. */
void metrics_write_head(FILE *to, const char *name, const char *help, enum metric_type type);

/* `name="value"`, with what the format escapes. */
void metrics_write_label(FILE *to, const char *name, const char *value);

#endif
