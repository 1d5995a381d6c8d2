/* elastic.c: the public calls by which ranks keep a common state, and train on when ranks are lost or join.
 *
 * Why ranks never go back to different commits: hvd_state_commit saves a commit and then waits until all have
 * saved it, and the next one comes after that, so the newest commits of ranks differ by at most one
 * (commits.h). hvd_state_sync finds the newest one that all have, each rank forgets what is newer, and only
 * when all have done so another one is saved: a rank that missed the agreement never finds a commit of the
 * same number with other contents. What a broadcast sends arrives in the memory of the next commit, and the
 * program's own memory gets it only at the end, so a broadcast that fails costs nobody the state. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/context.h"
#include "api/state_disk.h"
#include "api/state_memory.h"
#include "api/states.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/launch_variables.h"
#include "bootstrap/wireup.h"
#include "elastic/part_list.h"

/* The names of the operations. Those of the parts end in their number. */
#define PREFIX "hvd.state."

enum { LOSSES_MAX = 3 }; /* epochs that end by a loss, without a commit */

/* ---- What each call checks ---------------------------------------------------------------------- */

/* The state, if this thread may wait for the other ranks now; NULL otherwise, and sets *statusp. */
static struct state *find_to_wait(hvd_state handle, const char *call, enum hvd_status *statusp)
{
    struct state *state = states_find(handle, call);
    struct context *context = state == NULL ? NULL : context_require();
    *statusp = state == NULL ? HVD_ERR_INVALID : HVD_ERR_STATE;
    if (context == NULL || loop_check_not_in_callback(context->loop, call, context_error()) != HVD_OK)
        return NULL;
    return state;
}

/* The same, and all ranks have the same state. */
static struct state *find_synced(hvd_state handle, const char *call, enum hvd_status *statusp)
{
    struct state *state = find_to_wait(handle, call, statusp);
    if (state != NULL && state->synced != context_get()->start) {
        *statusp = error_set(context_error(), HVD_ERR_STATE,
                             "%s: the ranks do not have the same state yet; call hvd_state_sync after "
                             "hvd_init, and again after a commit that failed",
                             call);
        return NULL;
    }
    return state;
}

/* ---- Commit and check --------------------------------------------------------------------------- */

/* Do processes wait to join? Rank 0 asks for all. A launcher that does not answer has no news: what is wrong
 * with it is the next hvd_init's to say. */
static bool has_news(void)
{
    bool news = false;
    struct hvd_error unused;
    return hvd_rank() == 0 && wireup_ask_news(&news, &unused) == HVD_OK && news;
}

/* Wait for the other ranks, and replace *newsp by the answer of rank 0. */
static int meet(const char *name, int32_t *newsp)
{
    struct hvd_tensor tensor = hvd_vector(name, newsp, 1, HVD_INT32);
    tensor.memory = HVD_MEMORY_HOST;
    return hvd_allreduce(&tensor, HVD_MAX, NULL);
}

/* What a rank says at the end of both calls: the greatest counts. */
enum { NO_NEWS, NEW_RANKS, FAILED };

/* The end of both calls. [saved]: the status of what this rank did before. */
static enum hvd_status tell_news(struct state *state, const char *name, int saved)
{
    int32_t news = saved == HVD_OK ? (has_news() ? NEW_RANKS : NO_NEWS) : FAILED;
    struct hvd_error why = *context_error();
    int rc = meet(name, &news);
    if (rc == HVD_OK && saved != HVD_OK) {
        *context_error() = why;
        rc = saved;
    } else if (rc == HVD_OK && news == FAILED) {
        rc = error_set(context_error(), HVD_ERR_SYSTEM,
                       "hvd_state_commit: another rank could not copy its state, and says why");
    }
    state->keeps = rc == HVD_OK && news == NEW_RANKS;
    if (rc != HVD_OK)
        state->synced = 0;
    return state->keeps ? HVD_NEW_RANKS : rc;
}

enum hvd_status hvd_state_check(hvd_state handle)
{
    enum hvd_status status;
    struct state *state = find_synced(handle, "hvd_state_check", &status);
    return state == NULL ? status : tell_news(state, PREFIX "check", HVD_OK);
}

enum hvd_status hvd_state_commit(hvd_state handle)
{
    enum hvd_status status;
    struct state *state = find_synced(handle, "hvd_state_commit", &status);
    if (state == NULL)
        return status;
    struct hvd_error why;
    int saved = state_memory_save(state, context_get(), &why);
    if (saved != HVD_OK)
        error_set(context_error(), saved, "hvd_state_commit: %s", why.text);
    status = tell_news(state, PREFIX "commit", saved);
    if (status < HVD_OK)
        return status;
    state->losses = 0;
    trace_count_commit(context_get()->trace, clock_us());
    state_disk_hand(state);
    return status;
}

/* ---- Synchronising ------------------------------------------------------------------------------ */

/* What each rank says, and gets: of each number the minimum over all ranks. */
enum {
    NEWEST,    /* this rank's newest commit; INT64_MAX: it has none */
    LATEST,    /* minus that, so that the minimum is the latest one; 0: it has none */
    HOLDER,    /* the rank if it has a commit, otherwise INT64_MAX */
    HAS,       /* 1 if it has one, otherwise 0 */
    KEEPS,     /* 0 if its state may differ from that of others: then all go back to a commit */
    LOSSES,    /* minus the epochs that were lost since the last commit */
    PARTS,     /* a hash of the parts, */
    NOT_PARTS, /* and its complement, whose minimum is that of the greatest hash */
    UNREADY,   /* the rank and the status if it cannot copy its parts, otherwise INT64_MAX */
    WORDS
};

/* Get ready to copy the parts. */
static int reserve_copies(struct state *state, struct hvd_error *err)
{
    int rc = state_memory_find(state, context_get(), err);
    bool lends = state_disk_is_used(state) && hvd_rank() == 0;
    return rc == HVD_OK ? state_reserve(state, lends ? COMMITS_COPIES_MAX : COMMITS_COPIES, err) : rc;
}

static int agree(struct state *state, int64_t words[WORDS], struct hvd_error *unready)
{
    const struct context *context = context_get();
    int status = reserve_copies(state, unready);
    int64_t newest = commits_newest(state->commits);
    int64_t rank = context->bootstrap.job.rank;
    bool keeps = state->keeps || state->synced == context->start;
    words[NEWEST] = newest > 0 ? newest : INT64_MAX;
    words[LATEST] = -newest;
    words[HOLDER] = newest > 0 ? rank : INT64_MAX;
    words[HAS] = newest > 0;
    words[KEEPS] = newest == 0 || keeps;
    words[LOSSES] = -state->losses;
    words[PARTS] = (int64_t)(commits_fingerprint(state->commits) >> 1);
    words[NOT_PARTS] = ~words[PARTS];
    words[UNREADY] = status == HVD_OK ? INT64_MAX : (rank << 8) - status;
    struct hvd_tensor tensor = hvd_vector(PREFIX "sync", words, WORDS, HVD_INT64);
    tensor.memory = HVD_MEMORY_HOST;
    return hvd_allreduce(&tensor, HVD_MIN, NULL);
}

/* The parts differ: find out which. All ranks say the same. */
static int explain_difference(const struct state *state)
{
    size_t length = 0;
    int size = hvd_size();
    int64_t *lengths = calloc((size_t)size, sizeof(*lengths));
    char *list = part_list_write(state->commits, &length);
    struct hvd_result all = {.rows = lengths};
    int rc = HVD_ERR_NO_MEMORY;
    if (lengths == NULL || list == NULL) {
        error_set(context_error(), rc, "hvd_state_sync: no memory to compare the states of %d ranks", size);
    } else {
        struct hvd_tensor mine = hvd_vector(PREFIX "parts", list, (int64_t)length, HVD_UINT8);
        mine.output = NULL;
        mine.memory = HVD_MEMORY_HOST;
        rc = hvd_allgather(&mine, &all, NULL);
    }
    if (rc == HVD_OK)
        rc = part_list_compare("hvd_state_sync", all.data, lengths, size, context_error());
    free(all.data);
    free(list);
    free(lengths);
    return rc;
}

/* Check what all ranks said; an error is the same on all of them. */
static int check_agreement(const struct state *state, const int64_t words[WORDS],
                           const struct hvd_error *unready)
{
    int64_t rank = words[UNREADY] >> 8;
    if (words[PARTS] != ~words[NOT_PARTS])
        return explain_difference(state);
    if (words[UNREADY] != INT64_MAX && rank == hvd_rank())
        return error_set(context_error(), (int)-(words[UNREADY] & 255), "hvd_state_sync: %s", unready->text);
    if (words[UNREADY] != INT64_MAX)
        return error_set(context_error(), (int)-(words[UNREADY] & 255),
                         "hvd_state_sync: rank %" PRId64 " cannot copy its state, and says why", rank);
    if (words[NEWEST] != INT64_MAX && -words[LATEST] - words[NEWEST] > 1)
        return error_set(context_error(), HVD_ERR_MISMATCH,
                         "hvd_state_sync: ranks have made %" PRId64 " and %" PRId64 " commits; call "
                         "hvd_state_commit on all ranks in the same steps",
                         words[NEWEST], -words[LATEST]);
    return HVD_OK;
}

/* Wait for the broadcasts of the first [count] parts; those of no bytes have none. */
static int wait_for_parts(const struct state *state, int count)
{
    int rc = HVD_OK;
    for (int i = 0; i < count; i++) {
        if (state->broadcasts[i] == 0)
            continue;
        int ended = hvd_wait(state->broadcasts[i]);
        rc = rc == HVD_OK ? ended : rc;
    }
    return rc;
}

/* Submit the broadcast of part [i]. */
static int broadcast_part(struct state *state, int i, int root)
{
    const struct commits_part *part = commits_part(state->commits, i);
    struct hvd_error why;
    char name[32];
    snprintf(name, sizeof(name), PREFIX "%d", i);
    struct hvd_tensor tensor = hvd_vector(name, part->data, part->bytes, HVD_UINT8);
    tensor.output = commits_spare(state->commits, i);
    tensor.memory = HVD_MEMORY_HOST;
    state->broadcasts[i] = 0;
    if (part->bytes == 0)
        return HVD_OK;
    int rc = state_memory_input(state, i, hvd_rank() == root, &tensor.input, &why);
    if (rc != HVD_OK)
        return error_set(context_error(), rc, "hvd_state_sync: %s", why.text);
    return hvd_broadcast_async(&tensor, root, NULL, NULL, NULL, &state->broadcasts[i]);
}

/* Send the parts of [root] into the memory of the next commit, on [root] too. */
static int broadcast_parts(struct state *state, int root)
{
    int rc = HVD_OK, submitted = 0;
    while (rc == HVD_OK && submitted < commits_count(state->commits)) {
        rc = broadcast_part(state, submitted, root);
        submitted += rc == HVD_OK;
    }
    int ended = wait_for_parts(state, submitted);
    return rc == HVD_OK ? ended : rc;
}

static int restore(const struct state *state)
{
    struct hvd_error why;
    int rc = state_memory_restore(state, context_get(), &why);
    return rc == HVD_OK ? HVD_OK : error_set(context_error(), rc, "hvd_state_sync: %s", why.text);
}

/* All have a commit: nothing is sent. */
static int sync_among_holders(void)
{
    int32_t unused = 0;
    return meet(PREFIX "synced", &unused);
}

/* Some have none: they get the state of one that has, or of rank 0. A rank that had a commit counts the new
 * one before all others have it, as in hvd_state_commit; one that had none does so afterwards, because it
 * cannot go back. */
static int sync_by_broadcast(struct state *state, const int64_t words[WORDS], bool has)
{
    int32_t unused = 0;
    int root = words[HOLDER] == INT64_MAX ? 0 : (int)words[HOLDER];
    int64_t number = words[NEWEST] == INT64_MAX ? 1 : words[NEWEST] + 1;
    int rc = broadcast_parts(state, root);
    if (rc != HVD_OK)
        return rc;
    if (has)
        commits_take(state->commits, number);
    rc = meet(PREFIX "synced", &unused);
    if (rc == HVD_OK && !has)
        commits_take(state->commits, number);
    if (rc == HVD_OK && hvd_rank() != root)
        rc = restore(state);
    return rc;
}

/* No rank has a commit: one may have one on disk, which counts from then on. */
static int load(struct state *state, int64_t words[WORDS], struct hvd_error *unready, bool *loadsp)
{
    bool found = false;
    if (words[HOLDER] != INT64_MAX || !state_disk_is_used(state))
        return HVD_OK;
    int rc = state_disk_load(state, &found);
    if (rc == HVD_OK && found) {
        *loadsp = commits_newest(state->commits) > 0;
        rc = agree(state, words, unready);
    }
    return rc;
}

static int synchronise(struct state *state)
{
    int64_t words[WORDS];
    struct hvd_error unready;
    bool loads = false; /* this rank has read the commit from disk */
    int rc = agree(state, words, &unready);
    if (rc == HVD_OK)
        rc = check_agreement(state, words, &unready);
    if (rc == HVD_OK)
        rc = load(state, words, &unready, &loads);
    if (rc != HVD_OK)
        return rc;
    bool has = commits_newest(state->commits) > 0;
    if (has && !commits_go_back(state->commits, words[NEWEST]))
        return error_set(context_error(), HVD_ERR_MISMATCH,
                         "hvd_state_sync: all ranks go back to commit %" PRId64 ", which this rank lacks; "
                         "call hvd_state_commit on all ranks in the same steps",
                         words[NEWEST]);
    if (has && words[KEEPS] == 0)
        rc = restore(state);
    if (rc != HVD_OK)
        return rc;
    state->losses = (int)-words[LOSSES];
    if (has && !loads)
        state_disk_hand(state); /* in place of an older one that waits, whose copy may be needed now */
    if (words[HAS] != 0)
        return sync_among_holders();
    rc = sync_by_broadcast(state, words, has);
    if (rc == HVD_OK && !loads)
        state_disk_hand(state);
    return rc;
}

enum hvd_status hvd_state_sync(hvd_state handle)
{
    enum hvd_status status;
    struct state *state = find_to_wait(handle, "hvd_state_sync", &status);
    if (state == NULL)
        return status;
    status = synchronise(state);
    state->synced = status == HVD_OK ? context_get()->start : 0;
    if (status == HVD_OK)
        state->keeps = false;
    return status;
}

/* ---- Bytes that a program sends by itself ------------------------------------------------------- */

const char *hvd_state_dir(void)
{
    const struct context *context = context_get();
    return context == NULL || context->config.state_dir[0] == 0 ? NULL : context->config.state_dir;
}

static enum hvd_status check_bytes(const struct state *state, const char *call, const char *name)
{
    if (commits_count(state->commits) > 0)
        return error_set(context_error(), HVD_ERR_STATE,
                         "%s: the state has parts, which hvd_state_commit writes; create another one", call);
    return commits_check_name(call, name, context_error());
}

enum hvd_status hvd_state_read(hvd_state handle, const char *name, void **datap, int64_t *bytesp)
{
    enum hvd_status status;
    struct state *state = find_to_wait(handle, "hvd_state_read", &status);
    if (state == NULL)
        return status;
    if (datap == NULL || bytesp == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_state_read: datap or bytesp is NULL; pass the address of a variable");
    status = check_bytes(state, "hvd_state_read", name);
    if (status != HVD_OK)
        return status;
    *datap = NULL;
    *bytesp = 0;
    return hvd_state_dir() == NULL ? HVD_OK : state_disk_read(state, name, datap, bytesp);
}

enum hvd_status hvd_state_write(hvd_state handle, const char *name, const void *data, int64_t bytes)
{
    struct state *state = states_find(handle, "hvd_state_write");
    if (state == NULL)
        return HVD_ERR_INVALID;
    if (context_require() == NULL)
        return HVD_ERR_STATE;
    bool nothing = data == NULL && bytes == 0;
    if (!nothing && (data == NULL || bytes <= 0 || bytes > BYTES_MAX))
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_state_write: %" PRId64
                         " bytes at %p; expected 1 to 2^47, and not NULL, or 0 and "
                         "NULL",
                         bytes, data);
    enum hvd_status status = check_bytes(state, "hvd_state_write", name);
    if (status != HVD_OK)
        return status;
    trace_count_commit(context_get()->trace, clock_us());
    if (!nothing)
        state_disk_write(state, name, data, bytes);
    return HVD_OK;
}

/* ---- Running ------------------------------------------------------------------------------------ */

static enum hvd_status run_epoch(struct state *state, hvd_train_f train, void *arg)
{
    if (state->reset != NULL)
        state->reset(state->reset_arg);
    enum hvd_status status = hvd_state_sync(state->handle);
    if (status != HVD_OK)
        return status; /* and what it was to keep or to restore, it is in the next epoch */
    status = train(state->handle, arg);
    state->keeps = status == HVD_NEW_RANKS;
    return status;
}

static enum hvd_status start_next_epoch(void)
{
    enum hvd_status status;
    do
        hvd_shutdown(); /* which says again that a rank was lost */
    while ((status = hvd_init()) == HVD_ERR_RANK_LOST);
    return status;
}

static enum hvd_status give_up(void)
{
    struct hvd_error last = *context_error();
    return error_set(context_error(), HVD_ERR_RANK_LOST,
                     "hvd_elastic_run: %d epochs ended by the loss of a rank, without a commit in between; "
                     "commit more often, or see why ranks fail; the last loss: %.256s",
                     LOSSES_MAX, last.text);
}

/* The epoch that a newcomer is to join may lose a rank as it begins. */
static enum hvd_status start_first_epoch(void)
{
    enum hvd_status status;
    do
        status = hvd_is_initialized() ? HVD_OK : hvd_init();
    while (status == HVD_ERR_RANK_LOST && launch_is_newcomer(NULL));
    return status;
}

static enum hvd_status run_epochs(struct state *state, hvd_train_f train, void *arg)
{
    enum hvd_status status = start_first_epoch();
    if (status != HVD_OK)
        return status;
    for (;;) {
        status = run_epoch(state, train, arg);
        if (status != HVD_NEW_RANKS && !(status == HVD_ERR_RANK_LOST && wireup_is_elastic()))
            return status;
        if (status == HVD_ERR_RANK_LOST && ++state->losses >= LOSSES_MAX)
            return give_up();
        status = start_next_epoch();
        if (status != HVD_OK)
            return status;
    }
}

enum hvd_status hvd_elastic_run(hvd_train_f train, hvd_state handle, void *arg)
{
    struct state *state = states_find(handle, "hvd_elastic_run");
    const struct context *context = context_get();
    if (state == NULL)
        return HVD_ERR_INVALID;
    if (train == NULL)
        return error_set(context_error(), HVD_ERR_INVALID,
                         "hvd_elastic_run: train is NULL; pass the function that trains");
    if (state->runs)
        return error_set(context_error(), HVD_ERR_STATE,
                         "hvd_elastic_run: it already runs with this state; return from its function first");
    if (context != NULL &&
        loop_check_not_in_callback(context->loop, "hvd_elastic_run", context_error()) != HVD_OK)
        return HVD_ERR_STATE;
    state->runs = true;
    state->losses = 0;
    enum hvd_status status = run_epochs(state, train, arg);
    state_disk_finish(state);
    state->runs = false;
    return status;
}
