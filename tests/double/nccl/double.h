/* double.h: a stand-in for NCCL, over the stand-in for CUDA's driver, for tests on machines without GPUs. Not
 * NCCL.
 *
 * Ranks are processes, and a communicator is memory that they share, with a mailbox from each to each. What a
 * group holds is one piece of work for the stream, which runs it in its own time and, as NCCL does, waits
 * there for the other ranks. The library keeps to NCCL's rules and complains where the program does not: it
 * writes a sentence to stderr and to the file that HVD_DOUBLE_REPORT names, then aborts. At the end of the
 * process it writes there, too, which communicators were not given back.
 *
 *   HVD_DOUBLE_NCCL_COUNTS=1              each communicator writes to stderr, at its end, what it has carried
 *   HVD_DOUBLE_NCCL_FAIL=ncclAllReduce:3  the third call of ncclAllReduce returns ncclUnhandledCudaError;
 *                                         "work" is what streams take: the communicator then has the error;
 *                                         several are separated by commas
 *   HVD_DOUBLE_NCCL_GATE=/a/file          ncclGetUniqueId waits until there is such a file, as NCCL waits for
 *                                         networks; a minute at most
 *   HVD_DOUBLE_NCCL_HANG=3                the third work of this process does nothing until it is aborted;
 *                                         0: no communicator gets ready
 *   HVD_DOUBLE_NCCL_VERSION=21800         which version the library says it is of, and what it reduces
 * (22809) */
#ifndef TESTS_DOUBLE_NCCL_DOUBLE_H
#define TESTS_DOUBLE_NCCL_DOUBLE_H

#include <config.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../fail.h"
#include "../report.h"
#include "backend/nccl/nccl_calls.h"
#include "cuda/driver_calls.h"

#define PROTOTYPE(type, name, parameters) type name parameters;
NCCL_CALLS(PROTOTYPE, PROTOTYPE)
#undef PROTOTYPE

/* For programs that find it by dlsym: as double_choose, with the code of HVD_DOUBLE_NCCL_FAIL. */
bool ncclDoubleFail(const char *name, int nth);

/* The same: how many communicators and registrations were not given back? */
int ncclDoubleHeld(void);

#define RANKS_MAX     16
#define MAILBOX_BYTES 65536

/* ---- rules.c: what tests ask for ---------------------------------------------------------------- */

/* Must this call fail? Begins every call that can. */
ncclResult_t double_call(const char *name);

/* Calls of CUDA between true and false are NCCL's own: a test that lets the program's fail does not mean
 * them. */
void double_spare_cuda(bool spare);

/* The functions of the double of libcuda, which the program has loaded. */
void double_launch(void *stream, void (*function)(void *), void *arg);
bool double_own_by_graph(void *stream, void (*destroy)(void *), void *arg);
void double_bus_id(char *text, int bytes, int device);
int double_device(void); /* the current one */

/* Complain unless all these bytes are memory of [device]. */
void double_check_memory(const char *what, const void *memory, int64_t bytes, int device);

/* Where the device finds [memory] of the program. */
char *double_reach(const void *memory);

/* The entry of CUDA's driver that has this name. */
void *double_cuda_function(const char *name);

/* Wait until the test has made the file that HVD_DOUBLE_NCCL_GATE names, if it names one. */
void double_wait_at_gate(void);

/* ---- communicator.c ----------------------------------------------------------------------------- */

/* Where input and output are in registered memory: of an allreduce; 0 of others; -1: they are not. */
struct offsets {
    int64_t input, output;
};

/* What one rank has for another. */
struct mailbox {
    _Atomic int full;
    uint32_t bytes;
    uint64_t tag; /* of the operation to which it belongs */
    int kind;
    int64_t count;
    struct offsets registered; /* of struct operation */
    char data[MAILBOX_BYTES];
};

/* What a unique id holds: where the memory is to be opened that the ranks of a communicator share. */
struct place {
    pid_t pid;
    int fd;
};

/* What one rank says when a communicator is split. */
struct split_wish {
    int color, key;
    _Atomic bool is_placed;
    struct place place; /* of the new communicator, if this rank is its first */
};

/* The memory that the ranks of a communicator share. */
struct shared {
    int size;
    _Atomic int joined;
    _Atomic int left;
    pid_t pids[RANKS_MAX];
    char bus_ids[RANKS_MAX][24];
    _Atomic int wishes_made;
    struct split_wish wishes[2][RANKS_MAX]; /* of this split, and of the one before, by the splits' parity */
    struct mailbox mailboxes[RANKS_MAX][RANKS_MAX]; /* from, to */
};

struct ncclComm {
    struct ncclComm *next;
    struct shared *shared;
    int rank, size;
    int device;
    bool destroyed, finalizing;
    bool progresses; /* the last call said ncclInProgress, and nobody has asked since */
    _Atomic bool aborted;
    _Atomic int error;     /* ncclResult_t */
    _Atomic int in_flight; /* work in streams */
    _Atomic int in_graphs; /* work in graphs that are not destroyed: the communicator does not end before */
    uint64_t issued;       /* operations */
    int launches, registered_operations;
    int splits;           /* that were begun */
    ncclComm_t *split_to; /* while one runs: where the new communicator goes */
    bool splitting;
};

/* Memory to share for a new communicator of [size] ranks, and its place. */
struct place double_new_place(int size);

/* Join as [rank], with this device, the communicator whose memory is at [place]. */
ncclComm_t double_join(const struct place *place, int rank, int size, int device);

/* Complain unless [comm] may be used for [name]. */
void double_check_comm(ncclComm_t comm, const char *name);
bool double_is_ready(const struct ncclComm *comm);
bool double_peer_died(const struct ncclComm *comm);

/* ---- split.c ------------------------------------------------------------------------------------ */

/* Take the split of [comm] further. Returns whether it is done. */
bool double_advance_split(ncclComm_t comm);

/* ---- registration.c ----------------------------------------------------------------------------- */

/* Where [memory] begins in memory that is registered, or DOUBLE_UNREGISTERED. */
#define DOUBLE_UNREGISTERED INT64_C(-1)
int64_t double_registered_at(const struct ncclComm *comm, const void *memory, int64_t bytes);

/* The registration of [memory], if it has one, is used until it is released. */
struct registration *double_use(const struct ncclComm *comm, const void *memory);
void double_release(struct registration *registration); /* NULL is fine */

int double_held_registrations(void);

void double_forget_registrations(const struct ncclComm *comm);

/* ---- operations.c --------------------------------------------------------------------------------- */

enum kind { ALLREDUCE, REDUCE, REDUCESCATTER, ALLGATHER, BROADCAST, SEND, RECV };

struct operation {
    struct operation *next;
    enum kind kind;
    const char *input;
    char *output;
    int64_t count;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    double factor;                /* of a sum */
    int root;                     /* or peer */
    struct offsets registered;    /* what its ranks must agree on */
    struct registration *used[2]; /* of input and output */
    uint64_t tag;                 /* what all its ranks must agree on */
    char *received;               /* reductions: the others' input, by rank */
};

void double_free_operation(struct operation *operation);

/* ---- work.c ---------------------------------------------------------------------------------------- */

struct work {
    ncclComm_t comm;
    struct operation *operations;
};

/* Run by the stream's thread. */
void double_run(void *arg);

/* The same for work of a graph, which runs again, and when the graph is gone. */
void double_run_again(void *arg);
void double_free_work(void *arg);

/* ---- reduce.c -------------------------------------------------------------------------------------- */

int64_t double_dtype_bytes(ncclDataType_t dtype);
double double_value(ncclDataType_t dtype, const void *element);

/* output = the operation over [size] inputs of operation->count elements. */
void double_reduce(const struct operation *operation, const char *const *inputs, int size);

#endif
