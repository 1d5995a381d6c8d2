/* foreign.c: run the launcher that hvdrun becomes, and wait for its end. */
#include "config.h"

#include "tools/hvdrun/launcher/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/env.h"
#include "base/launch_variables.h"
#include "base/process_signal.h"
#include "base/secret.h"
#include "verdict/signal_name.h"
#include "options/config.h"
#include "tools/hvdrun/rank_files.h"

#define EXIT_NOT_FOUND 127

extern char **environ;

static void print_system_error(const char *what, const char *name)
{
    fprintf(stderr, "hvdrun: %s %s: %s\n", what, name, strerror(errno));
}

/* ---- Its environment --------------------------------------------------------------------------- */

/* Does [entry] set the variable that begins "NAME=" as [other] does? */
static bool is_same_variable(const char *entry, const char *other)
{
    size_t length = strcspn(other, "=") + 1;
    return strncmp(entry, other, length) == 0;
}

static bool is_set_anew(const char *entry, const struct words *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        if (is_same_variable(entry, variables->list[i]))
            return true;
    }
    return false;
}

/* The secret of the job: the user's, or one that is drawn now. No launcher's name is in it, as the ranks'
 * PMIx job is not hvdrun's. */
static void add_secret(struct words *environment)
{
    char digits[2][RANDOM_HEX_BYTES];
    const char *present = environment_value(environ, SECRET_VARIABLE);
    if (present != NULL && !secret_is_drawn(present))
        words_add(environment, SECRET_VARIABLE "=%s", present);
    else if (random_hex_draw(digits[0]) == 0 && random_hex_draw(digits[1]) == 0)
        words_add(environment, SECRET_VARIABLE "=%s%s", digits[0], digits[1]);
    else
        environment->failed = true;
}

static void make_environment(struct words *environment, const struct launch_line *line,
                             const struct hvdrun_options *options, int restart)
{
    add_secret(environment);
    if (options->max_restarts > 0)
        words_add(environment, RESTART_VARIABLE "=%d", restart);
    size_t own_count = environment->count;
    for (size_t i = 0; i < line->variables.count; i++)
        words_add(environment, "%s", line->variables.list[i]);
    for (int i = 0; environ[i] != NULL; i++) {
        bool replaced = is_same_variable(environ[i], CONFIG_CLI_VARIABLE "=") ||
                        is_set_anew(environ[i], &line->variables);
        for (size_t k = 0; k < own_count && !replaced; k++)
            replaced = is_same_variable(environ[i], environment->list[k]);
        if (!replaced)
            words_add(environment, "%s", environ[i]);
    }
}

/* ---- Its resource file ------------------------------------------------------------------------- */

/* Write the explicit resource file, where there is one, and name it in the command line. */
static int write_resource_file(struct launch_line *line)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    if (line->resource_file == NULL)
        return 0;
    snprintf(path, sizeof(path), "%s/hvdrun.XXXXXX", folder == NULL || folder[0] == 0 ? "/tmp" : folder);
    char *name = strdup(path);
    int fd = name != NULL ? mkostemp(name, O_CLOEXEC) : -1;
    if (fd < 0 || !descriptors_write(fd, line->resource_file, strlen(line->resource_file))) {
        print_system_error("the explicit resource file cannot be written to", path);
        free(name);
        descriptors_close(&fd);
        return -1;
    }
    close(fd);
    free(line->words.list[line->resource_word]);
    line->words.list[line->resource_word] = name;
    return 0;
}

static void remove_resource_file(const struct launch_line *line)
{
    if (line->resource_file != NULL)
        unlink(line->words.list[line->resource_word]);
}

/* ---- Its life ---------------------------------------------------------------------------------- */

static _Noreturn void become_launcher(const struct launch_line *line, char *const *environment,
                                      const struct job_signals *signals, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent) /* it died before that */
        _exit(EXIT_BROKEN);
    sigprocmask(SIG_SETMASK, &signals->original, NULL);
    execvpe(line->words.list[0], line->words.list, environment);
    print_system_error("cannot run", line->words.list[0]);
    _exit(EXIT_NOT_FOUND);
}

/* Pass signals on that did not come from the terminal. Returns whether one asks hvdrun to end. */
static bool pass_signals_on(pid_t pid, const struct job_signals *signals)
{
    struct signalfd_siginfo info;
    bool asked = false;
    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;
        if (info.ssi_code != SI_KERNEL && number != SIGCONT)
            process_signal(pid, number);
        if (number == SIGTSTP) {
            job_signals_stop();
            process_signal(pid, SIGCONT);
        }
        asked = asked || number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    }
    return asked;
}

/* Wait for the launcher. Returns the status of waitpid. */
static int await_end(pid_t pid, const struct job_signals *signals, bool *interruptedp)
{
    int status = 0;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    while (waitpid(pid, &status, child_fd < 0 ? 0 : WNOHANG) == 0) {
        struct signalfd_siginfo info;
        struct pollfd fds[] = {{.fd = child_fd, .events = POLLIN}, {.fd = signals->fd, .events = POLLIN}};
        poll(fds, 2, -1);
        while (read(child_fd, &info, sizeof(info)) > 0)
            continue;
        *interruptedp = pass_signals_on(pid, signals) || *interruptedp;
    }
    descriptors_close(&child_fd);
    return status;
}

/* The launcher says what becomes of its ranks, but not what becomes of itself. */
static void say_how_it_died(int status, const char *launcher)
{
    char name[SIGNAL_NAME_BYTES];
    if (WIFSIGNALED(status))
        fprintf(stderr, "hvdrun: %s was killed by %s, itself and not a rank\n", launcher,
                signal_name(WTERMSIG(status), name));
}

static void judge(int status, bool interrupted, struct attempt *attempt)
{
    attempt->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    bool not_found = attempt->exit_status == EXIT_NOT_FOUND || attempt->exit_status == 126;
    attempt->may_restart = attempt->exit_status != 0 && !interrupted && !not_found;
}

static int make_folder(const struct hvdrun_options *options)
{
    if (options->output.directory == NULL || rank_files_make_directory(options->output.directory) == 0)
        return 0;
    print_system_error("cannot make the directory", options->output.directory);
    return -1;
}

void foreign_run(struct launch_line *line, const struct hvdrun_options *options,
                 const struct job_signals *signals, int restart, struct attempt *attempt)
{
    struct words environment = {NULL, 0, 0, false};
    bool interrupted = false;
    pid_t own = getpid();
    attempt->exit_status = EXIT_BROKEN;
    make_environment(&environment, line, options, restart);
    if (environment.failed) {
        errno = ENOMEM;
        print_system_error("cannot run", line->words.list[0]);
    } else if (make_folder(options) == 0 && write_resource_file(line) == 0) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            become_launcher(line, environment.list, signals, own);
        if (pid > 0) {
            int status = await_end(pid, signals, &interrupted);
            if (!interrupted)
                say_how_it_died(status, line->words.list[0]);
            judge(status, interrupted, attempt);
        } else {
            print_system_error("cannot run", line->words.list[0]);
        }
        remove_resource_file(line);
    }
    words_free(&environment);
}
