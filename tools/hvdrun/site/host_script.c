/* host_script.c: one run of the command that says which hosts there are, or whether this one is healthy,
 * beside the job. */
#include "config.h"

#include "tools/hvdrun/site/host_script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/process_signal.h"
#include "base/secret.h"
#include "verdict/verdict.h"

#define LOOK_US 20000 /* how soon it is reaped that has ended its output */

static _Noreturn void become_script(const char *command, int to, const sigset_t *mask, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) /* it died before that */
        _exit(127);
    setpgid(0, 0);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null_fd, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    unsetenv(SECRET_VARIABLE);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

int host_script_start(struct host_script *script, const char *command, const sigset_t *mask,
                      struct hvd_error *err)
{
    int fds[2];
    pid_t own = getpid();
    if (script->text == NULL)
        script->text = malloc(HOST_SCRIPT_BYTES + 1);
    if (script->text == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for a list of hosts");
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set_errno(err, "no pipe");
    fcntl(fds[1], F_SETFL, 0); /* the script's end blocks */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_script(command, fds[1], mask, own);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return error_set_errno(err, "no process");
    }
    setpgid(pid, pid); /* whoever comes first: before this process can want to end the group */
    script->pid = pid;
    script->fd = fds[0];
    script->limit_us = clock_us() + INT64_C(1000000) * script->limit_s;
    script->length = 0;
    script->problem[0] = 0;
    return HVD_OK;
}

/* ---- While it runs ------------------------------------------------------------------------------ */

static void kill_group(struct host_script *script)
{
    process_signal_group(script->pid, SIGKILL);
    descriptors_close(&script->fd);
}

/* Its first problem counts. */
static void give_up(struct host_script *script, const char *problem)
{
    if (script->problem[0] == 0)
        snprintf(script->problem, sizeof(script->problem), "%s", problem);
    kill_group(script);
}

static void read_answer(struct host_script *script)
{
    while (script->fd >= 0) {
        size_t room = HOST_SCRIPT_BYTES - script->length;
        ssize_t got = room > 0 ? read(script->fd, script->text + script->length, room) : -1;
        if (room == 0)
            give_up(script, "wrote more than 1 MiB, and was killed");
        else if (got > 0)
            script->length += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            descriptors_close(&script->fd);
        else
            return;
    }
}

/* Its process has ended, and its output too. */
static void note_end(struct host_script *script, int status)
{
    const struct verdict_end end = {.wait_status = status};
    script->pid = 0;
    script->text[script->length] = 0;
    if (script->problem[0] != 0)
        return;
    if (status != 0)
        verdict_describe_end(&end, script->problem, sizeof(script->problem));
    else if (strlen(script->text) != script->length)
        snprintf(script->problem, sizeof(script->problem), "wrote bytes that are no text");
}

bool host_script_work(struct host_script *script)
{
    char late[64];
    int status = 0;
    if (script->pid == 0)
        return false;
    read_answer(script);
    if (clock_us() >= script->limit_us && script->problem[0] == 0) {
        snprintf(late, sizeof(late), "did not end within %d s, and was killed", script->limit_s);
        give_up(script, late);
    }
    if (script->fd >= 0 || waitpid(script->pid, &status, WNOHANG) != script->pid)
        return false;
    note_end(script, status);
    return true;
}

int host_script_fd(const struct host_script *script)
{
    return script->pid != 0 ? script->fd : -1;
}

int64_t host_script_look_us(const struct host_script *script)
{
    return script->fd >= 0 ? script->limit_us : clock_us() + LOOK_US;
}

void host_script_end(struct host_script *script)
{
    if (script->pid != 0) {
        kill_group(script);
        while (waitpid(script->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(script->text);
    *script = (struct host_script){.pid = 0};
}
