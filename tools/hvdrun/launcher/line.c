/* line.c: write the command line of a launcher: what all of them have in common. */
#include "config.h"

#include "tools/hvdrun/launcher/line.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/config.h"

#define BIT(launcher) (1u << (launcher))
#define LOCAL         (BIT(LAUNCHER_LOCAL) | BIT(LAUNCHER_AGENTS))
#define SRUN          BIT(LAUNCHER_SRUN)
#define JSRUN         BIT(LAUNCHER_JSRUN)
#define MPIRUN        (BIT(LAUNCHER_MPIRUN) | BIT(LAUNCHER_PRTERUN))

/* ---- Lists of words --------------------------------------------------------------------------- */

void words_add(struct words *words, const char *format, ...)
{
    va_list arguments;
    char *word = NULL;
    if (words->count + 1 >= words->room && !words->failed) {
        size_t room = words->room == 0 ? 32 : 2 * words->room;
        char **list = realloc(words->list, room * sizeof(*list));
        if (list == NULL) {
            words->failed = true;
            return;
        }
        words->list = list;
        words->room = room;
    }
    va_start(arguments, format);
    if (!words->failed && vasprintf(&word, format, arguments) < 0)
        words->failed = true;
    va_end(arguments);
    if (words->failed)
        return;
    words->list[words->count++] = word;
    words->list[words->count] = NULL;
}

static void put_hosts(FILE *to, const struct host_list *hosts, enum hosts_form form)
{
    const char *between = "";
    for (int i = 0; i < hosts->count; i++) {
        const struct host *host = &hosts->hosts[i];
        int times = form == HOSTS_BY_RANK ? host->ranks : 1;
        for (int k = 0; k < times; k++, between = ",")
            fprintf(to, "%s%s", between, host->name);
        if (form == HOSTS_WITH_SLOTS)
            fprintf(to, ":%d", host->slots);
    }
}

void words_add_hosts(struct words *words, const char *start, const struct host_list *hosts,
                     enum hosts_form form)
{
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *to = open_memstream(&text, &text_bytes);
    if (to == NULL) {
        words->failed = true;
        return;
    }
    put_hosts(to, hosts, form);
    fclose(to);
    words_add(words, "%s%s", start, text);
    free(text);
}

void words_free(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->list[i]);
    free(words->list);
    *words = (struct words){NULL, 0, 0, false};
}

/* ---- What a launcher can honour --------------------------------------------------------------- */

/* Options of hvdrun that not every launcher can honour, and why. */
static const struct {
    enum launch_option option;
    unsigned launchers;
    const char *why;
} limited[] = {
    {LAUNCH_MIN_NP, LOCAL, "started by hvdrun, it ends all ranks after a failure (srun --hvd-min does not)"},
    {LAUNCH_MAX_NP, LOCAL, "its jobs do not grow (srun --hvd-min with --hvd-spares has ranks that wait)"},
    {LAUNCH_DISCOVERY, LOCAL, "it looks for no hosts (srun --hvd-min with --hvd-spares has ranks that wait)"},
    {LAUNCH_DISCOVERY_SCRIPT, LOCAL,
     "it looks for no hosts (srun --hvd-min with --hvd-spares has ranks that wait)"},
    {LAUNCH_ELASTIC_TIMEOUT, LOCAL, "its jobs do not wait for ranks that they lack"},
    {LAUNCH_RESET_LIMIT, LOCAL, "its ranks do not change"},
    {LAUNCH_HOST_COOLDOWN, LOCAL, "it starts no rank again"},
    {LAUNCH_HEALTH_CHECK, LOCAL, "it asks nobody whether a host is healthy"},
    {LAUNCH_GRACE, LOCAL, "how long it waits before SIGKILL is its own setting"},
    {LAUNCH_PTY, LOCAL | SRUN, "what the ranks write to is its own choice"},
    {LAUNCH_LINE_PREFIX, LOCAL, "it has a prefix of its own"},
    {LAUNCH_TIMESTAMPS, LOCAL | MPIRUN, "it puts no times before lines"},
    {LAUNCH_OUTPUT_DIR, LOCAL | SRUN | JSRUN, "it names files in its own way"},
    {LAUNCH_ONLY_RANK, LOCAL | SRUN | JSRUN, "it shows the output of all ranks"},
    {LAUNCH_RUN_ID, LOCAL, "it names its runs itself"},
    {LAUNCH_EVENTS, LOCAL, "what becomes of its ranks only it knows"},
    {LAUNCH_METRICS, LOCAL, "what becomes of its ranks only it knows"},
    {LAUNCH_NRS, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_TASKS, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_CPUS, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_GPUS, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_PER_HOST, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_BIND, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_DISTRIBUTION, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_LATENCY, LOCAL | SRUN | JSRUN, "it has no resource sets"},
    {LAUNCH_ERF, BIT(LAUNCHER_LOCAL) | JSRUN, "it reads no explicit resource files"},
    {LAUNCH_NPROC, LOCAL, "how many ranks each node has is its own choice, and -n says how many all have"},
    {LAUNCH_NNODES, LOCAL, "the nodes are those of the job"},
    {LAUNCH_NODE_RANK, LOCAL, "it numbers the nodes"},
    {LAUNCH_RDZV_ID, LOCAL, "it names its runs itself"},
    {LAUNCH_ROLE, LOCAL, "its ranks have no roles"},
    {LAUNCH_LOG_DIR, LOCAL | SRUN | JSRUN, "it names files in its own way"},
    {LAUNCH_LOCAL_RANKS_FILTER, LOCAL | SRUN | JSRUN, "it shows the output of all ranks"},
};

/* Agents of an elastic job write as hvdrun does. */
const char *line_instead(enum launcher launcher, bool agents_can)
{
    return launcher == LAUNCHER_SRUN && agents_can
               ? "start the ranks by hvdrun: --launcher=local on this machine, or --launcher=agents with "
                 "--min-np=N on the nodes of the job"
               : "start all ranks on this machine by --launcher=local";
}

static int check_options(enum launcher launcher, const struct hvdrun_options *options, struct hvd_error *err)
{
    for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++) {
        bool given = hvdrun_option_given(options, limited[i].option);
        if (given && (limited[i].launchers & BIT(launcher)) == 0)
            return error_set(err, HVD_ERR_INVALID, "%s cannot honour %s: %s; leave the option out, or %s",
                             launcher_name(launcher), hvdrun_option_name(limited[i].option), limited[i].why,
                             line_instead(launcher, limited[i].launchers & BIT(LAUNCHER_AGENTS)));
    }
    return HVD_OK;
}

bool line_is_to_files(const struct hvdrun_options *options)
{
    const struct output_options *output = &options->output;
    return output->directory != NULL && output->only && bitmap_is_empty(&output->ranks);
}

/* hvdrun itself writes to files and shows the same; other launchers do one of the two. */
static int check_output(enum launcher launcher, const struct hvdrun_options *options, struct hvd_error *err)
{
    if (options->output.directory == NULL || line_is_to_files(options))
        return HVD_OK;
    return error_set(
        err, HVD_ERR_INVALID,
        "%s cannot honour --output-dir as it is: it writes output to files or shows it, not both; "
        "add --only-rank=none, or %s",
        launcher_name(launcher), line_instead(launcher, true));
}

/* ---- Parts of a line -------------------------------------------------------------------------- */

/* The variables that hvdrun adds to the launcher's environment. jsrun makes resource sets by itself, so that
 * the ranks must not look for theirs in it. */
static void add_variables(struct launch_line *line, enum launcher launcher,
                          const struct line_request *request)
{
    const struct hvdrun_options *options = request->options;
    size_t cli_bytes = launcher == LAUNCHER_JSRUN ? options->cli_sets : strlen(options->cli);
    if (cli_bytes > 0)
        words_add(&line->variables, CONFIG_CLI_VARIABLE "=%.*s", (int)cli_bytes, options->cli);
    if (environment_value(request->environment, "PYTHONUNBUFFERED") == NULL)
        words_add(&line->variables, "PYTHONUNBUFFERED=1");
    for (int i = 0; options->variables[i] != NULL; i++)
        words_add(&line->variables, "%s", options->variables[i]);
}

void show_word(const char *word, FILE *to)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (word[0] != 0 && strspn(word, plain) == strlen(word)) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word != 0; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}

static void show_app(const struct hvdrun_app *app, FILE *to)
{
    fputs("exec", to);
    for (int i = 0; i < hvdrun_app_words(app); i++) {
        fputc(' ', to);
        show_word(hvdrun_app_word(app, i), to);
    }
}

/* The programs of a job as one text for a shell: each rank becomes the one that is its own. */
static char *choose_by_rank(const struct hvdrun_options *options, const char *rank_variable)
{
    char *text = NULL;
    size_t text_bytes = 0;
    int end = 0;
    FILE *to = open_memstream(&text, &text_bytes);
    if (to == NULL)
        return NULL;
    for (int i = 0; i < options->app_count; i++) {
        end += options->apps[i].ranks;
        if (i + 1 < options->app_count)
            fprintf(to, "%s [ \"$%s\" -lt %d ]; then ", i == 0 ? "if" : "elif", rank_variable, end);
        else
            fputs("else ", to);
        show_app(&options->apps[i], to);
        fputs("; ", to);
    }
    fputs("fi", to);
    fclose(to);
    return text;
}

void line_add_program(struct launch_line *line, const struct line_request *request, const char *rank_variable)
{
    const struct hvdrun_options *options = request->options;
    const struct hvdrun_app *app = &options->apps[0];
    if (options->app_count > 1) {
        char *text = choose_by_rank(options, rank_variable);
        words_add(&line->words, "/bin/sh");
        words_add(&line->words, "-c");
        if (text != NULL)
            words_add(&line->words, "%s", text);
        line->words.failed = line->words.failed || text == NULL;
        free(text);
        return;
    }
    if (hvdrun_app_word(app, 0)[0] == '-')
        words_add(&line->words, "--");
    for (int i = 0; i < hvdrun_app_words(app); i++)
        words_add(&line->words, "%s", hvdrun_app_word(app, i));
}

/* ---- The line --------------------------------------------------------------------------------- */

int launch_line_write(struct launch_line *line, enum launcher launcher, const struct line_request *request,
                      struct hvd_error *err)
{
    *line = (struct launch_line){.resource_file = NULL};
    int status = check_options(launcher, request->options, err);
    if (status == HVD_OK)
        status = check_output(launcher, request->options, err);
    if (status != HVD_OK)
        return status;
    add_variables(line, launcher, request);
    words_add(&line->words, "%s", launcher_name(launcher));
    if (launcher == LAUNCHER_SRUN)
        status = srun_line(line, request, err);
    else if (launcher == LAUNCHER_JSRUN)
        status = jsrun_line(line, request, err);
    else
        status = mpirun_line(line, request, launcher == LAUNCHER_PRTERUN || request->prrte, err);
    if (status == HVD_OK && (line->words.failed || line->variables.failed))
        status = error_set(err, HVD_ERR_NO_MEMORY, "no memory for the command line of %s",
                           launcher_name(launcher));
    if (status != HVD_OK)
        launch_line_free(line);
    return status;
}

void launch_line_free(struct launch_line *line)
{
    words_free(&line->words);
    words_free(&line->variables);
    free(line->resource_file);
    *line = (struct launch_line){.resource_file = NULL};
}

void launch_line_show(const struct launch_line *line, const char *why, FILE *to)
{
    fprintf(to, "# %s: %s\n", line->words.list[0], why);
    for (size_t i = 0; i < line->variables.count; i++) {
        const char *entry = line->variables.list[i];
        fprintf(to, "export %.*s", (int)strcspn(entry, "=") + 1, entry);
        show_word(strchr(entry, '=') + 1, to);
        fputc('\n', to);
    }
    fputs("# and HVD_JOB_KEY, a secret that is drawn when the job starts\n", to);
    if (line->resource_file != NULL)
        fprintf(to, "cat >%s <<'END'\n%sEND\n", line->words.list[line->resource_word], line->resource_file);
    for (size_t i = 0; i < line->words.count; i++) {
        if (i > 0)
            fputc(' ', to);
        show_word(line->words.list[i], to);
    }
    fputc('\n', to);
}
