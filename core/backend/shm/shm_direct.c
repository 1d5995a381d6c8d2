/* shm_direct.c: the third way of batches in the plane of shared memory: reduced where they lie. */
#include "backend/shm/shm_direct.h"

#include <stdlib.h>
#include <string.h>

#include "backend/shm/shm_team.h"

/* A chunk is done by one member, by so much before it looks at the clock, in blocks that stay in the fastest
 * cache while they are copied to the members' outputs. There are some for each member, so that whoever is
 * late does fewer. */
#define CHUNK_BYTES       ((int64_t)256 * 1024)
#define LEAST_CHUNK_BYTES ((int64_t)16 * 1024)
#define CHUNKS_EACH       8
#define PIECE_BYTES       ((int64_t)32 * 1024)
#define BLOCK_BYTES       ((int64_t)2048)

/* What a member tells, in its slot. */
struct told {
    int64_t run_count; /* 0: not all of its memory is in its window */
    int64_t opened;    /* of that */
    int place;
    struct direct_run runs[];
};

static struct told *told_by(const struct shm_team *team, int member)
{
    return (struct told *)(void *)slots_given(&team->slots, member, team->begin);
}

static int64_t room_for_runs(const struct shm_team *team)
{
    return (team->slots.slot_bytes - (int64_t)sizeof(struct told)) / (int64_t)sizeof(struct direct_run);
}

/* ---- Telling -------------------------------------------------------------------------------- */

static bool find_run(const struct shm_team *team, const struct place *place, int64_t begin,
                     struct direct_run *run)
{
    int64_t bytes = place->count * team->element_bytes;
    *run = (struct direct_run){.begin = begin, .count = place->count};
    return windows_find(team->direct.windows, place->input, bytes, &run->input) &&
           windows_find(team->direct.windows, place->output, bytes, &run->output);
}

/* Do both lie behind what there is? */
static bool continues(const struct direct_run *run, const struct direct_run *next, int64_t element_bytes)
{
    uint64_t bytes = (uint64_t)(run->count * element_bytes);
    return run->input + bytes == next->input && run->output + bytes == next->output;
}

/* Returns how many runs there are; 0: there is no window for some, or no room to tell. */
static int64_t list_runs(struct shm_team *team, struct direct_run *runs)
{
    struct places places = {&team->batch, team->element_bytes, 0};
    int64_t room = room_for_runs(team);
    int64_t count = 0;
    struct place place;
    for (int64_t at = 0; at < team->batch.count; at += place.count) {
        struct direct_run run;
        place = place_at(&places, at, team->batch.count - at);
        if (!find_run(team, &place, at, &run))
            return 0;
        if (count > 0 && continues(&runs[count - 1], &run, team->element_bytes))
            runs[count - 1].count += run.count;
        else if (count == room)
            return 0;
        else
            runs[count++] = run;
    }
    return count;
}

/* This member is through with the chunk of slots that the batch is. */
static void leave_slots(struct shm_team *team)
{
    team->taken = team->end = team->begin + 1;
    slots_come_to(&team->slots, STEP_MIXED, team->end);
}

static void go_by_copies(struct shm_team *team)
{
    team->direct.stage = DIRECT_NOT;
    leave_slots(team);
    shm_copies_begin(team);
}

/* Once the slot is free for it. Who cannot say where its elements lie knows how the batch goes on. */
static bool tell(struct shm_team *team)
{
    if (!slots_all_have(&team->slots, STEP_MIXED, slots_before(team->begin)))
        return false;
    struct told *told = told_by(team, team->members.rank);
    told->place = team->direct.windows->own;
    told->opened = windows_own(team->direct.windows);
    int64_t run_count = list_runs(team, told->runs);
    told->run_count = run_count;
    slots_come_to(&team->slots, STEP_GIVEN, team->begin + 1);
    team->direct.stage = DIRECT_HEARS;
    if (run_count == 0)
        go_by_copies(team);
    return true;
}

/* ---- Hearing -------------------------------------------------------------------------------- */

static int overwritten(const struct shm_team *team, int member, struct hvd_error *err)
{
    return error_set(err, HVD_ERR_SYSTEM,
                     "plane shm: rank %d told of memory outside its window in process set %d: this node's "
                     "shared memory was overwritten",
                     team->members.ranks[member], team->members.set);
}

/* As far as the others have opened theirs. */
static int open_windows(struct shm_team *team, struct hvd_error *err)
{
    int rc = HVD_OK;
    for (int i = 0; rc == HVD_OK && i < team->members.size; i++) {
        const volatile struct told *told = told_by(team, i);
        rc = windows_open(team->direct.windows, team->direct.members[i].place, told->opened, err);
        if (rc == HVD_ERR_INVALID)
            rc = overwritten(team, i, err);
    }
    return rc;
}

/* Once all have told. */
static int hear(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    bool all_can = true;
    *movedp = slots_all_have(&team->slots, STEP_GIVEN, team->begin + 1);
    if (!*movedp)
        return HVD_OK;
    for (int i = 0; i < team->members.size; i++) {
        const volatile struct told *told = told_by(team, i);
        int64_t run_count = told->run_count;
        if (run_count < 0 || run_count > room_for_runs(team))
            return overwritten(team, i, err);
        all_can = all_can && run_count > 0;
        team->direct.members[i] =
            (struct direct_member){.runs = told->runs, .run_count = run_count, .place = told->place};
    }
    team->direct.stage = DIRECT_REDUCES;
    if (all_can)
        return open_windows(team, err);
    go_by_copies(team);
    return HVD_OK;
}

/* ---- Reducing ------------------------------------------------------------------------------- */

/* Others write there at any time: a run is copied before it is checked. */
static bool next_run(const struct shm_team *team, struct direct_member *member)
{
    const struct windows *windows = team->direct.windows;
    if (member->next == member->run_count)
        return false;
    struct direct_run run = {member->runs[member->next].begin, member->runs[member->next].count,
                             member->runs[member->next].input, member->runs[member->next].output};
    if (run.begin < 0 || run.count <= 0 || run.count > team->batch.count - run.begin)
        return false;
    member->run = run;
    member->next++;
    member->input = windows_reach(windows, member->place, run.input, run.count * team->element_bytes);
    member->output = windows_reach(windows, member->place, run.output, run.count * team->element_bytes);
    return member->input != NULL && member->output != NULL;
}

/* Come to the run that holds the element; chunks only ever come later. */
static bool find_element(const struct shm_team *team, struct direct_member *member, int64_t element)
{
    while (element >= member->run.begin + member->run.count) {
        if (!next_run(team, member))
            return false;
    }
    return element >= member->run.begin;
}

/* As many of the [count] elements from [element] on as lie together on all members. */
static int find_block(struct shm_team *team, int64_t element, int64_t *countp, struct hvd_error *err)
{
    struct shm_direct *direct = &team->direct;
    for (int i = 0; i < team->members.size; i++) {
        struct direct_member *member = &direct->members[i];
        if (!find_element(team, member, element))
            return overwritten(team, i, err);
        int64_t left = member->run.begin + member->run.count - element;
        *countp = left < *countp ? left : *countp;
        team->inputs[i] = member->input + (element - member->run.begin) * team->element_bytes;
    }
    return HVD_OK;
}

static char *output_of(const struct shm_team *team, int i, int64_t element)
{
    const struct direct_member *member = &team->direct.members[i];
    return member->output + (element - member->run.begin) * team->element_bytes;
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

/* The next chunk that nobody does. */
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
    int64_t piece = PIECE_BYTES / team->element_bytes;
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

/* A piece of this member's chunk, or of the next one; without any it is through. */
static int reduce(struct shm_team *team, struct hvd_error *err)
{
    if (team->direct.left > 0 || claim(team))
        return reduce_piece(team, err);
    leave_slots(team);
    team->direct.stage = DIRECT_ENDS;
    return HVD_OK;
}

/* ---- The batch ------------------------------------------------------------------------------ */

int shm_direct_go_on(struct shm_team *team, bool *movedp, struct hvd_error *err)
{
    int rc = HVD_OK;
    *movedp = false;
    switch (team->direct.stage) {
    case DIRECT_TELLS:
        *movedp = tell(team);
        break;
    case DIRECT_HEARS:
        rc = hear(team, movedp, err);
        break;
    case DIRECT_REDUCES:
        *movedp = true;
        rc = reduce(team, err);
        break;
    default:
        return slots_all_have(&team->slots, STEP_MIXED, team->end) ? HVD_OK : HVD_IN_PROGRESS;
    }
    return rc == HVD_OK ? HVD_IN_PROGRESS : rc;
}

void shm_direct_wants(struct shm_team *team, uint64_t wants[STEPS])
{
    switch (team->direct.stage) {
    case DIRECT_TELLS:
        wants[STEP_MIXED] = slots_before(team->begin);
        break;
    case DIRECT_HEARS:
        wants[STEP_GIVEN] = team->begin + 1;
        break;
    case DIRECT_ENDS:
        wants[STEP_MIXED] = team->end;
        break;
    default:
        break;
    }
}

/* Whole lines of all types. */
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
    const struct plane_batch *batch = &team->batch;
    direct->stage = DIRECT_NOT;
    if (batch->need.kind != PLANE_ALLREDUCE || batch->count < direct->least_bytes / team->element_bytes)
        return false;
    direct->stage = DIRECT_TELLS;
    direct->chunk_count =
        chunk_bytes_of(batch->count * team->element_bytes, team->members.size) / team->element_bytes;
    direct->begin = direct->end;
    direct->end = direct->begin + (uint64_t)((batch->count + direct->chunk_count - 1) / direct->chunk_count);
    direct->left = 0;
    return true;
}

bool shm_direct_open(struct shm_team *team, const struct plane_env *env)
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
