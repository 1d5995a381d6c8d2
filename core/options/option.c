/* option.c: the table of options. */
#include "options/option_type.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/backend_id.h"
#include "options/nearest.h"

#define SECOND INT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define MIB    (INT64_C(1) << 20)

static const char *const log_choices[] = {[LOG_OFF] = "off",   [LOG_ERROR] = "error", [LOG_WARN] = "warn",
                                          [LOG_INFO] = "info", [LOG_DEBUG] = "debug", NULL};

static const char *const progress_choices[] = {[PROGRESS_MODE_ADAPTIVE] = "adaptive",
                                               [PROGRESS_MODE_SPIN] = "spin",
                                               [PROGRESS_MODE_BLOCK] = "block",
                                               NULL};
static const char *const gpu_visible_choices[] = {[GPU_VISIBLE_ALL] = "all", [GPU_VISIBLE_ONE] = "one", NULL};

/* Not SIGUSR2, which asks for the flight record. */
static const struct {
    const char *choices[6];
    int numbers[6];
} stop_signals = {{"none", "TERM", "INT", "HUP", "USR1", NULL}, {0, SIGTERM, SIGINT, SIGHUP, SIGUSR1}};

/* Horovod's log levels, in any case. */
static const struct option_synonym log_synonyms[] = {
    {"trace", "debug"}, {"debug", "debug"}, {"info", "info"}, {"warning", "warn"},
    {"error", "error"}, {"fatal", "error"}, {NULL, NULL}};

const struct hvd_option option_table[] = {
    {.name = "fusion",
     .arg = "SIZE",
     .def = "64M",
     .help = "fuse tensors into operations of at most SIZE bytes; 0 fuses nothing",
     OPTION_TYPE(size, fusion_bytes),
     .min = 0,
     .max = 16 * 1024 * MIB,
     .job_wide = true,
     .horovod = "HOROVOD_FUSION_THRESHOLD",
     .horovod_unit = ""},
    {.name = "backends",
     .arg = "LIST",
     .def = "auto",
     .help = "allowed backends, in order of preference; auto lets hvd choose",
     OPTION_TYPE(list, backends),
     .choices = backend_names,
     .job_wide = true},
    {.name = "nccl-library",
     .arg = "FILE",
     .def = "",
     .help = "load NCCL, or a library with the same functions, from FILE, unless the program has loaded it",
     OPTION_TYPE(file, nccl_library)},
    {.name = "mpi-gpu",
     .arg = "HOW",
     .def = "off",
     .help = "pass tensors on GPUs directly to a CUDA-aware MPI, except for reductions",
     OPTION_TYPE(switch, mpi_gpu)},
    {.name = "tcp-streams",
     .arg = "COUNT",
     .def = "1",
     .help = "use COUNT connections from each rank to the next with backend tcp",
     OPTION_TYPE(number, tcp_streams),
     .min = 1,
     .max = 16,
     .job_wide = true},
    {.name = "start-timeout",
     .arg = "TIME",
     .def = "60s",
     .help = "give up if not all ranks have joined within TIME; an elastic job gives up those that have not",
     OPTION_TYPE(time, start_timeout_us),
     .min = SECOND / 10,
     .max = 24 * HOUR,
     .horovod = "HOROVOD_START_TIMEOUT",
     .horovod_unit = "s"},
    {.name = "lease",
     .arg = "TIME",
     .def = "5s",
     .help = "declare a node lost if its network has not answered for TIME",
     OPTION_TYPE(time, lease_us),
     .min = SECOND,
     .max = HOUR},
    {.name = "kill-wait",
     .arg = "TIME",
     .def = "30s",
     .help = "end a process that still runs TIME after a rank was lost; 0 never ends it",
     OPTION_TYPE(time, kill_wait_us),
     .min = 0,
     .max = 24 * HOUR},
    {.name = "cache",
     .arg = "COUNT",
     .def = "16384",
     .help = "cache at most COUNT operations of each process set; 0 is no limit",
     OPTION_TYPE(number, cache_limit),
     .min = 0,
     .max = INT32_MAX,
     .job_wide = true,
     .horovod = "HOROVOD_CACHE_CAPACITY",
     .horovod_zero = "hvd always has its cache; 0 is ignored, other numbers limit it"},
    {.name = "inflight",
     .arg = "COUNT",
     .def = "2",
     .help = "let at most COUNT fused operations wait for a backend; operations that become "
             "ready meanwhile are fused",
     OPTION_TYPE(number, inflight),
     .min = 1,
     .max = 1024,
     .job_wide = true},
    {.name = "chunk",
     .arg = "SIZE",
     .def = "0",
     .help = "move data through a node's shared memory in chunks of SIZE bytes; 0 lets hvd choose",
     OPTION_TYPE(size, chunk_bytes),
     .min = 0,
     .max = 1024 * MIB,
     .job_wide = true},
    {.name = "encrypt",
     .arg = "HOW",
     .def = "off",
     .help = "encrypt TCP between ranks, and protect it against changes",
     OPTION_TYPE(switch, encrypt),
     .job_wide = true},
    {.name = "autotune",
     .arg = "HOW",
     .def = "off",
     .help = "search for better values of fusion, inflight and chunk in the first few hundred steps",
     OPTION_TYPE(switch, autotune),
     .job_wide = true,
     .horovod = "HOROVOD_AUTOTUNE",
     .horovod_never = "hvd tunes other things than Horovod; set HVD_AUTOTUNE=on"},
    {.name = "autotune-file",
     .arg = "FILE",
     .def = "",
     .help = "write the result of --hvd-autotune to FILE, for --hvd-config of later jobs",
     OPTION_TYPE(file, autotune_file)},
    {.name = "stall-warn",
     .arg = "TIME",
     .def = "60s",
     .help = "name the ranks that keep an operation waiting for TIME, and again after twice as long; 0 never "
             "warns",
     OPTION_TYPE(time, stall_warn_us),
     .min = 0,
     .max = 24 * HOUR,
     .job_wide = true,
     .horovod = "HOROVOD_STALL_CHECK_TIME_SECONDS",
     .horovod_unit = "s",
     .horovod_zero_if = "HOROVOD_STALL_CHECK_DISABLE"},
    {.name = "stall-abort",
     .arg = "TIME",
     .def = "0",
     .help = "end the job if ranks keep an operation waiting for TIME, whatever they do "
             "meanwhile; 0 never ends it",
     OPTION_TYPE(time, stall_abort_us),
     .min = 0,
     .max = 24 * HOUR,
     .job_wide = true,
     .horovod = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
     .horovod_unit = "s",
     .horovod_zero_if = "HOROVOD_STALL_CHECK_DISABLE"},
    {.name = "hang-abort",
     .arg = "TIME",
     .def = "10min",
     .help = "end the job if an operation has waited for TIME and cannot go on: a rank does not "
             "answer, or all have submitted it and it makes no progress; 0 never ends it",
     OPTION_TYPE(time, hang_abort_us),
     .min = 0,
     .max = 24 * HOUR,
     .job_wide = true,
     .horovod_zero_if = "HOROVOD_STALL_CHECK_DISABLE"},
    {.name = "timeline",
     .arg = "DIR",
     .def = "",
     .help = "write a timeline of each rank into the folder DIR, for hvdinfo trace and Perfetto",
     OPTION_TYPE(folder, timeline),
     .job_wide = true,
     .horovod = "HOROVOD_TIMELINE",
     .horovod_never = "Horovod's timeline is one file, hvd's is one of each rank, in a folder; "
                      "set HVD_TIMELINE=DIR"},
    {.name = "dump-dir",
     .arg = "DIR",
     .def = "",
     .help = "write each rank's last operations into the folder DIR when the job fails, at a "
             "fatal signal and at SIGUSR2",
     OPTION_TYPE(folder, dump_dir)},
    {.name = "state-dir",
     .arg = "DIR",
     .def = "",
     .help = "write commits of the state into the folder DIR, from which the same command goes on when it is "
             "started again",
     OPTION_TYPE(folder, state_dir),
     .job_wide = true},
    {.name = "stop-signal",
     .arg = "SIGNAL",
     .def = "none",
     .help = "treat SIGNAL as a request to stop, which hvd_should_stop reports to all ranks",
     OPTION_TYPE(choice, stop_signal),
     .choices = stop_signals.choices,
     .choice_values = stop_signals.numbers},
    {.name = "progress",
     .arg = "HOW",
     .def = "adaptive",
     .help = "how ranks wait for each other: poll and then sleep, always poll, or sleep at once",
     OPTION_TYPE(choice, progress),
     .choices = progress_choices},
    {.name = "log",
     .arg = "LEVEL",
     .def = "warn",
     .help = "log messages up to LEVEL to stderr",
     OPTION_TYPE(choice, log_level),
     .choices = log_choices,
     .horovod = "HOROVOD_LOG_LEVEL",
     .horovod_synonyms = log_synonyms},
    {.name = "config",
     .arg = "FILE",
     .def = "",
     .help = "read options from FILE, a YAML mapping of names to values",
     OPTION_TYPE(file, config_file)},
    {.name = "bind",
     .arg = "POLICY",
     .def = "auto",
     .help = "how the tasks of a node divide its cores, memory, GPUs and network cards",
     OPTION_TYPE(bind, bind),
     .places_tasks = true},
    {.name = "gpu-visible",
     .arg = "WHICH",
     .def = "all",
     .help = "whether a task sees all GPUs of the step on its node, or only its own",
     OPTION_TYPE(choice, gpu_visible),
     .places_tasks = true,
     .choices = gpu_visible_choices},
    {.name = "nics",
     .arg = "LIST",
     .def = "auto",
     .help = "use these network cards, by name or subnet; auto lets hvd choose",
     OPTION_TYPE(nics, nics),
     .horovod = "HOROVOD_GLOO_IFACE"},
    {.name = "rs",
     .arg = "SET",
     .def = "",
     .help = "divide each node into resource sets, as jsrun does",
     OPTION_TYPE(rs, rs),
     .places_tasks = true},
    {.name = "cycle-time",
     .arg = "TIME",
     .def = "",
     .help = "retired",
     .horovod = "HOROVOD_CYCLE_TIME",
     .retired = "hvd acts when something happens and has no cycle; remove it"},
};

const int option_count = (int)(sizeof(option_table) / sizeof(option_table[0]));
_Static_assert(sizeof(option_table) / sizeof(option_table[0]) <= OPTION_MAX,
               "arrays have room for all options");

const char *option_nearest(const char *name)
{
    struct nearest nearest = {.word = name};
    for (int i = 0; i < option_count; i++) {
        if (option_table[i].retired == NULL)
            nearest_try(&nearest, option_table[i].name);
    }
    return nearest.name;
}

const struct hvd_option *option_find(const char *name)
{
    for (int i = 0; i < option_count; i++) {
        if (strcmp(option_table[i].name, name) == 0)
            return &option_table[i];
    }
    return NULL;
}

const struct hvd_option *option_at(size_t offset)
{
    for (int i = 0; i < option_count; i++) {
        if (option_table[i].type != NULL && option_table[i].offset == offset)
            return &option_table[i];
    }
    return NULL;
}

void option_env_name(const struct hvd_option *option, char *buffer)
{
    char *to = buffer + snprintf(buffer, 64, "HVD_");
    for (const char *from = option->name; *from != 0 && to < buffer + 63; from++)
        *to++ = *from == '-' ? '_' : (char)toupper((unsigned char)*from);
    *to = 0;
}

void option_spelling(const struct hvd_option *option, char *text, size_t text_bytes)
{
    bool bare = option->retired == NULL && option->type->bare != NULL;
    snprintf(text, text_bytes, "--hvd-%s%s=%s%s", option->name, bare ? "[" : "", option->arg,
             bare ? "]" : "");
}
