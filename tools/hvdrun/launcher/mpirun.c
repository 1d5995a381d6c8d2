/* mpirun.c: the command lines of Open MPI's mpirun and of PRRTE's prterun. */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/launch_variables.h"
#include "base/secret.h"
#include "options/config.h"
#include "tools/hvdrun/launcher/line.h"

/* Variables that go to other machines as well: those that programs and libraries of this field read. A name
 * that ends in * is a prefix. The launcher hands all others on within this machine only. */
static const char *const handed_on[] = {
    "HVD_*",       "HOROVOD_*", "NCCL_*",      "RCCL_*",      "UCX_*",   "OMP_*", "MKL_*",
    "CUDA_*",      "ROCR_*",    "HIP_*",       "TORCH_*",     "PYTHON*", "PATH",  "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CONDA_*",   "MASTER_ADDR", "MASTER_PORT", NULL};

static bool is_handed_on(const char *name)
{
    for (const char *const *pattern = handed_on; *pattern != NULL; pattern++) {
        size_t length = strcspn(*pattern, "*");
        if (strncmp(name, *pattern, length) == 0 && ((*pattern)[length] == '*' || name[length] == 0))
            return true;
    }
    return false;
}

static bool is_listed(const struct words *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i], name) == 0)
            return true;
    }
    return false;
}

/* Add the name of "NAME=value" or "NAME", once. */
static void add_name(struct words *names, const char *entry)
{
    char name[256];
    size_t length = strcspn(entry, "=");
    if (length == 0 || length >= sizeof(name))
        return;
    memcpy(name, entry, length);
    name[length] = 0;
    if (!is_listed(names, name))
        words_add(names, "%s", name);
}

static void collect_names(struct words *names, const struct launch_line *line,
                          const struct line_request *request)
{
    add_name(names, SECRET_VARIABLE);
    for (size_t i = 0; i < line->variables.count; i++)
        add_name(names, line->variables.list[i]);
    if (request->options->max_restarts > 0)
        add_name(names, RESTART_VARIABLE);
    for (int i = 0; request->options->forwarded[i] != NULL; i++)
        add_name(names, request->options->forwarded[i]);
    for (int i = 0; request->environment[i] != NULL; i++) {
        char name[256];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(request->environment[i], "="),
                 request->environment[i]);
        if (is_handed_on(name))
            add_name(names, name);
    }
}

static void add_output(struct words *words, const struct output_options *output, bool prrte)
{
    if (prrte && (output->prefix || output->timestamps)) {
        words_add(words, "--output");
        words_add(words, "%s%s", output->prefix ? "tag" : "", output->timestamps ? ",timestamp" : "");
        return;
    }
    if (output->prefix)
        words_add(words, "--tag-output");
    if (output->timestamps)
        words_add(words, "--timestamp-output");
}

static void add_app(struct launch_line *line, const struct line_request *request, const struct words *names,
                    const struct hvdrun_app *app)
{
    struct words *words = &line->words;
    int ranks = request->options->app_count == 1 ? request->ranks : app->ranks;
    if (ranks > 0) {
        words_add(words, "-n");
        words_add(words, "%d", ranks);
    }
    if (request->hosts.count > 0) { /* all programs of a job share them */
        words_add(words, "--host");
        words_add_hosts(words, "", &request->hosts, HOSTS_WITH_SLOTS);
    }
    for (size_t i = 0; i < names->count; i++) {
        words_add(words, "-x");
        words_add(words, "%s", names->list[i]);
    }
    for (int i = 0; i < app->word_count; i++)
        words_add(words, "%s", app->command[i]);
}

/* Ranks are left unbound: hvd places those that no launcher has placed. */
int mpirun_line(struct launch_line *line, const struct line_request *request, bool prrte,
                struct hvd_error *err)
{
    const struct hvdrun_options *options = request->options;
    struct words names = {NULL, 0, 0, false};
    collect_names(&names, line, request);
    words_add(&line->words, "--bind-to");
    words_add(&line->words, "none");
    add_output(&line->words, &options->output, prrte);
    int status = HVD_OK;
    for (int i = 0; i < options->app_count; i++) {
        if (i > 0)
            words_add(&line->words, ":");
        if (options->apps[i].command[0][0] == '-')
            status = error_set(
                err, HVD_ERR_INVALID,
                "%s takes %.100s for an option of its own; write the program's path, as in ./%.100s",
                line->words.list[0], options->apps[i].command[0], options->apps[i].command[0]);
        add_app(line, request, &names, &options->apps[i]);
    }
    line->words.failed = line->words.failed || names.failed;
    words_free(&names);
    return status;
}
