/* srun.c: what the plug-in does in srun for steps that use hvd: make PMIx their MPI type, and draw a secret.
 */
#include "config.h"
#include "spank/srun.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/env.h"
#include "options/nearest.h"
#include "base/secret.h"
#include "options/option.h"
#include "options/slurm_step.h"
#include "verdict/failure_report.h"

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
    "hvd",
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

/* The programs by which mpirun and mpiexec start ranks on other nodes: of Open MPI, PRRTE, and those with
 * Hydra. */
static const char *const launcher_daemons[] = {"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"};

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

/* Does an option of the table begin with [length] bytes of [name]? srun takes that for the option. */
static bool begins_option(const char *name, size_t length)
{
    for (int i = 0; i < option_count; i++) {
        if (strncmp(option_table[i].name, name, length) == 0)
            return true;
    }
    return false;
}

/* Or does [option], which is --hvd-min or --hvd-spares, and no other? */
static bool begins(const char *option, const char *name, size_t length)
{
    return strncmp(option, name, length) == 0 && !begins_option(name, length);
}

/* Is [value] one of the option named [name], which can do without? */
static bool is_value_of_bare(const char *name, const char *value)
{
    const struct hvd_option *option = option_find(name);
    return option != NULL && option->retired == NULL && option->type->bare != NULL &&
           option_parse(option, "", value, NULL, NULL) == HVD_OK;
}

/* srun itself says of a mistyped option only that it does not know it. */
static void note_unknown(const char *name, struct hvd_error *mistake)
{
    char near[64], hint[NEAREST_HINT_BYTES];
    const char *option = option_nearest(name);
    snprintf(near, sizeof(near), "--hvd-%s", option == NULL ? "" : option);
    const struct nearest nearest = {.word = name, .name = option == NULL ? NULL : near};
    error_set(mistake, HVD_ERR_INVALID, "--hvd-%s: there is no such option; %s", name,
              nearest_hint(&nearest, "srun --help lists all", hint));
}

/* An option that can do without a value has one only after =, as getopt_long has it. */
static void note_detached(const char *word, const char *value, struct hvd_error *mistake)
{
    error_set(mistake, HVD_ERR_INVALID, "%s %.64s: '%.64s' is taken for the command; write %s=%.64s", word,
              value, value, word, value);
}

/* Note in [mistake] what is wrong with [word], "--hvd" or "--hvd-name=value", unless it has a sentence
 * already. */
static void note_mistake(const char *word, const char *next, struct hvd_error *mistake)
{
    char name[64];
    enum hvd_switch use = HVD_UNSET;
    bool is_switch = strcmp(word, "--hvd") == 0;
    const char *at = word + strlen(is_switch ? "--hvd" : "--hvd-");
    size_t length = strcspn(at, "=");
    if (mistake->text[0] != 0 || length >= sizeof(name))
        return;
    snprintf(name, sizeof(name), "%.*s", (int)length, at);
    if (!is_switch && !begins_option(name, length) && !begins(SWITCH_MIN, name, length) &&
        !begins(SWITCH_SPARES, name, length))
        note_unknown(name, mistake);
    else if (at[length] == 0 &&
             (is_switch ? next[0] != 0 && switch_parse(next, &use) : is_value_of_bare(name, next)))
        note_detached(word, next, mistake);
}

/* Is [word] -K, alone, with a value or behind other letters, or --kill-on-bad-exit? */
static bool chooses_kill(const char *word)
{
    static const char name[] = "--kill-on-bad-exit";
    if (word[1] == '-')
        return strncmp(word, name, sizeof(name) - 1) == 0;
    const char *letter = word + 1;
    while (*letter != 0 && *letter != 'K' && strchr(letters_with_value, *letter) == NULL &&
           strchr(letters_with_rest, *letter) == NULL)
        letter++;
    return *letter == 'K';
}

/* What a word of the command line says of the use of hvd. */
static void note_option(const char *word, const char *next, struct srun_use *use)
{
    if (starts_with(word, "--hvd-") || strcmp(word, "--hvd") == 0)
        note_mistake(word, next, &use->mistake);
    enum hvd_switch of_word = HVD_UNSET;
    use->kill_chosen = use->kill_chosen || chooses_kill(word);
    if (starts_with(word, "--hvd-")) {
        const char *name = word + strlen("--hvd-");
        use->options = true;
        use->elastic = use->elastic || begins(SWITCH_MIN, name, strcspn(name, "="));
    } else if (strcmp(word, "--hvd") == 0)
        use->by_switch = HVD_ON;
    else if (starts_with(word, "--hvd=") && switch_parse(word + strlen("--hvd="), &of_word))
        use->by_switch = of_word;
}

/* Skip the options from [at] on, and note in [use] what they say. Returns where the command begins. */
static int skip_options(int argc, char *const argv[], int at, struct srun_use *use)
{
    for (; at < argc && argv[at][0] == '-' && argv[at][1] != 0; at++) {
        const char *word = argv[at];
        const char *next = at + 1 < argc ? argv[at + 1] : "-";
        if (strcmp(word, "--") == 0)
            return at + 1;
        note_option(word, next, use);
        if (word[1] == '-' ? long_may_take_next(word, next) : letters_take_next(word))
            at++;
    }
    return at;
}

static void note_command(const char *path, struct srun_use *use)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    for (size_t i = 0; i < sizeof(launcher_daemons) / sizeof(launcher_daemons[0]); i++)
        use->starts_launcher = use->starts_launcher || strcmp(name, launcher_daemons[i]) == 0;
}

void srun_read_arguments(int argc, char *const argv[], struct srun_use *use)
{
    int at = 1;
    while (at < argc) {
        at = skip_options(argc, argv, at, use);
        if (at < argc)
            note_command(argv[at], use);
        /* a lone colon ends the command of one component of the step, and options of the next follow */
        while (at < argc && strcmp(argv[at], ":") != 0)
            at++;
        at++;
    }
}

/* sbatch and salloc hand options down in variables of the first form, srun in those of the second. */
void srun_read_environment(char *const environment[], struct srun_use *use)
{
    static const char *const forms[] = {SLURM_HANDED_DOWN, "_SLURM_SPANK_OPTION_hvd_"};
    for (int i = 0; environment[i] != NULL; i++) {
        for (size_t j = 0; j < sizeof(forms) / sizeof(forms[0]); j++) {
            const char *option = environment[i] + strlen(forms[j]);
            if (!starts_with(environment[i], forms[j]))
                continue;
            if (starts_with(option, "hvd="))
                switch_parse(option + strlen("hvd="), &use->by_switch);
            else
                use->options = true;
            if (starts_with(option, "hvd_" SWITCH_MIN "=")) {
                use->elastic = true;
                switch_parse_ranks(option + strlen("hvd_" SWITCH_MIN "="), &use->fewest);
            }
            if (starts_with(option, "hvd_" SWITCH_SPARES "="))
                switch_parse_ranks(option + strlen("hvd_" SWITCH_SPARES "="), &use->spares);
        }
    }
    use->options = use->options || switch_in_environment(environment);
    use->kill_chosen = environment_value(environment, "SLURM_KILL_BAD_EXIT") != NULL;
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
    int fd = descriptors_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    ssize_t length = fd < 0 ? 0 : descriptors_read(fd, bytes, capacity);
    descriptors_close(&fd);
    return length > 0 ? (size_t)length : 0;
}

static void read_command_line_of_srun(struct srun_use *use)
{
    int count = 0;
    char *bytes = calloc(ARGUMENT_BYTES + 1, 1);
    char **words = calloc(ARGUMENT_COUNT, sizeof(*words));
    if (bytes == NULL || words == NULL)
        goto done;
    size_t used = read_command_line(bytes, ARGUMENT_BYTES);
    for (size_t at = 0; at < used && count < ARGUMENT_COUNT; at += strlen(bytes + at) + 1)
        words[count++] = bytes + at;
    srun_read_arguments(count, words, use);
done:
    free(words);
    free(bytes);
}

static struct srun_use read_use(void)
{
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_environment(environ, &use);
    read_command_line_of_srun(&use); /* last, as it takes precedence */
    return use;
}

bool srun_is_elastic(void)
{
    return read_use().elastic;
}

void srun_counts_in_environment(int *fewestp, int *sparesp)
{
    const struct srun_use use = read_use();
    *fewestp = use.fewest;
    *sparesp = use.spares;
}

bool srun_uses_hvd(const struct site *site)
{
    struct srun_use use = read_use();
    return use.by_switch != HVD_OFF && (use.by_switch != HVD_UNSET || use.options || site->all_steps);
}

bool srun_may_end_early(void)
{
    const struct srun_use use = read_use();
    return !use.kill_chosen && (use.by_switch != HVD_UNSET || use.options);
}

void srun_find_mistake(struct hvd_error *mistake)
{
    struct srun_use use = {.by_switch = HVD_UNSET};
    read_command_line_of_srun(&use);
    *mistake = use.mistake;
}

void srun_share_cpus(void)
{
    struct srun_use use = {.by_switch = HVD_UNSET};
    if (getenv(FAILURE_TASK_VARIABLE) == NULL)
        return;
    read_command_line_of_srun(&use);
    if (use.starts_launcher)
        setenv("SLURM_OVERLAP", "1", 0);
}

void srun_hand_down_off(bool off)
{
    if (off)
        setenv(SRUN_OFF_VARIABLE, "1", 1);
    else
        unsetenv(SRUN_OFF_VARIABLE); /* of an outer step */
}

void srun_draw_secret(void)
{
    char secret[SECRET_TEXT_BYTES];
    unsetenv(SRUN_SECRET_VARIABLE); /* of an outer step */
    if (secret_draw(SECRET_OF_SLURM, secret) == 0)
        setenv(SRUN_SECRET_VARIABLE, secret, 1);
}

void srun_survive(void)
{
    setenv("SLURM_MPI_TYPE", "none", 0);
    setenv("SLURM_KILL_BAD_EXIT", "0", 0);
    setenv("SLURM_NO_KILL", "set", 0);
}

void srun_prefer_pmix(void)
{
    if (getenv("SLURM_MPI_TYPE") == NULL && slurm_has_pmix())
        setenv("SLURM_MPI_TYPE", "pmix", 0);
}
