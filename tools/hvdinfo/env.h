/* env.h: hvdinfo env: the variables that tell a script its place in the job. */
#ifndef TOOLS_HVDINFO_ENV_H
#define TOOLS_HVDINFO_ENV_H

int hvdinfo_env(char *const *arguments);

#endif
