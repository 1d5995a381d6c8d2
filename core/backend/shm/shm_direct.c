/* shm_direct.c: batches in place: an allreduce is reduced in the members' windows, where it lies. */
#include "backend/shm/shm_direct.h"

#include <stdlib.h>
#include <string.h>

#include "backend/shm/shm_team.h"
#include "backend/backend_env.h"

/* One member reduces a chunk. After each burst it returns, so that the clock is read. It works in blocks that
 * stay in the first-level cache while they are copied to the members' outputs. There are several chunks for
 * each member, so that a late member does fewer. */
#define CHUNK_BYTES       ((int64_t)256 * 1024)
#define LEAST_CHUNK_BYTES ((int64_t)16 * 1024)
#define CHUNKS_EACH       8
#define BURST_BYTES       ((int64_t)32 * 1024)
#define BLOCK_BYTES       ((int64_t)2048)

/* What a member publishes in its slot. */
struct direct_offer {
    int64_t range_count; /* 0: its memory is not all in its window, or lies in too many ranges */
    int64_t opened;      /* how many bytes of the window it has opened */
    int window;
    struct direct_range ranges[];
};

static struct direct_offer *offer_of(const struct shm_team *team, int member)
{
    return (struct direct_offer *)(void *)slots_input(&team->slots, member, team->begin);
}

static int64_t room_for_ranges(const struct shm_team *team)
{
    return (team->slots.slot_bytes - (int64_t)sizeof(struct direct_offer)) /
           (int64_t)sizeof(struct direct_range);
}

/* ---- Publishing ----------------------------------------------------------------------------- */

static bool find_range(const struct shm_team *team, const struct contig *place, int64_t begin,
                       struct direct_range *range)
{
    int64_t bytes = place->count * team->element_bytes;
    *range = (struct direct_range){.begin = begin, .count = place->count};
    return windows_offset_of(team->direct.windows, place->input, bytes, &range->input) &&
           windows_offset_of(team->direct.windows, place->output, bytes, &range->output);
}

/* Do the input and the output of [next] lie directly behind those of [range]? */
static bool continues(const struct direct_range *range, const struct direct_range *next,
                      int64_t element_bytes)
{
    uint64_t bytes = (uint64_t)(range->count * element_bytes);
    return range->input + bytes == next->input && range->output + bytes == next->output;
}

/* Returns how many ranges there are; 0: some memory is not in the window, or the slot has no room for all
 * ranges. */
static int64_t list_ranges(struct shm_team *team, struct direct_range *ranges)
{
    struct span_cursor places = {&team->batch, team->element_bytes, 0};
    int64_t room = room_for_ranges(team);
    int64_t count = 0;
    struct contig place;
    for (int64_t at = 0; at < team->batch.count; at += place.count) {
        struct direct_range range;
        place = spans_at(&places, at, team->batch.count - at);
        if (!find_range(team, &place, at, &range))
            return 0;
        if (count > 0 && continues(&ranges[count - 1], &range, team->element_bytes))
            ranges[count - 1].count += range.count;
        else if (count == room)
            return 0;
        else
            ranges[count++] = range;
    }
    return count;
}

/* This member is done with the single chunk that the batch takes in the slots. */
static void release_slots(struct shm_team *team)
{
    team->collected = team->end = team->begin + 1;
    slots_advance(&team->slots, SLOTS_REDUCED, team->end);
}

static void fall_back_to_pipeline(struct shm_team *team)
{
    team->direct.phase = DIRECT_OFF;
    release_slots(team);
    shm_pipeline_begin(team);
}

/* Publish the ranges once the slot is free. A member that cannot say where its elements lie knows how the
 * batch goes on, so it goes on at once. */
static bool publish_ranges(struct shm_team *team)
{
    if (!slots_all_reached(&team->slots, SLOTS_REDUCED, counters_reusable_at(team->begin)))
        return false;
    struct direct_offer *offer = offer_of(team, team->members.rank);
    offer->window = team->direct.windows->own;
    offer->opened = windows_own_bytes(team->direct.windows);
    int64_t range_count = list_ranges(team, offer->ranges);
    offer->range_count = range_count;
    slots_advance(&team->slots, SLOTS_PUBLISHED, team->begin + 1);
    team->direct.phase = DIRECT_ATTACH;
    if (range_count == 0)
        fall_back_to_pipeline(team);
    return true;
}

/* ---- Reading what others published ---------------------------------------------------------- */

static int overwritten(const struct shm_team *team, int member, struct hvd_error *err)
{
    return error_set(
        err, HVD_ERR_SYSTEM,
        "backend shm: rank %d published memory outside its window in process set %d: this node's "
        "shared memory was overwritten",
        team->members.ranks[member], team->members.set);
}

/* Open the members' windows, as far as they have opened them themselves. */
static int open_windows(struct shm_team *team, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < team->members.size; i++) {
        const volatile struct direct_offer *offer = offer_of(team, i);
        rc = windows_open(team->direct.windows, team->direct.members[i].window, offer->opened, err);
        if (rc == HVD_ERR_INVALID)
            rc = overwritten(team, i, err);
    }
    return rc;
}

/* Read what the members published, once all have; *movedp says whether they have. */
static int read_offers(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    bool all_can = true;
    *movedp = slots_all_reached(&team->slots, SLOTS_PUBLISHED, team->begin + 1);
    if (!*movedp)
        return HVD_OK;
    for (int i = 0; i < team->members.size; i++) {
        const volatile struct direct_offer *offer = offer_of(team, i);
        int64_t range_count = offer->range_count;
        if (range_count < 0 || range_count > room_for_ranges(team))
            return overwritten(team, i, err);
        all_can = all_can && range_count > 0;
        team->direct.members[i] = (struct direct_member){
            .ranges = offer->ranges, .range_count = range_count, .window = offer->window};
    }
    team->direct.phase = DIRECT_REDUCE;
    if (all_can)
        return open_windows(team, err);
    fall_back_to_pipeline(team);
    return HVD_OK;
}

/* ---- Reducing ------------------------------------------------------------------------------- */

/* Go to the next range; false if there is none, or not a possible one. Others can write there at any time, so
 * a range is copied before it is checked. */
static bool next_range(const struct shm_team *team, struct direct_member *member)
{
    const struct windows *windows = team->direct.windows;
    if (member->next == member->range_count)
        return false;
    struct direct_range range = {member->ranges[member->next].begin, member->ranges[member->next].count,
                                 member->ranges[member->next].input, member->ranges[member->next].output};
    if (range.begin < 0 || range.count <= 0 || range.count > team->batch.count - range.begin)
        return false;
    member->range = range;
    member->next++;
    member->input = windows_pointer(windows, member->window, range.input, range.count * team->element_bytes);
    member->output =
        windows_pointer(windows, member->window, range.output, range.count * team->element_bytes);
    return member->input != NULL && member->output != NULL;
}

/* Go on to the range that holds [element]. Elements only ever increase, also from chunk to chunk. */
static bool find_element(const struct shm_team *team, struct direct_member *member, int64_t element)
{
    while (element >= member->range.begin + member->range.count) {
        if (!next_range(team, member))
            return false;
    }
    return element >= member->range.begin;
}

/* Reduce *countp to the elements from [element] on that are contiguous on all members, and set team->inputs
 * to them. */
static int find_block(struct shm_team *team, int64_t element, int64_t *countp, struct hvd_error *err)
{
    struct shm_direct *direct = &team->direct;
    for (int i = 0; i < team->members.size; i++) {
        struct direct_member *member = &direct->members[i];
        if (!find_element(team, member, element))
            return overwritten(team, i, err);
        int64_t left = member->range.begin + member->range.count - element;
        *countp = left < *countp ? left : *countp;
        team->inputs[i] = member->input + (element - member->range.begin) * team->element_bytes;
    }
    return HVD_OK;
}

static char *output_of(const struct shm_team *team, int i, int64_t element)
{
    const struct direct_member *member = &team->direct.members[i];
    return member->output + (element - member->range.begin) * team->element_bytes;
}

static int reduce_block(struct shm_team *team, int64_t element, int64_t *countp, struct hvd_error *err)
{
    int rc = find_block(team, element, countp, err);
    if (rc != HVD_OK)
        return rc;
    char *own = output_of(team, team->members.rank, element);
    reduce_inputs(&team->steps, own, NULL, team->inputs, team->members.size, *countp);
    for (int i = 0; i < team->members.size; i++) {
        if (i != team->members.rank)
            memcpy(output_of(team, i, element), own, (size_t)(*countp * team->element_bytes));
    }
    return HVD_OK;
}

/* Claim the next chunk that no member has claimed. */
static bool claim(struct shm_team *team)
{
    struct shm_direct *direct = &team->direct;
    uint64_t chunk;
    if (!slots_claim(&team->slots, direct->begin, direct->end, &chunk))
        return false;
    direct->at = (int64_t)(chunk - direct->begin) * direct->chunk_count;
    int64_t left = team->batch.count - direct->at;
    direct->left = left < direct->chunk_count ? left : direct->chunk_count;
    return true;
}

static int reduce_piece(struct shm_team *team, struct hvd_error *err)
{
    struct shm_direct *direct = &team->direct;
    int64_t most = BLOCK_BYTES / team->element_bytes;
    int64_t piece = BURST_BYTES / team->element_bytes;
    int rc = HVD_OK;
    while (rc == HVD_OK && direct->left > 0 && piece > 0) {
        int64_t count = direct->left < most ? direct->left : most;
        rc = reduce_block(team, direct->at, &count, err);
        direct->at += count;
        direct->left -= count;
        piece -= count;
    }
    return rc;
}

/* Reduce a burst of this member's chunk, or of the next one that it can claim. If there is none, it is done.
 */
static int reduce(struct shm_team *team, struct hvd_error *err)
{
    if (team->direct.left > 0 || claim(team))
        return reduce_piece(team, err);
    release_slots(team);
    team->direct.phase = DIRECT_DRAIN;
    return HVD_OK;
}

/* ---- The batch ------------------------------------------------------------------------------ */

int shm_direct_progress(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    *movedp = false;
    switch (team->direct.phase) {
    case DIRECT_PUBLISH:
        *movedp = publish_ranges(team);
        break;
    case DIRECT_ATTACH:
        rc = read_offers(team, movedp, err);
        break;
    case DIRECT_REDUCE:
        *movedp = true;
        rc = reduce(team, err);
        break;
    default:
        return slots_all_reached(&team->slots, SLOTS_REDUCED, team->end) ? HVD_OK : HVD_IN_PROGRESS;
    }
    return rc == HVD_OK ? HVD_IN_PROGRESS : rc;
}

void shm_direct_awaited(struct shm_team *team, uint64_t awaited[SLOTS_COUNTERS])
{
    switch (team->direct.phase) {
    case DIRECT_PUBLISH:
        awaited[SLOTS_REDUCED] = counters_reusable_at(team->begin);
        break;
    case DIRECT_ATTACH:
        awaited[SLOTS_PUBLISHED] = team->begin + 1;
        break;
    case DIRECT_DRAIN:
        awaited[SLOTS_REDUCED] = team->end;
        break;
    default:
        break;
    }
}

/* Whole cache lines, which hold whole elements of any type. */
static int64_t chunk_bytes_of(int64_t bytes, int members)
{
    int64_t chunk = bytes / members / CHUNKS_EACH / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    if (chunk > CHUNK_BYTES)
        return CHUNK_BYTES;
    return chunk < LEAST_CHUNK_BYTES ? LEAST_CHUNK_BYTES : chunk;
}

bool shm_direct_begin(struct shm_team *team)
{
    struct shm_direct *direct = &team->direct;
    const struct backend_batch *batch = &team->batch;
    direct->phase = DIRECT_OFF;
    if (batch->need.kind != COLL_ALLREDUCE || batch->count < direct->least_bytes / team->element_bytes)
        return false;
    direct->phase = DIRECT_PUBLISH;
    direct->chunk_count =
        chunk_bytes_of(batch->count * team->element_bytes, team->members.size) / team->element_bytes;
    direct->begin = direct->end;
    direct->end = direct->begin + (uint64_t)((batch->count + direct->chunk_count - 1) / direct->chunk_count);
    direct->left = 0;
    return true;
}

bool shm_direct_open(struct shm_team *team, const struct backend_env *env)
{
    static const struct windows none;
    team->direct = (struct shm_direct){
        .windows = env->windows == NULL ? &none : env->windows,
        .least_bytes = SHM_DIRECT_BYTES,
        .members = calloc((size_t)team->members.size, sizeof(*team->direct.members)),
    };
    return team->direct.members != NULL;
}

void shm_direct_close(struct shm_team *team)
{
    free(team->direct.members);
}
