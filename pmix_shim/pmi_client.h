/* pmi_client.h: the rank's end of PMI-1: a line to the launcher's server, and a line that answers it.
 *
 * MPICH's mpiexec serves it, and so does Slurm with --mpi=pmi2. Both inherit the connection to the ranks. */
#ifndef PMIX_SHIM_PMI_CLIENT_H
#define PMIX_SHIM_PMI_CLIENT_H

#include "base/status.h"
#include "pmix_shim/pmi_text.h"

#define PMI_LINE_BYTES 4096 /* the longest request and the longest answer, with the final 0 */

struct pmi_client {
    int fd; /* borrowed */
    char answer[PMI_LINE_BYTES];
};

/* Is [fd] the end of a connection? A wrapper of the program may have closed it, or use its number for
 * something else. */
int pmi_client_open(struct pmi_client *client, int fd, struct hvd_error *err);

/* Send [request], a line with its end, and wait for the answer, which must be a command of the name
 * [answer]. HVD_ERR_TIMEOUT at [deadline_us]; HVD_ERR_RANK_LOST if the server has closed the connection;
 * HVD_ERR_SYSTEM if it answered something else. After each of these the connection cannot be used again. */
int pmi_client_ask(struct pmi_client *client, const char *request, const char *answer, int64_t deadline_us,
                   struct hvd_error *err);

/* Did the last answer say that the request failed? */
bool pmi_client_refused(const struct pmi_client *client);

/* A text, or a number of at least [min], of the last answer; HVD_ERR_SYSTEM if it is not there. */
int pmi_client_text(const struct pmi_client *client, const char *name, struct token *value,
                    struct hvd_error *err);
int pmi_client_number(const struct pmi_client *client, const char *name, int min, int *numberp,
                      struct hvd_error *err);

#endif
