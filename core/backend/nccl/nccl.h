/* nccl.h: NCCL, which carries tensors between GPUs.
 *
 * nccl/ promises to flow/ communicators for the process sets, and every collective of a batch, put into a
 * stream of the GPU: nothing here waits for the GPU or for another rank. The library is opened at run time,
 * because libhvd runs on nodes without it too. Only nccl_calls.h includes nccl.h of NCCL itself; in a build
 * without it nccl_none.c takes the place of everything, and nccl_open says so. */
#ifndef BACKEND_NCCL_NCCL_H
#define BACKEND_NCCL_NCCL_H

#include "backend/backend.h"
#include "base/log.h"

struct CUstream_st;
struct cuda_device;

/* ---- The library ---- */

#define NCCL_LIBRARY "libnccl.so.2" /* its usual name */

struct nccl;

/* Load [library] ("": NCCL_LIBRARY) and find its functions; [log] is borrowed. It stays loaded until the
 * process ends. HVD_ERR_UNSUPPORTED where there is none, or it is too old. */
int nccl_open(const char *library, const struct hvd_log *log, struct nccl **ncclp, struct hvd_error *err);
struct nccl *nccl_hold(const struct nccl *nccl); /* for one more nccl_close; [log] may be gone in between */
void nccl_close(struct nccl *nccl);              /* NULL is fine */
int nccl_version(const struct nccl *nccl);       /* as in NCCL: 22803 for 2.28.3 */

/* What a rank can use NCCL for; zeroed: nothing. */
struct nccl_use {
    bool possible;
    bool float8; /* also to reduce these types */
};

/* On this device: reductions of float8 need NCCL 2.24 and compute capability 9.0. */
struct nccl_use nccl_use_on(const struct nccl *nccl, const struct cuda_device *device);

/* Pure: does NCCL carry such a batch? It has no 16-bit integers and no bools to reduce, and integers that are
 * scaled or averaged would be rounded in other ways than hvd's. */
bool nccl_carries(const struct nccl_use *use, const struct backend_need *need, double prescale,
                  double postscale);

/* Pure: may the factors of a reduction be applied by NCCL itself? Otherwise they are applied when tensors are
 * packed and unpacked. NCCL has one factor, of the tensors' own type, in front of a sum. */
bool nccl_scales(const struct backend_need *need, double prescale, double postscale);

/* ---- Memory ---- */

/* Memory of [device] that NCCL reaches in the ways it prefers, when it is registered with a communicator.
 * NULL where the library has none to give, or was not made for that (before 2.19); the sentence goes to the
 * log. */
void *nccl_memory_create(const struct nccl *nccl, const struct cuda_device *device, int64_t bytes);

/* No communicator has it registered, and the device does not use it any more. The device's context is
 * current. NULL is fine. */
void nccl_memory_destroy(const struct nccl *nccl, void *memory);

/* ---- Communicators ---- */

/* A process set's communicator. One thread uses it at a time. */
struct nccl_team;

/* [nccl], [device] and what [members] has are borrowed. [node]: a number that ranks of the same node
 * share. */
int nccl_team_create(const struct nccl *nccl, const struct cuda_device *device, const struct team *members,
                     int node, struct nccl_team **teamp, struct hvd_error *err);

/* What each member tells the others before they connect, in 64-bit words. HVD_IN_PROGRESS while the library
 * looks at networks for that: call it again. */
#define NCCL_CARD_WORDS 19
int nccl_team_write_card(struct nccl_team *team, int64_t card[NCCL_CARD_WORDS], struct hvd_error *err);

/* Begin to connect: [cards] has all members' cards in their order. HVD_ERR_UNSUPPORTED, on all members alike,
 * where NCCL cannot carry between them: two have the same GPU, or their NCCL differs. Then the team is of no
 * use. */
int nccl_team_connect(struct nccl_team *team, const int64_t *cards, struct hvd_error *err);

/* HVD_IN_PROGRESS while it connects, or while NCCL has not put all it was given into the stream; HVD_OK; or
 * an error of NCCL, also of what it put into the stream before. When NCCL has lost a member the error comes a
 * little later, because control can name the rank. */
int nccl_team_test(struct nccl_team *team, struct hvd_error *err);

/* Let NCCL register [memory] of this member, after nccl_team_test has said HVD_OK: batches in it need not be
 * copied on their way. Once for each memory. Returns whether it did; otherwise the sentence goes to the log.
 * All members of a batch must have its input and output in memory that is registered, an allreduce at the
 * same offset in it, or none of them. */
bool nccl_team_register(struct nccl_team *team, void *memory, int64_t bytes);

/* Was that asked of NCCL? */
bool nccl_team_knows(const struct nccl_team *team, const void *memory);

/* Is [address] in memory that is registered? */
bool nccl_team_reaches(const struct nccl_team *team, const void *address);

/* Undo it, when NCCL has put all it was given into the stream, and no batch there uses [memory]. */
void nccl_team_deregister(struct nccl_team *team, const void *memory);

/* The same, and it is not known any more. */
void nccl_team_forget(struct nccl_team *team, const void *memory);

/* Begin to make the communicator of a process set out of the one of [team], without cards: all members of
 * [team] call it at the same place of the agreed order, when the stream has done all that it was given.
 * [rank]: this member's place in the new one; -1: it is not in it. It is done when nccl_team_test says HVD_OK
 * of [team]. */
int nccl_team_split(struct nccl_team *team, int rank, struct hvd_error *err);

/* Take what the split has made, on its members. Test it as after nccl_team_connect. */
int nccl_team_take_split(struct nccl_team *team, const struct team *members, struct nccl_team **teamp,
                         struct hvd_error *err);

/* Put [count] batches into [stream] as one group, after nccl_team_test has said HVD_OK, and do not wait:
 * input and output are on the GPU. Output of a reducescatter has room for this member's share only. All
 * members put the same batches into a group. */
int nccl_team_start(struct nccl_team *team, const struct backend_batch *batches, int count,
                    struct CUstream_st *stream, struct hvd_error *err);

/* The next batches go into a stream that is captured into a CUDA graph. NCCL ends the communicator only when
 * the last such graph is destroyed: hvd does not wait for that for long. */
void nccl_team_captured(struct nccl_team *team);

/* Give up what is in the stream: it ends, and its results are undefined. The team is of no use then. NULL is
 * fine. */
void nccl_team_abort(struct nccl_team *team);

/* All members call it at about the same time, when the stream has done all that it was given; waits for them
 * for a few seconds at most. NULL is fine. */
void nccl_team_destroy(struct nccl_team *team);

#endif
