/* operation.h: turn the arguments of a call into a request and submit it to the loop. */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "api/arguments.h"
#include "api/context.h"

/* How the caller learns that its operation is done. */
struct completion {
    hvd_done_f done;
    void *arg;
    hvd_handle *handlep;
};

/* Check [given] and submit the operation to the job of this process. options NULL: the defaults.
 * [completion] NULL: wait until the operation is done. */
int operation_perform(const struct arguments *given, const struct completion *completion);

/* This rank's place in the process set of the operation, and the root's. HVD_ERR_SET where it has none. */
int operation_find_membership(const struct context *context, const struct arguments *arguments,
                              struct membership *membership);

/* Check [given], make a persistent operation of it together with the other members, and set *persistentp to
 * it. */
int operation_make_persistent(const struct arguments *given, hvd_persistent *persistentp);

/* As operation_perform, for operations without tensors: barrier, and join, which sets *last_rankp. */
int operation_perform_without_tensors(enum desc_kind kind, hvd_set set, int *last_rankp,
                                      const struct completion *completion);

/* Describe an internal operation, for operation_request. [name] is one of DESC_*_NAME. Returns NULL, with the
 * error set, if there is no memory. */
struct desc *operation_internal_desc(enum desc_kind kind, hvd_set set, const char *name);

/* Make the request of [desc], and release [desc]. Returns NULL, with the error set, if there is no memory.
 * [desc] may be NULL after a failed operation_internal_desc, which has set the error; the result is then
 * NULL. */
struct request *operation_request(const struct context *context, struct desc *desc);

/* The operation of [request] waits for what the program has put into its stream until now. On failure the
 * request is gone. */
int operation_mark_ready(const struct context *context, const struct arguments *arguments,
                         struct request *request);

/* Submit [request], which the loop owns from then on, and wait until it is done. The caller has checked that
 * this is no callback. */
int operation_run(struct context *context, struct request *request);

/* As operation_run, for the operation [desc] on one element, in place in [element]. Releases [desc]. */
int operation_run_element(struct context *context, struct desc *desc, void *element);

#endif
