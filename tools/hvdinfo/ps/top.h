/* top.h: show ranks anew and anew, as keys say. */
#ifndef TOOLS_HVDINFO_PS_TOP_H
#define TOOLS_HVDINFO_PS_TOP_H

#include "base/status.h"
#include "tools/hvdinfo/ps/show.h"

/* What finds and judges the ranks. Sets *wait_ms, 0 at first, to how long they are to be shown. [err] is a
 * note where it returns HVD_OK. */
typedef int top_find_f(const void *arg, struct ranks *ranks, int *wait_ms, struct hvd_error *err);

/* Until there are no ranks any more, the user ends it, or an error. Takes keys where standard input and
 * output are a terminal. HVD_OK, or an error with a sentence. */
int top_run(top_find_f *find, const void *arg, struct show_view *view, struct hvd_error *err);

#endif
