/* option.c: the table of options, and the check of one value. */
#include "base/option.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bind.h"
#include "base/log.h"
#include "base/nic_filter.h"
#include "base/parse.h"
#include "base/backend_id.h"
#include "base/resource_set.h"

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

static const char *const autotune_choices[] = {"off", "on", NULL};

const struct hvd_option option_table[OPT_COUNT] = {
    [OPT_FUSION] = {.name = "fusion",
                    .arg = "SIZE",
                    .def = "64M",
                    .help = "fuse tensors into operations of at most SIZE bytes; 0 fuses nothing",
                    .type = OPTION_SIZE,
                    .min = 0,
                    .max = 16 * 1024 * MIB,
                    .job_wide = true,
                    .horovod = "HOROVOD_FUSION_THRESHOLD",
                    .horovod_unit = ""},
    [OPT_BACKENDS] = {.name = "backends",
                      .arg = "LIST",
                      .def = "auto",
                      .help = "backends that may carry tensors, best first; auto lets hvd choose",
                      .type = OPTION_LIST,
                      .choices = backend_names,
                      .job_wide = true},
    [OPT_TCP_STREAMS] = {.name = "tcp-streams",
                         .arg = "COUNT",
                         .def = "1",
                         .help = "carry what goes from one rank to the next by tcp over COUNT connections",
                         .type = OPTION_NUMBER,
                         .min = 1,
                         .max = 16,
                         .job_wide = true},
    [OPT_START_TIMEOUT] = {.name = "start-timeout",
                           .arg = "TIME",
                           .def = "60s",
                           .help = "give up when not all ranks have joined within TIME",
                           .type = OPTION_TIME,
                           .min = SECOND / 10,
                           .max = 24 * HOUR,
                           .horovod = "HOROVOD_START_TIMEOUT",
                           .horovod_unit = "s"},
    [OPT_LEASE] = {.name = "lease",
                   .arg = "TIME",
                   .def = "5s",
                   .help = "declare a node lost when its network has not answered for TIME",
                   .type = OPTION_TIME,
                   .min = SECOND,
                   .max = HOUR},
    [OPT_KILL_WAIT] = {.name = "kill-wait",
                       .arg = "TIME",
                       .def = "30s",
                       .help = "end a process that is still there TIME after a rank was lost; 0 never does",
                       .type = OPTION_TIME,
                       .min = 0,
                       .max = 24 * HOUR},
    [OPT_CACHE] = {.name = "cache",
                   .arg = "COUNT",
                   .def = "0",
                   .help = "remember at most COUNT operations between their submissions; 0 is no limit",
                   .type = OPTION_NUMBER,
                   .min = 0,
                   .max = INT32_MAX,
                   .job_wide = true,
                   .horovod = "HOROVOD_CACHE_CAPACITY",
                   .horovod_zero = "hvd always has its cache; 0 is ignored, other numbers limit it"},
    [OPT_INFLIGHT] = {.name = "inflight",
                      .arg = "COUNT",
                      .def = "2",
                      .help = "let COUNT fused operations wait before more are agreed on: what becomes ready "
                              "meanwhile is fused",
                      .type = OPTION_NUMBER,
                      .min = 1,
                      .max = 1024,
                      .job_wide = true},
    [OPT_CHUNK] = {.name = "chunk",
                   .arg = "SIZE",
                   .def = "0",
                   .help =
                       "move data through a node's shared memory in chunks of SIZE bytes; 0 lets hvd choose",
                   .type = OPTION_SIZE,
                   .min = 0,
                   .max = 1024 * MIB,
                   .job_wide = true},
    [OPT_AUTOTUNE] = {.name = "autotune",
                      .arg = "HOW",
                      .def = "off",
                      .help = "look for a better fusion, inflight and chunk in the first few hundred steps",
                      .type = OPTION_CHOICE,
                      .choices = autotune_choices,
                      .job_wide = true,
                      .horovod = "HOROVOD_AUTOTUNE",
                      .horovod_never = "hvd tunes other things than Horovod; set HVD_AUTOTUNE=on"},
    [OPT_AUTOTUNE_FILE] = {.name = "autotune-file",
                           .arg = "FILE",
                           .def = "",
                           .help =
                               "write what --hvd-autotune came to into FILE, for --hvd-config of later jobs",
                           .type = OPTION_FILE},
    [OPT_STALL_WARN] = {.name = "stall-warn",
                        .arg = "TIME",
                        .def = "60s",
                        .help = "name the ranks that keep an operation waiting for TIME; 0 never does",
                        .type = OPTION_TIME,
                        .min = 0,
                        .max = 24 * HOUR,
                        .job_wide = true,
                        .horovod = "HOROVOD_STALL_CHECK_TIME_SECONDS",
                        .horovod_unit = "s"},
    [OPT_STALL_ABORT] = {.name = "stall-abort",
                         .arg = "TIME",
                         .def = "10min",
                         .help = "end the job when ranks keep an operation waiting for TIME; 0 never does",
                         .type = OPTION_TIME,
                         .min = 0,
                         .max = 24 * HOUR,
                         .job_wide = true,
                         .horovod = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                         .horovod_unit = "s"},
    [OPT_TIMELINE] = {.name = "timeline",
                      .arg = "DIR",
                      .def = "",
                      .help =
                          "write a timeline of each rank into the folder DIR, for hvdinfo trace and Perfetto",
                      .type = OPTION_FOLDER,
                      .job_wide = true,
                      .horovod = "HOROVOD_TIMELINE",
                      .horovod_never =
                          "Horovod's timeline is one file, hvd's is one of each rank, in a folder; "
                          "set HVD_TIMELINE=DIR"},
    [OPT_DUMP_DIR] = {.name = "dump-dir",
                      .arg = "DIR",
                      .def = "",
                      .help =
                          "write each rank's last operations into the folder DIR when the job fails, at a "
                          "fatal signal and at SIGUSR2",
                      .type = OPTION_FOLDER},
    [OPT_STOP_SIGNAL] = {.name = "stop-signal",
                         .arg = "SIGNAL",
                         .def = "none",
                         .help = "take SIGNAL as a request to stop, which hvd_should_stop tells all ranks",
                         .type = OPTION_CHOICE,
                         .choices = stop_signals.choices},
    [OPT_PROGRESS] = {.name = "progress",
                      .arg = "HOW",
                      .def = "adaptive",
                      .help = "how ranks wait for each other: look for a while and then sleep, look all the "
                              "time, or sleep at once",
                      .type = OPTION_CHOICE,
                      .choices = progress_choices},
    [OPT_LOG] = {.name = "log",
                 .arg = "LEVEL",
                 .def = "warn",
                 .help = "say on stderr what hvd does",
                 .type = OPTION_CHOICE,
                 .choices = log_choices,
                 .horovod = "HOROVOD_LOG_LEVEL"},
    [OPT_CONFIG] = {.name = "config",
                    .arg = "FILE",
                    .def = "",
                    .help = "read options from FILE, a YAML mapping of names to values",
                    .type = OPTION_FILE},
    [OPT_BIND] = {.name = "bind",
                  .arg = "POLICY",
                  .def = "auto",
                  .help = "how the tasks of a node share its cores, memory, GPUs and network cards",
                  .type = OPTION_CUSTOM,
                  .check = bind_check,
                  .expected = bind_expected},
    [OPT_GPU_VISIBLE] = {.name = "gpu-visible",
                         .arg = "WHICH",
                         .def = "all",
                         .help = "whether a task is to see all GPUs of the step on its node, or only its own",
                         .type = OPTION_CHOICE,
                         .choices = gpu_visible_choices},
    [OPT_NICS] = {.name = "nics",
                  .arg = "LIST",
                  .def = "auto",
                  .help = "use these network cards, by name or subnet; auto lets hvd choose",
                  .type = OPTION_CUSTOM,
                  .check = nic_filter_check,
                  .expected = nic_filter_expected},
    [OPT_RS] = {.name = "rs",
                .arg = "SET",
                .def = "",
                .help = "divide each node into resource sets, as jsrun does",
                .type = OPTION_CUSTOM,
                .check = rs_check,
                .expected = rs_expected},
    [OPT_CYCLE_TIME] = {.name = "cycle-time",
                        .arg = "TIME",
                        .def = "",
                        .help = "retired",
                        .type = OPTION_TIME,
                        .horovod = "HOROVOD_CYCLE_TIME",
                        .retired = "hvd acts when something happens and has no cycle; remove it"},
};

const struct hvd_option *option_find(const char *name)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        if (strcmp(option_table[i].name, name) == 0)
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

static void append_choices(const struct hvd_option *option, char *text, size_t text_bytes)
{
    size_t used = strlen(text);
    for (int i = 0; option->choices[i] != NULL; i++)
        used +=
            (size_t)snprintf(text + used, text_bytes - used, "%s%s", i == 0 ? "" : ", ", option->choices[i]);
}

void option_expected(const struct hvd_option *option, char *text, size_t text_bytes)
{
    char low[32];
    char high[32];
    switch (option->type) {
    case OPTION_SIZE:
        format_size(option->min, low, sizeof(low));
        format_size(option->max, high, sizeof(high));
        snprintf(text, text_bytes, "bytes with an optional K, M, G or T, between %s and %s, such as %s", low,
                 high, option->def);
        break;
    case OPTION_TIME:
        format_time(option->min, low, sizeof(low));
        format_time(option->max, high, sizeof(high));
        snprintf(text, text_bytes, "a time with us, ms, s, min or h, between %s and %s, such as %s", low,
                 high, option->def);
        break;
    case OPTION_NUMBER:
        snprintf(text, text_bytes, "a whole number between %" PRId64 " and %" PRId64, option->min,
                 option->max);
        break;
    case OPTION_CHOICE:
        snprintf(text, text_bytes, "one of ");
        append_choices(option, text, text_bytes);
        break;
    case OPTION_LIST:
        snprintf(text, text_bytes, "auto, or some of these with commas between, each once: ");
        append_choices(option, text, text_bytes);
        break;
    case OPTION_FILE:
        snprintf(text, text_bytes, "the name of a file");
        break;
    case OPTION_FOLDER:
        snprintf(text, text_bytes, "the name of a folder");
        break;
    case OPTION_CUSTOM:
        snprintf(text, text_bytes, "%s", option->expected);
        break;
    }
}

static int find_choice(const struct hvd_option *option, const char *text, size_t length)
{
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strlen(option->choices[i]) == length && memcmp(option->choices[i], text, length) == 0)
            return i;
    }
    return -1;
}

/* A list is kept as one byte an entry, index + 1, first entry lowest: order is part of the value. */
static int parse_list(const struct hvd_option *option, const char *text, uint64_t *listp, const char **whyp)
{
    uint64_t list = 0;
    uint64_t seen = 0;
    int count = 0;
    *whyp = "names something unknown";
    if (strcmp(text, "auto") == 0) {
        *listp = 0;
        return 0;
    }
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int choice = find_choice(option, at, length);
        if (choice < 0)
            return -1;
        if ((seen >> choice & 1) != 0) {
            *whyp = "names something twice";
            return -1;
        }
        seen |= UINT64_C(1) << choice;
        list |= (uint64_t)(choice + 1) << (8 * count++);
        at += length;
        if (*at == 0)
            break;
    }
    *listp = list;
    return 0;
}

int option_list_choice(uint64_t list, int i)
{
    return i >= 8 ? -1 : (int)(list >> (8 * i) & 0xff) - 1;
}

int option_signal(uint64_t choice)
{
    return stop_signals.numbers[choice];
}

static int parse_value(const struct hvd_option *option, const char *text, uint64_t *valuep, const char **whyp)
{
    static int (*const parsers[])(const char *, int64_t *, const char **) = {
        [OPTION_SIZE] = parse_size, [OPTION_TIME] = parse_time, [OPTION_NUMBER] = parse_count};
    int64_t number = 0;
    switch (option->type) {
    case OPTION_SIZE:
    case OPTION_TIME:
    case OPTION_NUMBER:
        if (parsers[option->type](text, &number, whyp) < 0)
            return -1;
        if (number < option->min || number > option->max) {
            *whyp = number < option->min ? "is too small" : "is too large";
            return -1;
        }
        *valuep = (uint64_t)number;
        return 0;
    case OPTION_CHOICE:
        number = find_choice(option, text, strlen(text));
        *whyp = "is not a choice";
        if (number < 0)
            return -1;
        *valuep = (uint64_t)number;
        return 0;
    case OPTION_LIST:
        return parse_list(option, text, valuep, whyp);
    case OPTION_FILE:
    case OPTION_FOLDER:
        *whyp = "is empty";
        return text[0] == 0 ? -1 : 0;
    case OPTION_CUSTOM:
        return option->check(text, whyp);
    }
    return -1;
}

int option_parse(const struct hvd_option *option, const char *where, const char *text, uint64_t *valuep,
                 struct hvd_error *err)
{
    const char *why = "";
    if (option->retired != NULL)
        return error_set(err, HVD_ERR_INVALID, "%s: %s", where, option->retired);
    if (strlen(text) > OPTION_VALUE_BYTES)
        return error_set(err, HVD_ERR_INVALID, "%s: the value is longer than %d bytes", where,
                         OPTION_VALUE_BYTES);
    if (parse_value(option, text, valuep, &why) < 0) {
        char expected[256];
        option_expected(option, expected, sizeof(expected));
        return error_set(err, HVD_ERR_INVALID, "%s=%.64s: the value %s; expected %s", where, text, why,
                         expected);
    }
    return HVD_OK;
}
