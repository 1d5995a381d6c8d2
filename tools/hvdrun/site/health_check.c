/* health_check.c: ask the command of --health-check whether ranks may run on this machine. */
#include "config.h"
#include "tools/hvdrun/site/health_check.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/codec.h"
#include "tools/hvdrun/site/host_script.h"

#define LIMIT_S          60 /* diagnostics of GPUs take a while */
#define FIRST_LINE_BYTES 160

/* Returns 0, or the signal that asks hvdrun to end. */
static int await_end(struct host_script *script, const struct job_signals *signals)
{
    int signal_number = 0;
    while (signal_number == 0 && !host_script_work(script)) {
        struct pollfd fds[] = {{.fd = host_script_fd(script), .events = POLLIN},
                               {.fd = signals->fd, .events = POLLIN}};
        poll(fds, 2, clock_ms_until(host_script_look_us(script)));
        if (fds[1].revents != 0)
            signal_number = job_signals_sleep(signals, clock_us() + 1);
    }
    return signal_number;
}

/* The command and what it has printed are anything, and the sentence goes to hvdrun and into terminals. */
static void make_printable(char *text)
{
    for (char *at = text; *at != 0; at++)
        if (!is_printable_byte((unsigned char)*at))
            *at = '?';
}

static int judge(const char *command, const struct host_script *script, struct hvd_error *err)
{
    if (script->problem[0] == 0)
        return HVD_OK;
    int first_line = (int)strcspn(script->text, "\n");
    first_line = first_line < FIRST_LINE_BYTES ? first_line : FIRST_LINE_BYTES;
    int rc = error_set(err, HVD_ERR_STATE, "--health-check: '%.100s' %s%s%.*s", command, script->problem,
                       first_line > 0 ? ": " : "", first_line, script->text);
    make_printable(err->text);
    return rc;
}

int health_check(const char *command, const struct job_signals *signals, int *signalp, struct hvd_error *err)
{
    struct host_script script = {.pid = 0, .limit_s = LIMIT_S};
    *signalp = 0;
    if (command == NULL)
        return HVD_OK;
    int rc = host_script_start(&script, command, &signals->original, err);
    if (rc == HVD_OK)
        *signalp = await_end(&script, signals);
    if (*signalp != 0)
        rc = error_set(err, HVD_ERR_SHUTDOWN, "interrupted by signal %d (%s) during --health-check", *signalp,
                       strsignal(*signalp));
    if (rc == HVD_OK)
        rc = judge(command, &script, err);
    host_script_end(&script);
    return rc;
}
