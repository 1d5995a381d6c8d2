/* metrics_file.h: a file with the metrics of a launch, which readers always find whole. */
#ifndef TOOLS_HVDRUN_EVENTS_METRICS_FILE_H
#define TOOLS_HVDRUN_EVENTS_METRICS_FILE_H

#include "base/status.h"
#include "tools/common/launch_events.h"

/* Write [metrics] beside the file [path], under a name that ends in .tmp, and rename that. HVD_ERR_INVALID
 * with a sentence if it cannot; [path] is then as it was. */
int metrics_file_write(const char *path, const struct launch_metrics *metrics, const char *run_id,
                       struct hvd_error *err);

#endif
