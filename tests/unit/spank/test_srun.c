/* test_srun.c: does srun's command line, or what it inherits, use hvd? */
#include "config.h"
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/srun.h"

#define WORDS 16

static const struct {
    bool uses;
    const char *words; /* with | between */
} lines[] = {
    {false, "srun"},
    {false, "srun|./train"},
    {true, "srun|--hvd-fusion=64M|./train"},
    {true, "srun|--hvd-fusion|64M|./train"},
    {true, "srun|-N2|-n4|--hvd-log=info|./train"},
    /* what follows the command is the command's */
    {false, "srun|./train|--hvd-fusion=64M"},
    {false, "srun|-N2|./train|--hvd-fusion=64M"},
    {false, "srun|-N|2|./train|--hvd-fusion=64M"},
    {false, "srun|-lN|2|./train|--hvd-fusion=64M"},
    {false, "srun|-l|./train|--hvd-fusion=64M"},
    {false, "srun|--nodes=2|./train|--hvd-fusion=64M"},
    {false, "srun|--nodes|2|./train|--hvd-fusion=64M"},
    {false, "srun|--exclusive|./train|--hvd-fusion=64M"},
    {false, "srun|--overlap|-K|./train|--hvd-fusion=64M"},
    {false, "srun|--kill-on-bad-exit=1|-I60|./train|--hvd-fusion=64M"},
    {false, "srun|-|--hvd-fusion=64M"},
    {false, "srun|-n2|--|./train|--hvd-fusion=64M"},
    {false, "srun|-n2|--|--hvd-fusion=64M"},
    {false, "srun|bash|-c|./train --hvd-fusion=64M"},
    /* values of srun's own options are not options */
    {false, "srun|-J|--hvd-fusion=64M|./train"},
    {false, "srun|--job-name=--hvd-fusion=64M|./train"},
    /* options after the value of another */
    {true, "srun|-J|name|--hvd-fusion=64M|./train"},
    {true, "srun|--job-name|name|--hvd-fusion=64M|./train"},
    {true, "srun|-p|gpu|-t|10|-lun4|--hvd-fusion=64M|./train"},
    {true, "srun|-K|--hvd-fusion=64M|./train"},
    {true, "srun|--overlap|--hvd-fusion=64M|./train"},
    /* an option of a Slurm yet to come, with and without a value */
    {true, "srun|--yet-to-come|value|--hvd-fusion=64M|./train"},
    {true, "srun|--yet-to-come|--hvd-fusion=64M|./train"},
    {false, "srun|--yet-to-come=value|./train|--hvd-fusion=64M"},
    /* the false positive that hvd-spank(8) admits to */
    {true, "srun|--yet-to-come|./train|--hvd-fusion=64M"},
    /* several components */
    {true, "srun|-n1|./a|:|-n2|--hvd-fusion=64M|./b"},
    {true, "srun|-n1|--hvd-fusion=64M|./a|:|-n2|./b"},
    {false, "srun|-n1|./a|:|-n2|./b|--hvd-fusion=64M"},
    {false, "srun|-n1|./a|--hvd-fusion=64M|:|-n2|./b"},
    {false, "srun|-n1|./a|:"},
    /* nearly */
    {true, "srun|--hvd|./train"},
    {true, "srun|--hvd=verbose|./train"},
    {false, "srun|--hvd=off|--hvd-fusion=64M|./train"},
    {true, "srun|--hvd=off|--hvd|./train"},
    {false, "srun|--hvd=loud|./train"},
    {false, "srun|./train|--hvd"},
    {true, "srun|--hvd|./train|--hvd=off"},
    {false, "srun|-hvd-fusion=64M|./train"},
    {false, "srun||--hvd-fusion=64M"},
    {false, "srun|-N"},
    {false, "srun|--nodes"},
};

static bool says_yes(const struct srun_use *use)
{
    return use->by_switch != HVD_OFF && (use->by_switch != HVD_UNSET || use->options);
}

static bool arguments_use_hvd(int count, char *const words[])
{
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_arguments(count, words, &use);
    return says_yes(&use);
}

static bool environment_uses_hvd(const char *const environment[])
{
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_environment((char *const *)environment, &use);
    return says_yes(&use);
}

/* Returns how many words [line] has. */
static int split(const char *line, char text[128], char *words[WORDS])
{
    int count = 0;
    snprintf(text, 128, "%s", line);
    for (char *rest = text; rest != NULL && count < WORDS;)
        words[count++] = strsep(&rest, "|");
    return count;
}

START_TEST(options_count_up_to_the_command)
{
    char text[128];
    char *words[WORDS];
    int count = split(lines[_i].words, text, words);
    ck_assert_int_eq(arguments_use_hvd(count, words), lines[_i].uses);
}
END_TEST

static const struct {
    bool chosen;
    const char *words;
} kill_choices[] = {
    {false, "srun|-N2|--hvd|./train"},
    {true, "srun|-K0|--hvd|./train"},
    {true, "srun|--hvd|-lK|./train"},
    {true, "srun|--kill-on-bad-exit|--hvd|./train"},
    {true, "srun|--hvd|--kill-on-bad-exit=0|./train"},
    {false, "srun|--hvd|-JK0|./train"},
    {false, "srun|--hvd|-J|-K0|./train"},
    {false, "srun|--hvd|./train|-K0"},
};

START_TEST(what_the_user_says_of_bad_exits_is_found)
{
    char text[128];
    char *words[WORDS];
    struct srun_use use = {.by_switch = HVD_UNSET};
    int count = split(kill_choices[_i].words, text, words);
    srun_read_arguments(count, words, &use);
    ck_assert_int_eq(use.kill_chosen, kill_choices[_i].chosen);
}
END_TEST

static const struct {
    bool starts;
    const char *words;
} launcher_lines[] = {
    {true, "srun|--ntasks-per-node=1|--kill-on-bad-exit|--nodes=2|--ntasks=2|orted|-mca|x|y"},
    {true, "srun|--nodelist|n1|-N|1|-n|1|--input|none|/usr/bin/hydra_pmi_proxy|--pgid|0"},
    {true, "srun|-N2|/opt/prrte/bin/prted"},
    {false, "srun|-N2|./train|orted"},
    {false, "srun|-w|orted|./train"},
    {false, "srun|-N2|./orted.py"},
    {false, "srun"},
};

START_TEST(a_launcher_that_starts_its_daemons_is_known)
{
    char text[128];
    char *words[WORDS];
    struct srun_use use = {.by_switch = HVD_UNSET};
    int count = split(launcher_lines[_i].words, text, words);
    srun_read_arguments(count, words, &use);
    ck_assert_int_eq(use.starts_launcher, launcher_lines[_i].starts);
}
END_TEST

static const struct {
    const char *words, *sentence;
} mistakes[] = {
    {"srun|--hvd-fuson=64M|./train", "--hvd-fuson: there is no such option; did you mean --hvd-fusion?"},
    {"srun|--hvd-colour|red|./train", "--hvd-colour: there is no such option; srun --help lists all"},
    {"srun|--hvd-encrypt|on|-n2|./train",
     "--hvd-encrypt on: 'on' is taken for the command; write --hvd-encrypt=on"},
    {"srun|--hvd|verbose|./train", "--hvd verbose: 'verbose' is taken for the command; write --hvd=verbose"},
    /* the first of several, also in a later component */
    {"srun|./a|:|--hvd-fuson=64M|--hvd|on|./b",
     "--hvd-fuson: there is no such option; did you mean --hvd-fusion?"},
    /* as srun takes them */
    {"srun|--hvd-encrypt|./train|on", ""},
    {"srun|--hvd-encrypt=on|on", ""},
    {"srun|--hvd=on|on", ""},
    {"srun|--hvd|-n2|./train", ""},
    {"srun|--hvd||./train", ""},
    {"srun|--hvd-fus=64M|./train", ""},
    {"srun|--hvd-fusion|64M|./train", ""},
    {"srun|./train|--hvd-fuson=64M", ""},
    {"srun|--hvd-encrypt", ""},
};

START_TEST(mistakes_are_told_before_slurm_makes_them)
{
    char text[128];
    char *words[WORDS];
    int count = split(mistakes[_i].words, text, words);
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_arguments(count, words, &use);
    ck_assert_str_eq(use.mistake.text, mistakes[_i].sentence);
}
END_TEST

START_TEST(no_words_at_all_use_nothing)
{
    char *none[] = {NULL};
    ck_assert(!arguments_use_hvd(0, none));
}
END_TEST

static const struct {
    bool elastic;
    const char *words;
} elastic_lines[] = {
    {true, "srun|--hvd-min=8|./train"},
    {true, "srun|--hvd-min|8|./train"},
    {true, "srun|-N2|--hvd-fusion=64M|--hvd-mi=8|./train"},
    {false, "srun|--hvd-minimum=8|./train"},
    {false, "srun|--hvd-fusion=64M|./train|--hvd-min=8"},
    {false, "srun|--hvd|./train"},
};

START_TEST(min_makes_a_step_elastic)
{
    char text[128];
    char *words[WORDS];
    int count = split(elastic_lines[_i].words, text, words);
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_arguments(count, words, &use);
    ck_assert_int_eq(use.elastic, elastic_lines[_i].elastic);
}
END_TEST

START_TEST(an_inherited_min_makes_a_step_elastic)
{
    const char *by_sbatch[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_min=8",
                               "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_spares=2", NULL};
    const char *by_another[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_minx=8", "HVD_MIN=8", NULL};
    struct srun_use use = {.by_switch = HVD_UNSET};
    srun_read_environment((char *const *)by_another, &use);
    ck_assert(!use.elastic);
    srun_read_environment((char *const *)by_sbatch, &use);
    ck_assert(use.elastic);
    ck_assert_int_eq(use.fewest, 8);
    ck_assert_int_eq(use.spares, 2);
}
END_TEST

/* It does not override the user's own variables. */
START_TEST(an_elastic_step_outlives_its_tasks)
{
    unsetenv("SLURM_MPI_TYPE");
    unsetenv("SLURM_NO_KILL");
    setenv("SLURM_KILL_BAD_EXIT", "1", 1);
    srun_survive();
    ck_assert_str_eq(getenv("SLURM_MPI_TYPE"), "none");
    ck_assert_str_eq(getenv("SLURM_NO_KILL"), "set");
    ck_assert_str_eq(getenv("SLURM_KILL_BAD_EXIT"), "1");
}
END_TEST

START_TEST(inherited_options_count)
{
    const char *by_sbatch[] = {"PATH=/bin", "SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_fusion=64M", NULL};
    const char *by_srun[] = {"_SLURM_SPANK_OPTION_hvd_hvd_log=info", NULL};
    const char *by_user[] = {"HVD_FUSION=64M", NULL};
    const char *by_switch[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd=(null)", NULL};
    const char *switched_off[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd=off", "HVD_FUSION=64M", NULL};
    const char *of_others[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image=a",
                               "_SLURM_SPANK_OPTION_hvdx_a=1", "HVD_PLACED=srun",
                               "X=_SLURM_SPANK_OPTION_hvd_hvd_log=info", NULL};
    const char *none[] = {NULL};
    ck_assert(environment_uses_hvd(by_sbatch));
    ck_assert(environment_uses_hvd(by_srun));
    ck_assert(environment_uses_hvd(by_user));
    ck_assert(environment_uses_hvd(by_switch));
    ck_assert(!environment_uses_hvd(switched_off));
    ck_assert(!environment_uses_hvd(of_others));
    ck_assert(!environment_uses_hvd(none));
}
END_TEST

START_TEST(pmix_is_looked_for_beside_slurm)
{
    char folder[] = "/tmp/hvd-unit.XXXXXX";
    char library[64];
    char plugin[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(library, sizeof(library), "%s/libslurmfull.so", folder);
    snprintf(plugin, sizeof(plugin), "%s/mpi_pmix.so", folder);
    bool before = srun_finds_pmix_beside(library);
    int fd = open(plugin, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    bool after = srun_finds_pmix_beside(library);
    close(fd);
    unlink(plugin);
    rmdir(folder);
    ck_assert(!before);
    ck_assert(after);
    ck_assert(!srun_finds_pmix_beside("srun"));
}
END_TEST

START_TEST(too_long_a_name_finds_nothing)
{
    char file[6000];
    memset(file, 'a', sizeof(file));
    file[0] = '/';
    file[sizeof(file) - 3] = '/';
    file[sizeof(file) - 1] = 0;
    ck_assert(!srun_finds_pmix_beside(file));
}
END_TEST

/* This process has no Slurm in it, so that nothing may be set whatever is inherited. */
START_TEST(without_slurm_the_mpi_type_is_kept)
{
    setenv("_SLURM_SPANK_OPTION_hvd_hvd_log", "info", 1);
    unsetenv("SLURM_MPI_TYPE");
    srun_prefer_pmix();
    ck_assert_ptr_null(getenv("SLURM_MPI_TYPE"));
}
END_TEST

START_TEST(each_step_has_a_secret_of_its_own)
{
    char first[100];
    setenv(SRUN_SECRET_VARIABLE, "slurm:of an outer step", 1);
    srun_draw_secret();
    snprintf(first, sizeof(first), "%s", getenv(SRUN_SECRET_VARIABLE));
    ck_assert_uint_eq(strlen(first), strlen("slurm:") + 64);
    srun_draw_secret();
    ck_assert_str_ne(getenv(SRUN_SECRET_VARIABLE), first);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("srun");
    tcase_add_loop_test(tcase, a_launcher_that_starts_its_daemons_is_known, 0,
                        sizeof(launcher_lines) / sizeof(launcher_lines[0]));
    tcase_add_loop_test(tcase, what_the_user_says_of_bad_exits_is_found, 0,
                        sizeof(kill_choices) / sizeof(kill_choices[0]));
    tcase_add_loop_test(tcase, options_count_up_to_the_command, 0, sizeof(lines) / sizeof(lines[0]));
    tcase_add_loop_test(tcase, mistakes_are_told_before_slurm_makes_them, 0,
                        sizeof(mistakes) / sizeof(mistakes[0]));
    tcase_add_test(tcase, no_words_at_all_use_nothing);
    tcase_add_test(tcase, inherited_options_count);
    tcase_add_loop_test(tcase, min_makes_a_step_elastic, 0, sizeof(elastic_lines) / sizeof(elastic_lines[0]));
    tcase_add_test(tcase, an_inherited_min_makes_a_step_elastic);
    tcase_add_test(tcase, an_elastic_step_outlives_its_tasks);
    tcase_add_test(tcase, pmix_is_looked_for_beside_slurm);
    tcase_add_test(tcase, too_long_a_name_finds_nothing);
    tcase_add_test(tcase, without_slurm_the_mpi_type_is_kept);
    tcase_add_test(tcase, each_step_has_a_secret_of_its_own);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("srun", fill);
}
