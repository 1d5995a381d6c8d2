/* munge.c: seal a few bytes so that only processes of this user can open them. */
#include "auth/munge.h"

#include <dlfcn.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* What is used of libmunge.so.2, whose interface has been stable since 2005: numbers and functions of
 * munge.h, which need not be installed where hvd is built. */
#define LIBRARY             "libmunge.so.2"
#define OPTION_UID          9 /* MUNGE_OPT_UID_RESTRICTION */
#define ERROR_NONE          0 /* EMUNGE_SUCCESS */
#define ERROR_CRED_EXPIRED  15
#define ERROR_CRED_REPLAYED 17 /* another rank of the node was first: one credential is for all ranks */
struct munge_ctx;

struct munge {
    void *library;
    struct munge_ctx *(*ctx_create)(void);
    int (*ctx_set)(struct munge_ctx *ctx, int option, ...);
    void (*ctx_destroy)(struct munge_ctx *ctx);
    int (*encode)(char **text, struct munge_ctx *ctx, const void *bytes, int length);
    int (*decode)(const char *text, struct munge_ctx *ctx, void **bytes, int *length, uid_t *uid, gid_t *gid);
    const char *(*strerror)(int error);
};

static int no_munge(struct hvd_error *err)
{
    const char *why = dlerror();
    return error_set(err, HVD_ERR_INVALID, "munge cannot be used: %s", why != NULL ? why : LIBRARY);
}

static int load_library(struct munge *munge, struct hvd_error *err)
{
    const struct {
        const char *name;
        void **to;
    } functions[] = {
        {"munge_ctx_create", (void **)&munge->ctx_create},   {"munge_ctx_set", (void **)&munge->ctx_set},
        {"munge_ctx_destroy", (void **)&munge->ctx_destroy}, {"munge_encode", (void **)&munge->encode},
        {"munge_decode", (void **)&munge->decode},           {"munge_strerror", (void **)&munge->strerror}};
    munge->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (munge->library == NULL)
        return no_munge(err);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].to = dlsym(munge->library, functions[i].name);
        if (*functions[i].to == NULL) {
            int rc = no_munge(err);
            dlclose(munge->library);
            return rc;
        }
    }
    return HVD_OK;
}

int munge_seal(const void *bytes, size_t length, char **textp, struct hvd_error *err)
{
    struct munge munge;
    char *text = NULL;
    int rc = load_library(&munge, err);
    if (rc != HVD_OK)
        return rc;
    struct munge_ctx *ctx = munge.ctx_create();
    if (ctx == NULL) {
        rc = error_set(err, HVD_ERR_NO_MEMORY, "out of memory for a credential of munge");
        goto done;
    }
    int error = munge.ctx_set(ctx, OPTION_UID, geteuid());
    if (error == ERROR_NONE)
        error = munge.encode(&text, ctx, bytes, (int)length);
    if (error != ERROR_NONE) {
        rc = error_set(err, HVD_ERR_INVALID, "munge cannot be used: %s", munge.strerror(error));
        goto done;
    }
    *textp = text;
    text = NULL;

done:
    free(text);
    if (ctx != NULL)
        munge.ctx_destroy(ctx);
    dlclose(munge.library);
    return rc;
}

int munge_open(const char *text, void *bytes, size_t length, struct hvd_error *err)
{
    struct munge munge;
    void *opened = NULL;
    int opened_length = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid = (gid_t)-1;
    int rc = load_library(&munge, err);
    if (rc != HVD_OK)
        return rc;
    int error = munge.decode(text, NULL, &opened, &opened_length, &uid, &gid);
    if (error != ERROR_NONE && error != ERROR_CRED_EXPIRED && error != ERROR_CRED_REPLAYED)
        rc = error_set(err, HVD_ERR_INVALID, "munge does not open it: %s", munge.strerror(error));
    else if (uid != geteuid())
        rc = error_set(err, HVD_ERR_INVALID, "it was made by user %u, expected %u", (unsigned)uid,
                       (unsigned)geteuid());
    else if (opened == NULL || opened_length != (int)length)
        rc = error_set(err, HVD_ERR_INVALID, "it holds %d bytes, expected %zu", opened_length, length);
    else
        memcpy(bytes, opened, length);
    if (opened != NULL)
        sodium_memzero(opened, (size_t)opened_length);
    free(opened);
    dlclose(munge.library);
    return rc;
}
