/* home.h: the home folder of a user whom the system may not know, as in a container. */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <stdbool.h>

/* Do neither HOME in [environment] (NULL: that of this process) nor the system's list of users name a home
 * folder? libpmix 4.2 and Open MPI 4 crash then. */
bool home_is_unknown(char *const *environment);

/* What is set as HOME then: as containers do, a folder that always exists. */
#define HOME_SUBSTITUTE "/"

#endif
