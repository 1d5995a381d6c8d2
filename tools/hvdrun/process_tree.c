/* process_tree.c: find the descendants of this process in /proc and signal them. */
#include "tools/hvdrun/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process_signal.h"
#include "base/process_stat.h"

#define LOOK_AGAIN_MS 10
#define PID_MAX       4194304 /* the highest number that Linux gives a process */
#define NARROW_PASSES 20

struct process {
    pid_t pid, parent;
    uint64_t start; /* as in struct process_stat */
    bool zombie;
    bool below; /* a descendant of the root of the search, or the root */
};

struct processes {
    struct process *list;
    size_t count, room;
};

static int add_process(struct processes *processes, const struct process *process)
{
    if (processes->count == processes->room) {
        size_t room = processes->room == 0 ? 256 : 2 * processes->room;
        struct process *list = realloc(processes->list, room * sizeof(*list));
        if (list == NULL)
            return -1;
        processes->list = list;
        processes->room = room;
    }
    processes->list[processes->count++] = *process;
    return 0;
}

static int by_pid(const void *left, const void *right)
{
    const struct process *a = left;
    const struct process *b = right;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int read_processes(struct processes *processes)
{
    struct process process;
    struct process_stat stat;
    DIR *proc = opendir("/proc");
    bool found = false;
    int rc = 0;
    if (proc == NULL)
        return -1;
    for (struct dirent *entry = readdir(proc); entry != NULL && rc == 0; entry = readdir(proc)) {
        process = (struct process){.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
        if (process.pid <= 0 || !process_stat_read(process.pid, &stat))
            continue;
        process.parent = stat.parent;
        process.start = stat.start;
        process.zombie = stat.state == 'Z' || stat.state == 'X';
        rc = add_process(processes, &process);
        found = found || process.pid == getpid();
    }
    closedir(proc);
    if (!found)
        rc = -1; /* it is not of this process's namespace, or it is an empty folder */
    if (processes->count > 0)
        qsort(processes->list, processes->count, sizeof(processes->list[0]), by_pid);
    return rc;
}

static bool is_below(const struct processes *processes, pid_t pid, pid_t root)
{
    struct process key = {.pid = pid};
    if (pid == root)
        return true;
    if (processes->count == 0)
        return false;
    const struct process *found =
        bsearch(&key, processes->list, processes->count, sizeof(processes->list[0]), by_pid);
    return found != NULL && found->below;
}

/* Each pass marks at least one more generation; stop after a pass that marks none. */
static void mark_below(struct processes *processes, pid_t root)
{
    bool found = true;
    while (found) {
        found = false;
        for (size_t i = 0; i < processes->count; i++) {
            struct process *process = &processes->list[i];
            if (!process->below && is_below(processes, process->parent, root)) {
                process->below = true;
                found = true;
            }
        }
    }
}

/* Returns false if the process is in [signalled]. If memory runs out, a process may be signalled twice. */
static bool mark_signalled(struct signalled_processes *signalled, pid_t pid)
{
    if (signalled == NULL)
        return true;
    for (size_t i = 0; i < signalled->count; i++) {
        if (signalled->pids[i] == pid)
            return false;
    }
    if (signalled->count == signalled->room) {
        size_t room = signalled->room == 0 ? 64 : 2 * signalled->room;
        pid_t *pids = realloc(signalled->pids, room * sizeof(*pids));
        if (pids == NULL)
            return true;
        signalled->pids = pids;
        signalled->room = room;
    }
    signalled->pids[signalled->count++] = pid;
    return true;
}

/* ---- Without /proc --------------------------------------------------------------------------- */

/* Signal the children of this process among the numbers [from] to [to]. */
static void signal_children(pid_t from, pid_t to, int signal_number, struct signalled_processes *signalled)
{
    for (pid_t pid = from; pid <= to; pid++) {
        siginfo_t child = {.si_pid = 0};
        if (waitid(P_PID, (id_t)pid, &child, WEXITED | WNOHANG | WNOWAIT) == 0 && child.si_pid == 0 &&
            mark_signalled(signalled, pid))
            process_signal(pid, signal_number);
    }
}

/* The number that the kernel gives a new process now, or -1. */
static pid_t newest_number(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return pid;
}

/* Only a process's children can be found, by asking for each number whether it is one. Others become children
 * as their parents end, since this process is a subreaper. Numbers ascend, and begin anew after the highest,
 * so descendants have those from this process to the newest. That takes microseconds; all numbers, some
 * seconds, are only tried if some child survived, in case that numbers began anew more than once. */
static void signal_by_number(int signal_number, struct signalled_processes *signalled)
{
    static int passes;
    pid_t own = getpid();
    pid_t newest = newest_number();
    passes += signal_number == SIGKILL;
    if (newest < 0 || passes > NARROW_PASSES) {
        signal_children(2, PID_MAX, signal_number, signalled);
    } else if (newest > own) {
        signal_children(own, newest, signal_number, signalled);
    } else {
        signal_children(own, PID_MAX, signal_number, signalled);
        signal_children(2, newest, signal_number, signalled);
    }
}

int process_tree_signal(int signal_number, struct signalled_processes *signalled)
{
    struct processes processes = {0};
    int count = 0;
    if (read_processes(&processes) < 0) {
        free(processes.list);
        signal_by_number(signal_number, signalled);
        return -1;
    }
    mark_below(&processes, getpid());
    for (size_t i = 0; i < processes.count; i++) {
        const struct process *process = &processes.list[i];
        if (!process->below || process->zombie)
            continue;
        if (mark_signalled(signalled, process->pid))
            process_stat_signal(process->pid, process->start, signal_number);
        count++;
    }
    free(processes.list);
    return count;
}

int process_tree_kill(int64_t deadline_us)
{
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return 0;
        if (pid > 0)
            continue;
        if (clock_us() >= deadline_us)
            return -1;
        process_tree_signal(SIGKILL, NULL);
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
}
