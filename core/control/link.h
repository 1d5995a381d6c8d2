/* link.h: frames to and from one neighbour in the control tree, over rings in shared memory or a socket. No
 * call blocks. */
#ifndef CONTROL_LINK_H
#define CONTROL_LINK_H

#include "net/seal.h"
#include "node/doorbell.h"
#include "net/frame.h"
#include "node/byte_ring.h"

/* Buffered bytes: [start, end) of [bytes]. */
struct link_buffer {
    unsigned char *bytes;
    size_t start, end, capacity;
};

struct link {
    int rank; /* at the other end */
    bool open;
    int fd;            /* the socket; -1: the link uses rings */
    struct seal *seal; /* of the socket; NULL: none. Owned */
    struct byte_ring_end out, in;
    struct doorbell_eventfd doorbell; /* the other end's */
    bool defers_rings;                /* see link_defer_rings */
    int polls_to_ring;                /* before the ring that is due; 0: none is */
    bool has_rung;                    /* see link_has_rung */
    struct link_buffer unsent;
    struct link_buffer received;
    size_t in_use;    /* bytes at the start of [received] that belong to the caller's frame */
    bool send_broken; /* the other end no longer receives */
    bool corrupt;     /* a ring's positions in shared memory are impossible */
    int cause;        /* errno of what ended the link; 0: the other end closed it */
};

enum link_event {
    LINK_NOTHING,
    LINK_FRAME,
    LINK_ENDED,   /* every frame was returned, and no more will come */
    LINK_CORRUPT, /* the bytes are no frame; [err] has a phrase */
    LINK_FAILED   /* this process is out of memory */
};

/* A closed link. */
void link_init(struct link *link);

/* [out] and [in] are empty rings. The descriptor of [doorbell] stays the caller's. */
void link_open_rings(struct link *link, int rank, struct byte_ring *out, struct byte_ring *in,
                     struct doorbell_eventfd doorbell);

/* Takes over [fd], which is non-blocking. */
void link_open_socket(struct link *link, int rank, int fd);

/* Send a frame; keep what does not fit now. HVD_ERR_NO_MEMORY: nothing was sent. If the link is closed or its
 * other end is gone the frame is dropped, and link_next reports the end. */
int link_send(struct link *link, enum frame_type type, uint32_t epoch, const void *payload, size_t length,
              struct hvd_error *err);

/* Send what was kept, as far as it fits. */
void link_flush(struct link *link);

/* The longest that a ring waits: longer than a program mostly takes from one operation to the next. */
#define LINK_POLLS_TO_RING 64

/* Let a ring to an armed end wait for so many polls, which this rank makes while it waits; or no longer, and
 * ring if it is due. A program between two operations mostly comes by itself before that, and a ring would
 * cost a system call here, and wake its hvd's thread there, on the core that its next operation may need. A
 * frame that is no message ends it: whatever this rank does next, such news must be seen. */
void link_defer_rings(struct link *link, bool defers);

/* Count a poll. */
void link_poll_ring(struct link *link);

/* Has a frame been rung for since the last call? */
bool link_has_rung(struct link *link);

/* Has everything been sent? */
bool link_flushed(const struct link *link);

/* The next frame of a type in [allowed]. Its payload is valid until link_release. */
enum link_event link_next(struct link *link, unsigned allowed, struct frame *frame, struct hvd_error *err);
void link_release(struct link *link);

/* Has part of a frame been received, but not all of it? */
bool link_has_partial_frame(const struct link *link);

/* Close the link. The other end still gets what was sent, unless it keeps sending. A closed link is fine. */
void link_close(struct link *link);

/* In a forked child: close the descriptor and touch nothing else. The buffers are not freed, as another
 * thread may have been using them when the process forked. */
void link_after_fork(struct link *link);

#endif
