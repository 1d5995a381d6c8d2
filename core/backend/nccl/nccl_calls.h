/* nccl_calls.h: the functions of NCCL's library, with their types. */
#ifndef BACKEND_NCCL_NCCL_CALLS_H
#define BACKEND_NCCL_NCCL_CALLS_H

#include <stdatomic.h>

#include "backend/nccl/nccl.h"
#include "backend/nccl/nccl_abi.h"

#define NCCL_CONSTANT(name, value) name = (value),
enum { NCCL_NUMBERS(NCCL_CONSTANT) };
typedef enum { NCCL_RESULTS(NCCL_CONSTANT) } ncclResult_t;
typedef enum { NCCL_DTYPES(NCCL_CONSTANT) } ncclDataType_t;
typedef enum { NCCL_OPS(NCCL_CONSTANT) } ncclRedOp_t;
typedef enum { NCCL_SCALAR_PLACES(NCCL_CONSTANT) } ncclScalarResidence_t;
#undef NCCL_CONSTANT

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

#define NCCL_FIELD(type, name, initial) type name;
typedef struct {
    NCCL_CONFIG_FIELDS(NCCL_FIELD)
} ncclConfig_t;
#undef NCCL_FIELD

#define NCCL_INITIAL(type, name, initial) .name = (initial),
#define NCCL_CONFIG_INITIALIZER          \
    {                                    \
        NCCL_CONFIG_FIELDS(NCCL_INITIAL) \
    }

/* OPTIONAL functions are NULL if the library lacks them. */
#define NCCL_FIELD(type, name, parameters) type(*name) parameters;
struct nccl {
    _Atomic int holders;
    void *library;
    const char *origin; /* how it was found */
    bool instead;       /* of another file, which the user named */
    const struct hvd_log *log;
    int version;
    _Atomic int ending; /* communicators that threads are closing and that graphs may hold */
    NCCL_CALLS(NCCL_FIELD, NCCL_FIELD)
};
#undef NCCL_FIELD

/* Load NCCL's library in the order that nccl_open promises, and say of [nccl] which it is.
 * HVD_ERR_UNSUPPORTED if there is none. */
int nccl_search(struct nccl *nccl, const char *named, struct hvd_error *err);

/* Write a sentence into [err] (unless NULL): the failed action from [format], then NCCL's text for [result]
 * and its last error message. [comm] may be NULL. Returns HVD_ERR_SYSTEM. */
int nccl_error(const struct nccl *nccl, ncclComm_t comm, ncclResult_t result, struct hvd_error *err,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The communicator and stream that collectives go to. */
struct nccl_target {
    const struct nccl *nccl;
    ncclComm_t comm;
    const struct team *members;
    struct CUstream_st *stream;
};

/* Put the collectives of [count] batches into the target's stream, as one group. ncclInProgress is not a
 * failure. */
ncclResult_t nccl_put(const struct nccl_target *target, const struct backend_batch *batches, int count);

#endif
