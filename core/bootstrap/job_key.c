/* job_key.c: the key of a job: rank 0 draws it, and hands it to the others by wire-up. */
#include "bootstrap/job_key.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/munge.h"
#include "auth/secret_key.h"
#include "base/hash.h"
#include "base/secret.h"

_Static_assert(SECRET_KEY_BYTES == JOB_KEY_BYTES && JOB_KEY_BYTES == crypto_generichash_KEYBYTES,
               "a secret's key is a key for the hash, and as long as the key of a job");

static void key_name(const struct peer_table *peer_table, char name[64])
{
    snprintf(name, 64, "hvd.%u.key", peer_table->epoch);
}

static bool munge_works(void)
{
    char *text = NULL;
    int rc = munge_seal("", 1, &text, NULL);
    free(text);
    return rc == HVD_OK;
}

static bool uses_munge(enum job_key_guard guard)
{
    return guard == JOB_KEY_MUNGE || guard == JOB_KEY_SECRET_AND_MUNGE;
}

int job_key_find_guard(bool encrypt, enum job_key_guard *guardp, struct hvd_error *err)
{
    const char *secret = secret_of_job(NULL);
    bool seals = (secret == NULL || encrypt) && slurm_launches_job(NULL) && munge_works();
    if (secret != NULL)
        *guardp = seals ? JOB_KEY_SECRET_AND_MUNGE : JOB_KEY_SECRET;
    else
        *guardp = seals ? JOB_KEY_MUNGE : JOB_KEY_BARE;
    if (encrypt && *guardp == JOB_KEY_BARE)
        return error_set(err, HVD_ERR_INVALID,
                         "--hvd-encrypt=on: the key of this job travels where others can read it; give all "
                         "ranks the same " SECRET_VARIABLE ", such as the output of 'openssl rand -hex 16'");
    return secret == NULL ? HVD_OK : secret_key_check(secret, err);
}

bool job_key_was_seen(bool encrypt, enum job_key_guard guard)
{
    return encrypt && guard == JOB_KEY_SECRET && slurm_launches_job(NULL) &&
           secret_is_drawn(secret_of_job(NULL));
}

const char *job_key_guard_text(enum job_key_guard guard)
{
    static const char *const texts[JOB_KEY_GUARD_COUNT] = {
        [JOB_KEY_BARE] = "no " SECRET_VARIABLE,
        [JOB_KEY_SECRET] = SECRET_VARIABLE,
        [JOB_KEY_MUNGE] = "munge in place of " SECRET_VARIABLE,
        [JOB_KEY_SECRET_AND_MUNGE] =
            "munge besides " SECRET_VARIABLE " (--hvd-encrypt=on: on all nodes or on none)",
    };
    return texts[guard];
}

int job_key_put(const struct peer_table *peer_table, const struct wireup *wireup, enum job_key_guard guard,
                struct hvd_error *err)
{
    char name[64];
    char *text = NULL;
    unsigned char key[JOB_KEY_BYTES];
    int rc = HVD_OK;
    key_name(peer_table, name);
    randombytes_buf(key, sizeof(key));
    if (uses_munge(guard))
        rc = munge_seal(key, sizeof(key), &text, err);
    if (rc == HVD_OK)
        rc = text != NULL ? wireup->ops->put(wireup->state, name, text, strlen(text) + 1, err)
                          : wireup->ops->put(wireup->state, name, key, sizeof(key), err);
    sodium_memzero(key, sizeof(key));
    free(text);
    return rc;
}

/* Take the key out of rank 0's credential. */
static int open_credential(const struct wireup_blob *blob, unsigned char *key, struct hvd_error *err)
{
    struct hvd_error why = {"it is no text"};
    const char *text = blob->bytes;
    bool is_text = blob->length > 0 && text[blob->length - 1] == 0;
    if (is_text && munge_open(text, key, JOB_KEY_BYTES, &why) == HVD_OK)
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "the key of the job, which rank 0 has put into a credential of munge, cannot be used: %s; "
        "give all ranks the same " SECRET_VARIABLE " where munge does not work on all nodes",
        why.text);
}

static int read_blob(const struct wireup_blob *blob, enum job_key_guard guard, unsigned char *key,
                     struct hvd_error *err)
{
    if (uses_munge(guard))
        return open_credential(blob, key, err);
    if (blob->length != JOB_KEY_BYTES)
        return error_set(err, HVD_ERR_INVALID, "the job key of rank 0 has %zu bytes; expected %d",
                         blob->length, JOB_KEY_BYTES);
    memcpy(key, blob->bytes, JOB_KEY_BYTES);
    return HVD_OK;
}

/* Mix the key, which others may have read, with the secret, which they have not. */
static void mix_secret(unsigned char *key)
{
    static const char purpose[] = "hvd job key";
    unsigned char secret[SECRET_KEY_BYTES];
    crypto_generichash_state state;
    secret_key_derive(secret_of_job(NULL), secret);
    crypto_generichash_init(&state, secret, sizeof(secret), JOB_KEY_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)purpose, sizeof(purpose));
    crypto_generichash_update(&state, key, JOB_KEY_BYTES);
    crypto_generichash_final(&state, key, JOB_KEY_BYTES);
    sodium_memzero(secret, sizeof(secret));
}

int job_key_get(struct peer_table *peer_table, const struct wireup *wireup, enum job_key_guard guard,
                int64_t deadline_us, struct hvd_error *err)
{
    char name[64];
    struct wireup_blob blob = {NULL, 0};
    key_name(peer_table, name);
    int rc = wireup->ops->get(wireup->state, 0, name, deadline_us, &blob, err);
    if (rc != HVD_OK)
        return rc;
    peer_table->start_id = hash_bytes(blob.bytes, blob.length);
    rc = read_blob(&blob, guard, peer_table->key, err);
    if (rc == HVD_OK && (guard == JOB_KEY_SECRET || guard == JOB_KEY_SECRET_AND_MUNGE))
        mix_secret(peer_table->key);
    sodium_memzero(blob.bytes, blob.length);
    free(blob.bytes);
    return rc;
}

void job_key_blob_name(const struct peer_table *peer_table, const char *what, char name[64])
{
    snprintf(name, 64, "hvd.%u.%016" PRIx64 ".%s", peer_table->epoch, peer_table->start_id, what);
}
