/* secret_key.h: the key that is derived from the text of a job's secret (base/secret.h). */
#ifndef AUTH_SECRET_KEY_H
#define AUTH_SECRET_KEY_H

#include "base/status.h"

#define SECRET_KEY_BYTES 32

/* HVD_ERR_INVALID, with what to do, if [text] is NULL, too short or too long. */
int secret_key_check(const char *text, struct hvd_error *err);

/* Derive the key from a text that was checked. */
void secret_key_derive(const char *text, unsigned char key[SECRET_KEY_BYTES]);

#endif
