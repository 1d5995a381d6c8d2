/* roster.h: who is in the job and where each rank can be reached; filled at the job's start by way of wire-up. */
#ifndef CONTROL_ROSTER_H
#define CONTROL_ROSTER_H

#include <netinet/in.h>

#include "control/wireup.h"

#define ROSTER_KEY_BYTES     32
#define ROSTER_MAX_ADDRESSES 8

struct roster_peer {
    char host[256];
    int32_t pid;
    uint16_t port;                                        /* of its endpoint */
    uint8_t address_count;
    struct in6_addr addresses[ROSTER_MAX_ADDRESSES];      /* IPv4 as ::ffff:a.b.c.d */
    int leader;                                           /* lowest rank that shares memory with it: its node */
};

struct roster {
    int rank, size;
    uint32_t epoch;
    unsigned char key[ROSTER_KEY_BYTES]; /* of the job: rank 0 drew it */
    struct roster_peer *peers;           /* [size] */
    int *node_of_rank;                   /* [size]: peers[i].leader, as shape_of_rank takes it */
};

/* "rank 3 (n2)" into [text], for sentences. */
void roster_name(const struct roster *roster, int rank, char *text, size_t text_bytes);

#endif
