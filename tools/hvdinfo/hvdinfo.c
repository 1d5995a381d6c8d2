/* hvdinfo.c: print hvd's version, what it was built with, and the options in force with the source of each.
 */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/config.h"
#include "base/module.h"
#include "options/nearest.h"
#include "tools/hvdinfo/commands.h"
#include "tools/hvdinfo/doctor/doctor.h"

/* Optional parts, and what each needs at run time: a module of hvd or a system library. */
static const struct library {
    const char *name, *built;
    const char *module, *library;
} parts[] = {
    {"PMIx", BUILT_WITH_PMIX, "wireup_pmix.so", NULL}, {"Slurm", BUILT_WITH_SLURM, NULL, NULL},
    {"hwloc", BUILT_WITH_HWLOC, NULL, NULL},           {"jansson", BUILT_WITH_JANSSON, NULL, NULL},
    {"MPI", BUILT_WITH_MPI, "backend_mpi.so", NULL},   {"CUDA", BUILT_WITH_CUDA, NULL, "libcuda.so.1"},
    {"NCCL", BUILT_WITH_NCCL, NULL, "libnccl.so.2"},
};

static int show_version(void)
{
    printf("hvd %s\n", PACKAGE_VERSION);
    return EXIT_SUCCESS;
}

/* ---- What was built in ------------------------------------------------------------------------ */

/* Print whether the loader finds it, and which file that is. */
static void show_library(const char *name)
{
    struct link_map *map = NULL;
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        printf("; %s is not where the loader looks", name);
    else if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        printf("; %s can be loaded", map->l_name);
}

/* Print whether the part was built, and whether its module or library can be loaded here. */
static void show_part(const struct library *part)
{
    struct hvd_error err = {""};
    void *module = NULL;
    bool built = strncmp(part->built, "no: ", 4) != 0;
    printf("  %-7s  %s", part->name, part->built);
    if (built && part->module != NULL) {
        module_open(part->module, NULL, &module, &err);
        printf("; %s%s", module != NULL ? part->module : err.text, module != NULL ? " can be loaded" : "");
    }
    if (built && part->library != NULL)
        show_library(part->library);
    putchar('\n');
}

/* ---- The options in force --------------------------------------------------------------------- */

void hvdinfo_warn(const char *sentence)
{
    fflush(stdout);
    fprintf(stderr, "hvdinfo: warning: %s\n", sentence);
}

static void show_config(const struct hvd_config *config)
{
    char value[OPTION_VALUE_BYTES + 1];
    char source[200];
    int name_width = 0;
    int value_width = 0;
    for (int i = 0; i < option_count; i++) {
        int length = (int)strlen(option_table[i].name);
        name_width = length > name_width ? length : name_width;
        config_value(config, &option_table[i], value, sizeof(value));
        length = (int)strlen(value);
        value_width = length > value_width ? length : value_width;
    }
    printf("  %-*s  %-*s  %s\n", name_width, "option", value_width, "value", "set by");
    for (int i = 0; i < option_count; i++) {
        if (option_table[i].retired != NULL)
            continue;
        config_value(config, &option_table[i], value, sizeof(value));
        config_source_text(config, &option_table[i], source, sizeof(source));
        printf("  %-*s  %-*s  %s\n", name_width, option_table[i].name, value_width,
               value[0] != 0 ? value : "-", source);
    }
}

static int show_all(void)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    show_version();
    puts("\nbuilt with");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        show_part(&parts[i]);
    puts("\nin force");
    if (config_load(&config, environ, hvdinfo_warn, &err) != HVD_OK) {
        fflush(stdout);
        fprintf(stderr, "hvdinfo: %s\n", err.text);
        return EXIT_FAILURE;
    }
    show_config(&config);
    return EXIT_SUCCESS;
}

/* ---- Subcommands and the help ------------------------------------------------------------------- */

/* They parse their own arguments, apart from --help. */
static const struct subcommand {
    const char *name;
    int (*run)(char *const *arguments);
    const char *synopsis, *help;
} commands[] = {
    {"doctor", hvdinfo_doctor, "doctor [--node] [--json]",
     "look for what keeps jobs from starting or makes them slow: on this node, and started by srun, hvdrun\n"
     "or mpirun on all nodes of the job; a line for each check says ok, warn or fail, what was found, and\n"
     "how to mend it; --node looks at this node only, within 30 seconds, as for Slurm's HealthCheckProgram;\n"
     "--json prints an array with an object for each line; the exit status is 1 if a check failed\n"},
    {"env", hvdinfo_env, "env",
     "join the job, and print RANK, WORLD_SIZE, MASTER_ADDR and the like as commands of a shell, apart from\n"
     "those that are set: eval \"$(hvdinfo env)\"\n"},
    {"nics", hvdinfo_nics, "nics [--json]",
     "say which network interfaces this node has, and why a job would use each or not; with --json as "
     "JSON\n"},
    {"ps", hvdinfo_ps,
     "ps [JOB] [--all] [--once] [--json] [--node] [--fan-out=NODES] [--still-after=TIME] "
     "[--dump-dir=DIR] [--torch=DIR]",
     "say what each rank on this node does, of your jobs or of JOB (a Slurm job or step, or a process id,\n"
     "as of hvdrun): computing, in which operation and since when, for which ranks it waits, stopped; ranks\n"
     "that do the same share a line, unless --all gives each its own; where ranks of the Slurm job are on\n"
     "other nodes, srun asks them too, unless --node is given; --json prints an object with one for each\n"
     "rank; the exit status is 0 if the ranks work, 1 if one has stood still for TIME (5s) or is\n"
     "stopped, or a node does not answer, 2 if there is none; --dump-dir=DIR says it of the records that\n"
     "ranks with --hvd-dump-dir=DIR wrote; --torch=DIR also writes their operations for torchfrtrace;\n"
     "of a job of more than --fan-out=NODES (64) nodes, some nodes ask the others\n"},
    {"stack", hvdinfo_stack, "stack JOB RANK [--native] [--node] [--fan-out=NODES]",
     "say what that rank does, as ps, and in which calls its main thread is: of Python by py-spy, which "
     "only\n"
     "reads its memory; otherwise, or with --native as well, of C by eu-stack or gdb, which stop it for a\n"
     "moment; one of them has to be installed on the rank's node; --node looks at this node only\n"},
    {"top", hvdinfo_top, "top [JOB] [--all] [--once] [--node] [--fan-out=NODES] [--still-after=TIME]",
     "the same, anew each second until the ranks have ended; on several nodes each five seconds. Keys: q "
     "ends,\n"
     "space pauses, a shows each rank, s sorts them by rank, time or waiting, j and k select a rank; with\n"
     "--once it is ps\n"},
    {"metrics", hvdinfo_metrics,
     "metrics [JOB] [--node] [--fan-out=NODES] [--output=FILE|unix:PATH] [--still-after=TIME]",
     "write the same as metrics, in the text format of Prometheus, to standard output, or into FILE, which\n"
     "readers always find whole, as node_exporter's textfile collector needs it; also where no rank runs.\n"
     "unix:PATH is a socket at which it answers each that asks by HTTP, until it is ended\n"},
    {"trace", hvdinfo_trace, "trace DIR [--output=FILE]",
     "say which ranks kept the others waiting, by the timelines that --hvd-timeline=DIR wrote; with "
     "--output\n"
     "put them together into FILE (-: standard output, and the table on standard error) for Perfetto or\n"
     "chrome://tracing\n"},
    {"map", hvdinfo_map,
     "map [--topology=FILE] [--tasks=N] [--bind=POLICY] [--rs=SET] [--gpus=LIST] [--cpus=LIST]\n"
     "                   [--json | --erf] [--svg=FILE]",
     "say which cores, memory, GPUs and network cards each task of this node would get, or of the machine\n"
     "in FILE, which lstopo has exported; as a table, as JSON, as an explicit resource file, and as a\n"
     "picture\n"}};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const char usage[] =
    "Without an argument: the version of hvd, what it was built with, and which options are in\n"
    "force here and who set each.\n"
    "\n"
    "  --options      list all options, and Horovod's variables\n"
    "  --man          the options, as mdoc for a manual page\n"
    "  --man-horovod  the list of Horovod's other variables, likewise\n"
    "  --man-events   the events and metrics of hvdrun, likewise\n"
    "  --version      only the version\n"
    "  --help         this text; after a subcommand, of that one\n";

static int show_command_usage(const struct subcommand *command)
{
    printf("usage: hvdinfo %s\n\n%s", command->synopsis, command->help);
    return EXIT_SUCCESS;
}

static int show_usage(void)
{
    puts("usage: hvdinfo [--options | --man | --man-horovod | --man-events | --version | --help]");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("       hvdinfo %s\n", commands[i].synopsis);
    printf("\n%s", usage);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("\nhvdinfo %s: %s", commands[i].name, commands[i].help);
    return EXIT_SUCCESS;
}

static const struct action {
    const char *argument; /* NULL: the call without arguments */
    int (*run)(void);
} actions[] = {{NULL, show_all},
               {"--options", hvdinfo_options},
               {"--man", hvdinfo_man},
               {"--man-horovod", hvdinfo_man_horovod},
               {"--man-events", hvdinfo_man_events},
               {"--version", show_version},
               {"--help", show_usage},
               {"-h", show_usage}};

static const struct action *find_action(const char *argument)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        const char *name = actions[i].argument;
        if (argument == NULL ? name == NULL : name != NULL && strcmp(name, argument) == 0)
            return &actions[i];
    }
    return NULL;
}

static const struct subcommand *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static bool asks_for_help(const char *argument)
{
    return argument != NULL && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0);
}

/* Words that are no call of hvdinfo. */
static int refuse_words(char *const *argv)
{
    static const char otherwise[] = "hvdinfo --help lists the options and subcommands";
    struct nearest nearest = {.word = argv[1]};
    char hint[NEAREST_HINT_BYTES];
    if (find_action(argv[1]) != NULL) {
        fprintf(stderr, "hvdinfo: %s %s: %s goes alone; %s\n", argv[1], argv[2], argv[1], otherwise);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        nearest_try(&nearest, commands[i].name);
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (actions[i].argument != NULL)
            nearest_try(&nearest, actions[i].argument);
    fprintf(stderr, "hvdinfo: %s: no such option or subcommand; %s\n", argv[1],
            nearest_hint(&nearest, otherwise, hint));
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const struct subcommand *command = argc > 1 ? find_command(argv[1]) : NULL;
    const struct action *action = argc <= 2 ? find_action(argc == 2 ? argv[1] : NULL) : NULL;
    if (action == NULL && command == NULL)
        return refuse_words(argv);
    int rc = command == NULL          ? action->run()
             : asks_for_help(argv[2]) ? show_command_usage(command)
                                      : command->run(argv + 2);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("hvdinfo: standard output");
        return EXIT_FAILURE;
    }
    return rc;
}
