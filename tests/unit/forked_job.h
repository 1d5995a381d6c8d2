/* forked_job.h: a job of forked ranks that find each other through the environment, on one node or on several
 * nodes simulated by PID namespaces. */
#ifndef TESTS_UNIT_FORKED_JOB_H
#define TESTS_UNIT_FORKED_JOB_H

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "open_descriptors.h"
#include "unit.h"

#define JOB_MAX_RANKS 16
#define JOB_LIMIT_S   40 /* every process of a job ends after this time */

/* What a rank reports to the test. */
struct job_result {
    int rc;
    char text[512];
    int fds_left;    /* descriptors that the rank left open */
    int wait_status; /* from waitpid */
    int node_count, local_size, node;
    int window_count, own_window;
    bool windows_left; /* windows were still mapped after bootstrap_close */
    int64_t took_us;
};

struct job {
    int size, node_count;
    void (*rank)(int rank, struct job_result *result); /* runs in the rank's process */
    struct job_result *results;                        /* [size], shared with the ranks */
    char port[8];
};

/* Reserve a port of loopback for rank 0 of the job: as long as the returned socket, which does not listen, is
 * open, the kernel gives the port to nobody who asks for any, and rank 0 may still listen on it. */
static inline int job_reserve_port(char port[8])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(port, 8, "%u", ntohs(address.sin_port));
    return fd;
}

/* The environment of one rank, and no other launcher's. */
static inline void job_set_environment(const struct job *job, int rank)
{
    char text[16];
    for (;;) { /* what is left decides nothing: only names that launchers use are removed */
        char name[128] = "";
        for (int i = 0; environ[i] != NULL && name[0] == 0; i++)
            if (strncmp(environ[i], "PMI", 3) == 0 || strncmp(environ[i], "SLURM_", 6) == 0 ||
                strncmp(environ[i], "OMPI_", 5) == 0 || strncmp(environ[i], "HVD_", 4) == 0)
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(environ[i], "="), environ[i]);
        if (name[0] == 0)
            break;
        unsetenv(name);
    }
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof(text), "%d", job->size);
    setenv("WORLD_SIZE", text, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", job->port, 1);
    setenv("HVD_JOB_KEY", "a key of the unit tests, not secret", 1);
}

/* In a new process: end when the parent does, and after JOB_LIMIT_S at the latest. */
static inline void job_bound(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(JOB_LIMIT_S);
}

static inline int job_await(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* The ranks of one node, as children of this process. */
static inline void job_run_node(struct job *job, int node)
{
    pid_t pids[JOB_MAX_RANKS];
    for (int rank = 0; rank < job->size; rank++) {
        if (rank * job->node_count / job->size != node)
            continue;
        pids[rank] = fork();
        if (pids[rank] == 0) {
            job_bound();
            job_set_environment(job, rank);
            job->rank(rank, &job->results[rank]);
            exit(0); /* with the leak check */
        }
    }
    for (int rank = 0; rank < job->size; rank++)
        if (rank * job->node_count / job->size == node)
            job->results[rank].wait_status = job_await(pids[rank]);
}

/* hvd takes ranks in different PID namespaces for ranks of different nodes. The namespace's first process
 * only waits: when it ends, the kernel kills the others. Returns false if this user may not create one. */
static inline int job_enter_node(void)
{
    int flags = geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWUSER;
    return unshare(flags) == 0;
}

static inline void job_run(struct job *job)
{
    pid_t holders[JOB_MAX_RANKS];
    size_t bytes = JOB_MAX_RANKS * sizeof(job->results[0]);
    job->results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(job->results, MAP_FAILED);
    for (int rank = 0; rank < job->size; rank++)
        job->results[rank] = (struct job_result){.rc = 77, .text = "the rank ended without a result"};
    int reserved = job_reserve_port(job->port);
    for (int node = 0; node < job->node_count; node++) {
        holders[node] = fork();
        if (holders[node] != 0)
            continue;
        job_bound();
        if (job->node_count > 1 && !job_enter_node())
            _exit(1);
        pid_t first = job->node_count > 1 ? fork() : 0;
        if (first == 0) {
            job_bound();
            job_run_node(job, node);
            _exit(0);
        }
        job_await(first);
        _exit(0);
    }
    for (int node = 0; node < job->node_count; node++)
        job_await(holders[node]);
    close(reserved);
}

#endif
