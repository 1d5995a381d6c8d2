/* arguments.h: check the arguments of a call against hvd.h. Pure. An error is one sentence. */
#ifndef API_ARGUMENTS_H
#define API_ARGUMENTS_H

#include "base/status.h"
#include "negotiate/desc.h"

/* The arguments of a call of any operation. The pointers are the caller's: they are valid during the call,
 * and tensors and results until the operation is done. */
struct arguments {
    enum desc_kind kind; /* ALLREDUCE to SCATTER; SEND, RECV */
    bool grouped;
    bool persistent; /* hvd_allreduce_init and its like */
    const struct hvd_tensor *tensors;
    int count;
    const struct hvd_options *options; /* NULL: the defaults; never after arguments_take_options */
    enum hvd_op op;                    /* reductions */
    int root;                          /* broadcast, reduce, gather, scatter; messages: the other end */
    int tag;                           /* messages */
    const int64_t *splits;             /* alltoall, reducescatter, scatter: or NULL */
    struct hvd_result *results;        /* where sized later: one result for each tensor */
    const uint64_t *on_device;         /* a bit for each tensor: is it on a GPU? NULL: none is */
};

#define ARGUMENTS_BIT_WORDS (HVD_MAX_GROUP / 64)

/* Is tensor [index] on a GPU? */
static inline bool arguments_on_device(const struct arguments *arguments, int index)
{
    return arguments->on_device != NULL && (arguments->on_device[index / 64] >> index % 64 & 1) != 0;
}

/* This rank's place in the operation's process set. */
struct membership {
    hvd_set set;
    int rank, size; /* this rank's number in the set, and the number of members */
    int root;       /* the root's number in the set; -1 if it is no member. Messages: the other end's */
};

/* Does the operation read this rank's input? */
static inline bool arguments_read_input(const struct arguments *arguments,
                                        const struct membership *membership)
{
    bool only_at_root = arguments->kind == DESC_BROADCAST || arguments->kind == DESC_SCATTER;
    return !only_at_root || membership->rank == membership->root;
}

/* Write the title with which sentences about tensor [index] begin: `allreduce "x"`. If the tensor has no
 * usable name, `allreduce` or `grouped allreduce, tensors[3]`. */
#define ARGUMENTS_TITLE_BYTES (HVD_MAX_NAME + 64)
const char *arguments_title(const struct arguments *arguments, int index, char title[ARGUMENTS_TITLE_BYTES]);

/* Let arguments->options be a struct of this library's hvd.h, if need be in [room]: the caller may give none,
 * or those of another version. Call this before any other check. Returns HVD_OK or HVD_ERR_INVALID. */
int arguments_take_options(struct arguments *arguments, struct hvd_options *room, struct hvd_error *err);

/* Check all of [arguments] but its process set. Returns HVD_OK or HVD_ERR_INVALID. */
int arguments_check(const struct arguments *arguments, const struct membership *membership,
                    struct hvd_error *err);

/* The same for a message: a SEND or RECV of one tensor, whose name may be NULL. */
int arguments_check_message(const struct arguments *arguments, const struct membership *membership,
                            struct hvd_error *err);

/* Were the same arguments checked before, for the operation [desc]? Then arguments_check_again is enough: it
 * checks memory and, for kinds where it may differ, the first dimension. Not for calls with splits, nor for
 * kinds that always have them: they may differ. */
bool arguments_match_desc(const struct arguments *arguments, const struct desc *desc);
int arguments_check_again(const struct arguments *arguments, const struct membership *membership,
                          struct hvd_error *err);

/* The number of elements in the tensor; -1 if a dimension is negative or it would have more than BYTES_MAX
 * bytes. */
int64_t arguments_element_count(const struct hvd_tensor *tensor);

#endif
