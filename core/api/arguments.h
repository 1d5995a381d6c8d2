/* arguments.h: are a caller's arguments what hvd.h asks for? Pure: what they are not is said in one sentence.
 */
#ifndef API_ARGUMENTS_H
#define API_ARGUMENTS_H

#include "base/status.h"
#include "negotiate/desc.h"

/* What a caller asks for, whichever operation it is. Borrowed. */
struct arguments {
    enum desc_kind kind; /* ALLREDUCE to REDUCESCATTER */
    bool grouped;
    const struct hvd_tensor *tensors;
    int count;
    const struct hvd_options *options; /* not NULL */
    enum hvd_op op;                    /* allreduce, reducescatter */
    int root;                          /* broadcast */
    const int64_t *splits;             /* alltoall: or NULL */
    struct hvd_result *results;        /* allgather, alltoall: one for each tensor */
};

/* What of its process set counts. */
struct membership {
    hvd_set set;
    int rank, size; /* this rank's place among the members, and how many they are */
    int root;       /* broadcast: the place of the root; -1 where it is no member */
};

/* `allreduce "x"`, as sentences begin, of tensor [index]. Of one that cannot be named: `allreduce`, or
 * `grouped allreduce, tensors[3]`. */
#define ARGUMENTS_TITLE_BYTES (HVD_MAX_NAME + 64)
const char *arguments_title(const struct arguments *arguments, int index, char title[ARGUMENTS_TITLE_BYTES]);

/* Everything of [arguments] but its set. HVD_OK or HVD_ERR_INVALID. */
int arguments_check(const struct arguments *arguments, const struct membership *membership,
                    struct hvd_error *err);

/* Is what is asked for what was checked before, when it was described as [desc]? What is left to check is its
 * memory and, where that may differ, its first dimension. Not for alltoall, whose splits differ. */
bool arguments_match_desc(const struct arguments *arguments, const struct desc *desc);
int arguments_check_again(const struct arguments *arguments, const struct membership *membership,
                          struct hvd_error *err);

/* Elements of the tensor; -1 where a dimension is negative or it would have 2^63 bytes or more. */
int64_t arguments_element_count(const struct hvd_tensor *tensor);

#endif
