/* state_disk.c: the commits of a state in the folder of --hvd-state-dir: all ranks agree on the one from
 * which they go on, and rank 0 hands new ones to the writer.
 *
 * Only one rank reads the contents of a file, and the others get them from it, so that a file system that all
 * nodes share is read once, and no two ranks ever begin with different commits. */
#include "config.h"
#include "api/state_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/context.h"

#define PREFIX "hvd.state."

enum { RANK_BITS = 22, PATIENCE_MS = 10000 };

_Static_assert(COMMIT_NUMBER_MAX <= INT64_MAX >> RANK_BITS, "a number and a rank fit into one word");

/* ---- The state in the folder -------------------------------------------------------------------- */

static const char *folder_name(void)
{
    const struct context *context = context_get();
    return context == NULL ? "" : context->config.state_dir;
}

bool state_disk_is_used(const struct state *state)
{
    return folder_name()[0] != 0 && commits_count(state->commits) > 0;
}

/* Get a number, the folder and the list of pieces, unless the state has them. */
static int prepare_commit(struct state *state, const char *name, struct hvd_error *err)
{
    struct state_disk *disk = &state->disk;
    int count = name != NULL ? 1 : commits_count(state->commits);
    int rc = HVD_OK;
    if (disk->folder.state == 0) {
        disk->folder.state = states_count_on_disk();
        disk->last_slot = -1;
    }
    if (disk->folder.path[0] == 0)
        rc = commit_folder_init(&disk->folder, folder_name(), disk->folder.state, err);
    if (rc != HVD_OK)
        return rc;
    if (disk->pieces == NULL)
        disk->pieces = calloc((size_t)count, sizeof(*disk->pieces));
    if (disk->pieces == NULL)
        return error_set_errno(err, "no memory for the names of %d parts", count);
    for (int i = 0; i < count; i++) {
        const struct commits_part *part = name != NULL ? NULL : commits_part(state->commits, i);
        const char *its_name = name != NULL ? name : part->name;
        memcpy(disk->pieces[i].name, its_name, strlen(its_name) + 1);
        disk->pieces[i].bytes = name != NULL ? -1 : part->bytes;
        disk->pieces[i].data = NULL;
    }
    return HVD_OK;
}

/* ---- Which commit ------------------------------------------------------------------------------- */

/* The search for the newest commit, on one rank. */
struct search {
    const char *call;
    const struct hvd_log *log;
    int rank;
    const struct commit_folder *folder;
    struct commit_piece *pieces;
    int count;
    struct commit_found found[COMMIT_SLOTS];
    int status; /* why this rank cannot search, or HVD_OK */
    struct hvd_error why;
    int winner; /* the rank that has read the commit */
    int slot;   /* on it */
};

/* What each rank says, and gets: the minimum over all ranks. */
enum {
    CANDIDATE, /* minus the newest commit's number, and the rank; INT64_MAX: none */
    PROBLEM,   /* the rank, and what is wrong with a file there; INT64_MAX: nothing */
    WORDS
};

static int meet(int64_t *words, int count)
{
    struct hvd_tensor tensor = hvd_vector(PREFIX "disk", words, count, HVD_INT64);
    tensor.memory = HVD_MEMORY_HOST;
    return hvd_allreduce(&tensor, HVD_MIN, NULL);
}

static const struct hvd_error *problem_of(const struct search *search, int *statusp)
{
    const struct hvd_error *why = &search->why;
    *statusp = search->status;
    for (int slot = 0; *statusp == HVD_OK && slot < COMMIT_SLOTS; slot++) {
        *statusp = search->found[slot].status;
        why = &search->found[slot].why;
    }
    return why;
}

static int64_t problem_word(const struct search *search)
{
    int status = HVD_OK;
    problem_of(search, &status);
    return status == HVD_OK ? INT64_MAX : ((int64_t)search->rank << 8) - status;
}

/* No rank has a commit that can be used. HVD_OK if none has a file. */
static int judge(const struct search *search, int64_t problem)
{
    int own = HVD_OK, rc = (int)-(problem & 255);
    const struct hvd_error *why = problem_of(search, &own);
    if (problem == INT64_MAX)
        return HVD_OK;
    if (own != HVD_OK)
        return error_set(context_error(), rc,
                         "%s: %s; no commit in --hvd-state-dir can be used: start the program that wrote "
                         "them, name another folder, or remove hvd-state.* there to begin anew",
                         search->call, why->text);
    return error_set(context_error(), rc,
                     "%s: rank %" PRId64 " cannot use the commits in --hvd-state-dir, and says why",
                     search->call, problem >> 8);
}

/* On the rank that has read a commit: say that it is not what it could have been. */
static void warn_of_others(const struct search *search)
{
    for (int slot = 0; slot < COMMIT_SLOTS; slot++)
        if (search->found[slot].status != HVD_OK)
            log_write(search->log, LOG_WARN, "state", "%s; training goes on from commit %" PRId64 " instead",
                      search->found[slot].why.text, search->found[search->slot].number);
}

/* Rank [winner] could not use its commit [number]. Where that is the file's fault, no other rank tries the
 * same file. */
static void drop(struct search *search, int64_t number, int64_t identity)
{
    for (int slot = 0; slot < COMMIT_SLOTS; slot++) {
        struct commit_found *found = &search->found[slot];
        if (search->rank == search->winner && slot == search->slot) {
            found->number = 0;
        } else if (found->number == number && found->identity == identity) {
            found->number = 0;
            found->status =
                error_set(&found->why, HVD_ERR_INVALID,
                          "rank %d has found that commit %" PRId64 " is damaged", search->winner, number);
        }
    }
}

/* What the winner says of its file, if not the file's identity. */
#define WAS_READ  INT64_C(-1)
#define ONLY_HERE INT64_C(-2) /* this rank could not read it; others may */

/* The winner reads its commit. HVD_OK on all ranks if it could; HVD_IN_PROGRESS: look for the next one. */
static int read_by_winner(struct search *search, int64_t number)
{
    int64_t word = INT64_MAX;
    bool wins = search->winner == search->rank;
    if (wins) {
        search->slot = commit_found_newest(search->found);
        struct commit_found *found = &search->found[search->slot];
        found->status =
            commit_folder_read(search->folder, search->slot, search->pieces, search->count, &found->why);
        word = found->status == HVD_ERR_INVALID ? found->identity : ONLY_HERE;
        if (found->status == HVD_OK)
            word = WAS_READ;
    }
    int rc = meet(&word, 1);
    if (rc != HVD_OK || word == WAS_READ)
        return rc;
    drop(search, number, word);
    return HVD_IN_PROGRESS;
}

/* Read the newest whole commit on the first rank that has it, search->winner; -1: there is none. */
static int find_newest(struct search *search)
{
    int rc = HVD_IN_PROGRESS;
    if (search->status == HVD_OK) {
        if (search->rank == 0)
            commit_folder_tidy(search->folder);
        commit_folder_look(search->folder, search->pieces, search->count, search->found);
    }
    while (rc == HVD_IN_PROGRESS) {
        int newest = commit_found_newest(search->found);
        int64_t words[WORDS] = {[CANDIDATE] = INT64_MAX, [PROBLEM] = problem_word(search)};
        if (newest >= 0)
            words[CANDIDATE] = search->rank - search->found[newest].number * (INT64_C(1) << RANK_BITS);
        search->winner = -1;
        rc = meet(words, WORDS);
        if (rc != HVD_OK)
            return rc;
        if (words[CANDIDATE] == INT64_MAX)
            return judge(search, words[PROBLEM]);
        search->winner = (int)(words[CANDIDATE] & ((INT64_C(1) << RANK_BITS) - 1));
        rc = read_by_winner(search, (search->winner - words[CANDIDATE]) >> RANK_BITS);
    }
    if (rc == HVD_OK && search->winner == search->rank)
        warn_of_others(search);
    return rc;
}

static struct search begin_search(struct state *state, const char *call, const char *name)
{
    const struct context *context = context_get();
    struct search search = {.call = call, .log = &context->log, .rank = context->bootstrap.job.rank};
    search.status = prepare_commit(state, name, &search.why);
    search.folder = &state->disk.folder;
    search.pieces = state->disk.pieces;
    search.count = name != NULL ? 1 : commits_count(state->commits);
    return search;
}

int state_disk_load(struct state *state, bool *foundp)
{
    struct search search = begin_search(state, "hvd_state_sync", NULL);
    for (int i = 0; search.status == HVD_OK && i < search.count; i++)
        search.pieces[i].data = commits_spare(state->commits, i);
    int rc = find_newest(&search);
    *foundp = rc == HVD_OK && search.winner >= 0;
    if (*foundp && search.winner == search.rank) {
        state->disk.last_slot = search.slot;
        commits_take(state->commits, search.found[search.slot].number);
    }
    return rc;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

/* States outlive the job. */
static const struct hvd_log *current_log(void)
{
    static const struct hvd_log own = {LOG_WARN, log_to_stderr, NULL};
    const struct context *context = context_get();
    return context == NULL ? &own : &context->log;
}

static void tell_problem(struct state *state)
{
    struct hvd_error problem;
    if (state->disk.writer != NULL && commit_writer_problem(state->disk.writer, &problem))
        log_write(
            current_log(), LOG_WARN, "state",
            "%s; training goes on, but the same command started again would go on from an older commit: "
            "make room, or mend the folder of --hvd-state-dir",
            problem.text);
}

/* Say once why commits do not get as far as the writer. */
static void tell_failure(struct state *state, const struct hvd_error *why)
{
    if (!state->disk.told)
        log_write(current_log(), LOG_WARN, "state", "commits are not written to disk: %s", why->text);
    state->disk.told = true;
}

/* The writer, or NULL. */
static struct commit_writer *need_writer(struct state *state, const char *name)
{
    struct hvd_error why;
    int rc = prepare_commit(state, name, &why);
    if (rc == HVD_OK && state->disk.writer == NULL)
        rc = commit_writer_create(&state->disk.writer, &state->disk.folder, state->disk.last_slot, &why);
    if (rc != HVD_OK)
        tell_failure(state, &why);
    return rc == HVD_OK ? state->disk.writer : NULL;
}

static void return_copy(void *arg)
{
    commits_return(arg);
}

void state_disk_hand(struct state *state)
{
    int64_t number = commits_newest(state->commits);
    if (!state_disk_is_used(state) || hvd_rank() != 0 || number == state->disk.handed)
        return;
    struct commit_writer *writer = need_writer(state, NULL);
    if (writer == NULL)
        return;
    int count = commits_count(state->commits);
    for (int i = 0; i < count; i++)
        state->disk.pieces[i].data = commits_saved(state->commits, i);
    commit_writer_hand(writer, number, state->disk.pieces, count, return_copy, commits_lend(state->commits));
    state->disk.handed = number;
    tell_problem(state);
}

void state_disk_finish(struct state *state)
{
    if (state->disk.writer == NULL)
        return;
    for (bool said = false; !commit_writer_wait(state->disk.writer, PATIENCE_MS); said = true)
        if (!said)
            log_write(current_log(), LOG_WARN, "state",
                      "the last commit has not reached the disk after %d s; waiting for it, in the folder of "
                      "--hvd-state-dir",
                      PATIENCE_MS / 1000);
    tell_problem(state);
    commit_writer_destroy(state->disk.writer);
    state->disk.writer = NULL;
    state->disk.last_slot = -1; /* by now it is the newest */
}

void state_disk_close(struct state *state)
{
    state_disk_finish(state);
    free(state->disk.pieces);
    state->disk = (struct state_disk){.pieces = NULL};
}

/* ---- Bytes of a program ------------------------------------------------------------------------- */

/* Rank [from] has read [bytes]: give them to rank 0. */
static int move_to_first(int from, struct commit_piece *piece)
{
    struct hvd_result result = {.data = NULL};
    int64_t *splits = calloc((size_t)hvd_size(), sizeof(*splits));
    if (splits == NULL)
        return error_set(context_error(), HVD_ERR_NO_MEMORY, "hvd_state_read: no memory for %d numbers",
                         hvd_size());
    splits[0] = hvd_rank() == from ? piece->bytes : 0;
    struct hvd_tensor tensor = hvd_vector(PREFIX "disk.bytes", piece->data, splits[0], HVD_UINT8);
    tensor.output = NULL;
    tensor.memory = HVD_MEMORY_HOST;
    int rc = hvd_alltoall(&tensor, splits, &result, NULL);
    free(splits);
    free(piece->data);
    piece->data = result.data;
    return rc;
}

int state_disk_read(struct state *state, const char *name, void **datap, int64_t *bytesp)
{
    struct search search = begin_search(state, "hvd_state_read", name);
    int rc = find_newest(&search);
    if (rc != HVD_OK || search.winner < 0)
        return rc;
    struct commit_piece unnamed = {.bytes = 0}; /* where there was no memory */
    struct commit_piece *piece = search.pieces != NULL ? search.pieces : &unnamed;
    bool reads = search.winner == search.rank;
    int64_t negative = reads ? -piece->bytes : 0;
    if (reads)
        state->disk.last_slot = search.slot;
    rc = meet(&negative, 1);
    if (rc == HVD_OK && search.winner > 0)
        rc = move_to_first(search.winner, piece);
    if (rc == HVD_OK) {
        *datap = piece->data;
        *bytesp = -negative;
    } else {
        free(piece->data);
    }
    piece->data = NULL;
    return rc;
}

void state_disk_write(struct state *state, const char *name, const void *data, int64_t bytes)
{
    struct hvd_error why;
    if (folder_name()[0] == 0 || hvd_rank() != 0)
        return;
    struct commit_writer *writer = need_writer(state, name);
    void *copy = writer == NULL ? NULL : malloc((size_t)bytes);
    if (writer != NULL && copy == NULL) {
        error_set_errno(&why, "no memory for a copy of %" PRId64 " bytes", bytes);
        tell_failure(state, &why);
    }
    if (copy == NULL)
        return;
    memcpy(copy, data, (size_t)bytes);
    state->disk.pieces[0].bytes = bytes;
    state->disk.pieces[0].data = copy;
    commit_writer_hand(writer, 1, state->disk.pieces, 1, free, copy);
    tell_problem(state);
}
