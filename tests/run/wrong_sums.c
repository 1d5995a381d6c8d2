/* wrong_sums.c: a library to preload that makes reductions of one tensor give wrong results on the last rank.
 *
 * WRONG_TENSOR is the tensor's name. Its first WRONG_AFTER reductions are right. With WRONG_GIVEN, only
 * reductions in memory of hvd_alloc count. */
#include "config.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hvd.h"

static int reductions;             /* how many reductions of the tensor there were */
static hvd_handle spoiled;         /* in flight, or 0 */
static unsigned char *spoiled_sum; /* the output of that reduction */
static char *given;                /* the memory that hvd_alloc returned last, and its size */
static int64_t given_bytes;

enum hvd_status hvd_alloc(int64_t bytes, void **memoryp)
{
    enum hvd_status (*real)(int64_t, void **) = NULL;
    void *found = dlsym(RTLD_NEXT, "hvd_alloc");
    memcpy(&real, &found, sizeof(real));
    enum hvd_status status = real(bytes, memoryp);
    if (status == HVD_OK) {
        given = *memoryp;
        given_bytes = bytes;
    }
    return status;
}

static bool is_given(const void *memory)
{
    const char *at = memory;
    return given != NULL && at >= given && at < given + given_bytes;
}

/* Is this the tensor, and a reduction of it that is to be wrong? */
static bool is_chosen(const struct hvd_tensor *tensor)
{
    const char *name = getenv("WRONG_TENSOR");
    const char *after = getenv("WRONG_AFTER");
    int right = after == NULL ? 0 : (int)strtol(after, NULL, 10);
    if (name == NULL || strcmp(tensor->name, name) != 0 || hvd_rank() != hvd_size() - 1)
        return false;
    if (getenv("WRONG_GIVEN") != NULL && !is_given(tensor->output))
        return false;
    return reductions++ >= right;
}

enum hvd_status hvd_allreduce(const struct hvd_tensor *tensor, enum hvd_op op,
                              const struct hvd_options *options)
{
    enum hvd_status (*real)(const struct hvd_tensor *, enum hvd_op, const struct hvd_options *) = NULL;
    void *found = dlsym(RTLD_NEXT, "hvd_allreduce");
    memcpy(&real, &found, sizeof(real));
    enum hvd_status status = real(tensor, op, options);
    if (is_chosen(tensor))
        *(unsigned char *)tensor->output ^= 1;
    return status;
}

enum hvd_status hvd_allreduce_async(const struct hvd_tensor *tensor, enum hvd_op op,
                                    const struct hvd_options *options, hvd_done_f done, void *arg,
                                    hvd_handle *handlep)
{
    enum hvd_status (*real)(const struct hvd_tensor *, enum hvd_op, const struct hvd_options *, hvd_done_f,
                            void *, hvd_handle *) = NULL;
    void *found = dlsym(RTLD_NEXT, "hvd_allreduce_async");
    memcpy(&real, &found, sizeof(real));
    enum hvd_status status = real(tensor, op, options, done, arg, handlep);
    if (status == HVD_OK && is_chosen(tensor)) {
        spoiled = *handlep;
        spoiled_sum = tensor->output;
    }
    return status;
}

enum hvd_status hvd_wait(hvd_handle handle)
{
    enum hvd_status (*real)(hvd_handle) = NULL;
    void *found = dlsym(RTLD_NEXT, "hvd_wait");
    memcpy(&real, &found, sizeof(real));
    enum hvd_status status = real(handle);
    if (handle == spoiled && spoiled != 0) {
        *spoiled_sum ^= 1;
        spoiled = 0;
    }
    return status;
}
