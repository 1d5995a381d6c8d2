/* arguments.h: check the arguments of a call against hvd.h. Pure; an error is one sentence. */
#ifndef API_ARGUMENTS_H
#define API_ARGUMENTS_H

#include "base/status.h"
#include "negotiate/desc.h"

/* The arguments of a call, of any operation. The pointers are the caller's and valid during the call; tensors
 * and results stay valid until the operation is done. */
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

/* This rank's place in the process set of the operation. */
struct membership {
    hvd_set set;
    int rank, size; /* this rank's number in the set, and the number of members */
    int root;       /* broadcast: the root's number in the set; -1 where it is no member */
};

/* `allreduce "x"`, as sentences begin, of tensor [index]. Of one that cannot be named: `allreduce`, or
 * `grouped allreduce, tensors[3]`. */
#define ARGUMENTS_TITLE_BYTES (HVD_MAX_NAME + 64)
const char *arguments_title(const struct arguments *arguments, int index, char title[ARGUMENTS_TITLE_BYTES]);

/* Everything of [arguments] but its set. HVD_OK or HVD_ERR_INVALID. */
int arguments_check(const struct arguments *arguments, const struct membership *membership,
                    struct hvd_error *err);

/* Were the same arguments checked before, for the operation [desc]? Then arguments_check_again suffices: it
 * checks memory and, where it may differ, the first dimension. Not for alltoall, whose splits differ. */
bool arguments_match_desc(const struct arguments *arguments, const struct desc *desc);
int arguments_check_again(const struct arguments *arguments, const struct membership *membership,
                          struct hvd_error *err);

/* Elements of the tensor; -1 where a dimension is negative or it would have 2^63 bytes or more. */
int64_t arguments_element_count(const struct hvd_tensor *tensor);

#endif
