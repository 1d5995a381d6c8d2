/* srun.c: what the plug-in does in srun for steps that use hvd: make PMIx their MPI type, and draw a secret.
 */
#include "config.h"
#include "srun.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"

/* How much of srun's command line is read. srun's own options come first. */
#define ARGUMENT_BYTES 65536
#define ARGUMENT_COUNT 4096

/* srun's one-letter options that take a value: the rest of their word or the next word. */
static const char letters_with_value[] = "AbDMCScdmexBGiJLTFwNnopqrtW";

/* The letters whose value, if any, is the rest of their word. */
static const char letters_with_rest[] = "IKk";

/* srun's long options whose value, if any, is in the same word. Any other may take the next word. */
static const char *const long_without_next_word[] = {
    "bcast",
    "compress",
    "contiguous",
    "debugger-test",
    "disable-status",
    "exact",
    "exclusive",
    "external",
    "help",
    "hold",
    "immediate",
    "interactive",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-kill",
    "oom-kill-step",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "resv-ports",
    "send-libs",
    "spread-job",
    "stepmgr",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait-for-children",
    "whole",
    "x11",
    NULL,
};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Does [word], "-abc", end in a letter that takes the next word as its value? */
static bool letters_take_next(const char *word)
{
    for (const char *letter = word + 1; *letter != 0; letter++) {
        if (strchr(letters_with_rest, *letter) != NULL)
            return false;
        if (strchr(letters_with_value, *letter) != NULL)
            return letter[1] == 0;
    }
    return false;
}

/* May [word], "--name", take [next] as its value? */
static bool long_may_take_next(const char *word, const char *next)
{
    if (strchr(word, '=') != NULL || next[0] == '-')
        return false;
    for (int i = 0; long_without_next_word[i] != NULL; i++) {
        if (strcmp(word + 2, long_without_next_word[i]) == 0)
            return false;
    }
    return true;
}

/* Skip the options from [at] on, and set *foundp if one of them is of hvd. Returns where the command
 * begins. */
static int skip_options(int argc, char *const argv[], int at, bool *foundp)
{
    for (; at < argc && argv[at][0] == '-' && argv[at][1] != 0; at++) {
        const char *word = argv[at];
        const char *next = at + 1 < argc ? argv[at + 1] : "-";
        if (strcmp(word, "--") == 0)
            return at + 1;
        if (starts_with(word, "--hvd-"))
            *foundp = true;
        if (word[1] == '-' ? long_may_take_next(word, next) : letters_take_next(word))
            at++;
    }
    return at;
}

bool srun_arguments_use_hvd(int argc, char *const argv[])
{
    bool found = false;
    int at = 1;
    while (at < argc && !found) {
        at = skip_options(argc, argv, at, &found);
        /* a lone colon ends the command of one component of the step, and options of the next follow */
        while (at < argc && strcmp(argv[at], ":") != 0)
            at++;
        at++;
    }
    return found;
}

bool srun_environment_uses_hvd(char *const environment[])
{
    for (int i = 0; environment[i] != NULL; i++) {
        if (starts_with(environment[i], "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_") ||
            starts_with(environment[i], "_SLURM_SPANK_OPTION_hvd_"))
            return true;
    }
    return false;
}

bool srun_finds_pmix_beside(const char *file)
{
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return false;
    int length = snprintf(path, sizeof(path), "%.*s/mpi_pmix.so", (int)(slash - file), file);
    return length < (int)sizeof(path) && access(path, R_OK) == 0;
}

/* Slurm keeps its plug-ins in the folder of its library. If the library is linked into srun statically, a
 * copy of this plug-in among Slurm's own plug-ins shows the folder. */
static bool slurm_has_pmix(void)
{
    void *const symbols[] = {dlsym(RTLD_DEFAULT, "slurm_spank_log"), (void *)srun_prefer_pmix};
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        Dl_info info;
        if (symbols[i] != NULL && dladdr(symbols[i], &info) != 0 && srun_finds_pmix_beside(info.dli_fname))
            return true;
    }
    return false;
}

/* Read the command line of this process. Its last word may be cut. Returns the number of bytes, 0 on
 * failure. */
static size_t read_command_line(char *bytes, size_t capacity)
{
    size_t used = 0;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (used < capacity) {
        ssize_t got = read(fd, bytes + used, capacity - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    return used;
}

static bool command_line_uses_hvd(void)
{
    bool found = false;
    int count = 0;
    char *bytes = calloc(ARGUMENT_BYTES + 1, 1);
    char **words = calloc(ARGUMENT_COUNT, sizeof(*words));
    if (bytes == NULL || words == NULL)
        goto done;
    size_t used = read_command_line(bytes, ARGUMENT_BYTES);
    for (size_t at = 0; at < used && count < ARGUMENT_COUNT; at += strlen(bytes + at) + 1)
        words[count++] = bytes + at;
    found = srun_arguments_use_hvd(count, words);
done:
    free(words);
    free(bytes);
    return found;
}

bool srun_uses_hvd(void)
{
    return srun_environment_uses_hvd(environ) || command_line_uses_hvd();
}

void srun_draw_secret(void)
{
    char secret[SECRET_TEXT_BYTES];
    unsetenv(SRUN_SECRET_VARIABLE); /* of an outer step */
    if (secret_draw(SECRET_OF_SLURM, secret) == 0)
        setenv(SRUN_SECRET_VARIABLE, secret, 1);
}

void srun_prefer_pmix(void)
{
    if (getenv("SLURM_MPI_TYPE") == NULL && slurm_has_pmix())
        setenv("SLURM_MPI_TYPE", "pmix", 0);
}
