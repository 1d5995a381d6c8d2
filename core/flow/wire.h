/* wire.h: records of the negotiation to and from bytes. Pure; the reader takes hostile bytes. */
#ifndef FLOW_WIRE_H
#define FLOW_WIRE_H

#include "base/status.h"
#include "flow/desc.h"

/* A message is a list of records. Upwards a record says what is ready on every rank of the sender's subtree,
 * downwards what every rank is to do, in order. */
enum wire_type {
    WIRE_IDS = 1,      /* operations known by number: a window of a bitmap, ascending */
    WIRE_NEW = 2,      /* one with its full description; downwards with its number and plane */
    WIRE_MISMATCH = 3, /* two ranks' descriptions that differ under one name */
    WIRE_LEAVING = 4   /* a rank has called hvd_shutdown */
};

#define WIRE_MAX_ID (UINT32_MAX - 1)

struct wire_record {
    enum wire_type type;
    uint32_t first_id, id_span; /* IDS: bit i of [bits] stands for first_id + i; i < id_span */
    const unsigned char *bits;  /* IDS: in the message */
    int rank;                   /* NEW, MISMATCH: whose [desc] it is; LEAVING: who leaves */
    struct desc desc;           /* NEW, MISMATCH */
    uint32_t id;                /* NEW downwards */
    int plane;                  /* NEW downwards: enum plane_id; -1 upwards and where none is needed */
    int other_rank;             /* MISMATCH */
    struct desc other;          /* MISMATCH */
};

/* A message being written. Zero it first. A failed allocation makes [failed] true and later puts do nothing.
 */
struct wire_writer {
    unsigned char *bytes;
    size_t length, capacity;
    bool failed;
};

void wire_put(struct wire_writer *writer, const struct wire_record *record);
/* Ids in ascending order; writes as many IDS records as the gaps between them make worthwhile. */
void wire_put_ids(struct wire_writer *writer, const uint32_t *ids, size_t count);
void wire_reset(struct wire_writer *writer); /* empty, memory kept */
void wire_free(struct wire_writer *writer);

/* A message being read. */
struct wire_reader {
    const unsigned char *at;
    size_t left;
    int rank_count; /* ranks of the job: what ranks and roots are checked against */
};

/* The next record: HVD_OK; HVD_IN_PROGRESS at the end of the message (*record unchanged); HVD_ERR_SYSTEM and
 * a sentence where the bytes are none that wire_put writes. */
int wire_get(struct wire_reader *reader, struct wire_record *record, struct hvd_error *err);

#endif
