/* pmi.c: the provider that speaks PMI-1 to the launcher: MPICH's mpiexec, and srun with --mpi=pmi2. */
#include "config.h"
#include "pmix_shim/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mpi_symbols.h"
#include "pmix_shim/pmi_client.h"

#define SPACE_BYTES 257
#define KEY_BYTES   256
#define KEY_LEAST   64 /* a server whose keys or values are shorter is not used */
#define VALUE_LEAST 64
#define LINE_MOST   1000 /* Slurm cuts longer lines */
#define LINE_WORDS  40   /* what a line has beside the names and the value */
#define LEAVE_US    INT64_C(1000000)

/* PMI exists once in a process: who has joined cannot join again, nor after leaving. So it is left when the
 * process ends, and a second start uses the connection of the first. */
static struct {
    pid_t joined_by;  /* 0: hvd has not joined. A child of fork has not. */
    int fd;           /* of who joined */
    unsigned starts;  /* each has keys of its own, as nobody promises that a value can be replaced */
    bool out_of_step; /* a request was given up: its answer would be taken for that of the next */
} process;

struct pmi_state {
    struct pmi_client client;
    int rank, size;
    int key_bytes, value_bytes; /* the longest that the server keeps, with the final 0 */
    char space[SPACE_BYTES];    /* the name of the key-value space */
    int64_t deadline_us;        /* for calls that are given none */
    int *local_ranks;
    int local_count; /* 0: the launcher does not say */
};

static int ask_server(struct pmi_state *state, const char *request, const char *answer, struct hvd_error *err)
{
    int rc = pmi_client_ask(&state->client, request, answer, state->deadline_us, err);
    process.out_of_step = process.out_of_step || rc != HVD_OK;
    return rc;
}

/* ---- Joining and leaving -------------------------------------------------------------------------- */

/* How far the program's own MPI is, which uses the same connection. */
enum mpi_phase { MPI_NOT_YET, MPI_RUNS, MPI_IS_OVER };

static enum mpi_phase find_mpi_phase(void)
{
    struct mpi_symbols mpi;
    int initialized = 0, finalized = 0;
    if (!mpi_symbols_find(&mpi))
        return MPI_NOT_YET;
    mpi.initialized(&initialized);
    mpi.finalized(&finalized);
    return finalized != 0 ? MPI_IS_OVER : initialized != 0 ? MPI_RUNS : MPI_NOT_YET;
}

/* mpiexec ends the job of a client that vanishes without this. */
static void leave_at_exit(void)
{
    struct pmi_client client;
    bool is_ours = process.joined_by == getpid() && !process.out_of_step && find_mpi_phase() == MPI_NOT_YET;
    if (is_ours && pmi_client_open(&client, process.fd, NULL) == HVD_OK)
        pmi_client_ask(&client, "cmd=finalize\n", "finalize_ack", clock_us() + LEAVE_US, NULL);
}

/* The program's MPI has joined already if it runs, and will leave. */
static int join(struct pmi_state *state, struct hvd_error *err)
{
    enum mpi_phase mpi = find_mpi_phase();
    if (mpi == MPI_IS_OVER)
        return error_set(err, HVD_ERR_STATE,
                         "the program has called MPI_Finalize, and with it left PMI, by which this job was "
                         "launched; call hvd_init before");
    if (mpi == MPI_RUNS || process.joined_by != 0)
        return HVD_OK;
    int rc = ask_server(state, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", err);
    if (rc != HVD_OK)
        return rc;
    if (pmi_client_refused(&state->client))
        return error_set(
            err, HVD_ERR_INVALID,
            "the launcher does not speak PMI-1 ('%.64s'); use hvdrun, srun --mpi=pmix, or MPICH's "
            "mpiexec",
            state->client.answer);
    process.joined_by = getpid();
    process.fd = state->client.fd;
    atexit(leave_at_exit);
    return HVD_OK;
}

/* ---- What the launcher says ----------------------------------------------------------------------- */

static int read_environment(struct pmi_state *state, int *fdp, struct hvd_error *err)
{
    static const char reason[] = "PMI_FD says that PMI started this job";
    static const char mend[] = "the launcher's PMI variables are damaged: do not remove some of them";
    struct launch_number size = {"PMI_SIZE", 1, LAUNCH_MOST_RANKS, reason, mend};
    struct launch_number fd = {"PMI_FD", 0, INT32_MAX, reason, mend};
    int rc = launch_number_read(&fd, fdp, err);
    if (rc == HVD_OK)
        rc = launch_number_read(&size, &state->size, err);
    struct launch_number rank = {"PMI_RANK", 0, state->size - 1, reason, mend};
    return rc == HVD_OK ? launch_number_read(&rank, &state->rank, err) : rc;
}

static int read_limits(struct pmi_state *state, struct hvd_error *err)
{
    int rc = ask_server(state, "cmd=get_maxes\n", "maxes", err);
    if (rc == HVD_OK)
        rc = pmi_client_number(&state->client, "keylen_max", KEY_LEAST, &state->key_bytes, err);
    if (rc == HVD_OK)
        rc = pmi_client_number(&state->client, "vallen_max", VALUE_LEAST, &state->value_bytes, err);
    return rc;
}

static int read_space(struct pmi_state *state, struct hvd_error *err)
{
    struct token name;
    int rc = ask_server(state, "cmd=get_my_kvsname\n", "my_kvsname", err);
    if (rc == HVD_OK)
        rc = pmi_client_text(&state->client, "kvsname", &name, err);
    if (rc != HVD_OK)
        return rc;
    if (name.length == 0 || name.length >= sizeof(state->space))
        return error_set(err, HVD_ERR_SYSTEM,
                         "the launcher's PMI server gave its key-value space a name of %zu bytes; expected "
                         "between 1 and %zu",
                         name.length, sizeof(state->space) - 1);
    memcpy(state->space, name.text, name.length);
    state->space[name.length] = 0;
    return rc;
}

/* Ask for the value of [key]. HVD_ERR_MISMATCH if there is none. */
static int look_up(struct pmi_state *state, const char *key, struct token *value, struct hvd_error *err)
{
    char request[PMI_LINE_BYTES];
    snprintf(request, sizeof(request), "cmd=get kvsname=%s key=%s\n", state->space, key);
    int rc = ask_server(state, request, "get_result", err);
    if (rc == HVD_OK && pmi_client_refused(&state->client))
        return error_set(err, HVD_ERR_MISMATCH, "there is none");
    return rc == HVD_OK ? pmi_client_text(&state->client, "value", value, err) : rc;
}

static int read_local_ranks(struct pmi_state *state, struct hvd_error *err)
{
    struct token mapping;
    int rc = look_up(state, "PMI_process_mapping", &mapping, err);
    if (rc == HVD_ERR_MISMATCH)
        return HVD_OK;
    if (rc != HVD_OK)
        return rc;
    state->local_ranks = calloc((size_t)state->size, sizeof(*state->local_ranks));
    if (state->local_ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", state->size);
    state->local_count = pmi_text_local_ranks(mapping, state->size, state->rank, state->local_ranks);
    return HVD_OK;
}

static void fill_job(const struct pmi_state *state, struct hvd_job *job)
{
    job->rank = state->rank;
    job->size = state->size;
    job->local_size = state->local_count > 0 ? state->local_count : -1;
    for (int i = 0; i < state->local_count; i++)
        if (state->local_ranks[i] == state->rank)
            job->local_rank = i;
}

/* ---- The provider --------------------------------------------------------------------------------- */

static void pmi_close(void *opaque)
{
    struct pmi_state *state = opaque;
    if (state == NULL)
        return;
    free(state->local_ranks);
    free(state);
}

static int pmi_open(const struct hvd_config *config, const struct hvd_log *log, int64_t deadline_us,
                    struct hvd_job *job, void **statep, struct hvd_error *err)
{
    (void)config;
    (void)log;
    int fd = -1;
    if (process.out_of_step)
        return error_set(err, HVD_ERR_STATE,
                         "an earlier hvd_init of this process gave up waiting for the launcher's PMI server, "
                         "which cannot be asked again; start the program again");
    struct pmi_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    state->deadline_us = deadline_us;
    int rc = read_environment(state, &fd, err);
    if (rc == HVD_OK)
        rc = pmi_client_open(&state->client, fd, err);
    if (rc == HVD_OK)
        rc = join(state, err);
    if (rc == HVD_OK)
        rc = read_limits(state, err);
    if (rc == HVD_OK)
        rc = read_space(state, err);
    if (rc == HVD_OK)
        rc = read_local_ranks(state, err);
    if (rc != HVD_OK) {
        pmi_close(state);
        return rc;
    }
    process.starts++;
    fill_job(state, job);
    *statep = state;
    return HVD_OK;
}

static int pmi_local_peers(void *opaque, int **ranksp, int *countp, struct hvd_error *err)
{
    const struct pmi_state *state = opaque;
    size_t bytes = (size_t)state->local_count * sizeof(**ranksp);
    *ranksp = NULL;
    *countp = 0;
    if (state->local_count == 0)
        return HVD_OK;
    int *ranks = malloc(bytes);
    if (ranks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of %d ranks", state->local_count);
    memcpy(ranks, state->local_ranks, bytes);
    *ranksp = ranks;
    *countp = state->local_count;
    return HVD_OK;
}

/* The key under which a piece of a rank's blob is kept. */
static int make_key(const struct pmi_state *state, int rank, const char *name, int piece, char key[KEY_BYTES],
                    struct hvd_error *err)
{
    int length = snprintf(key, KEY_BYTES, "hvd%u.%d.%s.%d", process.starts, rank, name, piece);
    if (length < state->key_bytes && length < KEY_BYTES)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     "wire-up: the key '%.64s' has %d characters; the launcher's PMI server keeps at most %d",
                     key, length, state->key_bytes - 1);
}

static size_t piece_length(const struct pmi_state *state, const char *key, size_t left)
{
    size_t line = LINE_MOST - LINE_WORDS - strlen(state->space) - strlen(key);
    size_t most = (size_t)state->value_bytes - 1 < line ? (size_t)state->value_bytes - 1 : line;
    return left < most ? left : most;
}

static int put_piece(struct pmi_state *state, const char *key, struct token value, struct hvd_error *err)
{
    char request[PMI_LINE_BYTES];
    snprintf(request, sizeof(request), "cmd=put kvsname=%s key=%s value=%.*s\n", state->space, key,
             (int)value.length, value.text);
    int rc = ask_server(state, request, "put_result", err);
    if (rc == HVD_OK && pmi_client_refused(&state->client))
        rc = error_set(err, HVD_ERR_SYSTEM, "the launcher's PMI server did not keep '%.64s': %.64s", key,
                       state->client.answer);
    return rc;
}

static int pmi_put(void *opaque, const char *name, const void *bytes, size_t length, struct hvd_error *err)
{
    struct pmi_state *state = opaque;
    char key[KEY_BYTES];
    if (length > WIREUP_BLOB_BYTES)
        return error_set(err, HVD_ERR_INVALID, "wire-up: %zu bytes under '%.64s': expected at most %d",
                         length, name, WIREUP_BLOB_BYTES);
    char *text = pmi_text_from_blob(bytes, length);
    if (text == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "out of memory");
    struct token rest = {text, strlen(text)};
    int rc = HVD_OK;
    for (int piece = 0; rest.length > 0 && rc == HVD_OK; piece++) {
        rc = make_key(state, state->rank, name, piece, key, err);
        struct token value = {rest.text, piece_length(state, key, rest.length)};
        if (rc == HVD_OK)
            rc = put_piece(state, key, value, err);
        rest = (struct token){rest.text + value.length, rest.length - value.length};
    }
    free(text);
    return rc;
}

static int pmi_fence(void *opaque, int64_t deadline_us, struct hvd_error *err)
{
    struct pmi_state *state = opaque;
    state->deadline_us = deadline_us;
    int rc = ask_server(state, "cmd=barrier_in\n", "barrier_out", err);
    if (rc == HVD_ERR_TIMEOUT)
        return error_set(
            err, rc,
            "not all ranks joined in time, and PMI does not say which; --hvd-start-timeout gives "
            "them longer");
    if (rc == HVD_OK && pmi_client_refused(&state->client))
        rc = error_set(err, HVD_ERR_RANK_LOST,
                       "the launcher's PMI server could not bring all ranks together: "
                       "%.64s",
                       state->client.answer);
    return rc;
}

static int get_pieces(struct pmi_state *state, int rank, const char *name, struct pmi_blob_text *text,
                      struct hvd_error *err)
{
    char key[KEY_BYTES];
    struct token value;
    int rc = HVD_IN_PROGRESS;
    for (int piece = 0; rc == HVD_IN_PROGRESS; piece++) {
        rc = make_key(state, rank, name, piece, key, err);
        if (rc == HVD_OK)
            rc = look_up(state, key, &value, err);
        if (rc == HVD_OK)
            rc = pmi_blob_text_add(text, value, err);
    }
    return rc;
}

static int pmi_get(void *opaque, int rank, const char *name, int64_t deadline_us, struct wireup_blob *blob,
                   struct hvd_error *err)
{
    struct pmi_state *state = opaque;
    struct pmi_blob_text text = {NULL, 0, 0};
    struct hvd_error why = {""};
    state->deadline_us = deadline_us;
    int rc = get_pieces(state, rank, name, &text, &why);
    if (rc == HVD_OK)
        rc = pmi_blob_text_decode(&text, blob, &why);
    pmi_blob_text_free(&text);
    if (rc == HVD_ERR_MISMATCH)
        return error_set(err, rc,
                         "what rank %d has put under '%.64s' cannot be used: %.200s; do all ranks run "
                         "the same hvd?",
                         rank, name, why.text);
    return rc == HVD_OK ? rc : error_set(err, rc, "%s", why.text);
}

const struct wireup_ops wireup_pmi_ops = {.name = "pmi",
                                          .open = pmi_open,
                                          .put = pmi_put,
                                          .fence = pmi_fence,
                                          .get = pmi_get,
                                          .local_peers = pmi_local_peers,
                                          .close = pmi_close};
