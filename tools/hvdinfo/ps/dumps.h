/* dumps.h: the flight records that ranks have written to the folder of --hvd-dump-dir. */
#ifndef TOOLS_HVDINFO_PS_DUMPS_H
#define TOOLS_HVDINFO_PS_DUMPS_H

#include "base/status.h"
#include "tools/hvdinfo/ps/rank.h"

/* Add the ranks whose records are in [folder], each as it was when it wrote its own. The reason in the record
 * that was written first becomes that of [ranks]. HVD_ERR_INVALID with a sentence where [folder] cannot be
 * read, or has a record that hvd did not write; it may have none. */
int dumps_read(const char *folder, struct ranks *ranks, struct hvd_error *err);

#endif
