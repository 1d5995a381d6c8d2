/* bar_run.c: run the commands that a bar is measured by. */
#include "tools/hvdbench/bars/bar_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_US  900000000 /* time limit of one command */
#define NO_NODES  3         /* the exit status of two-nodes if it cannot create its nodes */
#define NOT_FOUND 127

/* ---- Commands ------------------------------------------------------------------------------------- */

static void add(struct command *command, const char *const *arguments)
{
    for (; *arguments != NULL && command->count < COMMAND_ARGUMENTS - 1; arguments++)
        command->argv[command->count++] = *arguments;
}

void command_describe(struct command *command, const struct programs *programs, const struct bar_command *row)
{
    char *rest = NULL;
    const char *ranks = command->ranks;
    const char *const hvdrun[] = {programs->hvdrun, "--launcher=local", "-n", ranks,
                                  "--no-prefix",    programs->hvdbench, NULL};
    const char *const alone[] = {programs->hvdbench, NULL};
    const char *const nodes[] = {programs->two_nodes, ranks, "env", command->backends,
                                 programs->hvdbench,  NULL};
    const char *const mpirun[] = {"mpirun", "--oversubscribe", "--bind-to", "core", "-np", ranks, NULL};
    const char *const plain[] = {programs->plain, NULL};
    *command = (struct command){.count = 0};
    snprintf(command->ranks, sizeof(command->ranks), "%d", row->ranks);
    snprintf(command->backends, sizeof(command->backends), "HVD_BACKENDS=%s",
             row->backends != NULL ? row->backends : "");
    snprintf(command->arguments, sizeof(command->arguments), "%s", row->arguments);
    add(command, row->place == RUNNER_HVDRUN      ? hvdrun
                 : row->place == RUNNER_TWO_NODES ? nodes
                 : row->place == RUNNER_MPIRUN    ? mpirun
                                                  : alone);
    if (row->place == RUNNER_MPIRUN)
        add(command, plain);
    for (const char *word = strtok_r(command->arguments, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        add(command, (const char *const[]){word, NULL});
    add(command, (const char *const[]){"--json", NULL});
}

void command_format(const struct command *command, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < command->count - 1 && used < room; i++) {
        const char *slash = strrchr(command->argv[i], '/');
        used += (size_t)snprintf(text + used, room - used, "%s%s", i > 0 ? " " : "",
                                 slash != NULL ? slash + 1 : command->argv[i]);
    }
}

/* Skip to the first line that has text. Returns its length. */
static int first_line(const char **textp)
{
    *textp += strspn(*textp, "-\n");
    return (int)strcspn(*textp, "\n");
}

/* Run the command and parse its output. Returns HVD_ERR_UNSUPPORTED if it cannot run on this machine; any
 * other error means that it failed. */
static int run_command(const struct command *command, struct spawned *spawned, struct record *record,
                       struct hvd_error *err)
{
    const char *name = strrchr(command->argv[0], '/');
    const char *said = spawned->errors;
    name = name != NULL ? name + 1 : command->argv[0];
    spawned->take_errors = true;
    int status = spawn(spawned, command->argv, LIMIT_US, err);
    int length = first_line(&said);
    if (status != HVD_OK)
        return status;
    if (spawned->exit_status == NOT_FOUND)
        return error_set(err, HVD_ERR_UNSUPPORTED, "%s was not found%s%.*s", name, length > 0 ? ": " : "",
                         length, said);
    if (spawned->exit_status != 0)
        return error_set(err, spawned->exit_status == NO_NODES ? HVD_ERR_UNSUPPORTED : HVD_ERR_SYSTEM,
                         "%s exited with status %d%s%.*s", name, spawned->exit_status, length > 0 ? ": " : "",
                         length, said);
    return record_read(record, spawned->output, err);
}

/* Look for the program here, because mpirun's own messages about a missing program are long and vary. */
static int check_plain(const struct bar *bar, const struct programs *programs, struct hvd_error *err)
{
    for (int i = 0; i < bar_commands(bar); i++)
        if (bar->commands[i].place == RUNNER_MPIRUN && access(programs->plain, X_OK) != 0)
            return error_set(err, HVD_ERR_UNSUPPORTED, "%s is not there: hvd was built without MPI",
                             programs->plain);
    return HVD_OK;
}

int bar_run(const struct bar *bar, const struct programs *programs, struct spawned *spawned,
            struct record *records, struct hvd_error *err)
{
    int commands = bar_commands(bar);
    int status = check_plain(bar, programs, err);
    for (int i = 0; i < bar_turns(bar) * commands && status == HVD_OK; i++) {
        struct command command;
        command_describe(&command, programs, &bar->commands[i % commands]);
        status = run_command(&command, spawned, &records[i], err);
    }
    return status;
}
