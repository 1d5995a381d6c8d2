/* server_process.c: the process of the PMIx server: starts the server, registers one job, and stays until
 * hvdrun has ended. */
#include "config.h"

#include "pmix_shim/server_process.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/home.h"
#include "base/kernel.h"
#include "base/secret.h"
#include "base/stack.h"
#include "base/ulimit.h"
#include "pmix_shim/event_channel.h"
#include "pmix_shim/server_crash.h"
#include "pmix_shim/server_accept.h"
#include "pmix_shim/upcall.h"

/* What the server takes of the address space at its start: the stacks of two threads, libpmix's modules, and
 * as much again for what the ranks send. */
#define INIT_BYTES ((size_t)32 << 20)

struct server_state {
    struct event_channel channel;
    pmix_nspace_t nspace;
};

static int pmix_error(struct hvd_error *err, const char *what, pmix_status_t rc)
{
    return error_set(err, HVD_ERR_SYSTEM, "%s: PMIx says %s", what, PMIx_Error_string(rc));
}

/* Does it say where libpmix's plug-ins are, which users set if it was moved? libpmix searches both folders.
 */
static bool names_plug_ins(const char *name)
{
    return strcmp(name, "PMIX_PKGLIBDIR") == 0 || strcmp(name, "PMIX_MCA_mca_base_component_path") == 0;
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
        if (names_plug_ins(name))
            entry++;
        else
            unsetenv(name); /* the next entry moves to this place */
    }
}

/* Remove what an outer launcher has set, as it is not meant for this server. PMIx's default data store
 * blocks the server for ever when a rank is killed inside it, and its default security needs a munge
 * daemon. The server needs no topology of the machine but loads one, so it gets the smallest possible:
 * discovery would take most of the start-up time. */
static void prepare_environment(void)
{
    unset_prefixed("PMIX_");
    unset_prefixed("HWLOC_");
    setenv("PMIX_MCA_gds", "hash", 1);
    setenv("PMIX_MCA_psec", "native", 1);
    setenv("HWLOC_SYNTHETIC", "pu:1", 1);
    setenv("HWLOC_PLUGINS_PATH", "", 1);
    if (home_is_unknown(NULL))
        setenv("HOME", HOME_SUBSTITUTE, 1);
}

static int start_server(const struct server_job *job, struct hvd_error *err)
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
            err, "cannot start the PMIx server (it listens on 127.0.0.1: is lo up, with that address?)", rc);
    return HVD_OK;
}

/* Make the list of the only node's ranks, "0,1,2", and encode it in PMIx's compressed form. */
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

/* libpmix derives size, local ranks and peers from the two maps. The folder is for the session files of
 * Open MPI, which leaves their removal to us. */
static int register_job(struct server_state *serving, const struct server_job *job, struct hvd_error *err)
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
    rc = PMIx_server_register_nspace(serving->nspace, job->size, info, 5, NULL, NULL);
    for (int i = 0; i < 5; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED) {
        status = pmix_error(err, "cannot register the job with PMIx", rc);
        goto done;
    }

done:
    free(nodes);
    free(ranks);
    return status;
}

static int register_ranks(struct server_state *serving, int size, struct hvd_error *err)
{
    for (int rank = 0; rank < size; rank++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, serving->nspace, (pmix_rank_t)rank);
        pmix_status_t rc =
            PMIx_server_register_client(&proc, geteuid(), getegid(), &serving->channel, NULL, NULL);
        if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
            return pmix_error(err, "cannot register a rank with PMIx", rc);
    }
    return HVD_OK;
}

/* Whoever knows the name of the namespace can take part: PMIx believes the user that a client says it is. So
 * nobody else may guess it. The ranks have it from their environment, which others cannot read. */
static int draw_nspace(struct server_state *serving, const char *host, struct hvd_error *err)
{
    char digits[RANDOM_HEX_BYTES];
    if (random_hex_draw(digits) < 0)
        return error_set_errno(err, "cannot draw a name for the job");
    snprintf(serving->nspace, sizeof(serving->nspace), SECRET_OF_HVDRUN ".%.200s.%s", host, digits);
    return HVD_OK;
}

static int serve_job(struct server_state *serving, const struct server_job *job, struct hvd_error *err)
{
    prepare_environment();
    int status = ulimit_leaves_room("the PMIx server", INIT_BYTES, err); /* libpmix crashes without it */
    if (status == HVD_OK)
        status = draw_nspace(serving, job->host, err);
    if (status == HVD_OK)
        status = start_server(job, err);
    if (status == HVD_OK)
        server_accept_guard();
    if (status == HVD_OK)
        status = register_job(serving, job, err);
    if (status == HVD_OK)
        status = register_ranks(serving, job->size, err);
    return status;
}

static void write_or_exit(int fd, const void *bytes, size_t length)
{
    if (!descriptors_write(fd, bytes, length))
        _exit(EXIT_FAILURE); /* hvdrun has ended */
}

static void send_record(int fd, int status, const char *bytes, size_t length)
{
    struct server_record piece = {status, (unsigned)length};
    write_or_exit(fd, &piece, sizeof(piece));
    write_or_exit(fd, bytes, length);
}

_Noreturn static void give_up(int fd, int status, const struct hvd_error *err)
{
    send_record(fd, status, err->text, strlen(err->text));
    _exit(EXIT_FAILURE);
}

static void send_environment(const struct server_state *serving, int rank, int fd)
{
    char bytes[SERVER_RECORD_BYTES];
    size_t used = 0;
    char **environment = NULL;
    struct hvd_error err;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, serving->nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, &environment);
    if (rc != PMIX_SUCCESS)
        give_up(fd, pmix_error(&err, "cannot make a rank's environment", rc), &err);
    for (char **entry = environment; *entry != NULL; entry++) {
        size_t length = strlen(*entry) + 1;
        if (length > sizeof(bytes) - used)
            give_up(fd,
                    error_set(&err, HVD_ERR_NO_MEMORY,
                              "what PMIx adds to a rank's environment is longer than %d bytes",
                              SERVER_RECORD_BYTES),
                    &err);
        memcpy(bytes + used, *entry, length);
        used += length;
        free(*entry);
    }
    free(environment);
    send_record(fd, HVD_OK, bytes, used);
}

/* Close the descriptors that were hvdrun's, since a copy here would keep them open; die with hvdrun, as
 * nobody waits for this process otherwise; and write no core file, as the user has no use for one. */
static void detach_process(int channel_fd, int pipe_fd)
{
    const struct rlimit none = {0, 0};
    int low = channel_fd < pipe_fd ? channel_fd : pipe_fd;
    int high = channel_fd < pipe_fd ? pipe_fd : channel_fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, "hvdrun-pmix", 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    kernel_close_range(STDERR_FILENO + 1, (unsigned)low - 1);
    kernel_close_range((unsigned)low + 1, (unsigned)high - 1);
    kernel_close_range((unsigned)high + 1, ~0U);
}

/* Each byte from hvdrun asks whether this process is alive. */
static void answer_until_end(const struct event_channel *channel)
{
    const struct server_event alive = {.kind = SERVER_ALIVE, .rank = 0};
    char question = 0;
    for (;;) {
        ssize_t length = read(channel->fd, &question, 1);
        if (length == 1)
            event_channel_post(channel, &alive);
        else if (length == 0 || errno != EINTR)
            return;
    }
}

void server_process_run(const struct server_job *job, int channel_fd, int pipe_fd)
{
    struct hvd_error err;
    struct server_state serving = {.channel = {channel_fd}};
    detach_process(channel_fd, pipe_fd);
    stack_raise_thread_default();
    mallopt(M_ARENA_MAX, 1); /* malloc would take 64 MiB of the address space for each thread */
    server_crash_report(&serving.channel);
    int status = serve_job(&serving, job, &err);
    if (status != HVD_OK)
        give_up(pipe_fd, status, &err);
    send_record(pipe_fd, HVD_OK, NULL, 0);
    for (int rank = 0; rank < job->size; rank++)
        send_environment(&serving, rank, pipe_fd);
    close(pipe_fd);
    answer_until_end(&serving.channel); /* PMIx's thread does the rest */
    _exit(EXIT_SUCCESS);
}
