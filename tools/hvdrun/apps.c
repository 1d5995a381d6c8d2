/* apps.c: the programs of a job, found in PATH. */
#include "config.h"
#include "tools/hvdrun/apps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/command.h"
#include "tools/hvdrun/print_error.h"
#include "tools/hvdrun/restarts.h"

static int find_app(const struct hvdrun_app *from, struct reaper_app *app, int *exit_statusp)
{
    struct hvd_error err;
    char path[PATH_MAX];
    *exit_statusp = command_find(hvdrun_app_word(from, 0), getenv("PATH"), path, sizeof(path), &err);
    if (*exit_statusp != 0)
        return print_error(err.text);
    app->path = strdup(path);
    app->arguments = calloc((size_t)hvdrun_app_words(from) + 1, sizeof(*app->arguments));
    if (app->path == NULL || app->arguments == NULL) {
        *exit_statusp = EXIT_BROKEN;
        return print_error("no memory for the command line of the ranks");
    }
    for (int i = 0; i < hvdrun_app_words(from); i++)
        app->arguments[i] = hvdrun_app_word(from, i);
    return HVD_OK;
}

int apps_find(const struct hvdrun_options *options, struct reaper_app apps[HVDRUN_MAX_APPS],
              int *exit_statusp)
{
    int end = 0;
    int status = HVD_OK;
    for (int i = 0; status == HVD_OK && i < options->app_count; i++) {
        status = find_app(&options->apps[i], &apps[i], exit_statusp);
        end += options->apps[i].ranks;
        apps[i].end = end;
    }
    return status;
}

void apps_free(struct reaper_app apps[HVDRUN_MAX_APPS])
{
    for (int i = 0; i < HVDRUN_MAX_APPS; i++) {
        free(apps[i].path);
        free(apps[i].arguments);
    }
}
