/* link.h: frames to and from one relative in the control tree, over rings or a socket. Nothing here blocks.
 */
#ifndef CONTROL_LINK_H
#define CONTROL_LINK_H

#include "node/wakeup.h"
#include "net/frame.h"
#include "node/byte_ring.h"

/* Bytes that wait: [start, end) of [bytes]. */
struct link_buffer {
    unsigned char *bytes;
    size_t start, end, capacity;
};

struct link {
    int rank; /* at the other end */
    bool open;
    int fd; /* the socket, or -1: rings */
    struct byte_ring_end out, in;
    struct wakeup wakeup; /* the other end's */
    struct link_buffer unsent;
    struct link_buffer received;
    size_t borrowed;  /* bytes at the start of received that a frame is using */
    bool send_broken; /* the other end no longer takes what we send */
    bool corrupt;     /* a shared ring's positions make no sense */
    int cause;        /* errno of what ended it; 0: the other end closed it */
};

enum link_event {
    LINK_NOTHING,
    LINK_FRAME,
    LINK_ENDED,   /* all that came was given out and nothing more will come */
    LINK_CORRUPT, /* what came is no frame: a phrase is in [err] */
    LINK_FAILED   /* of this process: out of memory */
};

/* A closed link. */
void link_init(struct link *link);

/* [out] and [in] are empty rings; [wakeup] is borrowed. */
void link_open_rings(struct link *link, int rank, struct byte_ring *out, struct byte_ring *in,
                     struct wakeup wakeup);

/* Takes [fd], which does not block. */
void link_open_socket(struct link *link, int rank, int fd);

/* Send a frame, or keep what does not go now. HVD_ERR_NO_MEMORY: nothing was sent. On a link that is closed
 * or whose other end is gone it vanishes: the end is reported by link_next. */
int link_send(struct link *link, enum frame_type type, uint32_t epoch, const void *payload, size_t length,
              struct hvd_error *err);

/* Send on what was kept. */
void link_flush(struct link *link);

/* Nothing is kept. */
bool link_flushed(const struct link *link);

/* The next frame; it stays where it is until link_release. */
enum link_event link_next(struct link *link, unsigned allowed, struct frame *frame, struct hvd_error *err);
void link_release(struct link *link);

/* True when a frame has begun but has not ended. */
bool link_has_partial_frame(const struct link *link);

/* Close; the other end gets what was sent, unless it keeps sending. A closed link is fine. */
void link_close(struct link *link);

/* In a forked child: close the descriptor, touch nothing else. Its buffers stay behind, as another thread may
 * have been at work on them when the process forked. */
void link_after_fork(struct link *link);

#endif
