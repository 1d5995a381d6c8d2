/* frame.h: encodes and decodes frames, the records on the byte streams of the control tree. Pure. */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A frame is a header of 24 bytes, little-endian, and a payload:
 *   0 magic (4)   4 protocol version (2)   6 type (2)   8 epoch (4)   12 zero (4)   16 payload length (8) */
#define FRAME_MAGIC          UINT32_C(0x46647668) /* "hvdF" as bytes */
#define FRAME_VERSION        1                    /* of the control protocol; equal on all ranks */
#define FRAME_HEADER_BYTES   24
#define FRAME_MESSAGE_BYTES  (INT64_C(1) << 30) /* longest message */
#define FRAME_SENTENCE_BYTES 511                /* longest sentence of an abort, as in struct hvd_error */
#define FRAME_ABORT_BYTES    (8 + FRAME_SENTENCE_BYTES)

enum frame_type {
    FRAME_MESSAGE = 1,  /* what the caller sent */
    FRAME_ABORT = 2,    /* status (4), rank (4), sentence */
    FRAME_FAREWELL = 3, /* empty: the sender leaves, so the end of this stream is not the loss of a rank */
    FRAME_BEAT = 4      /* empty: the sender's process runs */
};

/* The types that are allowed at some place are a set of these bits. */
#define FRAME_ALLOW(type) (1u << (type))

struct frame {
    enum frame_type type;
    uint32_t epoch;
    const unsigned char *payload;
    size_t length; /* of the payload */
};

struct frame_abort {
    int status;
    int rank;
    char sentence[FRAME_SENTENCE_BYTES + 1];
};

void frame_encode(unsigned char header[FRAME_HEADER_BYTES], enum frame_type type, uint32_t epoch,
                  size_t length);

/* Decode the frame at the start of [bytes], [have] of which have arrived. HVD_OK: [frame] is filled and
 * points into [bytes]. HVD_IN_PROGRESS: the rest of the frame has not arrived. HVD_ERR_SYSTEM: these bytes
 * are not a frame of an [allowed] type; the sentence is a phrase such as "a frame of type 9, expected
 * ...", and *frame is unchanged. */
int frame_decode(const void *bytes, size_t have, unsigned allowed, struct frame *frame,
                 struct hvd_error *err);

/* Fill [abort]. A status that is not an error becomes HVD_ERR_SYSTEM, bytes that are not printable become
 * '?', and a sentence that is too long is cut and ends in "...". */
void frame_abort_set(struct frame_abort *abort, int status, int rank, const char *sentence);

/* Write the payload of an abort; returns its length. */
size_t frame_abort_encode(unsigned char payload[FRAME_ABORT_BYTES], const struct frame_abort *abort);

/* The reverse, in a job of [size] ranks. HVD_ERR_SYSTEM with a phrase, and *abort unchanged, if the
 * payload breaks a rule: the status is an error, the rank exists, and the sentence is printable. */
int frame_abort_decode(const void *payload, size_t length, int size, struct frame_abort *abort,
                       struct hvd_error *err);

#endif
