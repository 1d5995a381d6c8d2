/* server.c: start the PMIx server, register one job, and take down both. */
#include "pmix_shim/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix_shim/channel.h"
#include "pmix_shim/upcall.h"

struct server {
    struct channel *channel;
    pmix_nspace_t nspace;
    bool initialised;
    bool registered;
};

extern char **environ;

static int pmix_error(struct hvd_error *err, const char *what, pmix_status_t rc)
{
    return error_set(err, HVD_ERR_SYSTEM, "%s: PMIx says %s", what, PMIx_Error_string(rc));
}

static void unset_prefixed(const char *prefix)
{
    size_t length = strlen(prefix);
    for (char **entry = environ; *entry != NULL;) {
        char name[256];
        size_t name_length = strcspn(*entry, "=");
        if (strncmp(*entry, prefix, length) != 0 || (*entry)[name_length] == 0 ||
            name_length >= sizeof(name)) {
            entry++;
            continue;
        }
        memcpy(name, *entry, name_length);
        name[name_length] = 0;
        unsetenv(name); /* moves the next entry here */
    }
}

/* What an outer launcher said is not for this server. The default data store blocks the server for ever
 * when a rank is killed inside it, and the default security asks a munge daemon. The server needs no topology
 * of the machine, but loads one: give it the smallest there is, since discovery would be most of the
 * start-up. */
static void settle_environment(void)
{
    unset_prefixed("PMIX_");
    unset_prefixed("HWLOC_");
    setenv("PMIX_MCA_gds", "hash", 1);
    setenv("PMIX_MCA_psec", "native", 1);
    setenv("HWLOC_SYNTHETIC", "pu:1", 1);
    setenv("HWLOC_PLUGINS_PATH", "", 1);
}

static int start(struct server *server, const struct server_job *job, struct hvd_error *err)
{
    pmix_server_module_t module = {
        .client_connected2 = upcall_connected,
        .client_finalized = upcall_finalized,
        .abort = upcall_abort,
        .fence_nb = upcall_fence,
        .register_events = upcall_register_events,
        .deregister_events = upcall_deregister_events,
        .notify_event = upcall_notify_event,
        .job_control = upcall_job_control,
    };
    pmix_info_t info[5];
    pmix_rank_t rank = 0;
    char name[64];
    snprintf(name, sizeof(name), "hvdrun-server.%d", (int)getpid());
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, job->scratch, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, job->scratch, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_NSPACE, name, PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[4], PMIX_HOSTNAME, job->host, PMIX_STRING);
    pmix_status_t rc = PMIx_server_init(&module, info, 5);
    for (int i = 0; i < 5; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    if (rc != PMIX_SUCCESS)
        return pmix_error(
            err, "cannot start the PMIx server (it listens on 127.0.0.1: is the interface lo up?)", rc);
    server->initialised = true;
    return HVD_OK;
}

/* "0,1,2": the ranks of the only node, in PMIx's compressed form. */
static int make_map(int size, char **mapp, struct hvd_error *err)
{
    size_t text_bytes = (size_t)size * 12;
    char *text = malloc(text_bytes);
    size_t used = 0;
    if (text == NULL)
        return error_set_errno(err, "cannot list %d ranks", size);
    for (int rank = 0; rank < size; rank++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", rank == 0 ? "" : ",", rank);
    pmix_status_t rc = PMIx_generate_ppn(text, mapp);
    free(text);
    return rc == PMIX_SUCCESS ? HVD_OK : pmix_error(err, "cannot describe the ranks to PMIx", rc);
}

/* libpmix derives size, local ranks and peers from the two maps. The folder is for Open MPI's session: it
 * leaves the removal to us. */
static int register_job(struct server *server, const struct server_job *job, struct hvd_error *err)
{
    char *nodes = NULL;
    char *ranks = NULL;
    bool managed = true;
    pmix_info_t info[5];
    pmix_status_t rc = PMIx_generate_regex(job->host, &nodes);
    if (rc != PMIX_SUCCESS)
        return pmix_error(err, "cannot describe the node to PMIx", rc);
    int status = make_map(job->size, &ranks, err);
    if (status != HVD_OK)
        goto done;
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, ranks, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[2], PMIX_TMPDIR, job->scratch, PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_NSDIR, job->scratch, PMIX_STRING);
    PMIX_INFO_LOAD(&info[4], PMIX_TDIR_RMCLEAN, &managed, PMIX_BOOL);
    rc = PMIx_server_register_nspace(server->nspace, job->size, info, 5, NULL, NULL);
    for (int i = 0; i < 5; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED) {
        status = pmix_error(err, "cannot register the job with PMIx", rc);
        goto done;
    }
    server->registered = true;

done:
    free(nodes);
    free(ranks);
    return status;
}

static int register_ranks(struct server *server, int size, struct hvd_error *err)
{
    for (int rank = 0; rank < size; rank++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, server->nspace, (pmix_rank_t)rank);
        pmix_status_t rc =
            PMIx_server_register_client(&proc, geteuid(), getegid(), server->channel, NULL, NULL);
        if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
            return pmix_error(err, "cannot register a rank with PMIx", rc);
    }
    return HVD_OK;
}

int server_open(struct server **serverp, const struct server_job *job, struct hvd_error *err)
{
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set_errno(err, "cannot start the PMIx server");
    snprintf(server->nspace, sizeof(server->nspace), "hvdrun.%.200s.%d", job->host, (int)getpid());
    settle_environment();
    int status = channel_create(&server->channel, err);
    if (status == HVD_OK)
        status = start(server, job, err);
    if (status == HVD_OK)
        status = register_job(server, job, err);
    if (status == HVD_OK)
        status = register_ranks(server, job->size, err);
    if (status != HVD_OK) {
        server_close(server);
        return status;
    }
    *serverp = server;
    return HVD_OK;
}

int server_environment(struct server *server, int rank, char ***environmentp, struct hvd_error *err)
{
    char **environment = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, server->nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, &environment);
    if (rc != PMIX_SUCCESS) {
        server_environment_free(environment);
        return pmix_error(err, "cannot make a rank's environment", rc);
    }
    *environmentp = environment;
    return HVD_OK;
}

void server_environment_free(char **environment)
{
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++)
        free(*entry);
    free(environment);
}

int server_fd(const struct server *server)
{
    return channel_fd(server->channel);
}

bool server_next(struct server *server, struct server_event *event)
{
    struct channel_message message;
    if (!channel_take(server->channel, &message))
        return false;
    event->kind = message.kind == CHANNEL_CONNECTED   ? SERVER_CONNECTED
                  : message.kind == CHANNEL_FINALIZED ? SERVER_FINALIZED
                                                      : SERVER_ABORT;
    event->rank = message.rank;
    event->status = message.status;
    memcpy(event->text, message.text, sizeof(event->text));
    if (message.done != NULL)
        message.done(PMIX_SUCCESS, message.done_arg);
    return true;
}

void server_close(struct server *server)
{
    if (server == NULL)
        return;
    if (server->registered)
        PMIx_server_deregister_nspace(server->nspace, NULL, NULL);
    if (server->initialised)
        PMIx_server_finalize();
    channel_destroy(server->channel);
    free(server);
}
