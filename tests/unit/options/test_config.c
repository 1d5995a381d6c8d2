/* test_config.c: where options come from, who wins, and what bad input gets. */
#include "config.h"
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options/config.h"
#include "base/log.h"
#include "base/backend_id.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define FILE_NAME    "@" /* in a case's variables: replaced by the path of its file */

static char warning[600];
static int warning_count;
static char folder[64];
static char path[80];

static void keep_warning(const char *sentence)
{
    snprintf(warning, sizeof(warning), "%s", sentence);
    warning_count++;
}

/* Unchecked: in the parent of all cases, so that nothing stays when one of them fails. */
static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_config.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/f", folder);
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static void clean_folder(void)
{
    unlink(path);
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

/* Load from up to 5 variables, "@" in which stands for the file's path. */
static int load(struct hvd_config *config, const char *const *variables, struct hvd_error *err)
{
    static char copies[5][9100];
    char *environment[6] = {NULL};
    for (int i = 0; i < 5 && variables[i] != NULL; i++) {
        const char *at = strstr(variables[i], FILE_NAME);
        if (at != NULL)
            snprintf(copies[i], sizeof(copies[i]), "%.*s%s%s", (int)(at - variables[i]), variables[i], path,
                     at + 1);
        else
            snprintf(copies[i], sizeof(copies[i]), "%s", variables[i]);
        environment[i] = copies[i];
    }
    return config_load(config, environment, keep_warning, err);
}

/* ---- Who wins --------------------------------------------------------------------------------- */

#define FUSION_FILE "fusion: 3M\n"

static const struct {
    const char *variables[5];
    const char *file; /* NULL: there is none */
    const char *option;
    const char *value;
    const char *source; /* "@" in it: the path */
} good[] = {
    /* each source alone */
    {{NULL}, NULL, "fusion", "64M", "default"},
    {{"HVD_SITE=fusion=2M"}, NULL, "fusion", "2M", "site (HVD_SITE)"},
    {{"HVD_CONFIG=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_FUSION=4M"}, NULL, "fusion", "4M", "environment (HVD_FUSION)"},
    {{"HOROVOD_FUSION_THRESHOLD=5242880"}, NULL, "fusion", "5M", "environment (HOROVOD_FUSION_THRESHOLD)"},
    {{"HVD_CLI=fusion=6M"}, NULL, "fusion", "6M", "command line"},
    /* each pair */
    {{"HVD_SITE=fusion=2M", "HVD_CONFIG=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_SITE=fusion=2M", "HVD_FUSION=4M"}, NULL, "fusion", "4M", "environment (HVD_FUSION)"},
    {{"HVD_SITE=fusion=2M", "HVD_CLI=fusion=6M"}, NULL, "fusion", "6M", "command line"},
    {{"HVD_CONFIG=@", "HVD_FUSION=4M"}, FUSION_FILE, "fusion", "4M", "environment (HVD_FUSION)"},
    {{"HVD_CONFIG=@", "HOROVOD_FUSION_THRESHOLD=1"},
     FUSION_FILE,
     "fusion",
     "1",
     "environment (HOROVOD_FUSION_THRESHOLD)"},
    {{"HVD_CONFIG=@", "HVD_CLI=fusion=6M"}, FUSION_FILE, "fusion", "6M", "command line"},
    {{"HVD_FUSION=4M", "HVD_CLI=fusion=6M"}, NULL, "fusion", "6M", "command line"},
    {{"HVD_FUSION=4M", "HOROVOD_FUSION_THRESHOLD=1"}, NULL, "fusion", "4M", "environment (HVD_FUSION)"},
    {{"HOROVOD_FUSION_THRESHOLD=1", "HVD_CLI=fusion=6M"}, NULL, "fusion", "6M", "command line"},
    /* what the site forces */
    {{"HVD_SITE=force=fusion=2M"}, NULL, "fusion", "2M", "forced by the site (HVD_SITE)"},
    {{"HVD_SITE=force=fusion=2M;fusion=3M"}, NULL, "fusion", "2M", "forced by the site (HVD_SITE)"},
    {{"HVD_SITE=force=fusion=2M", "HVD_FUSION=2048K"}, NULL, "fusion", "2M", "forced by the site (HVD_SITE)"},
    {{"HVD_SITE=force=fusion=2M;config=@"}, "fusion: 2M\n", "fusion", "2M", "forced by the site (HVD_SITE)"},
    /* who names the file */
    {{"HVD_SITE=config=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_CLI=config=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_SITE=config=/nowhere", "HVD_CONFIG=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_CONFIG=/nowhere", "HVD_CLI=config=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_SITE=fusion=2M;config=@"}, FUSION_FILE, "fusion", "3M", "file (@)"},
    {{"HVD_SITE=config=@", "HVD_CLI=fusion=6M"}, FUSION_FILE, "fusion", "6M", "command line"},
    {{"HVD_CONFIG=@"}, FUSION_FILE, "config", "@", "environment (HVD_CONFIG)"},
    /* files */
    {{"HVD_CONFIG=@"}, "# a comment\n", "fusion", "64M", "default"},
    {{"HVD_CONFIG=@"}, "", "fusion", "64M", "default"},
    {{"HVD_CONFIG=@"}, "---\nlog: off\nlease: '7s'\n", "log", "off", "file (@)"},
    {{"HVD_CONFIG=@"}, "---\nlog: off\nlease: '7s'\n", "lease", "7s", "file (@)"},
    /* values */
    {{"HVD_CLI=fusion=1M;backends=tcp,mpi"}, NULL, "backends", "tcp,mpi", "command line"},
    {{"HVD_CLI=fusion=1M;fusion=2M"}, NULL, "fusion", "2M", "command line"},
    {{"HVD_CLI="}, NULL, "fusion", "64M", "default"},
    {{NULL}, NULL, "backends", "auto", "default"},
    {{NULL}, NULL, "config", "", "default"},
    {{NULL}, NULL, "cycle-time", "", "default"},
    {{"HVD_START_TIMEOUT=90s"}, NULL, "start-timeout", "90s", "environment (HVD_START_TIMEOUT)"},
    {{"HOROVOD_START_TIMEOUT=90"}, NULL, "start-timeout", "90s", "environment (HOROVOD_START_TIMEOUT)"},
    {{"HVD_KILL_WAIT=0"}, NULL, "kill-wait", "0", "environment (HVD_KILL_WAIT)"},
    {{"HOROVOD_LOG_LEVEL=trace"}, NULL, "log", "debug", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HOROVOD_LOG_LEVEL=debug"}, NULL, "log", "debug", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HOROVOD_LOG_LEVEL=INFO"}, NULL, "log", "info", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HOROVOD_LOG_LEVEL=warning"}, NULL, "log", "warn", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HOROVOD_LOG_LEVEL=error"}, NULL, "log", "error", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HOROVOD_LOG_LEVEL=fatal"}, NULL, "log", "error", "environment (HOROVOD_LOG_LEVEL)"},
    {{"HVD_CACHE=7"}, NULL, "cache", "7", "environment (HVD_CACHE)"},
    {{"HOROVOD_CACHE_CAPACITY=2048"}, NULL, "cache", "2048", "environment (HOROVOD_CACHE_CAPACITY)"},
    {{NULL}, NULL, "cache", "16384", "default"},
    {{NULL}, NULL, "stall-warn", "1min", "default"},
    {{"HOROVOD_STALL_CHECK_TIME_SECONDS=5"},
     NULL,
     "stall-warn",
     "5s",
     "environment (HOROVOD_STALL_CHECK_TIME_SECONDS)"},
    {{NULL}, NULL, "stall-abort", "0", "default"},
    {{NULL}, NULL, "hang-abort", "10min", "default"},
    {{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0"},
     NULL,
     "stall-abort",
     "0",
     "environment (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)"},
    {{NULL}, NULL, "timeline", "", "default"},
    {{"HVD_CLI=timeline=/a b"}, NULL, "timeline", "/a b", "command line"},
    {{"HVD_DUMP_DIR=d"}, NULL, "dump-dir", "d", "environment (HVD_DUMP_DIR)"},
    {{NULL}, NULL, "stop-signal", "none", "default"},
    {{NULL}, NULL, "progress", "adaptive", "default"},
    {{"HVD_PROGRESS=spin"}, NULL, "progress", "spin", "environment (HVD_PROGRESS)"},
    {{"HVD_CONFIG=@"}, "stop-signal: USR1\n", "stop-signal", "USR1", "file (@)"},
    {{"HOROVOD_FUSION_THRESHOLD="}, NULL, "fusion", "64M", "default"},
    {{"HOROVODX=x", "HOME=/", "HVDX=1", "junk"}, NULL, "fusion", "64M", "default"},
    {{"HVD_CLI=", "HVD_SITE=", "HVD_JOB_KEY=k", "HVD_MODULE_PATH=p", "HVD_EPOCH=1"},
     NULL,
     "log",
     "warn",
     "default"},
};

START_TEST(the_higher_authority_wins)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    char text[OPTION_VALUE_BYTES + 1];
    char source[200];
    if (good[_i].file != NULL)
        write_file(good[_i].file, strlen(good[_i].file));
    ck_assert_msg(load(&config, good[_i].variables, &err) == HVD_OK, "%s", err.text);
    config_value(&config, option_find(good[_i].option), text, sizeof(text));
    ck_assert_str_eq(text, good[_i].value[0] == '@' ? path : good[_i].value);
    config_source_text(&config, option_find(good[_i].option), text, sizeof(text));
    const char *at = strstr(good[_i].source, FILE_NAME);
    snprintf(source, sizeof(source), "%s", good[_i].source);
    if (at != NULL)
        snprintf(source, sizeof(source), "%.*s%s%s", (int)(at - good[_i].source), good[_i].source, path,
                 at + 1);
    ck_assert_str_eq(text, source);
    ck_assert_msg(warning_count == 0, "%s", warning);
}
END_TEST

START_TEST(every_field_is_filled)
{
    const char *variables[5] = {
        "HVD_CLI=fusion=1K;backends=mpi;start-timeout=2s;lease=3s;kill-wait=4s;log=debug;cache=5;"
        "stall-warn=6s;stall-abort=7s;timeline=/t/a;dump-dir=/d;state-dir=/s;"
        "stop-signal=INT;progress=block",
        NULL};
    struct hvd_config config;
    ck_assert_int_eq(load(&config, variables, NULL), HVD_OK);
    ck_assert_int_eq(config.fusion_bytes, 1024);
    ck_assert_int_eq(option_list_choice(config.backends, 0), BACKEND_MPI);
    ck_assert_int_eq(config.start_timeout_us, 2000000);
    ck_assert_int_eq(config.lease_us, 3000000);
    ck_assert_int_eq(config.kill_wait_us, 4000000);
    ck_assert_int_eq(config.log_level, LOG_DEBUG);
    ck_assert_int_eq(config.cache_limit, 5);
    ck_assert_int_eq(config.stall_warn_us, 6000000);
    ck_assert_int_eq(config.stall_abort_us, 7000000);
    ck_assert_str_eq(config.timeline, "/t/a");
    ck_assert_str_eq(config.dump_dir, "/d");
    ck_assert_str_eq(config.state_dir, "/s");
    ck_assert_int_eq(config.stop_signal, SIGINT);
    ck_assert_int_eq(config.progress, PROGRESS_MODE_BLOCK);
    ck_assert_int_eq(config.origin[option_index(OPTION_OF(fusion_bytes))].source, CONFIG_COMMAND_LINE);
    ck_assert_str_eq(config.origin[option_index(OPTION_OF(fusion_bytes))].where, "HVD_CLI");
    ck_assert_str_eq(config.origin[option_index(OPTION_OF(fusion_bytes))].text, "1K");
}
END_TEST

/* ---- What is refused, with the sentence ------------------------------------------------------- */

static const struct {
    const char *variables[5];
    const char *file;
    const char *expect;
} bad[] = {
    {{"HVD_FUSION=64Q"}, NULL, "HVD_FUSION=64Q: the value has an unknown unit; expected bytes"},
    {{"HVD_FUSION=-1"}, NULL, "HVD_FUSION=-1: "},
    {{"HVD_FUSION="}, NULL, "is empty"},
    {{"HVD_TIMELINE=a\nb"},
     NULL,
     "HVD_TIMELINE: byte 1 of the value is the control character 10; use printable characters"},
    {{"HVD_CLI=timeline=ab\tc"}, NULL, "--hvd-timeline: byte 2 of the value is the control character 9"},
    {{"HVD_SITE=dump-dir=\177"},
     NULL,
     "dump-dir in HVD_SITE: byte 0 of the value is the control character 127"},
    {{"HVD_CONFIG=nl\nd/c.yaml"}, NULL, "HVD_CONFIG: byte 2 of the value is the control character 10"},
    {{"HVD_CONFIG=@"},
     "timeline: \"a\\nb\"\n",
     "timeline in @: byte 1 of the value is the control character 10"},
    {{"HOROVOD_GLOO_IFACE=eth0\r"},
     NULL,
     "HOROVOD_GLOO_IFACE: byte 4 of the value is the control character 13"},
    {{"HVD_CLI=fusion=64Q"}, NULL, "--hvd-fusion=64Q: the value has an unknown unit"},
    {{"HVD_CLI=fusion=64Q", "HVD_FUSION=1M"}, NULL, "--hvd-fusion=64Q"},
    {{"HVD_SITE=fusion=64Q"}, NULL, "fusion in HVD_SITE=64Q"},
    {{"HVD_SITE=fusion=64Q", "HVD_CLI=fusion=1M"}, NULL, "fusion in HVD_SITE=64Q"},
    {{"HVD_CLI=fusion"}, NULL, "HVD_CLI: 'fusion' is not name=value"},
    {{"HVD_CLI=fusion=1M;;"}, NULL, "HVD_CLI: '' is not name=value"},
    {{"HVD_CLI=fuson=1M"}, NULL, "no option is named 'fuson'"},
    {{"HVD_SITE=fuson=1M"}, NULL, "HVD_SITE: no option is named 'fuson'"},
    {{"HVD_SITE=force=fuson=1M"}, NULL, "HVD_SITE: no option is named 'fuson'"},
    {{"HVD_SITE=force=fusion"}, NULL, "HVD_SITE: 'fusion' is not name=value"},
    {{"HVD_CLI=force=fusion=1M"}, NULL, "HVD_CLI: no option is named 'force'"},
    {{"HVD_SITE=force=fusion=1M", "HVD_FUSION=64Q"}, NULL, "HVD_FUSION=64Q"},
    {{"HVD_CLI=cycle-time=1ms"}, NULL, "--hvd-cycle-time: hvd acts when something happens"},
    {{"HVD_CYCLE_TIME=1ms"}, NULL, "HVD_CYCLE_TIME: hvd acts when something happens"},
    {{"HOROVOD_FUSION_THRESHOLD=many"}, NULL, "HOROVOD_FUSION_THRESHOLD=many"},
    {{"HOROVOD_START_TIMEOUT=1m"}, NULL, "HOROVOD_START_TIMEOUT=1m: expected a whole number of s"},
    {{"HOROVOD_START_TIMEOUT=0"}, NULL, "is too small"},
    {{"HOROVOD_STALL_CHECK_TIME_SECONDS=1min"},
     NULL,
     "expected a whole number of s; --hvd-stall-warn takes units"},
    {{"HOROVOD_CACHE_CAPACITY=-1"}, NULL, "HOROVOD_CACHE_CAPACITY=-1: the value does not begin with a digit"},
    {{"HVD_TIMELINE="}, NULL, "HVD_TIMELINE=: the value is empty; expected the name of a folder"},
    {{"HVD_STOP_SIGNAL=SIGTERM"}, NULL, "expected one of none, TERM"},
    {{"HVD_LOG=loud"}, NULL, "expected one of off, error"},
    {{"HVD_CONFIG=/nowhere/f"}, NULL, "/nowhere/f cannot be opened: No such file"},
    {{"HVD_CONFIG=/"}, NULL, "is not a regular file"},
    {{"HVD_CONFIG=@"}, "fuson: 1M\n", "fuson in @: no such option"},
    {{"HVD_CONFIG=@"}, "fusion: 64Q\n", "fusion in @=64Q: the value has an unknown unit"},
    {{"HVD_CONFIG=@"}, "fusion: 1M\nfusion: 1M\n", "fusion in @: given twice"},
    {{"HVD_CONFIG=@"}, "fusion:\n  a: 1\n", "@, line 2: a mapping inside"},
    {{"HVD_CONFIG=@"}, "backends: [tcp, mpi]\n", "@, line 1: a YAML list"},
    {{"HVD_CONFIG=@"}, "- fusion\n", "a YAML list"},
    {{"HVD_CONFIG=@"}, "fusion\n", "not a mapping"},
    {{"HVD_CONFIG=@"}, "fusion: &a 1M\nlease: *a\n", "a YAML alias"},
    {{"HVD_CONFIG=@"}, "fusion: 1M\n---\nlease: 1s\n", "line 2: a second document"},
    {{"HVD_CONFIG=@"}, "fusion: \"1M\n", "not YAML"},
    {{"HVD_CONFIG=@"}, "fusion: \"1\\0M\"\n", "a zero byte"},
    {{"HVD_CONFIG=@"}, "fusion:\n", "is empty"},
    {{"HVD_CONFIG=@"}, "config: /etc/x\n", "cannot name another"},
    {{"HVD_CONFIG=@"}, "cycle-time: 1ms\n", "cycle-time in @: hvd acts"},
    {{"HVD_CONFIG=@"}, "fusion: \xc3(M\n", "not YAML"},
};

START_TEST(bad_input_is_refused_whole)
{
    struct hvd_config config;
    struct hvd_config before;
    struct hvd_error err = {""};
    char expect[300];
    const char *at = strstr(bad[_i].expect, FILE_NAME);
    memset(&config, 0x5a, sizeof(config));
    memcpy(&before, &config, sizeof(config));
    if (bad[_i].file != NULL)
        write_file(bad[_i].file, strlen(bad[_i].file));
    ck_assert_int_eq(load(&config, bad[_i].variables, &err), HVD_ERR_INVALID);
    snprintf(expect, sizeof(expect), "%s", bad[_i].expect);
    if (at != NULL)
        snprintf(expect, sizeof(expect), "%.*s%s%s", (int)(at - bad[_i].expect), bad[_i].expect, path,
                 at + 1);
    ck_assert_msg(strstr(err.text, expect) != NULL, "%s", err.text);
    ck_assert_mem_eq(&config, &before, sizeof(config));
}
END_TEST

START_TEST(a_file_may_be_as_long_as_said)
{
    const char *variables[5] = {"HVD_CONFIG=@", NULL};
    struct hvd_config config;
    struct hvd_error err = {""};
    char *text = malloc(CONFIG_FILE_BYTES + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, '#', CONFIG_FILE_BYTES + 1);
    write_file(text, CONFIG_FILE_BYTES);
    ck_assert_msg(load(&config, variables, &err) == HVD_OK, "%s", err.text);
    write_file(text, CONFIG_FILE_BYTES + 1);
    ck_assert_int_eq(load(&config, variables, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "is longer than 65536 bytes") != NULL, "%s", err.text);
    free(text);
}
END_TEST

START_TEST(a_pipe_does_not_hold_up_the_job)
{
    const char *variables[5] = {"HVD_CONFIG=@", NULL};
    struct hvd_config config;
    struct hvd_error err = {""};
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(load(&config, variables, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "is not a regular file") != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_file_without_permission_is_refused)
{
    const char *variables[5] = {"HVD_CONFIG=@", NULL};
    struct hvd_config config;
    struct hvd_error err = {""};
    write_file("fusion: 1M\n", 11);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(chmod(folder, 0755) + seteuid(65534), 0); /* root may read everything */
    int rc = load(&config, variables, &err);
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(rc, HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "cannot be opened: Permission denied") != NULL, "%s", err.text);
}
END_TEST

/* ---- What is warned of ------------------------------------------------------------------------ */

static const struct {
    const char *variable, *expect;
} warned[] = {
    {"HVD_FUSON=1M", "HVD_FUSON: hvd has no such option; it is ignored"},
    {"HVD_A_VERY_LONG_NAME_THAT_NO_OPTION_OF_OURS_HAS_OR_WILL_EVER_HAVE_BECAUSE=1", "hvd has no such option"},
    {"HOROVOD_FUSION_TRESHOLD=1", "HOROVOD_FUSION_TRESHOLD: did you mean HOROVOD_FUSION_THRESHOLD?"},
    {"HOROVOD_OTHER=x", "HOROVOD_OTHER: neither Horovod nor hvd has such an option; it is ignored"},
    {"HOROVOD_CYCLE_TIME=1", "HOROVOD_CYCLE_TIME: hvd acts when something happens"},
    {"HOROVOD_CACHE_CAPACITY=0", "HOROVOD_CACHE_CAPACITY: hvd always has its cache; 0 is ignored"},
    {"HOROVOD_TIMELINE=/tmp/t.json", "HOROVOD_TIMELINE: Horovod's timeline is one file, hvd's is one of"},
    {"HOROVOD_LOG_LEVEL=loud", "HOROVOD_LOG_LEVEL: not a value that Horovod knows"},
};

START_TEST(what_is_ignored_is_said)
{
    const char *variables[5] = {warned[_i].variable, NULL};
    struct hvd_config config;
    struct hvd_error err = {""};
    char source[100];
    ck_assert_msg(load(&config, variables, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(warning_count, 1);
    ck_assert_msg(strstr(warning, warned[_i].expect) != NULL, "%s", warning);
    config_source_text(&config, OPTION_OF(log_level), source, sizeof(source));
    ck_assert_str_eq(source, "default");
}
END_TEST

#define FORCED_FUSION "is ignored: the administrator of this cluster has set fusion=2M for all jobs"

static const struct {
    const char *variables[5];
    const char *file, *expect;
} overruled[] = {
    {{"HVD_SITE=force=fusion=2M", "HVD_FUSION=4M"}, NULL, "HVD_FUSION: 4M " FORCED_FUSION},
    {{"HVD_SITE=force=fusion=2M", "HVD_CLI=fusion=6M"}, NULL, "--hvd-fusion: 6M " FORCED_FUSION},
    {{"HVD_SITE=force=fusion=2M", "HOROVOD_FUSION_THRESHOLD=1"},
     NULL,
     "HOROVOD_FUSION_THRESHOLD: 1 " FORCED_FUSION},
    {{"HVD_SITE=force=fusion=2M", "HVD_CONFIG=@"}, FUSION_FILE, "3M " FORCED_FUSION},
    {{"HVD_SITE=force=dump-dir=/d", "HVD_DUMP_DIR=/e"},
     NULL,
     "HVD_DUMP_DIR: /e is ignored: the administrator of this cluster has set dump-dir=/d"},
};

START_TEST(what_the_site_forces_overrules_the_user_and_says_so)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    char source[100];
    if (overruled[_i].file != NULL)
        write_file(overruled[_i].file, strlen(overruled[_i].file));
    ck_assert_msg(load(&config, overruled[_i].variables, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(warning_count, 1);
    ck_assert_msg(strstr(warning, overruled[_i].expect) != NULL, "%s", warning);
    bool of_fusion = strstr(overruled[_i].variables[0], "fusion") != NULL;
    ck_assert_int_eq(config.fusion_bytes, of_fusion ? 2 << 20 : 64 << 20);
    config_source_text(&config, of_fusion ? OPTION_OF(fusion_bytes) : OPTION_OF(dump_dir), source,
                       sizeof(source));
    ck_assert_str_eq(source, "forced by the site (HVD_SITE)");
}
END_TEST

START_TEST(warnings_may_go_nowhere)
{
    char *environment[] = {(char[]){"HVD_FUSON=1M"}, NULL};
    struct hvd_config config;
    ck_assert_int_eq(config_load(&config, environment, NULL, NULL), HVD_OK);
}
END_TEST

/* ---- Lists ------------------------------------------------------------------------------------ */

START_TEST(a_list_is_read_as_it_was_added)
{
    static char variable[CONFIG_LIST_BYTES + 20] = "HVD_CLI=";
    const char *variables[5] = {variable, NULL};
    char *list = variable + strlen(variable);
    struct hvd_config config;
    ck_assert_int_eq(config_list_add(list, option_find("fusion"), "1M", NULL), HVD_OK);
    ck_assert_int_eq(config_list_add(list, option_find("backends"), "tcp,mpi", NULL), HVD_OK);
    ck_assert_int_eq(config_list_add(list, option_find("fusion"), "2M", NULL), HVD_OK);
    ck_assert_str_eq(list, "fusion=1M;backends=tcp,mpi;fusion=2M");
    ck_assert_int_eq(load(&config, variables, NULL), HVD_OK);
    ck_assert_int_eq(config.fusion_bytes, 2 << 20);
}
END_TEST

START_TEST(a_list_refuses_what_would_break_it)
{
    static char list[CONFIG_LIST_BYTES + 1];
    static char before[CONFIG_LIST_BYTES + 1];
    char value[1001];
    struct hvd_error err = {""};
    memset(value, 'x', 1000);
    value[1000] = 0;
    ck_assert_int_eq(config_list_add(list, option_find("config"), "/a;fusion=1", &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "';'") != NULL, "%s", err.text);
    ck_assert_str_eq(list, "");
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(config_list_add(list, option_find("config"), value, &err), HVD_OK);
    memcpy(before, list, sizeof(list));
    ck_assert_int_eq(config_list_add(list, option_find("config"), value, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "longer than 8191 bytes") != NULL, "%s", err.text);
    ck_assert_str_eq(list, before);
    value[CONFIG_LIST_BYTES - strlen(list) - strlen(";config=")] = 0;
    ck_assert_int_eq(config_list_add(list, option_find("config"), value, &err), HVD_OK);
    ck_assert_uint_eq(strlen(list), CONFIG_LIST_BYTES);
}
END_TEST

START_TEST(too_long_a_list_is_refused)
{
    static char variable[CONFIG_LIST_BYTES + 20] = "HVD_CLI=fusion=";
    const char *variables[5] = {variable, NULL};
    struct hvd_config config;
    struct hvd_error err = {""};
    memset(variable + strlen(variable), '1', CONFIG_LIST_BYTES);
    ck_assert_int_eq(load(&config, variables, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "HVD_CLI: longer than 8191 bytes") != NULL, "%s", err.text);
}
END_TEST

/* For slurmstepd, which opens nothing that users name. */
START_TEST(without_a_reader_no_file_is_opened)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    const char *variables[] = {"HVD_CONFIG=/nonexistent/hvd.yaml", "HVD_FUSION=8M", NULL};
    char *const *environment = (char *const *)variables;
    ck_assert_int_eq(config_load(&config, environment, NULL, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(config_load_with(NULL, &config, environment, NULL, &err), HVD_OK);
    ck_assert_int_eq(config.fusion_bytes, 8 << 20);
}
END_TEST

/* No field belongs to two rows, and none to no row: the gaps between them are for alignment only. */
START_TEST(each_field_has_one_row)
{
    bool taken[offsetof(struct hvd_config, origin)] = {false};
    size_t gap = 0;
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        ck_assert_msg((option->type == NULL) == (option->retired != NULL), "%s", option->name);
        for (size_t byte = 0; option->type != NULL && byte < option->type->bytes; byte++) {
            ck_assert_uint_lt(option->offset + byte, sizeof(taken));
            ck_assert_msg(!taken[option->offset + byte], "%s", option->name);
            taken[option->offset + byte] = true;
        }
        if (option->type != NULL)
            ck_assert_ptr_eq(option_at(option->offset), option);
    }
    for (size_t byte = 0; byte < sizeof(taken); byte++) {
        gap = taken[byte] ? 0 : gap + 1;
        ck_assert_msg(gap < _Alignof(int64_t), "the field that ends at byte %zu has no row", byte);
    }
}
END_TEST

static const struct {
    const char *variables[3];
    bool places, needs_plan;
} placings[] = {
    {{NULL}, false, false},
    {{"HVD_FUSION=8M", "HVD_NICS=eth0"}, false, false},
    {{"HVD_BIND=auto"}, true, true},
    {{"HVD_SITE=bind=core"}, true, true},
    {{"HVD_BIND=none"}, true, false},
    {{"HVD_BIND=none", "HVD_GPU_VISIBLE=all"}, true, false},
    {{"HVD_BIND=none,verbose"}, true, true},
    {{"HVD_BIND=none", "HVD_GPU_VISIBLE=one"}, true, true},
    {{"HVD_BIND=none", "HVD_RS=tasks:1"}, true, true},
    {{"HVD_GPU_VISIBLE=all"}, true, true},
    {{"HVD_GPU_VISIBLE=one"}, true, true},
    {{"HVD_RS=tasks:1"}, true, true},
    {{"HVD_SITE=bind=core", "HVD_CLI=bind=none"}, true, false},
};

START_TEST(a_hang_ends_the_job_by_the_shorter_limit)
{
    static const struct {
        int64_t stall_us, hang_us, limit_us;
    } cases[] = {{0, 0, 0}, {0, 7, 7}, {5, 0, 5}, {5, 7, 5}, {9, 7, 7}};
    const struct hvd_config config = {.stall_abort_us = cases[_i].stall_us,
                                      .hang_abort_us = cases[_i].hang_us};
    ck_assert_int_eq(config_hang_limit(&config), cases[_i].limit_us);
}
END_TEST

START_TEST(who_says_how_tasks_are_placed_mostly_needs_a_plan)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    ck_assert_msg(load(&config, placings[_i].variables, &err) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(config_has_placement(&config), placings[_i].places);
    ck_assert_int_eq(config_requires_placement(&config), placings[_i].needs_plan);
}
END_TEST

/* ---- A set-uid program ------------------------------------------------------------------------ */

#define NOT_SET_UID 77

static const struct {
    const char *name, *value;
} of_caller[] = {{"HVD_TIMELINE", "/t"},
                 {"HVD_DUMP_DIR", "/d"},
                 {"HVD_CONFIG", "/c"},
                 {"HVD_NCCL_LIBRARY", "/n"},
                 {"HVD_STATE_DIR", "/s"},
                 {"HVD_FUSION", "1M"},
                 {"HVD_CLI", "fusion=2M;autotune-file=/a"},
                 {"ASAN_OPTIONS", "detect_leaks=0"}};

/* What the set-uid copy of this program does: the options of its caller that name files are not in force. */
static int load_as_set_uid(void)
{
    struct hvd_config config;
    if (getauxval(AT_SECURE) == 0)
        return NOT_SET_UID;
    if (config_load(&config, environ, keep_warning, NULL) != HVD_OK)
        return 1;
    bool none = config.timeline[0] == 0 && config.dump_dir[0] == 0 && config.config_file[0] == 0 &&
                config.nccl_library[0] == 0 && config.autotune_file[0] == 0 && config.state_dir[0] == 0;
    bool said = warning_count == 6 && strstr(warning, "this program is set-uid: it is ignored") != NULL;
    return none && said && config.fusion_bytes == 2 << 20 ? 0 : 2;
}

static void copy_this_program(const char *copy)
{
    char bytes[65536];
    FILE *from = fopen("/proc/self/exe", "re");
    FILE *to = fopen(copy, "we");
    size_t length = 0;
    ck_assert(from != NULL && to != NULL);
    while ((length = fread(bytes, 1, sizeof(bytes), from)) > 0)
        ck_assert_uint_eq(fwrite(bytes, 1, length, to), length);
    ck_assert_int_eq(fclose(to), 0);
    fclose(from);
    ck_assert_int_eq(chmod(copy, 04755), 0);
    ck_assert_int_eq(chmod(folder, 0711), 0);
}

START_TEST(a_set_uid_program_takes_no_files_from_its_caller)
{
    int status = 0;
    if (geteuid() != 0) {
        fprintf(stderr, "# not tried: only root can make a set-uid program of another user\n");
        return;
    }
    copy_this_program(path);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        clearenv();
        for (int i = 0; i < COUNT(of_caller); i++)
            setenv(of_caller[i].name, of_caller[i].value, 1);
        if (setgid(65534) == 0 && setuid(65534) == 0)
            execl(path, path, "set-uid", (char *)NULL);
        _exit(3);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_SET_UID)
        fprintf(stderr, "# not tried: %s is mounted nosuid\n", folder);
    else
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("config");
    tcase_add_unchecked_fixture(tcase, make_folder, remove_folder);
    tcase_add_checked_fixture(tcase, clean_folder, NULL);
    tcase_add_test(tcase, each_field_has_one_row);
    tcase_add_loop_test(tcase, the_higher_authority_wins, 0, COUNT(good));
    tcase_add_test(tcase, every_field_is_filled);
    tcase_add_loop_test(tcase, bad_input_is_refused_whole, 0, COUNT(bad));
    tcase_add_test(tcase, a_file_may_be_as_long_as_said);
    tcase_add_test(tcase, a_pipe_does_not_hold_up_the_job);
    tcase_add_test(tcase, a_file_without_permission_is_refused);
    tcase_add_loop_test(tcase, what_is_ignored_is_said, 0, COUNT(warned));
    tcase_add_loop_test(tcase, what_the_site_forces_overrules_the_user_and_says_so, 0,
                        sizeof(overruled) / sizeof(overruled[0]));
    tcase_add_test(tcase, warnings_may_go_nowhere);
    tcase_add_test(tcase, a_set_uid_program_takes_no_files_from_its_caller);
    tcase_add_test(tcase, a_list_is_read_as_it_was_added);
    tcase_add_test(tcase, a_list_refuses_what_would_break_it);
    tcase_add_test(tcase, too_long_a_list_is_refused);
    tcase_add_test(tcase, without_a_reader_no_file_is_opened);
    tcase_add_loop_test(tcase, a_hang_ends_the_job_by_the_shorter_limit, 0, 5);
    tcase_add_loop_test(tcase, who_says_how_tasks_are_placed_mostly_needs_a_plan, 0, COUNT(placings));
    suite_add_tcase(suite, tcase);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "set-uid") == 0)
        return load_as_set_uid();
    return unit_run("config", fill);
}
