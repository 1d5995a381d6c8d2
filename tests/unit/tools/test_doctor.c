/* test_doctor.c: what hvdinfo doctor finds in environments and folders that are made for it, and how it
 * judges what the ranks of a job tell. */
#include "config.h"
#include "temp_folder.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/listener.h"
#include "tools/hvdinfo/doctor/checks.h"
#include "tools/hvdinfo/doctor/job.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static struct hvd_config config;
static struct finding finding;

static struct patient patient_with(const char *const *environment)
{
    static char *const nothing[] = {NULL};
    ck_assert_int_eq(config_load(&config, nothing, NULL, NULL), HVD_OK);
    return (struct patient){.environment = (char *const *)environment,
                            .root = folder,
                            .python_folder = "/opt/lib/python3.9/site-packages",
                            .config = &config,
                            .config_error = "",
                            .ranks = 1};
}

static void expect(enum check_result result, const char *word)
{
    ck_assert_msg(finding.result == (int32_t)result, "%s", finding.what);
    ck_assert_msg(strstr(finding.what, word) != NULL, "%s", finding.what);
    ck_assert_int_eq(finding.mend[0] == 0, result == CHECK_OK);
}

/* ---- Launchers ---------------------------------------------------------------------------------- */

#define STEP(tasks) "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=" tasks

static const struct {
    const char *inner[4], *outer[3];
    enum check_result result;
    const char *word;
} launches[] = {
    {{NULL}, {NULL}, CHECK_OK, "none"},
    {{STEP("4")}, {NULL}, CHECK_OK, "srun"},
    {{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0", "PMIX_NAMESPACE=1"}, {NULL}, CHECK_OK, "mpirun"},
    {{"PMIX_NAMESPACE=x"}, {NULL}, CHECK_OK, "a launcher with PMIx"},
    {{"PMIX_NAMESPACE=slurm.pmix.7.0"}, {NULL}, CHECK_OK, "none"},
    {{"PMIX_NAMESPACE=hvdrun.h.1"}, {"HOME=/"}, CHECK_OK, "hvdrun"},
    {{"PMIX_NAMESPACE=hvdrun.h.1"}, {STEP("1")}, CHECK_OK, "hvdrun"},
    {{"PMIX_NAMESPACE=hvdrun.h.1"}, {STEP("2")}, CHECK_FAIL, "hvdrun runs inside srun, whose 2"},
    {{"PMIX_NAMESPACE=hvdrun.h.1"},
     {"OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=0"},
     CHECK_FAIL,
     "inside mpirun, whose 3"},
    {{"TORCHELASTIC_RUN_ID=a", STEP("2")}, {NULL}, CHECK_FAIL, "torchrun runs inside srun"},
    {{"TORCHELASTIC_RUN_ID=a", STEP("many")}, {NULL}, CHECK_OK, "torchrun"},
    {{"TORCHELASTIC_RUN_ID=a", "HVD_EPOCHS=127.0.0.1 7 0 2"}, {NULL}, CHECK_OK, "hvdrun"},
    {{"SLURM_STEP_ID=4294967290", "SLURM_STEP_NUM_TASKS=1"}, {NULL}, CHECK_OK, "none"},
};

START_TEST(one_launcher_inside_another_is_found)
{
    struct patient patient = patient_with(launches[_i].inner);
    patient.outer = launches[_i].outer[0] == NULL ? NULL : (char *const *)launches[_i].outer;
    check_launcher(&patient, &finding);
    expect(launches[_i].result, launches[_i].word);
}
END_TEST

static const struct {
    const char *environment[3];
    enum check_result result;
    const char *word;
} settings[] = {
    {{NULL}, CHECK_OK, "as PMIx"},
    {{"PMIX_MCA_gds=hash"}, CHECK_OK, "as PMIx"},
    {{"PMIX_MCA_gds=ds21"}, CHECK_WARN, "ds21"},
    {{"PMIX_MCA_psec=none"}, CHECK_WARN, "does not ask"},
    {{"PMIX_MCA_psec=munge"}, CHECK_WARN, "uses another"},
    {{"PMIX_MCA_psec=munge", "PMIX_SECURITY_MODE=munge,native"}, CHECK_OK, "as PMIx"},
    {{"PMIX_MCA_psec=munge", "PMIX_SECURITY_MODE=native"}, CHECK_FAIL, "the launcher's PMIx has native"},
};

START_TEST(settings_of_pmix_are_judged)
{
    struct patient patient = patient_with(settings[_i].environment);
    check_pmix_settings(&patient, &finding);
    expect(settings[_i].result, settings[_i].word);
}
END_TEST

/* ---- Elastic jobs ------------------------------------------------------------------------------- */

#define ELASTIC_STEP "HVD_EPOCHS=10.0.0.1 7 0 4", STEP("4")

static const struct {
    const char *environment[8];
    enum check_result result;
    const char *word;
} elastic_jobs[] = {
    {{NULL}, CHECK_OK, "no: a rank that fails ends the job"},
    {{STEP("4"), "SLURM_KILL_BAD_EXIT=1"}, CHECK_OK, "no: a rank that fails ends the job"},
    {{"HVD_EPOCHS=127.0.0.1 7 0 2"}, CHECK_OK, "by hvdrun; a rank is lost when"},
    {{ELASTIC_STEP, "SLURM_MPI_TYPE=none", "SLURM_KILL_BAD_EXIT=0", "SLURM_NO_KILL=set"},
     CHECK_OK,
     "MPI type none, and neither a bad exit nor a lost node ends the step; a rank is lost when its process "
     "ends, and when its node is silent for 5s (--hvd-lease)"},
    {{ELASTIC_STEP, "SLURM_MPI_TYPE=pmi2", "SLURM_NO_KILL=set"}, CHECK_FAIL, "with this MPI type"},
    {{ELASTIC_STEP, "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_NO_KILL=set"}, CHECK_FAIL, "with this MPI type"},
    {{ELASTIC_STEP, "SLURM_MPI_TYPE=none", "SLURM_KILL_BAD_EXIT=1"}, CHECK_FAIL, "SLURM_KILL_BAD_EXIT"},
    {{ELASTIC_STEP, "SLURM_MPI_TYPE=none", "SLURM_KILL_BAD_EXIT=0"}, CHECK_FAIL, "without --no-kill"},
};

START_TEST(what_ends_an_elastic_step_is_told)
{
    struct patient patient = patient_with(elastic_jobs[_i].environment);
    check_elastic(&patient, &finding);
    expect(elastic_jobs[_i].result, elastic_jobs[_i].word);
}
END_TEST

/* ---- The plug-in -------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void look_for_plugin(enum check_result result, const char *word)
{
    char conf[200];
    snprintf(conf, sizeof(conf), "SLURM_CONF=%s/slurm.conf", folder);
    const char *environment[] = {conf, NULL};
    struct patient patient = patient_with(environment);
    check_plugin(&patient, &finding);
    expect(result, word);
}

static void judge_srun_port(const char *address, int port, bool elastic)
{
    char srun[64], listener[96];
    snprintf(srun, sizeof(srun), elastic ? "HVD_EPOCHS=%s %d 0 2" : "SLURM_SRUN_COMM_HOST=%s", address, port);
    snprintf(listener, sizeof(listener), "HVD_STEP_REPORT=%d:0123456789abcdef0123456789abcdef", port);
    const char *const environment[] = {STEP("2"), srun, elastic ? NULL : listener, NULL};
    struct patient patient = patient_with(environment);
    check_srun_port(&patient, &finding);
}

START_TEST(the_port_of_srun_is_tried)
{
    static const char *const nothing[] = {NULL};
    struct patient patient = patient_with(nothing);
    int listener = listener_open(0), port = listener_port(listener);
    check_srun_port(&patient, &finding);
    expect(CHECK_OK, "no step");
    for (int elastic = 0; elastic < 2; elastic++) {
        judge_srun_port("127.0.0.1", port, elastic);
        expect(CHECK_OK, "reached");
    }
    close(listener);
    judge_srun_port("127.0.0.1", port, false);
    expect(CHECK_WARN, "is not reached from here: Connection refused");
    judge_srun_port("127.0.0.1", port, true);
    expect(CHECK_FAIL, "is not reached from here: Connection refused");
}
END_TEST

START_TEST(the_plugin_is_looked_for_where_slurm_does)
{
    char line[300];
    const char *none[] = {NULL};
    struct patient patient = patient_with(none);
    check_plugin(&patient, &finding);
    expect(CHECK_OK, "no slurm.conf");
    write_text("plugstack.conf", "# optional /x/spank_hvd.so\noptional other.so\n");
    look_for_plugin(CHECK_WARN, "does not name");
    snprintf(line, sizeof(line), "optional %s/spank_hvd.so fusion=1M\n", folder);
    write_text("plugstack.conf", line);
    look_for_plugin(CHECK_FAIL, "cannot be read");
    write_text("spank_hvd.so", "x");
    look_for_plugin(CHECK_OK, "/spank_hvd.so");
    write_text("plugstack.conf", "include *.conf.d\n");
    look_for_plugin(CHECK_WARN, "does not name");
    write_text("a.conf.d", line);
    look_for_plugin(CHECK_OK, "/spank_hvd.so");
}
END_TEST

START_TEST(files_with_the_same_bytes_have_the_same_print)
{
    char a[200], b[200];
    snprintf(a, sizeof(a), "%s/a", folder);
    snprintf(b, sizeof(b), "%s/b", folder);
    ck_assert_uint_eq(plugin_print(a), 0);
    write_text("a", "12345678x");
    write_text("b", "12345678x");
    ck_assert_uint_eq(plugin_print(a), plugin_print(b));
    ck_assert_uint_ne(plugin_print(a), 0);
    write_text("b", "12345678y");
    ck_assert_uint_ne(plugin_print(a), plugin_print(b));
    ck_assert_uint_eq(plugin_print(folder), 0);
}
END_TEST

/* ---- Limits ------------------------------------------------------------------------------------- */

START_TEST(little_is_found_to_be_little)
{
    const char *none[] = {NULL};
    struct patient patient = patient_with(none);
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
    check_shm(&patient, &finding);
    expect(CHECK_FAIL, "cannot be written: No such file");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    check_nofile(&patient, &finding);
    expect(CHECK_WARN, "100 descriptors, which limits jobs to about 36 ranks");
    patient.ranks = 60;
    check_nofile(&patient, &finding);
    expect(CHECK_FAIL, "each of 60 ranks");
    check_stack(&patient, &finding);
    ck_assert_int_eq(finding.result == CHECK_OK || finding.result == CHECK_WARN, 1);
}
END_TEST

START_TEST(the_package_is_found_in_pythonpath)
{
    char path[200], package[200];
    snprintf(path, sizeof(path), "PYTHONPATH=:/nowhere:%s", folder);
    const char *environment[] = {path, NULL};
    struct patient patient = patient_with(environment);
    check_python(&patient, &finding);
    expect(CHECK_WARN, "not in PYTHONPATH");
    snprintf(package, sizeof(package), "%s/hvd", folder);
    ck_assert_int_eq(mkdir(package, 0700), 0);
    write_text("hvd/__init__.py", "");
    check_python(&patient, &finding);
    expect(CHECK_OK, "hvd; torch is not here");
}
END_TEST

START_TEST(a_package_where_no_python_looks_is_told)
{
    const char *none[] = {NULL};
    struct patient patient = patient_with(none);
    folder_put("opt/lib/python3.9/site-packages/hvd/__init__.py", "");
    check_python(&patient, &finding);
    expect(CHECK_WARN, "is in /opt/lib/python3.9/site-packages, where Pythons do not look");
    folder_put("opt/bin/python3", "");
    char program[200];
    snprintf(program, sizeof(program), "%s/opt/bin/python3", folder);
    ck_assert_int_eq(chmod(program, 0755), 0);
    check_python(&patient, &finding);
    expect(CHECK_OK, "hvd; torch is not here");
}
END_TEST

START_TEST(packages_beside_the_python_in_path_are_found)
{
    char path[300], program[200];
    snprintf(path, sizeof(path), "PATH=/nowhere:%s/env/bin", folder);
    const char *environment[] = {path, NULL};
    struct patient patient = patient_with(environment);
    folder_put("env/bin/python3", "");
    folder_put("env/lib/python3.9/site-packages/hvd/__init__.py", "");
    folder_put("env/lib/python3.9/site-packages/torch/__init__.py", "");
    check_python(&patient, &finding);
    expect(CHECK_WARN, "not in PYTHONPATH");
    snprintf(program, sizeof(program), "%s/env/bin/python3", folder);
    ck_assert_int_eq(chmod(program, 0755), 0);
    check_python(&patient, &finding);
    expect(CHECK_OK, "hvd, hvd.torch and hvd.distributed");
}
END_TEST

/* ---- GPUs --------------------------------------------------------------------------------------- */

START_TEST(nccl_is_told_with_what_it_will_use)
{
    const char *none[] = {NULL};
    const char *set[] = {"NCCL_SOCKET_IFNAME==eth0", "NCCL_NET=IB", NULL};
    struct patient patient = patient_with(none);
    check_nccl(&patient, &finding);
    if (strstr(finding.what, "not usable") == NULL)
        expect(CHECK_OK, "chooses its interfaces by itself");
    patient.environment = (char *const *)set;
    check_nccl(&patient, &finding);
    if (strstr(finding.what, "not usable") == NULL)
        expect(CHECK_OK, "; NCCL_SOCKET_IFNAME==eth0 NCCL_NET=IB");
    snprintf(config.nccl_library, sizeof(config.nccl_library), "%s/none.so", folder);
    check_nccl(&patient, &finding);
    ck_assert_int_eq(finding.result, CHECK_WARN);
}
END_TEST

/* What the kernel modules of NVIDIA say of themselves, closed and open. */
static const struct {
    const char *line, *word;
} drivers[] = {
    {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n",
     "535.104.05"},
    {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.02  Release Build\n", "555.42.02"},
    {"no version\n", ""},
};

START_TEST(the_driver_is_told_with_its_version)
{
    const char *none[] = {NULL};
    struct patient patient = patient_with(none);
    char path[200];
    static const char *const folders[] = {"proc", "proc/driver", "proc/driver/nvidia"};
    check_driver(&patient, &finding);
    expect(CHECK_OK, "no NVIDIA GPU");
    for (int i = 0; i < COUNT(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    write_text("proc/driver/nvidia/version", drivers[_i].line);
    check_driver(&patient, &finding);
    ck_assert_msg(strstr(finding.what, drivers[_i].word) != NULL, "%s", finding.what);
    ck_assert_ptr_null(strstr(finding.what, "no NVIDIA GPU"));
}
END_TEST

/* ---- All ranks together ------------------------------------------------------------------------- */

static const struct facts like = {.version = "0.1.0",
                                  .pmix = "4.2",
                                  .nccl = "2.28.9",
                                  .host = "n1",
                                  .plugin = 7,
                                  .clock_us = {1000, 1000, 1000, 1000, 1000},
                                  .claimed = 2};

static void expect_world(const char *check, const struct facts *facts, int ranks, enum check_result result,
                         const char *word)
{
    for (int i = 0; i < job_check_count; i++) {
        if (strcmp(job_checks[i].name, check) != 0)
            continue;
        job_checks[i].run(facts, ranks, &finding);
        expect(result, word);
        return;
    }
    ck_abort_msg("%s is no check", check);
}

static void expect_job(const char *check, const struct facts *facts, enum check_result result,
                       const char *word)
{
    expect_world(check, facts, 2, result, word);
}

START_TEST(ranks_that_are_alike_are_well)
{
    struct facts facts[] = {like, like};
    expect_job("versions", facts, CHECK_OK, "hvd 0.1.0 and the plug-in, the same");
    expect_job("world", facts, CHECK_OK, "2 ranks, as the launcher says");
    expect_job("GPUs", facts, CHECK_OK, "no rank was given one");
    expect_job("clocks", facts, CHECK_OK, "within 1 ms");
}
END_TEST

START_TEST(other_versions_are_named_with_their_nodes)
{
    struct facts facts[] = {like, like};
    snprintf(facts[1].host, sizeof(facts[1].host), "n2");
    snprintf(facts[1].nccl, sizeof(facts[1].nccl), "2.18.1");
    expect_job("versions", facts, CHECK_WARN, "NCCL 2.28.9 on n1, 2.18.1 on n2");
    snprintf(facts[1].pmix, sizeof(facts[1].pmix), "3.2");
    expect_job("versions", facts, CHECK_WARN, "PMIx 4.2 on n1, 3.2 on n2");
    facts[1].plugin = 8;
    expect_job("versions", facts, CHECK_FAIL, "the plug-ins of n1 and n2 are not the same");
    facts[1].plugin = 0;
    expect_job("versions", facts, CHECK_FAIL, "n1 has the plug-in, n2 has not");
    facts[0].plugin = 0;
    facts[1].plugin = 7;
    expect_job("versions", facts, CHECK_FAIL, "n2 has the plug-in, n1 has not");
    snprintf(facts[1].version, sizeof(facts[1].version), "0.2.0");
    expect_job("versions", facts, CHECK_FAIL, "hvd 0.1.0 on n1, 0.2.0 on n2");
}
END_TEST

START_TEST(one_rank_is_told_in_the_singular)
{
    struct facts facts = like;
    facts.claimed = 1;
    expect_world("world", &facts, 1, CHECK_OK, "1 rank, as the launcher says");
    snprintf(facts.gpus, sizeof(facts.gpus), "0000:17:00.0");
    expect_world("GPUs", &facts, 1, CHECK_OK, "1 of 1 rank with GPUs");
}
END_TEST

START_TEST(a_world_of_another_size_is_found)
{
    struct facts facts[] = {like, like};
    facts[1].claimed = 4;
    expect_job("world", facts, CHECK_FAIL, "the job has 2 ranks, but rank 1 was told of 4 tasks");
}
END_TEST

static const struct {
    const char *environment[4];
    int64_t claimed;
} claims[] = {
    {{NULL}, 0},
    {{STEP("4"), "WORLD_SIZE=2"}, 4},
    {{STEP("many"), "WORLD_SIZE=2"}, 2},
    {{"PMI_SIZE=3", "PMI_RANK=0"}, 3},
    {{"WORLD_SIZE=two"}, 0},
};

START_TEST(what_the_launcher_claims_is_read)
{
    ck_assert_int_eq(job_claimed((char *const *)claims[_i].environment), claims[_i].claimed);
}
END_TEST

START_TEST(a_shared_gpu_is_found_on_one_host_only)
{
    struct facts facts[] = {like, like};
    snprintf(facts[0].gpus, sizeof(facts[0].gpus), "0000:17:00.0,0000:2a:00.0");
    snprintf(facts[1].gpus, sizeof(facts[1].gpus), "0000:2a:00.0");
    expect_job("GPUs", facts, CHECK_WARN, "ranks 0 and 1 of n1 both have GPU 0000:2a:00.0");
    snprintf(facts[1].host, sizeof(facts[1].host), "n2");
    expect_job("GPUs", facts, CHECK_OK, "2 of 2 ranks");
}
END_TEST

/* Two of many thousand ranks, far from each other. Comparing each with each takes minutes under sanitizers.
 */
START_TEST(a_shared_gpu_is_found_among_many_ranks)
{
    enum { RANKS = 65536 };
    struct facts *facts = calloc(RANKS, sizeof(*facts));
    ck_assert_ptr_nonnull(facts);
    for (int i = 0; i < RANKS; i++) {
        facts[i] = like;
        snprintf(facts[i].host, sizeof(facts[i].host), "n%d", i / 8);
        snprintf(facts[i].gpus, sizeof(facts[i].gpus), "0000:%02x:00.0", i % 8);
    }
    expect_world("GPUs", facts, RANKS, CHECK_OK, "65536 of 65536 ranks");
    snprintf(facts[RANKS - 1].gpus, sizeof(facts[0].gpus), "0000:02:00.0");
    expect_world("GPUs", facts, RANKS, CHECK_WARN,
                 "ranks 65530 and 65535 of n8191 both have GPU 0000:02:00.0");
    free(facts);
}
END_TEST

START_TEST(clocks_are_judged_by_the_closest_round)
{
    struct facts facts[] = {like, like};
    for (int i = 0; i < CLOCK_ROUNDS; i++)
        facts[1].clock_us[i] += 3000000;
    snprintf(facts[1].host, sizeof(facts[1].host), "n2");
    expect_job("clocks", facts, CHECK_WARN, "n2 is 3.0 s ahead of n1");
    facts[1].clock_us[3] = 6000;
    expect_job("clocks", facts, CHECK_OK, "within 6 ms");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("doctor");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, folder_empty, NULL);
    tcase_add_loop_test(tcase, one_launcher_inside_another_is_found, 0, COUNT(launches));
    tcase_add_loop_test(tcase, settings_of_pmix_are_judged, 0, COUNT(settings));
    tcase_add_loop_test(tcase, what_ends_an_elastic_step_is_told, 0, COUNT(elastic_jobs));
    tcase_add_test(tcase, the_port_of_srun_is_tried);
    tcase_add_test(tcase, the_plugin_is_looked_for_where_slurm_does);
    tcase_add_test(tcase, files_with_the_same_bytes_have_the_same_print);
    tcase_add_test(tcase, little_is_found_to_be_little);
    tcase_add_test(tcase, the_package_is_found_in_pythonpath);
    tcase_add_test(tcase, a_package_where_no_python_looks_is_told);
    tcase_add_test(tcase, packages_beside_the_python_in_path_are_found);
    tcase_add_test(tcase, nccl_is_told_with_what_it_will_use);
    tcase_add_loop_test(tcase, the_driver_is_told_with_its_version, 0, COUNT(drivers));
    tcase_add_test(tcase, ranks_that_are_alike_are_well);
    tcase_add_test(tcase, one_rank_is_told_in_the_singular);
    tcase_add_test(tcase, other_versions_are_named_with_their_nodes);
    tcase_add_test(tcase, a_world_of_another_size_is_found);
    tcase_add_loop_test(tcase, what_the_launcher_claims_is_read, 0, COUNT(claims));
    tcase_add_test(tcase, a_shared_gpu_is_found_on_one_host_only);
    tcase_add_test(tcase, a_shared_gpu_is_found_among_many_ranks);
    tcase_add_test(tcase, clocks_are_judged_by_the_closest_round);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("doctor", fill);
}
