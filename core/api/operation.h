/* operation.h: requests of callers, handed to the loop. */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "api/arguments.h"
#include "api/context.h"

/* How a caller learns that its operation is done. */
struct completion {
    hvd_done_f done;
    void *arg;
    hvd_handle *handlep;
};

/* Check and hand in what is asked of the job of this process; options: NULL for the plain ones. [completion]:
 * NULL, to wait for it. */
int operation_perform(struct arguments *arguments, const struct completion *completion);

/* The same for those without tensors: join ([last_rankp] is its) and barrier. */
int operation_perform_without_tensors(enum desc_kind kind, hvd_set set, int *last_rankp,
                                      const struct completion *completion);

/* Of an operation of hvd's own, for operation_request: [name] is one of DESC_*_NAME. NULL, with the sentence,
 * where memory is out. */
struct desc *operation_internal_desc(enum desc_kind kind, hvd_set set, const char *name);

/* The request of [desc], which is used up; NULL, with the sentence, where memory is out. A [desc] that is
 * NULL gives NULL: its maker has said why. */
struct request *operation_request(const struct context *context, struct desc *desc);

/* Hand in [request], which is used up, and wait for it. HVD_ERR_STATE inside a callback. */
int operation_run(struct context *context, struct request *request);

/* The same for [desc], of one element, which is used up: it is read from and written to [element]. */
int operation_run_element(struct context *context, struct desc *desc, void *element);

/* HVD_ERR_STATE inside a callback: [what] waits. */
int operation_check_not_in_callback(const struct context *context, const char *what);

/* HVD_ERR_SET, with a sentence that begins with [title], where there is no such set or this rank is no
 * member. */
int operation_check_member(const struct context *context, hvd_set set, const char *title);

#endif
