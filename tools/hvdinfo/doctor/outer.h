/* outer.h: the environment in which the launcher of this process was started itself. */
#ifndef TOOLS_HVDINFO_DOCTOR_OUTER_H
#define TOOLS_HVDINFO_DOCTOR_OUTER_H

/* The environment of the nearest ancestor that is not in the same PMIx job as [environment], "NAME=value"
 * strings up to a NULL, in memory that the caller frees by one free. NULL if no ancestor may be asked. */
char **outer_environment(char *const *environment);

#endif
