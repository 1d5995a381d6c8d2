/* test_hvdrun_line.c: the command lines of the launchers that hvdrun becomes. */
#include "unit.h"

#include <string.h>

#include "tools/hvdrun/launcher/line.h"

#define MAX_WORDS 16

/* What hvdrun is asked for, and the words and variables that come of it. */
struct line_case {
    enum launcher launcher;
    const char *words[MAX_WORDS];
    const char *hosts; /* NULL: none are given */
    struct line_request request;
    const char *line;      /* separated by blanks; NULL: it is refused */
    const char *variables; /* the same; or what the sentence contains */
};

static const struct launch_facts two_nodes = {.slurm_job = "1", .slurm_nodes = 2};
static const struct launch_facts wide_tasks = {.slurm_job = "1", .slurm_nodes = 2, .slurm_cpus = 3};
static const struct launch_facts task_of_a_step = {
    .slurm_job = "1", .slurm_nodes = 2, .outer.launcher = "srun"};
#define SRUN_ALWAYS "--export=ALL --kill-on-bad-exit=1"
#define SWITCH      "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd"

static const struct line_case lines[] = {
    /* srun */
    {LAUNCHER_SRUN,
     {"train", "-n", "3"},
     NULL,
     {.facts = &two_nodes, .ranks = 4},
     "srun --ntasks=4 --nodes=2 " SRUN_ALWAYS " --label --unbuffered train -n 3",
     "PYTHONUNBUFFERED=1 " SWITCH "=on"},
    {LAUNCHER_SRUN,
     {"--hvd-fusion=64M", "--hvd-stall-warn=9s", "a"},
     NULL,
     {.facts = &two_nodes, .ranks = 1, .pmix = true},
     "srun --ntasks=1 --nodes=1 " SRUN_ALWAYS " --mpi=pmix --label --unbuffered a",
     "HVD_CLI=fusion=64M;stall-warn=9s PYTHONUNBUFFERED=1 " SWITCH "=on " SWITCH "_fusion=64M " SWITCH
     "_stall_warn=9s"},
    {LAUNCHER_SRUN,
     {"--no-prefix", "-x", "A=b", "a"},
     NULL,
     {.facts = &wide_tasks},
     "srun --cpus-per-task=3 " SRUN_ALWAYS " a",
     "PYTHONUNBUFFERED=1 A=b " SWITCH "=on"},
    {LAUNCHER_SRUN,
     {"--no-prefix", "a"},
     NULL,
     {.facts = &task_of_a_step, .ranks = 2},
     "srun --ntasks=2 --nodes=2 --overlap " SRUN_ALWAYS " a",
     "PYTHONUNBUFFERED=1 " SWITCH "=on"},
    {LAUNCHER_SRUN,
     {"--pty=off", "--only-rank=3", "a"},
     NULL,
     {.facts = &two_nodes, .ranks = 4, .ranks_per_node = 2},
     "srun --ntasks=4 --nodes=2 --ntasks-per-node=2 " SRUN_ALWAYS " --label --output=3 --error=3 a",
     "PYTHONUNBUFFERED=1 " SWITCH "=on"},
    {LAUNCHER_SRUN,
     {"--output-dir=logs", "--only-rank=none", "--", "-a"},
     "n1:1,n2:2",
     {.facts = &two_nodes, .ranks = 3},
     "srun --ntasks=3 --distribution=arbitrary --nodelist=n1,n2,n2 " SRUN_ALWAYS
     " --unbuffered --output=logs/rank.%t.out --error=logs/rank.%t.err -- -a",
     "PYTHONUNBUFFERED=1 " SWITCH "=on"},
    {LAUNCHER_SRUN,
     {"-n", "2", "a", "it's", ":", "b"},
     NULL,
     {.facts = &two_nodes, .ranks = 3},
     "srun --ntasks=3 --nodes=2 " SRUN_ALWAYS " --label --unbuffered /bin/sh -c if [ \"$SLURM_PROCID\" -lt 2 "
     "]; then exec a 'it'\\''s'; else exec b; fi",
     "PYTHONUNBUFFERED=1 " SWITCH "=on"},
    {LAUNCHER_SRUN, {"--only-rank=0,2", "a"}, NULL, {.facts = &two_nodes}, NULL, "several ranks"},
    {LAUNCHER_SRUN,
     {"--only-rank=7", "a"},
     NULL,
     {.facts = &two_nodes, .ranks = 2},
     NULL,
     "--only-rank names rank 7, but the job has 2 ranks"},
    {LAUNCHER_SRUN, {"--output-dir=d", "a"}, NULL, {.facts = &two_nodes}, NULL, "add --only-rank=none"},
    {LAUNCHER_SRUN, {"--grace=1s", "a"}, NULL, {.facts = &two_nodes}, NULL, "srun cannot honour --grace"},
    {LAUNCHER_SRUN, {"--events=f", "a"}, NULL, {.facts = &two_nodes}, NULL, "srun cannot honour --events"},
    {LAUNCHER_SRUN, {"--metrics=f", "a"}, NULL, {.facts = &two_nodes}, NULL, "srun cannot honour --metrics"},
    {LAUNCHER_SRUN,
     {"--timestamps", "a"},
     NULL,
     {.facts = &two_nodes},
     NULL,
     "srun cannot honour --timestamps"},
    {LAUNCHER_SRUN,
     {"--erf_input=f", "a"},
     NULL,
     {.facts = &two_nodes},
     NULL,
     "srun cannot honour --erf_input"},
    /* mpirun and prterun */
    {LAUNCHER_MPIRUN,
     {"--hvd-cache=3", "-x", "LANG2=c", "-x", "HOME", "a", "b"},
     "n1:2,n2",
     {.facts = &two_nodes, .ranks = 3},
     "mpirun --bind-to none --tag-output -n 3 --host n1:2,n2:1 -x HVD_JOB_KEY -x HVD_CLI -x PYTHONUNBUFFERED "
     "-x LANG2 -x HOME -x PATH a b",
     "HVD_CLI=cache=3 PYTHONUNBUFFERED=1 LANG2=c"},
    {LAUNCHER_MPIRUN,
     {"--no-prefix", "--max-restarts=2", "-n", "2", "a", ":", "b", "c"},
     NULL,
     {.facts = &two_nodes, .ranks = 3},
     "mpirun --bind-to none -n 2 -x HVD_JOB_KEY -x PYTHONUNBUFFERED -x HVD_RESTART -x PATH a "
     ": -n 1 -x HVD_JOB_KEY -x PYTHONUNBUFFERED -x HVD_RESTART -x PATH b c",
     "PYTHONUNBUFFERED=1"},
    {LAUNCHER_MPIRUN,
     {"--timestamps", "a"},
     NULL,
     {.facts = &two_nodes, .ranks = 1, .prrte = true},
     "mpirun --bind-to none --output tag,timestamp -n 1 -x HVD_JOB_KEY -x PYTHONUNBUFFERED -x PATH a",
     "PYTHONUNBUFFERED=1"},
    {LAUNCHER_PRTERUN,
     {"a"},
     NULL,
     {.facts = &two_nodes, .ranks = 1},
     "prterun --bind-to none --output tag -n 1 -x HVD_JOB_KEY -x PYTHONUNBUFFERED -x PATH a",
     "PYTHONUNBUFFERED=1"},
    {LAUNCHER_MPIRUN, {"--nrs=2", "a"}, NULL, {.facts = &two_nodes}, NULL, "--nrs: it has no resource sets"},
    {LAUNCHER_PRTERUN, {"--pty=on", "a"}, NULL, {.facts = &two_nodes}, NULL, "prterun cannot honour --pty"},
    {LAUNCHER_MPIRUN, {"--", "-a"}, NULL, {.facts = &two_nodes}, NULL, "./-a"},
    /* jsrun */
    {LAUNCHER_JSRUN,
     {"--nrs=4", "--gpu_per_rs", "1", "--hvd-cache=3", "-n", "8", "a"},
     NULL,
     {.facts = &two_nodes, .ranks = 8},
     "jsrun --nrs 4 --gpu_per_rs 1 --np 8 --exit_on_error 1 --stdio_mode prepended a",
     "HVD_CLI=cache=3 PYTHONUNBUFFERED=1"},
    {LAUNCHER_JSRUN,
     {"--erf_input=f", "--no-prefix", "a"},
     NULL,
     {.facts = &two_nodes},
     "jsrun --erf_input f --exit_on_error 1 a",
     "PYTHONUNBUFFERED=1"},
    {LAUNCHER_JSRUN,
     {"--output-dir=d", "--only-rank=none", "a", ":", "b"},
     "n1:4",
     {.facts = &two_nodes, .ranks = 2, .threads = 1},
     "jsrun --erf_input resources.erf --exit_on_error 1 --stdio_stdout d/rank.%t.out --stdio_stderr "
     "d/rank.%t.err "
     "/bin/sh -c if [ \"$JSM_NAMESPACE_RANK\" -lt 1 ]; then exec a; else exec b; fi",
     "PYTHONUNBUFFERED=1"},
    {LAUNCHER_JSRUN, {"a"}, NULL, {.facts = &two_nodes, .ranks = 2}, NULL, "LSB_MCPU_HOSTS"},
    {LAUNCHER_JSRUN, {"a"}, "n1:4", {.facts = &two_nodes, .threads = 1}, NULL, "give -n N"},
    {LAUNCHER_JSRUN,
     {"--only-rank=1", "a"},
     NULL,
     {.facts = &two_nodes},
     NULL,
     "jsrun cannot honour --only-rank"},
    {LAUNCHER_JSRUN, {"--nrs=1", "a"}, "n1:4", {.facts = &two_nodes}, NULL, "-H and --nrs"},
};

static struct hvdrun_options options;
static struct line_request request;
static struct launch_line line;
static struct hvd_error err;

static int write_line(const struct line_case *from)
{
    static const char *const environment[] = {"PATH=/bin", "EDITOR=ed", NULL};
    const char *words[MAX_WORDS + 1] = {"hvdrun"};
    memcpy(words + 1, from->words, sizeof(from->words));
    ck_assert_msg(hvdrun_options_parse(&options, (char *const *)words, NULL, &err) == HVD_OK, "%s", err.text);
    request = from->request;
    request.options = &options;
    request.environment = (char *const *)environment;
    if (from->hosts != NULL) {
        request.hosts_given = true;
        ck_assert_int_eq(host_list_parse(&request.hosts, "-H", from->hosts, &err), HVD_OK);
        host_list_fill(&request.hosts, request.ranks);
    }
    int status = launch_line_write(&line, from->launcher, &request, &err);
    host_list_free(&request.hosts);
    return status;
}

static const char *join(const struct words *words)
{
    static char text[4096];
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < words->count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i == 0 ? "" : " ", words->list[i]);
    return text;
}

START_TEST(a_line_is_written)
{
    const struct line_case *one = &lines[_i];
    int status = write_line(one);
    ck_assert_msg((status == HVD_OK) == (one->line != NULL), "%s", err.text);
    if (one->line != NULL) {
        ck_assert_str_eq(join(&line.words), one->line);
        ck_assert_str_eq(join(&line.variables), one->variables);
    } else {
        ck_assert_msg(strstr(err.text, one->variables) != NULL, "'%s' is not in: %s", one->variables,
                      err.text);
    }
    launch_line_free(&line);
}
END_TEST

START_TEST(jsrun_gets_shares_of_the_cores)
{
    const struct line_case one = {
        LAUNCHER_JSRUN, {"-n", "6", "a"}, "n1:4,n2:4,n3:1", {.facts = &two_nodes}, "", ""};
    struct line_case with = one;
    with.request.ranks = 6;
    with.request.threads = 2;
    ck_assert_msg(write_line(&with) == HVD_OK, "%s", err.text);
    ck_assert_str_eq(line.resource_file, "overlapping_rs: allow\n"
                                         "cpu_index_using: logical\n\n"
                                         "rank: 0: { hostname: n1; cpu: {0-1} ; gpu: * ; mem: * }\n"
                                         "rank: 1: { hostname: n1; cpu: {2-3} ; gpu: * ; mem: * }\n"
                                         "rank: 2: { hostname: n1; cpu: {4-5} ; gpu: * ; mem: * }\n"
                                         "rank: 3: { hostname: n1; cpu: {6-7} ; gpu: * ; mem: * }\n\n"
                                         "rank: 4: { hostname: n2; cpu: {0-3} ; gpu: * ; mem: * }\n"
                                         "rank: 5: { hostname: n2; cpu: {4-7} ; gpu: * ; mem: * }\n\n");
    ck_assert_str_eq(line.words.list[line.resource_word], "resources.erf");
    launch_line_free(&line);
}
END_TEST

START_TEST(hosts_that_are_too_large_are_refused)
{
    struct line_case one = {LAUNCHER_JSRUN, {"-n", "1", "a"}, "n1:4096", {.facts = &two_nodes}, "", ""};
    one.request.ranks = 1;
    one.request.threads = 2;
    ck_assert_int_eq(write_line(&one), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "4096 slots"));
    launch_line_free(&line);
}
END_TEST

START_TEST(what_is_shown_is_for_a_shell_and_has_no_secret)
{
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *to = open_memstream(&text, &text_bytes);
    ck_assert_msg(write_line(&(struct line_case){LAUNCHER_SRUN,
                                                 {"-x", "A=b c", "a b", "", "d'e", "f*"},
                                                 NULL,
                                                 {.facts = &two_nodes, .ranks = 2},
                                                 "",
                                                 ""}) == HVD_OK,
                  "%s", err.text);
    launch_line_show(&line, "because", to);
    fclose(to);
    ck_assert_str_eq(text, "# srun: because\n"
                           "export PYTHONUNBUFFERED=1\n"
                           "export A='b c'\n"
                           "export " SWITCH "=on\n"
                           "# and HVD_JOB_KEY, a secret that is drawn when the job starts\n"
                           "srun --ntasks=2 --nodes=2 " SRUN_ALWAYS
                           " --label --unbuffered 'a b' '' 'd'\\''e' 'f*'\n");
    free(text);
    launch_line_free(&line);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("line");
    setenv("LANG2", "c", 1);
    unit_add_rounds(tcase, a_line_is_written, 0, sizeof(lines) / sizeof(lines[0]));
    tcase_add_test(tcase, jsrun_gets_shares_of_the_cores);
    tcase_add_test(tcase, hosts_that_are_too_large_are_refused);
    tcase_add_test(tcase, what_is_shown_is_for_a_shell_and_has_no_secret);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_line", fill);
}
