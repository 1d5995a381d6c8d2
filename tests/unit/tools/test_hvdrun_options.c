/* test_hvdrun_options.c: what hvdrun's command line means, and which errors it gives. */
#include "unit.h"

#include <string.h>

#include "tools/hvdrun/options.h"

#define MAX_WORDS 12

static struct hvdrun_options options;
static struct hvd_error err;

static int parse_after(const char *inherited_cli, const char *const words[])
{
    memset(&err, 0, sizeof(err));
    return hvdrun_options_parse(&options, (char *const *)words, inherited_cli, &err);
}

static int parse(const char *const words[])
{
    return parse_after(NULL, words);
}

struct good {
    const char *words[MAX_WORDS];
    int ranks; /* 0: not given */
    int64_t grace_us;
    bool prefix;
    const char *cli;
    const char *command;
};

static const struct good goods[] = {
    {{"hvdrun", "true"}, 0, 5000000, true, "", "true"},
    {{"hvdrun", "-n", "4", "true"}, 4, 5000000, true, "", "true"},
    {{"hvdrun", "-n4", "true"}, 4, 5000000, true, "", "true"},
    {{"hvdrun", "-np", "4", "true"}, 4, 5000000, true, "", "true"},
    {{"hvdrun", "--ranks=4096", "true"}, 4096, 5000000, true, "", "true"},
    {{"hvdrun", "--ranks", "2", "true"}, 2, 5000000, true, "", "true"},
    {{"hvdrun", "-n", "4", "-n", "3", "true"}, 3, 5000000, true, "", "true"},
    {{"hvdrun", "--grace=250ms", "--no-prefix", "true"}, 0, 250000, false, "", "true"},
    {{"hvdrun", "--grace", "0", "true"}, 0, 0, true, "", "true"},
    {{"hvdrun", "--hvd-fusion=64M", "true"}, 0, 5000000, true, "fusion=64M", "true"},
    {{"hvdrun", "--hvd-fusion", "1M", "--hvd-backends=tcp", "true"},
     0,
     5000000,
     true,
     "fusion=1M;backends=tcp",
     "true"},
    {{"hvdrun", "--hvd-autotune", "true"}, 0, 5000000, true, "autotune=on", "true"},
    {{"hvdrun", "--hvd-autotune", "off", "true"}, 0, 5000000, true, "autotune=off", "true"},
    {{"hvdrun", "--hvd-encrypt=on", "on"}, 0, 5000000, true, "encrypt=on", "on"},
    {{"hvdrun", "-n", "2", "--", "-n", "3"}, 2, 5000000, true, "", "-n"},
    {{"hvdrun", "train", "-n", "3", "--hvd-fusion=64Q"}, 0, 5000000, true, "", "train"},
    {{"hvdrun", "--np=3", "true"}, 3, 5000000, true, "", "true"},
    {{"hvdrun", "--nrs=2", "--tasks_per_rs", "4", "true"}, 0, 5000000, true, "rs=nrs:2,tasks:4", "true"},
    {{"hvdrun", "--nrs=2", "--nrs=3", "true"}, 0, 5000000, true, "rs=nrs:3", "true"},
    {{"hvdrun", "--cpu_per_rs=ALL_CPUS", "--gpu_per_rs=ALL_GPUS", "--rs_per_host=2", "--bind=rs", "true"},
     0,
     5000000,
     true,
     "rs=cpus:all,gpus:all,rs_per_host:2,bind:rs",
     "true"},
    {{"hvdrun", "--launch_distribution=plane:2", "--latency_priority=gpu-cpu,CPU-MEM", "true"},
     0,
     5000000,
     true,
     "rs=launch_distribution:plane:2,latency_priority:GPU-CPU+CPU-MEM",
     "true"},
    {{"hvdrun", "--bind=packed:1", "true"}, 0, 5000000, true, "rs=tasks:1", "true"},
    {{"hvdrun", "-n", "2", "-"}, 2, 5000000, true, "", "-"},
    /* torchrun's */
    {{"hvdrun", "--nproc-per-node", "4", "--nnodes=1", "true"}, 4, 5000000, true, "", "true"},
    {{"hvdrun", "--nproc_per_node=4", "--nnodes=1:1", "--node_rank=0", "true"}, 4, 5000000, true, "", "true"},
    {{"hvdrun", "--rdzv-backend=c10d", "--rdzv_endpoint", "n1:29400", "--rdzv-id=7", "true"},
     0,
     5000000,
     true,
     "",
     "true"},
    {{"hvdrun", "--standalone", "--no-python", "--monitor-interval=5", "true"}, 0, 5000000, true, "", "true"},
    {{"hvdrun", "--tasks-per-rs=4", "true"}, 0, 5000000, true, "rs=tasks:4", "true"},
};

START_TEST(is_understood)
{
    const struct good *good = &goods[_i];
    ck_assert_msg(parse(good->words) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.action, HVDRUN_RUN);
    ck_assert_int_eq(options.ranks, good->ranks);
    ck_assert_int_eq(options.grace_us, good->grace_us);
    ck_assert_int_eq(options.output.prefix, good->prefix);
    ck_assert_str_eq(options.cli, good->cli);
    ck_assert_str_eq(options.apps[0].command[0], good->command);
}
END_TEST

struct bad {
    const char *words[MAX_WORDS];
    const char *says[3]; /* the sentence must contain all of these */
};

static const struct bad bads[] = {
    {{"hvdrun"}, {"no command"}},
    {{"hvdrun", "-n", "2"}, {"no command"}},
    {{"hvdrun", "--"}, {"no command"}},
    {{"hvdrun", ""}, {"empty"}},
    {{"hvdrun", "-n"}, {"-n", "needs a value"}},
    {{"hvdrun", "-n", "0", "true"}, {"-n 0", "too small", "1 to 1048576"}},
    {{"hvdrun", "-n", "-1", "true"}, {"-n -1", "1 to 1048576"}},
    {{"hvdrun", "-n", "x", "true"}, {"-n x", "1 to 1048576"}},
    {{"hvdrun", "-n", "", "true"}, {"-n", "1 to 1048576"}},
    {{"hvdrun", "-n", "2.5", "true"}, {"-n 2.5", "1 to 1048576"}},
    {{"hvdrun", "-n", "1048577", "true"}, {"-n 1048577", "too large", "1 to 1048576"}},
    {{"hvdrun", "-n", "10000000", "true"}, {"-n 10000000", "1 to 1048576"}},
    {{"hvdrun", "-n", "99999999999999999999", "true"}, {"1 to 1048576"}},
    {{"hvdrun", "-y", "true"}, {"-y", "unknown"}},
    {{"hvdrun", "-hx", "true"}, {"-hx", "unknown"}},
    {{"hvdrun", "--rank=2", "true"}, {"--rank=2", "unknown"}},
    {{"hvdrun", "--ranksx=2", "true"}, {"--ranksx=2", "unknown"}},
    {{"hvdrun", "--nproc-per-node", "gpu", "true"}, {"--nproc-per-node gpu", "1 to 1048576"}},
    {{"hvdrun", "--nnodes=2", "true"}, {"--nnodes 2", "this machine", "srun -N"}},
    {{"hvdrun", "--nnodes=2:4", "true"}, {"--nnodes 2:4", "this machine", "--launcher=agents"}},
    {{"hvdrun", "--nnodes=2:4", "--launcher=agents", "--min-np=1", "true"},
     {"--nnodes 2:4", "give --nproc-per-node"}},
    {{"hvdrun", "--nproc-per-node=2", "-n3", "--launcher=agents", "--min-np=1", "true"},
     {"-n and --nproc-per-node", "of each node", "leave one"}},
    {{"hvdrun", "--nproc-per-node=2", "--launcher=agents", "true"}, {"give --min-np too"}},
    {{"hvdrun", "--nproc-per-node=2048", "--nnodes=1:2048", "--launcher=agents", "true"},
     {"--nnodes 1:2048", "2048 ranks on each node", "1048576"}},
    {{"hvdrun", "--nnodes=1:", "true"}, {"--nnodes 1:", "such as 1 or 1:4"}},
    {{"hvdrun", "--nnodes=:4", "true"}, {"--nnodes :4", "such as 1 or 1:4"}},
    {{"hvdrun", "--nnodes=1:0", "true"}, {"--nnodes 1:0", "such as 1 or 1:4"}},
    {{"hvdrun", "--nnodes=0", "true"}, {"--nnodes 0", "such as 1 or 1:4"}},
    {{"hvdrun", "--nnodes=1:2:3", "true"}, {"--nnodes 1:2:3", "such as 1 or 1:4"}},
    {{"hvdrun", "--node-rank=1", "true"}, {"--node-rank 1", "node 0", "srun -N"}},
    {{"hvdrun", "--tee=1", "--log-dir=d", "true"}, {"--tee 1", "expected 3"}},
    {{"hvdrun", "--tee=3", "true"}, {"--tee", "add --log-dir=DIR"}},
    {{"hvdrun", "--redirects=3", "true"}, {"--redirects", "add --log-dir=DIR"}},
    {{"hvdrun", "-t", "3", "true"}, {"-t", "that is --tee 3 here"}},
    {{"hvdrun", "-m", "a", ":", "b"}, {"-m and several programs"}},
    {{"hvdrun", "--no-python=1", "a"}, {"--no-python", "no value"}},
    {{"hvdrun", "--master_port=2", "true"}, {"--master_port", "-x MASTER_PORT=N"}},
    {{"hvdrun", "-machinefile", "f", "true"}, {"-machinefile", "--hostfile FILE"}},
    {{"hvdrun", "-mca", "btl", "tcp", "true"}, {"-mca", "-x OMPI_MCA_NAME=VALUE"}},
    {{"hvdrun", "--hos", "true"}, {"--hos", "did you mean --hosts?"}},
    {{"hvdrun", "--line-prefix=a${rank}${host}", "true"}, {"${host} is not known", "${local_rank}"}},
    {{"hvdrun", "--line-prefix=${rank", "true"}, {"${rank is not known"}},
    {{"hvdrun", "--line-prefix=a", "--no-prefix", "true"}, {"--line-prefix and --no-prefix"}},
    {{"hvdrun", "--no-prefix=1", "true"}, {"--no-prefix", "no value"}},
    {{"hvdrun", "--grace=5", "true"}, {"--grace 5", "such as 5s"}},
    {{"hvdrun", "--only-rank=a", "true"}, {"--only-rank a", "expected ranks such as 0 or 0,4-7, or none"}},
    {{"hvdrun", "--output-dir=", "true"}, {"--output-dir", "empty"}},
    {{"hvdrun", "-x", "=1", "true"}, {"-x =1", "the name is empty"}},
    {{"hvdrun", "-x", "NOT_SET_AT_ALL", "true"}, {"NOT_SET_AT_ALL", "is not set"}},
    {{"hvdrun", "--no-prefix", "--timestamps", "true"}, {"--timestamps and --no-prefix"}},
    {{"hvdrun", "--pty=maybe", "true"}, {"--pty maybe", "expected auto, on or off"}},
    {{"hvdrun", "--grace=-1s", "true"}, {"--grace -1s", "such as 5s"}},
    {{"hvdrun", "--grace=2h", "true"}, {"--grace 2h", "too large", "at most 1h"}},
    {{"hvdrun", "--grace"}, {"--grace", "needs a value"}},
    {{"hvdrun", "--hvd-fusion=64Q", "true"}, {"--hvd-fusion", "64Q", "such as 64M"}},
    {{"hvdrun", "--hvd-fusion", "-1", "true"}, {"--hvd-fusion", "-1"}},
    {{"hvdrun", "--hvd-fusion=", "true"}, {"--hvd-fusion"}},
    {{"hvdrun", "--hvd-fusion"}, {"--hvd-fusion", "needs a value", "such as 64M"}},
    {{"hvdrun", "--hvd-fusion=99999999999999G", "true"}, {"--hvd-fusion"}},
    {{"hvdrun", "--hvd-backends=tcp,avian", "true"}, {"--hvd-backends", "avian"}},
    {{"hvdrun", "--hvd-fuson=64M", "true"}, {"--hvd-fuson", "unknown"}},
    {{"hvdrun", "--hvd-=64M", "true"}, {"--hvd-", "unknown"}},
    {{"hvdrun", "--hvd-cycle-time=1ms", "true"}, {"--hvd-cycle-time", "remove it"}},
    {{"hvdrun", "--hvd-config=a;b", "true"}, {"a;b", "';'"}},
    {{"hvdrun", "--np=0", "true"}, {"--np 0", "1 to 1048576"}},
    {{"hvdrun", "--nrs=0", "true"}, {"--nrs=0", "too small"}},
    {{"hvdrun", "--tasks_per_rs=x", "true"}, {"--tasks_per_rs=x", "whole"}},
    {{"hvdrun", "--cpu_per_rs=ALL_GPUS", "true"}, {"--cpu_per_rs=ALL_GPUS", "expected N|ALL_CPUS"}},
    {{"hvdrun", "--gpu_per_rs"}, {"--gpu_per_rs", "needs a value", "N|ALL_GPUS"}},
    {{"hvdrun", "--bind=core", "true"}, {"--bind=core", "none|rs|packed:N", "--hvd-bind"}},
    {{"hvdrun", "--launch_distribution=plane", "true"}, {"--launch_distribution=plane", "plane:N"}},
    {{"hvdrun", "--latency_priority=cpu", "true"}, {"--latency_priority=cpu", "cpu-mem"}},
    {{"hvdrun", "--nrs=2", "--hvd-rs=tasks:2", "true"}, {"--nrs and --hvd-rs", "one of them"}},
    {{"hvdrun", "--erf_input=", "true"}, {"--erf_input", "empty"}},
    {{"hvdrun", "--erf_input=f", "-n2", "true"}, {"--erf_input and -n", "leave -n out"}},
    {{"hvdrun", "--erf_input=f", "--np=2", "true"}, {"--erf_input and --np"}},
    {{"hvdrun", "--erf_input=f", "--nrs=2", "true"}, {"--erf_input and --nrs"}},
    {{"hvdrun", "--hvd-rs=tasks:2", "--erf_input=f", "true"}, {"--erf_input and --hvd-rs"}},
    {{"hvdrun", "--launcher=ssh", "true"}, {"--launcher ssh", "auto|local|srun|jsrun|prterun|mpirun"}},
    {{"hvdrun", "--max-restarts=-1", "true"}, {"--max-restarts -1", "0 to 1000"}},
    {{"hvdrun", "--max-restarts=1001", "true"}, {"--max-restarts 1001", "too large"}},
    {{"hvdrun", "--min-np=0", "true"}, {"--min-np 0", "out of range", "1 to 1048576"}},
    {{"hvdrun", "--min-np=two", "true"}, {"--min-np two", "1 to 1048576"}},
    {{"hvdrun", "--max-np=0", "true"}, {"--max-np 0", "out of range", "1 to 1048576"}},
    {{"hvdrun", "-n", "4", "--max-np=3", "true"}, {"--max-np 3", "begins with 4 ranks", "4 or more"}},
    {{"hvdrun", "--min-np=4", "--max-np=3", "true"}, {"--max-np 3", "--min-np is 4", "4 or more"}},
    {{"hvdrun", "--max-np=3", "a", ":", "b"}, {"--max-np and several programs", "leave one"}},
    {{"hvdrun", "--max-np=3", "--erf_input=f", "true"}, {"--max-np and --erf_input", "leave one"}},
    {{"hvdrun", "--host-discovery=", "true"}, {"--host-discovery", "empty"}},
    {{"hvdrun", "--host-discovery=s", "-H", "a", "true"}, {"--host-discovery and -H", "leave one"}},
    {{"hvdrun", "--host-discovery=s", "--hostfile=f", "true"}, {"--host-discovery and --hostfile"}},
    {{"hvdrun", "--slots-per-host=2", "true"}, {"--slots-per-host", "--host-discovery or --hostfile"}},
    {{"hvdrun", "--slots-per-host=x", "--hostfile=f", "true"}, {"--slots-per-host x", "1 to 1048576"}},
    {{"hvdrun", "--elastic-timeout=5", "--min-np=1", "true"}, {"--elastic-timeout 5", "at most 1000h"}},
    {{"hvdrun", "--elastic-timeout=1001h", "--min-np=1", "true"}, {"too large", "at most 1000h"}},
    {{"hvdrun", "--elastic-timeout=5s", "true"}, {"--elastic-timeout", "give --min-np too"}},
    {{"hvdrun", "--reset-limit=0", "--min-np=1", "true"}, {"--reset-limit=0", "1 to 1000000"}},
    {{"hvdrun", "--reset-limit=5", "true"}, {"--reset-limit", "give --min-np too"}},
    {{"hvdrun", "--host-cooldown=5s", "--min-np=1", "true"}, {"--host-cooldown 5s", "such as 10s:5min"}},
    {{"hvdrun", "--host-cooldown=5s:9s", "true"}, {"--host-cooldown", "give --min-np too"}},
    {{"hvdrun", "--host-cooldown=5s:9s", "--min-np=1", "--max-restarts=2", "true"},
     {"and --max-restarts both"}},
    {{"hvdrun", "-H", "", "true"}, {"-H", "no host", "h1:4,h2:4"}},
    {{"hvdrun", "-H", "a", "--hostfile=f", "true"}, {"-H and --hostfile", "leave one"}},
    {{"hvdrun", "--dry-run=1", "true"}, {"--dry-run", "no value"}},
    {{"hvdrun", "true", ":"}, {"no command", "beside a colon"}},
    {{"hvdrun", ":", "true"}, {"no command", "beside a colon"}},
    {{"hvdrun", "a", ":", "-n", "2"}, {"no command"}},
    {{"hvdrun", "a", ":", "--grace=1s", "b"}, {"--grace=1s", "only -n N"}},
    {{"hvdrun", "a", ":", "-n", "0", "b"}, {"-n 0", "too small"}},
    {{"hvdrun", "-n", "1048576", "a", ":", "b"}, {"1048577 ranks together"}},
    {{"hvdrun", "--erf_input=f", "a", ":", "b"}, {"--erf_input and a colon"}},
};

START_TEST(is_refused)
{
    const struct bad *bad = &bads[_i];
    ck_assert_int_eq(parse(bad->words), HVD_ERR_INVALID);
    for (int i = 0; i < 3 && bad->says[i] != NULL; i++)
        ck_assert_msg(strstr(err.text, bad->says[i]) != NULL, "'%s' is not in: %s", bad->says[i], err.text);
}
END_TEST

START_TEST(what_torchrun_calls_otherwise_is_stored)
{
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "--rdzv-id=7", "--role=trainer", "--log-dir=d",
                                                 "--tee=3", "--nnodes=1:4", "a", NULL}),
                     HVD_OK);
    ck_assert_str_eq(options.run_id, "7");
    ck_assert_str_eq(options.output.line_prefix.role, "trainer");
    ck_assert_str_eq(options.output.directory, "d");
    ck_assert_int_eq(options.nodes_most, 4);
    ck_assert(!options.output.only);
    ck_assert_int_eq(
        parse((const char *const[]){"hvdrun", "--log-dir=d", "--redirects=3", "--nnodes=1", "a", NULL}),
        HVD_OK);
    ck_assert(options.output.only && bitmap_is_empty(&options.output.ranks));
    ck_assert_int_eq(options.nodes_most, 1);
}
END_TEST

START_TEST(a_module_is_started_by_python)
{
    static const char *const words[] = {"hvdrun", "-m", "-n2", "pkg.train", "-m", "x", NULL};
    static const char *const plain[] = {"hvdrun", "pkg.train", NULL};
    ck_assert_int_eq(parse(words), HVD_OK);
    const char *const expected[] = {"python3", "-m", "pkg.train", "-m", "x"};
    ck_assert_int_eq(hvdrun_app_words(&options.apps[0]), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(hvdrun_app_word(&options.apps[0], i), expected[i]);
    ck_assert_int_eq(parse(plain), HVD_OK);
    ck_assert_int_eq(hvdrun_app_words(&options.apps[0]), 1);
    ck_assert_str_eq(hvdrun_app_word(&options.apps[0], 0), "pkg.train");
}
END_TEST

START_TEST(long_words_are_refused)
{
    static char word[100000];
    memset(word, 'x', sizeof(word) - 1);
    memcpy(word, "--hvd-", 6);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", word, "true", NULL}), HVD_ERR_INVALID);
    memcpy(word, "--", 2);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", word, "true", NULL}), HVD_ERR_INVALID);
    memcpy(word, "--hvd-config=", 13);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", word, "true", NULL}), HVD_ERR_INVALID);
    memcpy(word, "xxxxxxxxxxxxx", 13);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "-n", word, "true", NULL}), HVD_ERR_INVALID);
    ck_assert_int_eq(parse_after(word, (const char *const[]){"hvdrun", "true", NULL}), HVD_ERR_INVALID);
}
END_TEST

START_TEST(a_resource_file_is_noted)
{
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "--erf_input", "file", "true", NULL}), HVD_OK);
    ck_assert_str_eq(options.erf, "file");
}
END_TEST

START_TEST(a_job_that_may_grow_is_elastic)
{
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "-n3", "true", NULL}), HVD_OK);
    ck_assert_int_eq(options.fewest, 0);
    ck_assert_int_eq(options.slots_per_host, 1);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "-n3", "--max-np=4", "true", NULL}), HVD_OK);
    ck_assert_int_eq(options.fewest, 3);
    ck_assert_int_eq(options.most, 4);
    ck_assert_int_eq(options.elastic_timeout_us, 600000000);
    ck_assert_int_eq(options.reset_limit, 0);
    ck_assert(!hvdrun_options_watch_hostfile(&options));
    const char *const words[] = {"hvdrun",        "--host-discovery-script=./hosts",
                                 "--min-np=2",    "--slots-per-host=8",
                                 "--reset-limit", "7",
                                 "true",          NULL};
    ck_assert_msg(parse(words) == HVD_OK, "%s", err.text);
    ck_assert_str_eq(options.discovery, "./hosts");
    ck_assert_int_eq(options.fewest, 2);
    ck_assert_int_eq(options.slots_per_host, 8);
    ck_assert_int_eq(options.reset_limit, 7);
    ck_assert_int_eq(
        parse((const char *const[]){"hvdrun", "--hostfile=f", "--host-discovery=s", "true", NULL}),
        HVD_ERR_INVALID);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "--hostfile=f", "--min-np=1", "true", NULL}),
                     HVD_OK);
    ck_assert(hvdrun_options_watch_hostfile(&options));
}
END_TEST

START_TEST(agents_count_ranks_on_nodes_as_torchrun_does)
{
    const char *const words[] = {"hvdrun", "--launcher=agents", "--nnodes=2:4", "--nproc-per-node=8", "true",
                                 NULL};
    ck_assert_msg(parse(words) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.ranks, 0);
    ck_assert_int_eq(options.slots_per_host, 8);
    ck_assert_int_eq(options.fewest, 16);
    ck_assert_int_eq(options.most, 32);
    const char *const others[] = {"hvdrun",      "--launcher=agents",  "--nnodes=2", "--min-np=3",
                                  "--max-np=20", "--nproc-per-node=8", "true",       NULL};
    ck_assert_msg(parse(others) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.fewest, 3);
    ck_assert_int_eq(options.most, 20);
}
END_TEST

START_TEST(help_and_version_need_no_command)
{
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "-n", "2", "--help", NULL}), HVD_OK);
    ck_assert_int_eq(options.action, HVDRUN_HELP);
    ck_assert_int_eq(parse((const char *const[]){"hvdrun", "-V", NULL}), HVD_OK);
    ck_assert_int_eq(options.action, HVDRUN_VERSION);
}
END_TEST

START_TEST(an_outer_command_line_comes_first)
{
    const char *const words[] = {"hvdrun", "--hvd-fusion=1M", "true", NULL};
    ck_assert_int_eq(parse_after("fusion=8M;lease=9s", words), HVD_OK);
    ck_assert_str_eq(options.cli, "fusion=8M;lease=9s;fusion=1M");
}
END_TEST

START_TEST(help_lists_every_option)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    hvdrun_options_help(to);
    fclose(to);
    for (int i = 0; i < option_count; i++) {
        char word[64];
        option_spelling(&option_table[i], word, sizeof(word));
        ck_assert_msg((strstr(text, word) != NULL) == (option_table[i].retired == NULL), "%s", word);
    }
    ck_assert(strstr(text, "-n, --ranks=N") != NULL);
    ck_assert(strstr(text, "--cpu_per_rs=N|ALL_CPUS") != NULL);
    ck_assert(strstr(text, "--erf_input=FILE") != NULL);
    free(text);
}
END_TEST

START_TEST(output_is_a_terminal_or_a_pipe)
{
    static const char *const on[] = {"hvdrun", "--pty=on", "true", NULL};
    static const char *const off[] = {"hvdrun", "--pty", "off", "true", NULL};
    static const char *const last[] = {"hvdrun", "--pty=off", "--pty=auto", "true", NULL};
    ck_assert(parse(on) == HVD_OK && options.output.pty == OUTPUT_PTY_ON);
    ck_assert(parse(off) == HVD_OK && options.output.pty == OUTPUT_PTY_OFF);
    ck_assert(parse(last) == HVD_OK && options.output.pty == OUTPUT_PTY_AUTO);
}
END_TEST

START_TEST(output_may_be_chosen_and_kept)
{
    static const char *const words[] = {
        "hvdrun", "--only-rank=0,4-7", "--output-dir", "logs", "--timestamps", "-x",
        "A=1",    "--env=B=2",         "true",         NULL};
    static const char *const none[] = {"hvdrun", "--only-rank", "none", "true", NULL};
    ck_assert_msg(parse(words) == HVD_OK, "%s", err.text);
    ck_assert(options.output.only && options.output.timestamps);
    for (int rank = 0; rank < 9; rank++)
        ck_assert_int_eq(bitmap_is_set(&options.output.ranks, rank), rank == 0 || (rank >= 4 && rank <= 7));
    ck_assert_str_eq(options.output.directory, "logs");
    ck_assert_str_eq(options.variables[0], "A=1");
    ck_assert_str_eq(options.variables[1], "B=2");
    ck_assert_ptr_null(options.variables[2]);
    ck_assert(parse(none) == HVD_OK && options.output.only && !bitmap_is_set(&options.output.ranks, 0));
}
END_TEST

START_TEST(too_many_variables_are_refused)
{
    static const char *words[HVDRUN_MAX_VARIABLES + 4] = {"hvdrun"};
    for (int i = 1; i <= HVDRUN_MAX_VARIABLES + 1; i++)
        words[i] = "-xA=1";
    words[HVDRUN_MAX_VARIABLES + 2] = "true";
    ck_assert_int_eq(parse(words), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 64 variables"));
    ck_assert_int_eq(parse(words + 1), HVD_OK);
}
END_TEST

START_TEST(several_programs_are_one_job)
{
    static const char *const words[] = {"hvdrun", "-n",  "2", "a",  "-x", ":",  "b",
                                        ":",      "-np", "3", "--", "-c", "--", NULL};
    ck_assert_msg(parse(words) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.app_count, 3);
    ck_assert_int_eq(options.ranks, 6);
    ck_assert_int_eq(options.apps[0].ranks, 2);
    ck_assert_int_eq(options.apps[0].word_count, 2);
    ck_assert_int_eq(options.apps[1].ranks, 1);
    ck_assert_int_eq(options.apps[1].word_count, 1);
    ck_assert_int_eq(options.apps[2].ranks, 3);
    ck_assert_str_eq(options.apps[2].command[0], "-c");
    ck_assert_int_eq(options.apps[2].word_count, 2);
}
END_TEST

START_TEST(what_launches_is_chosen)
{
    static const char *const words[] = {"hvdrun", "--launcher=mpirun", "-H", "a:2,b", "--max-restarts", "3",
                                        "-v",     "--dry-run",         "-x", "PATH",  "true",           NULL};
    ck_assert_msg(parse(words) == HVD_OK, "%s", err.text);
    ck_assert_int_eq(options.launcher, LAUNCHER_MPIRUN);
    ck_assert_str_eq(options.values[LAUNCH_HOSTS], "a:2,b");
    ck_assert_int_eq(options.max_restarts, 3);
    ck_assert(options.verbose && options.dry_run);
    ck_assert_str_eq(options.forwarded[0], "PATH");
    ck_assert_ptr_null(options.variables[0]);
    ck_assert(hvdrun_option_given(&options, LAUNCH_VERBOSE) && !hvdrun_option_given(&options, LAUNCH_GRACE));
    ck_assert_str_eq(hvdrun_option_name(LAUNCH_GRACE), "--grace");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("options");
    unit_add_rounds(tcase, is_understood, 0, sizeof(goods) / sizeof(goods[0]));
    tcase_add_test(tcase, output_is_a_terminal_or_a_pipe);
    tcase_add_test(tcase, output_may_be_chosen_and_kept);
    tcase_add_test(tcase, too_many_variables_are_refused);
    tcase_add_test(tcase, several_programs_are_one_job);
    tcase_add_test(tcase, what_launches_is_chosen);
    unit_add_rounds(tcase, is_refused, 0, sizeof(bads) / sizeof(bads[0]));
    tcase_add_test(tcase, what_torchrun_calls_otherwise_is_stored);
    tcase_add_test(tcase, a_module_is_started_by_python);
    tcase_add_test(tcase, long_words_are_refused);
    tcase_add_test(tcase, a_resource_file_is_noted);
    tcase_add_test(tcase, a_job_that_may_grow_is_elastic);
    tcase_add_test(tcase, agents_count_ranks_on_nodes_as_torchrun_does);
    tcase_add_test(tcase, help_and_version_need_no_command);
    tcase_add_test(tcase, an_outer_command_line_comes_first);
    tcase_add_test(tcase, help_lists_every_option);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_options", fill);
}
