/* double.h: a stand-in for CUDA's driver library, for tests on machines without a GPU. Not CUDA.
 *
 * Devices are this process's memory and threads. Every stream has a thread that takes its work in order and
 * some time after it was submitted, so that a program which forgets to wait is found out. The kernel runs the
 * code of core/cuda/pack_kernel.h for every block and thread. The library keeps to CUDA's rules, and
 * complains where the program does not: it writes a sentence to stderr and to the file that HVD_DOUBLE_REPORT
 * names, then aborts. At the end of the process it writes there, too, what was not given back.
 *
 *   HVD_DOUBLE_CUDA_DEVICES=2           how many devices there are (8)
 *   HVD_DOUBLE_CUDA_FAIL=cuMemAlloc:3:2 the third call of cuMemAlloc returns 2 (719); "work" is what streams
 *                                       take, and its error stays; several are separated by commas
 *   HVD_DOUBLE_CUDA_DELAY_US=1000       how long each stream waits before each piece of work (0)
 *   HVD_DOUBLE_CUDA_BACK_US=1000        and before each copy from pinned memory (0)
 *   HVD_DOUBLE_CUDA_VERSION=12040       which CUDA the driver says it is of (13000)
 *   HVD_DOUBLE_CUDA_CAPABILITY=8        of which compute capability the devices are, the major number (9)
 *   HVD_DOUBLE_CUDA_PROTECT=0           the host may touch the memory of devices; without it, it crashes
 *   HVD_DOUBLE_CUDA_COUNTS=1            at its end the process writes how many copies went to pinned memory,
 *                                       and how far they were ahead of those back */
#ifndef TESTS_DOUBLE_CUDA_DOUBLE_H
#define TESTS_DOUBLE_CUDA_DOUBLE_H

#include <config.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../fail.h"
#include "../report.h"
#include "cuda/driver_calls.h"
#include "cuda/pack_kernel.h"

#define PROTOTYPE(name, version, parameters) CUresult name##version parameters;
CUDA_DRIVER_CALLS(PROTOTYPE, PROTOTYPE)
#undef PROTOTYPE

#define CU_STREAM_LEGACY ((CUstream)1) /* a name for the stream that is NULL to the program */

#define DEVICES_MAX 16
#define PENDING_MAX 64 /* records of one event */

/* For the program, which finds it by dlsym: how many calls it has made that wait for a device, or may. */
int cuDoubleWaits(void);

/* The same: as double_choose, with the code of HVD_DOUBLE_CUDA_FAIL, and double_spare. */
bool cuDoubleFail(const char *name, int nth);
void cuDoubleSpare(bool spare);

/* The same: what the process holds of devices: contexts, memory, streams, events, modules, graphs. */
int cuDoubleHeld(void);

/* For the double of NCCL, and for programs that look behind the scenes: as double_reach, without the lock. */
void *cuDoubleReach(const void *address);

/* For the double of NCCL: does [stream] capture? Then [destroy] is called with [arg] when the graph is gone,
 * all that was made of it, and all launches of it are done; as with a user object of CUDA's. */
bool cuDoubleOwnByGraph(CUstream stream, void (*destroy)(void *arg), void *arg);

/* ---- inject.c: calls that fail -------------------------------------------------------------- */

/* Begins every call: is the library started in this process, and must this call fail? */
CUresult double_call(const char *name);

/* The error that the test chose for the next piece of work of a stream. */
CUresult double_work_error(void);

/* ---- device.c: devices, contexts, and the one lock ------------------------------------------ */

struct CUctx_st {
    int device;
    int retained;
    CUresult error;  /* of its work; every later call returns it */
    CUstream stream; /* the one that is NULL to the program; made when it is first used */
};

/* Guards everything; [double_changed] is signalled when any stream has done something. */
extern pthread_mutex_t double_lock;
extern pthread_cond_t double_changed;

bool double_started(void);
CUcontext double_current(void); /* NULL: this thread has none */
CUresult
double_current_error(void); /* CUDA_ERROR_INVALID_CONTEXT without a context, or what its work met with */
CUcontext double_context(int device);

/* ---- memory.c ------------------------------------------------------------------------------- */

enum double_memory { DOUBLE_DEVICE, DOUBLE_PINNED, DOUBLE_REGISTERED, DOUBLE_MANAGED };

/* Complain unless all these bytes are in one allocation of which [what] may use memory, or, with [host_too],
 * of the program's own. */
void double_check_range(const char *what, const void *begin, uint64_t bytes, bool host_too);

/* Is [address] pinned memory of the host? */
bool double_is_pinned(const void *address);

/* Where a device finds what the program has at [address]: elsewhere in memory of devices that the host may
 * not touch, and there in any other. The lock is held. */
void *double_reach(const void *address);

/* Of these, and of those below: how many were not given back? The lock is held. */
int double_held_memory(void);

/* ---- stream.c: work, streams, events -------------------------------------------------------- */

enum work_kind {
    WORK_COPY,
    WORK_SET,
    WORK_KERNEL,
    WORK_HOST,
    WORK_RECORD,
    WORK_WAIT,
    WORK_WAIT_VALUE,
    WORK_WRITE_VALUE,
    WORK_END_LAUNCH /* of a graph, which holds [arg] */
};

struct work {
    struct work *next;
    enum work_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned value, flags, blocks;
    CUevent event;
    uint64_t number; /* of the event's record */
    CUhostFn call;
    void *arg;
    struct pack_arguments pack;
};

struct CUevent_st {
    struct CUevent_st *next; /* all events that ever were */
    bool destroyed;
    CUcontext context;
    uint64_t recorded;             /* the number of records so far */
    uint64_t pending[PENDING_MAX]; /* numbers of those that the streams have not reached; 0: none */
    CUstream captured_in;          /* the last record was in this stream while it was captured */
};

struct CUgraph_st;

struct CUstream_st {
    struct CUstream_st *next; /* all streams that ever were */
    bool destroyed;
    CUcontext context;
    struct work *first, **last;
    struct CUgraph_st *capture; /* being made of what is submitted; NULL: it runs */
    bool unjoined;              /* it captured work that the stream where capture began does not wait for */
};

/* The stream that the program means; NULL with *resultp set. The lock is held. */
CUstream double_stream(CUstream stream, const char *name, CUresult *resultp);

/* Copy [work] behind what [stream] has, or into what it captures. The lock is held. */
CUresult double_submit(CUstream stream, const struct work *work);

/* Wait until all streams of the context, or of all, have nothing to do. The lock is held. */
void double_drain(CUcontext context);

int double_held_streams(void);
int double_held_events(void);

/* ---- capture.c ------------------------------------------------------------------------------ */

struct graph_objects;

/* One holder of them is gone. */
void double_release_objects(struct graph_objects *objects);

struct CUgraph_st {
    struct work *first, **last;
    struct graph_objects *objects; /* that live as long as it, and as what was made of it */
    CUstreamCaptureMode mode;
    pthread_t thread; /* that began it */
    bool invalid;
    CUstream origin;
};

/* May this thread make a call that CUDA forbids while streams are captured? The lock is held. */
CUresult double_capture_allows(void);

/* No stream captures into [graph] any more; had all their work been waited for? The lock is held. */
bool double_capture_ends(struct CUgraph_st *graph);

int double_held_graphs(void);

void double_graph_add(struct CUgraph_st *graph, const struct work *work);

/* ---- kernel.c ------------------------------------------------------------------------------- */

int double_held_modules(void);

void double_run_kernel(const struct pack_arguments *arguments, unsigned blocks);

#endif
