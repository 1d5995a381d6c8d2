/* torch_records.h: the last operations of ranks as torch writes its flight records, for torchfrtrace. */
#ifndef TOOLS_HVDINFO_PS_TORCH_RECORDS_H
#define TOOLS_HVDINFO_PS_TORCH_RECORDS_H

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"

/* Write a file for each judged rank into [folder], which is made where it is missing. HVD_ERR_INVALID with a
 * sentence where it cannot, or the ranks are of several jobs. */
int torch_records_write(const char *folder, const struct ranks *ranks, struct hvd_error *err);

#endif
