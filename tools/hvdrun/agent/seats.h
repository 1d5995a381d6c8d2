/* seats.h: which slot of an elastic job is on which host. Pure. */
#ifndef TOOLS_HVDRUN_AGENT_SEATS_H
#define TOOLS_HVDRUN_AGENT_SEATS_H

#include <stdbool.h>

#include "base/launch_variables.h"
#include "tools/hvdrun/launcher/hosts.h"

/* A host, which has so many places for ranks. */
struct seat_host {
    char *name; /* stays valid when hosts are added */
    int places;
    bool up;    /* it can start ranks */
    bool rests; /* but no other ones than run there, for a while */
    int ranks;  /* by seats_place */
};

/* Where a slot is. */
struct seat {
    int host; /* -1: nowhere */
    int place;
};

struct seats {
    struct seat_host *hosts;
    int host_count, host_room;
    int slots;
    struct seat *seats; /* [slots] */
};

int seats_init(struct seats *seats, int slots, struct hvd_error *err);
void seats_fini(struct seats *seats);

/* A new host without places, which is not up. Returns its index, or -1 if memory is out. */
int seats_add_host(struct seats *seats, const char *name);

/* The host of this name; -1: there is none. */
int seats_find_host(const struct seats *seats, const char *name);

/* Slots that are [used] stay where they are; the others get the free places of hosts that do not rest, in the
 * order of the slots and of the hosts. [room] says which slots have a place on a host that is up. */
void seats_assign(struct seats *seats, const bool *used, bool *room);

/* The place of the rank in [slot] among those of the first [size] slots: of its node those that have a rank,
 * and of its ranks those that are there. */
void seats_place(struct seats *seats, int slot, int size, struct launch_place *place);

/* The places of hosts that are up, resting ones too, and those of them that no slot has. */
int seats_places(const struct seats *seats);
int seats_free(const struct seats *seats);

#endif
