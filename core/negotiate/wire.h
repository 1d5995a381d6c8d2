/* wire.h: encodes and decodes the records of the negotiation. Pure; the decoder accepts hostile bytes. */
#ifndef NEGOTIATE_WIRE_H
#define NEGOTIATE_WIRE_H

#include "base/codec.h"
#include "base/status.h"
#include "options/tuned_settings.h"
#include "negotiate/eager.h"
#include "negotiate/stall_report.h"

/* A message is a list of records. Upwards a record holds for every rank of the sender's subtree; downwards it
 * is a decision that every rank carries out, in order. */
enum wire_type {
    WIRE_IDS = 1,      /* operations of a set by their ids: a part of a bitmap, ascending */
    WIRE_RETIRE = 2,   /* also ids; downwards: these retire; upwards: no rank below uses them any more */
    WIRE_NEW = 3,      /* an operation with its full description; downwards with its id and backend */
    WIRE_MISMATCH = 4, /* one name, and two ranks' descriptions of it that differ */
    WIRE_JOINED = 5,   /* upwards: all members below have joined; downwards: all have, and the join ends */
    WIRE_LEAVING = 6,  /* a rank has called hvd_shutdown */
    WIRE_UNIT = 7,     /* downwards: the end of a unit, which was decided together */
    WIRE_STALL_NOTICE = 8, /* upwards: an operation has waited long for some rank below */
    WIRE_STALL_QUERY = 9,  /* downwards, to parts that are not ready: which ranks are missing? */
    WIRE_STALL_REPLY = 10, /* upwards: the ranks that are missing */
    WIRE_TUNE = 11,        /* downwards, from the root: settings for all later decisions */
    WIRE_STALL_PING = 12,  /* upwards: does the parent answer? */
    WIRE_STALL_PONG = 13,  /* downwards: it does */
    WIRE_EAGER =
        14 /* an operation by its id, with the inputs of members: of those below; downwards: of all */
};

#define WIRE_MAX_ID (UINT32_MAX - 1)
#define WIRE_NO_ID  UINT32_MAX

/* A description on which some ranks agree, and the lowest of them. */
struct wire_proposal {
    const struct desc *desc; /* the proposal holds a reference */
    int rank;
    uint32_t backends; /* the backends (bits 1 << enum backend_id) that all of them have for it; 0: it needs
                          none */
    uint64_t offsets;  /* as submission.offsets, where all of them say the same; otherwise 0 */
};

struct wire_record {
    enum wire_type type;
    hvd_set set; /* IDS, RETIRE, EAGER, JOINED, STALL_QUERY, STALL_REPLY; the others have it in the
                    description */
    uint32_t first_id, id_span;    /* IDS, RETIRE: bit i of [bits] stands for first_id + i; i < id_span */
    const unsigned char *bits;     /* the same; points into the message */
    struct wire_proposal proposal; /* NEW, MISMATCH, STALL_NOTICE */
    struct wire_proposal other;    /* MISMATCH */
    uint32_t id; /* NEW downwards: its id, or WIRE_NO_ID; SET_ADD: the set's number; EAGER: its id;
                    STALL_QUERY, STALL_REPLY: the query's number */
    struct eager_inputs inputs; /* EAGER; points into the message */
    int backend;                /* NEW downwards: enum backend_id; -1 upwards, and if none is needed */
    bool nccl;                  /* NEW downwards: as decision.nccl */
    int absent;  /* NEW: a rank that has joined without submitting it, though the operation needs it; or -1 */
    int members; /* NEW upwards, for SET_ADD: how many ranks below will be members; by_members: have asked */
    int rank;    /* JOINED: the last to join; LEAVING: who leaves */
    uint32_t backends; /* JOINED upwards: the backends that all ranks of the subtree have */
    int64_t time_us; /* STALL_NOTICE: how long it has waited; STALL_QUERY: for how long from now a reply is of
                        use */
    uint64_t batch; /* STALL_NOTICE, STALL_QUERY: the number of the batch in its set, from 1, if the operation
                       runs; 0: it is undecided */
    int waits_for;  /* STALL_NOTICE of a batch: the rank that the sender waits for in it, or -1 */
    char name[HVD_MAX_NAME + 1];    /* STALL_QUERY: of the operation */
    struct stall_report *stall;     /* STALL_REPLY; owned */
    struct tuned_settings settings; /* TUNE */
};

/* A message being written. Zero it first. After a failed allocation [failed] is true, and later puts do
 * nothing. */
struct wire_writer {
    unsigned char *bytes;
    size_t length, capacity;
    bool failed;
};

void wire_put(struct wire_writer *writer, const struct wire_record *record);
/* Write ids, in ascending order, as IDS or RETIRE; begins a new record at each gap for which that is
 * shorter. */
void wire_put_ids(struct wire_writer *writer, enum wire_type type, hvd_set set, const uint32_t *ids,
                  size_t count);
/* Append records that are already encoded. */
void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t length);
void wire_reset(struct wire_writer *writer); /* empty the message; keeps the memory that most messages need */
void wire_free(struct wire_writer *writer);

/* A message being read. */
struct wire_reader {
    struct decoder decoder;
    int rank_count; /* ranks in the job: ranks and roots must be below it */
};

/* Read the next record: HVD_OK, and then pass it to wire_clear; HVD_IN_PROGRESS at the end of the message;
 * HVD_ERR_SYSTEM and a sentence if the bytes are not what wire_put writes; or HVD_ERR_NO_MEMORY. */
int wire_get(struct wire_reader *reader, struct wire_record *record, struct hvd_error *err);

/* Release what a record owns. */
void wire_clear(struct wire_record *record);

/* Is bit [i] of an IDS or RETIRE record set? */
static inline bool wire_has_id(const struct wire_record *record, uint32_t i)
{
    return (record->bits[i / 8] >> i % 8 & 1) != 0;
}

#endif
