/* reaper_process.c: the reaper process: starts the ranks, reaps them, and ends everything when hvdrun ends.
 * It has one thread and needs no library but libc. */
#include "tools/hvdrun/reaper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fd_passing.h"
#include "base/packet.h"
#include "base/process_signal.h"
#include "base/process_stat.h"
#include "tools/hvdrun/scratch.h"
#include "tools/hvdrun/process_tree.h"
#include "verdict/verdict.h"
#include "topo/apply.h"

#define TERM_AGAIN_US 50000    /* after SIGTERM, until processes are signalled that were created meanwhile */
#define KILL_AGAIN_US 20000    /* between two passes of SIGKILL */
#define KILL_LIMIT_US 10000000 /* give up on processes that are still there after this time */

struct reaper_state {
    const struct reaper_plan *plan;
    int fd; /* to hvdrun; -1 once hvdrun is gone */
    pid_t hvdrun;
    int silent_beats; /* since hvdrun was heard */
    int64_t beat_us;  /* when the next one is counted */
    int signal_fd;
    int null_fd;
    struct bitmap cpus;   /* the reaper's own */
    bool mems_are_chosen; /* by the user, so the ranks keep the memory policy */
    pid_t *pids;          /* by rank; 0: it does not run */
    bool *exits;          /* by rank: it exited already when the job was asked to end */
    bool start_failed;
    enum verdict_stage stage;
    bool repeating_term; /* send SIGTERM to new processes as well */
    struct signalled_processes told;
    int64_t next_us;  /* when to signal again */
    int64_t end_us;   /* when the job was asked to end */
    int64_t grace_us; /* from then to SIGKILL */
    int64_t grace_end_us;
    int64_t limit_us; /* when to stop trying */
    uint64_t sweep;
    bool childless;
    bool gave_up;
    bool reported_empty;
    /* reports that hvdrun has not received yet, in a ring; at most two for each rank */
    struct reaper_report *reports;
    size_t report_first, report_count, report_room;
};

static void report(struct reaper_state *state, const struct reaper_report *report)
{
    if (state->report_count == state->report_room)
        return; /* cannot happen: there is room for every possible report */
    struct reaper_report *entry =
        &state->reports[(state->report_first + state->report_count++) % state->report_room];
    *entry = *report;
    entry->at_us = clock_us();
}

/* ---- Start ---------------------------------------------------------------------------------- */

/* What a rank needs in addition to the plan. */
struct start {
    int rank;
    bool again;                       /* in place of a process that has ended */
    const struct bitmap *cpus, *mems; /* NULL: as the reaper */
    int stdio_fds[3];
    char **extra; /* its own variables; NULL: no memory for them */
};

/* The strings that lie one after the other in [text]. NULL: no memory. */
static char **list_strings(char *text, size_t text_bytes)
{
    size_t count = 0;
    for (size_t at = 0; at < text_bytes; at++)
        count += text[at] == 0;
    char **list = calloc(count + 1, sizeof(*list));
    size_t used = 0;
    for (size_t at = 0; list != NULL && used < count; at += strlen(text + at) + 1)
        list[used++] = text + at;
    return list;
}

static size_t count_strings(char *const *list)
{
    size_t count = 0;
    while (list[count] != NULL)
        count++;
    return count;
}

/* Does [extra] have the variable of [entry]? */
static bool is_replaced(const char *entry, char *const *extra)
{
    size_t length = strcspn(entry, "=");
    for (; *extra != NULL; extra++) {
        if (strncmp(*extra, entry, length) == 0 && (*extra)[length] == '=')
            return true;
    }
    return false;
}

static char **join_environment(const struct reaper_state *state, char *const *extra)
{
    size_t used = 0;
    if (extra == NULL)
        return NULL;
    size_t common = count_strings(state->plan->environment);
    char **joined = calloc(common + count_strings(extra) + 1, sizeof(*joined));
    if (joined == NULL)
        return NULL;
    for (; extra[used] != NULL; used++)
        joined[used] = extra[used];
    for (size_t i = 0; i < common; i++) {
        if (!is_replaced(state->plan->environment[i], extra))
            joined[used++] = state->plan->environment[i];
    }
    return joined;
}

/* Start the rank in its own process group, so that a Ctrl-C at the terminal reaches hvdrun alone, and with
 * the signal mask that hvdrun was started with. Returns 0 or an errno, also if exec failed. */
static int spawn_rank(struct reaper_state *state, const struct start *start, pid_t *pidp)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    const struct reaper_app *app = reaper_app_of(state->plan, start->rank);
    char **environment = join_environment(state, start->extra);
    if (environment == NULL)
        return ENOMEM;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, state->plan->signal_mask);
    int rc = 0;
    for (int to = 0; to < 3 && rc == 0; to++)
        rc = posix_spawn_file_actions_adddup2(&actions, start->stdio_fds[to], to);
    if (rc == 0)
        rc = posix_spawn(pidp, app->path, &actions, &attributes, app->arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    return rc;
}

/* Bind this thread before it spawns the rank. The rank inherits the binding and the memory policy, so that it
 * has them from its first instruction, even while its program is loaded. */
static int bind_for_rank(const struct reaper_state *state, const struct start *start)
{
    if (start->cpus == NULL)
        return 0;
    if (apply_cpus(0, start->cpus, NULL) != HVD_OK)
        return errno;
    if (!state->mems_are_chosen)
        apply_mems(start->mems);
    return 0;
}

static void unbind(const struct reaper_state *state, const struct start *start)
{
    if (start->cpus == NULL)
        return;
    apply_cpus(0, &state->cpus, NULL);
    if (!state->mems_are_chosen)
        apply_default_mems();
}

static void start_rank(struct reaper_state *state, const struct start *start)
{
    struct reaper_report done = {.kind = REAPER_NOT_BOUND, .rank = start->rank};
    pid_t pid = 0;
    if (state->start_failed || state->stage != VERDICT_RUNNING)
        return;
    done.number = bind_for_rank(state, start);
    if (done.number == 0) {
        done.number = spawn_rank(state, start, &pid);
        done.kind = done.number == 0 ? REAPER_STARTED : REAPER_NOT_STARTED;
        unbind(state, start);
    }
    state->start_failed = done.number != 0 && !start->again;
    done.pid = done.number == 0 ? pid : 0;
    state->pids[start->rank] = done.pid;
    state->childless = state->childless && done.number != 0;
    report(state, &done);
}

/* ---- End ------------------------------------------------------------------------------------ */

/* Until a rank is reaped, the number of its process group cannot be reused. */
static void signal_group(const struct reaper_state *state, int rank, int signal_number)
{
    if (state->pids[rank] > 0)
        process_signal_group(state->pids[rank], signal_number);
}

static void signal_groups(const struct reaper_state *state, int signal_number)
{
    for (int rank = 0; rank < state->plan->size; rank++)
        signal_group(state, rank, signal_number);
}

static void signal_tree(struct reaper_state *state, int signal_number)
{
    struct signalled_processes *told = signal_number == SIGKILL ? NULL : &state->told;
    if (process_tree_signal(signal_number, told) < 0)
        signal_groups(state, signal_number);
}

static void begin_kill(struct reaper_state *state)
{
    state->next_us = clock_us();
    if (state->stage == VERDICT_TERM_SENT)
        state->grace_us = state->next_us - state->end_us;
    state->stage = VERDICT_KILL_SENT;
    state->limit_us = state->next_us + KILL_LIMIT_US;
}

/* Set the time of the next pass during the grace period. */
static void schedule_sweep(struct reaper_state *state)
{
    int64_t look_us = clock_us() + TERM_AGAIN_US;
    state->next_us = state->repeating_term && look_us < state->grace_end_us ? look_us : state->grace_end_us;
}

/* A rank that has closed its connections but is no zombie yet ends by itself, and not because it is told to.
 */
static void note_exits(struct reaper_state *state)
{
    struct process_stat stat;
    for (int rank = 0; rank < state->plan->size; rank++)
        state->exits[rank] =
            state->pids[rank] != 0 && process_stat_read(state->pids[rank], &stat) && stat.exits;
}

static void begin_end(struct reaper_state *state, int signal_number)
{
    if (state->stage != VERDICT_RUNNING)
        return;
    note_exits(state);
    state->stage = VERDICT_TERM_SENT;
    state->end_us = clock_us();
    state->grace_end_us = state->end_us + state->plan->grace_us;
    state->repeating_term = signal_number == SIGTERM;
    schedule_sweep(state);
    if (state->childless)
        return;
    if (state->repeating_term)
        signal_tree(state, SIGTERM);
    else
        signal_groups(state, signal_number);
    signal_groups(state, SIGCONT); /* a stopped process could not handle the signal */
}

/* Called when the grace period is over, or when new processes should be signalled. */
static void continue_ending(struct reaper_state *state)
{
    int64_t now_us = clock_us();
    if (state->stage == VERDICT_RUNNING || state->childless || now_us < state->next_us)
        return;
    if (state->stage == VERDICT_TERM_SENT && now_us < state->grace_end_us) {
        signal_tree(state, SIGTERM);
        schedule_sweep(state);
        return;
    }
    if (state->stage == VERDICT_TERM_SENT)
        begin_kill(state);
    signal_tree(state, SIGKILL);
    state->next_us = now_us + KILL_AGAIN_US;
    state->gave_up = now_us >= state->limit_us;
}

static void reap(struct reaper_state *state)
{
    state->sweep++;
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        state->childless = pid < 0 && errno == ECHILD;
        if (pid <= 0)
            return;
        for (int rank = 0; rank < state->plan->size; rank++) {
            if (state->pids[rank] != pid)
                continue;
            state->pids[rank] = 0;
            report(state,
                   &(struct reaper_report){.kind = REAPER_ENDED,
                                           .rank = rank,
                                           .number = status,
                                           .stage = state->exits[rank] ? VERDICT_RUNNING : (int)state->stage,
                                           .sweep = state->sweep,
                                           .grace_us = state->grace_us});
        }
    }
}

/* Whether there is nothing left to wait for. */
static bool is_over(const struct reaper_state *state)
{
    return state->stage != VERDICT_RUNNING && (state->childless || state->gave_up);
}

static void report_empty(struct reaper_state *state)
{
    if (!is_over(state) || state->reported_empty)
        return;
    state->reported_empty = true;
    report(state, &(struct reaper_report){.kind = REAPER_EMPTY, .number = state->childless ? 0 : -1});
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct incoming {
    struct reaper_request request;
    char text[REAPER_REQUEST_BYTES - sizeof(struct reaper_request)];
};

/* Returns 1, 0 if there is no request, or -1 if hvdrun is gone. [fds] that did not come are -1. */
static int receive(const struct reaper_state *state, struct incoming *incoming, size_t *text_bytesp,
                   int fds[3])
{
    struct fd_passing room;
    struct iovec part = {incoming, sizeof(*incoming)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fd_passing_expect(&message, &room, 3);
    ssize_t length = packet_receive(state->fd, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length >= 0)
        fd_passing_take(&message, fds, 3);
    if (length < (ssize_t)sizeof(incoming->request))
        return -1;
    *text_bytesp = (size_t)length - sizeof(incoming->request);
    return 1;
}

static void do_start(struct reaper_state *state, struct incoming *incoming, size_t text_bytes,
                     const int fds[3])
{
    struct start start = {.rank = incoming->request.rank,
                          .again = incoming->request.again,
                          .stdio_fds = {fds[2], fds[0], fds[1]},
                          .extra = list_strings(incoming->text, text_bytes)};
    if (incoming->request.is_bound) {
        start.cpus = &incoming->request.cpus;
        start.mems = &incoming->request.mems;
    }
    if (!incoming->request.has_stdin)
        start.stdio_fds[0] = start.rank == 0 && !start.again ? STDIN_FILENO : state->null_fd;
    start_rank(state, &start);
    free(start.extra);
}

static void do_request(struct reaper_state *state, struct incoming *incoming, size_t text_bytes,
                       const int fds[3])
{
    switch (incoming->request.kind) {
    case REAPER_DO_START:
        do_start(state, incoming, text_bytes, fds);
        break;
    case REAPER_DO_SIGNAL:
        signal_groups(state, incoming->request.number);
        break;
    case REAPER_DO_SIGNAL_RANK:
        signal_group(state, incoming->request.rank, incoming->request.number);
        signal_group(state, incoming->request.rank, SIGCONT);
        break;
    case REAPER_DO_END:
        begin_end(state, incoming->request.number);
        break;
    case REAPER_DO_KILL:
        begin_kill(state);
        break;
    case REAPER_DO_BEAT: /* serve has heard it */
        break;
    }
}

/* hvdrun is gone, or can be told nothing more. */
static void leave_hvdrun(struct reaper_state *state)
{
    descriptors_close(&state->fd);
    begin_end(state, SIGTERM);
}

/* Never blocks, because hvdrun may be blocked itself. If hvdrun is gone, serve sees that once it has read all
 * requests. What a container refuses once it always refuses: hvdrun must not wait for the report. */
static void send_reports(struct reaper_state *state)
{
    while (state->fd >= 0 && state->report_count > 0) {
        const struct reaper_report *first = &state->reports[state->report_first];
        if (send(state->fd, first, sizeof(*first), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            if (errno == EPERM || errno == EACCES || errno == ENOSYS)
                leave_hvdrun(state);
            return;
        }
        state->report_first = (state->report_first + 1) % state->report_room;
        state->report_count--;
    }
}

/* One request a round: while hvdrun asks for many ranks, those that end meanwhile are reported. */
static void serve(struct reaper_state *state)
{
    struct incoming incoming;
    size_t text_bytes = 0;
    int fds[3] = {-1, -1, -1};
    int rc = state->fd >= 0 ? receive(state, &incoming, &text_bytes, fds) : 0;
    if (rc < 0) {
        leave_hvdrun(state);
    } else if (rc > 0) {
        state->silent_beats = 0;
        do_request(state, &incoming, text_bytes, fds);
    }
    for (int i = 0; i < 3; i++) {
        descriptors_close(&fds[i]);
    }
}

/* A hvdrun that is stopped starts no rank and reports none, and its ranks stop when nobody reads what they
 * write. Killed, it ends as others expect: its connections close, and its ranks end. That comes one beat
 * before the hvdrun of an agent gives up the host. */
static void watch_hvdrun(struct reaper_state *state)
{
    if (state->plan->beat_us == 0 || state->fd < 0 || clock_us() < state->beat_us)
        return;
    state->beat_us = clock_us() + state->plan->beat_us;
    state->silent_beats++;
    if (state->silent_beats < BEATS_UNANSWERED_MAX || getppid() != state->hvdrun)
        return;
    fprintf(stderr, "hvdrun: the agent of %s has been stopped for three times --hvd-lease, and is killed\n",
            state->plan->host);
    process_signal(state->hvdrun, SIGKILL);
}

/* ---- The process ---------------------------------------------------------------------------- */

/* Create the scratch folders, and report that the reaper is ready or what failed. */
static int make_scratches(struct reaper_state *state)
{
    struct reaper_report ready = {.kind = REAPER_READY};
    for (int i = 0; i < 2 && ready.number == 0; i++) {
        ready.rank = i;
        scratch_remove_abandoned(state->plan->scratches[i]);
        ready.number = scratch_make(state->plan->scratches[i]) < 0 ? errno : 0;
    }
    report(state, &ready);
    send_reports(state);
    return ready.number == 0 ? 0 : -1;
}

static int prepare(struct reaper_state *state)
{
    sigset_t child;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "hvdrun-reaper", 0, 0, 0);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    size_t size = (size_t)state->plan->size;
    state->report_room = 2 * size + 2;
    state->pids = calloc(size, sizeof(state->pids[0]));
    state->exits = calloc(size, sizeof(state->exits[0]));
    state->reports = calloc(state->report_room, sizeof(state->reports[0]));
    state->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    state->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (state->pids == NULL || state->exits == NULL || state->reports == NULL || state->signal_fd < 0 ||
        state->null_fd < 0)
        return -1;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    state->mems_are_chosen = apply_mems_are_set();
    if (apply_read_cpus(0, &state->cpus, NULL) != HVD_OK)
        return -1;
    return make_scratches(state);
}

static void wait_for_event(struct reaper_state *state)
{
    struct signalfd_siginfo info;
    struct pollfd fds[] = {
        {.fd = state->signal_fd, .events = POLLIN},
        {.fd = state->fd, .events = (short)(POLLIN | (state->report_count > 0 ? POLLOUT : 0))}};
    bool timed = state->stage != VERDICT_RUNNING && !is_over(state);
    int64_t due_us = timed ? state->next_us : INT64_MAX;
    if (state->plan->beat_us > 0 && state->fd >= 0 && state->beat_us < due_us)
        due_us = state->beat_us;
    poll(fds, 2, due_us < INT64_MAX ? clock_ms_until(due_us) : -1);
    while (read(state->signal_fd, &info, sizeof(info)) > 0)
        continue;
}

void reaper_process_run(const struct reaper_plan *plan, int fd)
{
    struct reaper_state state = {.plan = plan,
                                 .fd = fd,
                                 .hvdrun = getppid(),
                                 .beat_us = clock_us() + plan->beat_us,
                                 .childless = true};
    int rc = prepare(&state);
    while (rc == 0 && (state.fd >= 0 || !is_over(&state))) {
        wait_for_event(&state);
        serve(&state);
        watch_hvdrun(&state);
        reap(&state);
        continue_ending(&state);
        report_empty(&state);
        send_reports(&state);
    }
    for (int i = 0; i < 2; i++)
        scratch_remove(plan->scratches[i]);
    _exit(rc == 0 ? 0 : 1);
}
