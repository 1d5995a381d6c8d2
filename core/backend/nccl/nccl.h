/* nccl.h: NCCL, which moves tensors between GPUs.
 *
 * nccl/ provides flow/ with communicators for the process sets, and puts the collectives of a batch into a
 * stream of the GPU. No function here waits for the GPU or for another rank, unless it says so. The library
 * is opened at run time, because libhvd also runs on nodes without it. hvd does not need NCCL's own nccl.h:
 * nccl_abi.h declares the part of it that hvd uses. */
#ifndef BACKEND_NCCL_NCCL_H
#define BACKEND_NCCL_NCCL_H

#include "backend/backend.h"
#include "base/log.h"

struct CUstream_st;
struct cuda_device;

/* ---- The library ---- */

#define NCCL_LIBRARY "libnccl.so.2" /* its usual name */

struct nccl;

/* Load NCCL and find its functions; [log] is borrowed. Taken is the first of these: the NCCL_LIBRARY that
 * this process has loaded before, as programs with torch do, because two of them would share its GPU;
 * [library]; or, if that is "", the NCCL_LIBRARY that the loader finds, or else that of pip's package beside
 * a libtorch that this process has loaded. It stays loaded until the process ends. HVD_ERR_UNSUPPORTED if
 * there is none, if it is too old, or if hvd was configured --with-nccl=no. */
int nccl_open(const char *library, const struct hvd_log *log, struct nccl **ncclp, struct hvd_error *err);
struct nccl *nccl_hold(const struct nccl *nccl); /* a reference for nccl_close; [log] may be gone then */
void nccl_close(struct nccl *nccl);              /* NULL is fine */
int nccl_version(const struct nccl *nccl);       /* as in NCCL: 22803 for 2.28.3 */

/* Which file it is, and how it was found, such as "found by the loader". */
const char *nccl_file(const struct nccl *nccl);
const char *nccl_origin(const struct nccl *nccl);

/* Returns whether the user named another library than the process had loaded. */
bool nccl_is_instead(const struct nccl *nccl);

/* The NCCL operations that a rank supports; zeroed: none. */
struct nccl_use {
    bool possible;
    bool float8; /* reductions of these types */
};

/* The support on this device: reductions of float8 need NCCL 2.24 and compute capability 9.0. */
struct nccl_use nccl_use_on(const struct nccl *nccl, const struct cuda_device *device);

/* Pure: returns whether NCCL can run such a batch. It cannot reduce 16-bit integers and bools, and would
 * round scaled or averaged integers in a different way from hvd. */
bool nccl_carries(const struct nccl_use *use, const struct backend_need *need, double prescale,
                  double postscale);

/* Pure: returns whether NCCL itself can apply the factors of a reduction; otherwise packing and unpacking
 * apply them. NCCL has one factor, in the type of the tensors, before a sum. */
bool nccl_scales(const struct backend_need *need, double prescale, double postscale);

/* ---- Memory ---- */

/* Allocate memory of [device] that NCCL can use in its preferred ways after registration with a
 * communicator. NULL if the library has none, or cannot allocate (before 2.19); the reason is logged. */
void *nccl_memory_create(const struct nccl *nccl, const struct cuda_device *device, int64_t bytes);

/* The memory must be registered with no communicator, and no longer be in use by the device. The device's
 * context is current. NULL is fine. */
void nccl_memory_destroy(const struct nccl *nccl, void *memory);

/* ---- Communicators ---- */

/* The communicator of a process set. Not thread-safe. */
struct nccl_team;

/* [nccl], [device] and the arrays of [members] are borrowed; its set is NCCL_PAIR for two ranks that send
 * messages. [node] is a number that is equal on ranks of the same node. */
#define NCCL_PAIR (-1)
int nccl_team_create(const struct nccl *nccl, const struct cuda_device *device, const struct team *members,
                     int node, struct nccl_team **teamp, struct hvd_error *err);

/* Write this member's card, which the members exchange before they connect, in 64-bit words. HVD_IN_PROGRESS
 * while the library examines the networks for it: call it again. */
#define NCCL_CARD_WORDS 19
int nccl_team_write_card(struct nccl_team *team, int64_t card[NCCL_CARD_WORDS], struct hvd_error *err);

/* Begin to connect; [cards] has the cards of all members in their order. HVD_ERR_UNSUPPORTED, on all
 * members, if NCCL cannot connect them because two have the same GPU, or their NCCL differs. The team is
 * then unusable. */
int nccl_team_connect(struct nccl_team *team, const int64_t *cards, struct hvd_error *err);

/* HVD_IN_PROGRESS while the team connects, or while NCCL has not put all its work into the stream; HVD_OK;
 * or an NCCL error, which may come from earlier work in the stream. The error for a lost member is delayed a
 * little, so that control can name the rank first. */
int nccl_team_test(struct nccl_team *team, struct hvd_error *err);

/* Register [memory] of this member with NCCL, after nccl_team_test has returned HVD_OK, so that batches in
 * it need no copies on their way. Once for each memory. Returns whether it succeeded; otherwise the reason
 * goes to the log. In a batch, either all members have input and output in registered memory, for an
 * allreduce at the same offset in it, or none has. */
bool nccl_team_register(struct nccl_team *team, void *memory, int64_t bytes);

/* Returns whether nccl_team_register was called for [memory]. */
bool nccl_team_knows(const struct nccl_team *team, const void *memory);

/* Returns whether [address] is in registered memory. */
bool nccl_team_reaches(const struct nccl_team *team, const void *address);

/* Undo the registration. NCCL must have put all its work into the stream, and no batch there may use
 * [memory]. */
void nccl_team_deregister(struct nccl_team *team, const void *memory);

/* The same, and forget [memory]. */
void nccl_team_forget(struct nccl_team *team, const void *memory);

/* Begin to split the communicator of a process set from that of [team], without cards. All members of [team]
 * call it at the same place of the agreed order, when the stream has finished all its work. [rank] is this
 * member's rank in the new communicator, or -1 if it is not in it. The split is complete when nccl_team_test
 * of [team] returns HVD_OK. */
int nccl_team_split(struct nccl_team *team, int rank, struct hvd_error *err);

/* Take the new communicator, on its members. Test it as after nccl_team_connect. */
int nccl_team_take_split(struct nccl_team *team, const struct team *members, struct nccl_team **teamp,
                         struct hvd_error *err);

/* Put [count] batches into [stream] as one group, after nccl_team_test has returned HVD_OK, and do not wait:
 * input and output are on the GPU. The output of a reducescatter has room only for this member's share. All
 * members put the same batches into a group. */
int nccl_team_start(struct nccl_team *team, const struct backend_batch *batches, int count,
                    struct CUstream_st *stream, struct hvd_error *err);

/* Put a send of [bytes] at [memory] to the other one of two members into [stream], or a receive from it: as
 * nccl_team_start. Both members put their parts in the same order. */
struct nccl_message {
    void *memory;
    int64_t bytes;
    bool sends;
};
int nccl_team_move(struct nccl_team *team, const struct nccl_message *message, struct CUstream_st *stream,
                   struct hvd_error *err);

/* The next batches go into a stream that is captured into a CUDA graph. NCCL closes the communicator only
 * after the last such graph is destroyed; hvd waits for this only for a limited time. */
void nccl_team_captured(struct nccl_team *team);

/* Abort the work in the stream: it ends, and its results are undefined. The team is then unusable. NULL is
 * fine. */
void nccl_team_abort(struct nccl_team *team);

/* All members call it at about the same time, when the stream has finished all its work. Waits for them for
 * a few seconds at most. NULL is fine. */
void nccl_team_destroy(struct nccl_team *team);

#endif
