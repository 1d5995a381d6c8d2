/* hvd.c: the public calls: arguments are checked here, the work is done below. */
#include "config.h"
#include "hvd.h"

#include "base/status.h"

const char *hvd_version(void)
{
    return PACKAGE_VERSION;
}

const char *hvd_status_text(enum hvd_status status)
{
    return status_text(status);
}
