/* frames.c: run py-spy, eu-stack or gdb on a process, and write the calls that they name. */
#include "config.h"
#include "tools/hvdinfo/ps/frames.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/env.h"
#include "base/process_stat.h"
#include "options/parse.h"
#include "tools/common/ask.h"
#include "tools/common/command.h"

#define WAIT_US (INT64_C(1000000) * FRAMES_WAIT_S)

extern char **environ;

/* The id of the process follows the last word. */
#define TOOL_WORDS 12
struct frames_tool {
    const char *words[TOOL_WORDS];
    bool python; /* its answer has a block for each thread; otherwise a line with "#" for each call */
};

/* eu-stack stops one thread, and names the calls after that thread goes on. */
static const struct frames_tool py_spy = {{"py-spy", "dump", "--nonblocking", "--pid"}, true},
                                eu_stack = {{"eu-stack", "-1", "-p"}, false},
                                gdb = {{"gdb", "-nx", "-batch", "-iex", "set auto-load off", "-ex",
                                        "set print frame-arguments none", "-ex", "backtrace", "-p"},
                                       false};

static bool is_installed(const struct frames_tool *tool)
{
    char path[PATH_MAX];
    return command_find(tool->words[0], environment_value(NULL, "PATH"), path, sizeof(path), NULL) == 0;
}

/* ---- The process --------------------------------------------------------------------------------- */

static bool runs_python(pid_t pid)
{
    char link[64], program[PATH_MAX] = "";
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(link, program, sizeof(program) - 1);
    const char *name = length > 0 ? strrchr(program, '/') : NULL;
    return (name != NULL && strncmp(name, "/python", 7) == 0) || process_maps(pid, "/libpython");
}

/* Who attaches to a thread that waits for a disk waits with it; if that is given up, the thread stops when
 * the disk answers. */
static bool waits_for_disk(pid_t pid)
{
    char folder[64];
    bool waits = false;
    snprintf(folder, sizeof(folder), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(folder);
    const struct dirent *entry = dir == NULL ? NULL : readdir(dir);
    for (; !waits && entry != NULL; entry = readdir(dir)) {
        struct process_stat stat;
        int64_t thread = parse_count_or(entry->d_name, 0);
        waits =
            thread > 0 && thread <= INT_MAX && process_stat_read((pid_t)thread, &stat) && stat.state == 'D';
    }
    if (dir != NULL)
        closedir(dir);
    return waits;
}

static int check_attach(pid_t pid, struct hvd_error *err)
{
    struct process_stat stat;
    if (!process_stat_read(pid, &stat) || strchr("ZX", stat.state) != NULL)
        return error_set(err, HVD_ERR_STATE, "process %d has ended", (int)pid);
    if (waits_for_disk(pid))
        return error_set(
            err, HVD_ERR_STATE,
            "a thread of process %d waits for a disk or a file server, so it cannot be attached to; "
            "look at that file system",
            (int)pid);
    return HVD_OK;
}

/* ---- What a tool says ---------------------------------------------------------------------------- */

/* A server of debug information would be asked while the program stands still. */
static char **make_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **environment = calloc(count + 1, sizeof(*environment));
    for (size_t i = 0; environment != NULL && i < count; i++) {
        if (strncmp(environ[i], "DEBUGINFOD_URLS=", 16) != 0)
            environment[kept++] = environ[i];
    }
    return environment;
}

/* The names are the program's, which may write to the terminal what it likes. */
static void write_printable(FILE *to, const char *line)
{
    line += strspn(line, " ");
    fputs("    ", to);
    for (; *line != 0; line++)
        putc(is_printable_byte((unsigned char)*line) ? *line : '?', to);
    putc('\n', to);
}

/* Of py-spy's blocks, that of the main thread: 'Thread 71 (idle): "MainThread"'. */
static bool is_of_main_thread(const char *line, pid_t pid)
{
    char number[32];
    snprintf(number, sizeof(number), "Thread %d ", (int)pid);
    return strncmp(line, number, strlen(number)) == 0 || strstr(line, "\"MainThread\"") != NULL;
}

/* Returns how many calls. [text] is changed. */
static int write_calls(FILE *to, const struct frames_tool *tool, pid_t pid, char *text)
{
    bool wanted = false;
    int count = 0;
    for (char *rest = text, *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        bool is_call = tool->python ? wanted && line[0] == ' ' : line[0] == '#';
        if (strncmp(line, "Thread ", 7) == 0)
            wanted = is_of_main_thread(line, pid);
        if (!is_call)
            continue;
        if (count++ == 0)
            fprintf(to, "  " FRAMES_TITLE ", by %s:\n", tool->words[0]);
        write_printable(to, line);
    }
    return count;
}

/* It said no call: why? Its first line, and what the kernel may have to do with it. */
static int explain(const struct frames_tool *tool, pid_t pid, const char *complaints, struct hvd_error *err)
{
    FILE *scope = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    bool forbidden = scope != NULL && getc(scope) != '0' && geteuid() != 0;
    if (scope != NULL)
        fclose(scope);
    return error_set(err, HVD_ERR_STATE, "%s names no call of process %d: %.*s%s", tool->words[0], (int)pid,
                     (int)strcspn(complaints, "\n"), complaints[0] == 0 ? "it said nothing" : complaints,
                     forbidden ? "; kernel.yama.ptrace_scope lets only root look here" : "");
}

static int ask(FILE *to, const struct frames_tool *tool, pid_t pid, struct hvd_error *err)
{
    struct program_answer answer = {NULL, NULL};
    const char *words[TOOL_WORDS + 1] = {NULL};
    char number[32];
    int count = 0;
    snprintf(number, sizeof(number), "%d", (int)pid);
    for (; tool->words[count] != NULL; count++)
        words[count] = tool->words[count];
    words[count] = number;
    char **environment = make_environment();
    int rc = environment == NULL ? error_set(err, HVD_ERR_NO_MEMORY, "no memory to start %s", words[0])
                                 : ask_program(words, environment, WAIT_US, &answer, err);
    if (rc == HVD_OK && write_calls(to, tool, pid, answer.output) == 0)
        rc = explain(tool, pid, answer.complaints, err);
    program_answer_free(&answer);
    free(environment);
    return rc;
}

static int ask_native(FILE *to, pid_t pid, struct hvd_error *err)
{
    int rc = check_attach(pid, err);
    if (rc != HVD_OK)
        return rc;
    if (is_installed(&eu_stack))
        return ask(to, &eu_stack, pid, err);
    if (is_installed(&gdb))
        return ask(to, &gdb, pid, err);
    return error_set(
        err, HVD_ERR_STATE,
        "neither eu-stack nor gdb is installed on this node; expected one, as of Debian's packages "
        "elfutils or gdb");
}

int frames_write(FILE *to, pid_t pid, bool native, struct hvd_error *err)
{
    bool python = runs_python(pid);
    if (!python)
        return ask_native(to, pid, err);
    if (!is_installed(&py_spy))
        fputs("  its calls of Python are not known, as py-spy is not installed on this node: pip install "
              "py-spy\n",
              to);
    else if (ask(to, &py_spy, pid, err) != HVD_OK)
        fprintf(to, "  its calls of Python are not known: %s\n", err->text);
    else if (!native)
        return HVD_OK;
    return ask_native(to, pid, err);
}
