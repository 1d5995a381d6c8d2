/* seats.c: which slot of an elastic job is on which host. */
#include "tools/hvdrun/agent/seats.h"

#include <stdlib.h>
#include <string.h>

int seats_init(struct seats *seats, int slots, struct hvd_error *err)
{
    *seats = (struct seats){.slots = slots};
    seats->seats = calloc((size_t)slots, sizeof(*seats->seats));
    if (seats->seats == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a job of %d ranks", slots);
    for (int slot = 0; slot < slots; slot++)
        seats->seats[slot].host = -1;
    return HVD_OK;
}

void seats_fini(struct seats *seats)
{
    for (int host = 0; host < seats->host_count; host++)
        free(seats->hosts[host].name);
    free(seats->hosts);
    free(seats->seats);
    *seats = (struct seats){.hosts = NULL};
}

int seats_add_host(struct seats *seats, const char *name)
{
    if (seats->host_count == seats->host_room) {
        int room = seats->host_room == 0 ? 16 : 2 * seats->host_room;
        struct seat_host *hosts = realloc(seats->hosts, (size_t)room * sizeof(*hosts));
        if (hosts == NULL)
            return -1;
        seats->hosts = hosts;
        seats->host_room = room;
    }
    struct seat_host *host = &seats->hosts[seats->host_count];
    *host = (struct seat_host){.name = strdup(name)};
    return host->name == NULL ? -1 : seats->host_count++;
}

int seats_find_host(const struct seats *seats, const char *name)
{
    for (int host = 0; host < seats->host_count; host++)
        if (strcmp(seats->hosts[host].name, name) == 0)
            return host;
    return -1;
}

static bool has_room(const struct seats *seats, const struct seat *seat)
{
    return seat->host >= 0 && seats->hosts[seat->host].up && seat->place < seats->hosts[seat->host].places;
}

static bool takes_ranks(const struct seat_host *host)
{
    return host->up && !host->rests;
}

static bool is_taken(const struct seats *seats, int host, int place)
{
    for (int slot = 0; slot < seats->slots; slot++)
        if (seats->seats[slot].host == host && seats->seats[slot].place == place)
            return true;
    return false;
}

/* The next free place after [seat]; its host is -1 if there is none. */
static void move_to_free_place(const struct seats *seats, struct seat *seat)
{
    for (; seat->host < seats->host_count; *seat = (struct seat){seat->host + 1, 0})
        for (; takes_ranks(&seats->hosts[seat->host]) && seat->place < seats->hosts[seat->host].places;
             seat->place++)
            if (!is_taken(seats, seat->host, seat->place))
                return;
    seat->host = -1;
}

int seats_places(const struct seats *seats)
{
    int count = 0;
    for (int host = 0; host < seats->host_count; host++)
        count += seats->hosts[host].up ? seats->hosts[host].places : 0;
    return count;
}

int seats_free(const struct seats *seats)
{
    int count = seats_places(seats);
    for (int slot = 0; slot < seats->slots; slot++)
        count -= has_room(seats, &seats->seats[slot]);
    return count;
}

void seats_assign(struct seats *seats, const bool *used, bool *room)
{
    struct seat next = {0, 0};
    for (int slot = 0; slot < seats->slots; slot++)
        if (!used[slot])
            seats->seats[slot].host = -1;
    move_to_free_place(seats, &next);
    for (int slot = 0; slot < seats->slots; slot++) {
        struct seat *seat = &seats->seats[slot];
        if (!used[slot] && next.host >= 0) {
            *seat = next;
            next.place++;
            move_to_free_place(seats, &next);
        }
        room[slot] = has_room(seats, seat);
    }
}

void seats_place(struct seats *seats, int slot, int size, struct launch_place *place)
{
    const struct seat *seat = &seats->seats[slot];
    *place = (struct launch_place){.rank = slot, .size = size, .local_rank = seat->place};
    for (int host = 0; host < seats->host_count; host++)
        seats->hosts[host].ranks = 0;
    for (int other = 0; other < size; other++)
        if (seats->seats[other].host >= 0)
            seats->hosts[seats->seats[other].host].ranks++;
    for (int host = 0; host < seats->host_count; host++) {
        bool counts = seats->hosts[host].ranks > 0;
        place->node += counts && host < seat->host;
        place->node_count += counts;
    }
    int there = seats->hosts[seat->host].ranks;
    place->local_size = there > seat->place ? there : seat->place + 1;
}
