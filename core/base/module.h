/* module.h: open the modules that need PMIx or MPI, which libhvd does not link. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include "base/status.h"

/* Open the module [file], such as "wireup_pmix.so", and return the address of its [symbol], or some pointer
 * that is not NULL if [symbol] is NULL. Modules are searched for in the folders of HVD_MODULE_PATH, separated
 * by ':', or, if it is not set, where they were installed with libhvd. A module stays loaded until the
 * process ends. On failure returns NULL with the reason in [err] and leaves *modulep unchanged. */
void *module_open(const char *file, const char *symbol, void **modulep, struct hvd_error *err);

#endif
