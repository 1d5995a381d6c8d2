/* module.h: opens what libhvd does not link: modules that need PMIx or MPI. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include "base/status.h"

/* Open the module [file], such as "wireup_pmix.so", and return the address of its [symbol]; if [symbol] is
 * NULL, return some pointer that is not NULL. Modules are looked for in the folders of HVD_MODULE_PATH, which
 * have ':' between them, or if it is not set where they were installed with libhvd. A module stays loaded
 * until the process ends. On failure returns NULL with the reason in [err] and leaves *modulep unchanged. */
void *module_open(const char *file, const char *symbol, void **modulep, struct hvd_error *err);

#endif
