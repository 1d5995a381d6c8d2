/* secret_key.c: the key that is derived from the text of a job's secret. No message ever shows the text. */
#include "auth/secret_key.h"

#include <sodium.h>
#include <string.h>

#include "base/secret.h"

#define SHORTEST_TEXT 16
#define LONGEST_TEXT  4096

int secret_key_check(const char *text, struct hvd_error *err)
{
    size_t length = text != NULL ? strlen(text) : 0;
    if (length >= SHORTEST_TEXT && length <= LONGEST_TEXT)
        return HVD_OK;
    return error_set(err, HVD_ERR_INVALID,
                     SECRET_VARIABLE
                     " %s: expected a secret of %d to %d characters, the same on all ranks, such as the "
                     "output of 'openssl rand -hex 16'",
                     text == NULL             ? "is not set"
                     : length < SHORTEST_TEXT ? "is too short"
                                              : "is too long",
                     SHORTEST_TEXT, LONGEST_TEXT);
}

void secret_key_derive(const char *text, unsigned char key[SECRET_KEY_BYTES])
{
    static const char purpose[] = "hvd secret of a job";
    crypto_generichash(key, SECRET_KEY_BYTES, (const unsigned char *)text, strlen(text),
                       (const unsigned char *)purpose, sizeof(purpose) - 1);
}
