/* test_hvdrun_environment.c: which variables ranks inherit, and which hvdrun removes and adds. */
#include "unit.h"

#include <string.h>

#include "tools/hvdrun/rank_environment.h"

static const char *find(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    const char *found = NULL;
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            ck_assert_msg(found == NULL, "%s is there twice", name);
            found = *environment + length + 1;
        }
    }
    return found;
}

static const struct rank_environment full = {.secret = "hvdrun:1",
                                             .cli = "fusion=2M",
                                             .shared = "/dev/shm/x",
                                             .run_id = "run7",
                                             .role = "default",
                                             .max_restarts = 3,
                                             .master_port = 20001};
static const struct rank_environment bare = {
    .secret = "hvdrun:1", .cli = "", .shared = "", .run_id = "run7", .role = "default", .colours = true};

struct change {
    const char *before; /* "NAME=value", or NULL */
    const char *name;
    const char *after; /* value, or NULL */
};

static const struct change changes[] = {
    /* every job has a secret of its own */
    {NULL, "HVD_JOB_KEY", "hvdrun:1"},
    {"HVD_JOB_KEY=of an outer job", "HVD_JOB_KEY", "hvdrun:1"},
    /* the user's variables */
    {"HOME=/root", "HOME", "/root"},
    {"HVD_FUSION=8M", "HVD_FUSION", "8M"},
    {"HVD_SITE=fusion=8M", "HVD_SITE", "fusion=8M"},
    {"OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl", "tcp,self"},
    {"PMIX_MCA_gds=ds21", "PMIX_MCA_gds", "ds21"},
    {"PMIX_PKGLIBDIR=/moved", "PMIX_PKGLIBDIR", "/moved"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"SLURM_JOB_ID=7", "SLURM_JOB_ID", "7"},
    {"SLURM_STEP_GPUS=0,1", "SLURM_STEP_GPUS", "0,1"},
    {"MASTER_ADDR=n1", "MASTER_ADDR", "n1"},
    {"RANKING=1", "RANKING", "1"},
    {"CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES", "1"},
    /* variables of an outer launcher */
    {"PMIX_RANK=3", "PMIX_RANK", NULL},
    {"PMIX_SERVER_URI41=x", "PMIX_SERVER_URI41", NULL},
    {"PMI_FD=5", "PMI_FD", NULL},
    {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_RANK", NULL},
    {"OMPI_MCA_orte_hnp_uri=x", "OMPI_MCA_orte_hnp_uri", NULL},
    {"OMPI_MCA_ess=^singleton", "OMPI_MCA_ess", NULL},
    {"OMPI_MCA_pmix=^s1,s2", "OMPI_MCA_pmix", NULL},
    {"SLURM_PROCID=3", "SLURM_PROCID", NULL},
    {"SLURM_LOCALID=3", "SLURM_LOCALID", NULL},
    {"SLURM_STEP_ID=0", "SLURM_STEP_ID", NULL},
    {"SLURM_STEP_NUM_TASKS=8", "SLURM_STEP_NUM_TASKS", NULL},
    {"SLURM_PMIX_MAPPING_SERV=x", "SLURM_PMIX_MAPPING_SERV", NULL},
    {"RANK=3", "RANK", NULL},
    {"WORLD_SIZE=8", "WORLD_SIZE", NULL},
    {"LOCAL_RANK=3", "LOCAL_RANK", NULL},
    {"HVD_CLI=fusion=1M", "HVD_CLI", "fusion=2M"},
    {"HVD_PLACED=srun", "HVD_PLACED", NULL},
    {"HVD_GPU_PCI=0000:17:00.0", "HVD_GPU_PCI", NULL},
    {"HVD_LOCAL_DEVICE=3", "HVD_LOCAL_DEVICE", NULL},
    /* variables that hvdrun sets */
    {NULL, "PYTHONUNBUFFERED", "1"},
    {"PYTHONUNBUFFERED=", "PYTHONUNBUFFERED", ""},
    {NULL, "TORCHELASTIC_RUN_ID", "run7"},
    {"TORCHELASTIC_RUN_ID=of an outer torchrun", "TORCHELASTIC_RUN_ID", "run7"},
    {"TORCHELASTIC_MAX_RESTARTS=9", "TORCHELASTIC_MAX_RESTARTS", "3"},
    {"TORCHELASTIC_RESTART_COUNT=9", "TORCHELASTIC_RESTART_COUNT", "0"},
    {"ROLE_NAME=mine", "ROLE_NAME", "mine"},
    {NULL, "ROLE_NAME", "default"},
    {NULL, "MASTER_ADDR", "127.0.0.1"},
    {NULL, "MASTER_PORT", "20001"},
    {"MASTER_PORT=4711", "MASTER_PORT", "4711"},
    {"TERM=xterm", "TERM", "dumb"},
    {NULL, "NO_COLOR", "1"},
    {NULL, "OMPI_MCA_schizo", "ompi"},
    {"OMPI_MCA_schizo=orte", "OMPI_MCA_schizo", "ompi"},
    {NULL, "PMIX_MCA_gds", "hash"},
    {NULL, "OMPI_MCA_shmem", "mmap"},
    {"OMPI_MCA_shmem=posix", "OMPI_MCA_shmem", "posix"},
    {NULL, "OMPI_MCA_btl_vader_backing_directory", "/dev/shm/x"},
    {"OMPI_MCA_btl_vader_backing_directory=/y", "OMPI_MCA_btl_vader_backing_directory", "/y"},
};

START_TEST(variable_is_changed)
{
    const struct change *change = &changes[_i];
    const char *before[] = {"PATH=/bin", change->before, NULL};
    char **after = rank_environment_create((char *const *)before, &full);
    const char *value = find(after, change->name);
    ck_assert_str_eq(find(after, "PATH"), "/bin");
    if (change->after == NULL)
        ck_assert_msg(value == NULL, "%s is there: %s", change->name, value);
    else
        ck_assert_str_eq(value, change->after);
    rank_environment_free(after);
}
END_TEST

/* Variables that srun set for one task are not passed to the ranks of a job inside it; those that say which
 * GPUs the task may use are. */
START_TEST(what_an_outer_launcher_placed_is_taken_away)
{
    const char *before[] = {"OMP_NUM_THREADS=7",
                            "OMP_PLACES=threads",
                            "CUDA_VISIBLE_DEVICES=3",
                            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                            "ROCR_VISIBLE_DEVICES=2",
                            "OMP_NUM=1",
                            "HVD_PLACED=srun,HVD_GPU_PCI,OMP_NUM_THREADS,OMP_PLACES,CUDA_DEVICE_ORDER,"
                            "CUDA_VISIBLE_DEVICES,ROCR_VISIBLE_DEVICES",
                            NULL};
    char **after = rank_environment_create((char *const *)before, &bare);
    ck_assert_ptr_null(find(after, "HVD_PLACED"));
    ck_assert_ptr_null(find(after, "OMP_NUM_THREADS"));
    ck_assert_ptr_null(find(after, "OMP_PLACES"));
    ck_assert_str_eq(find(after, "OMP_NUM"), "1");
    ck_assert_str_eq(find(after, "CUDA_VISIBLE_DEVICES"), "3");
    ck_assert_str_eq(find(after, "ROCR_VISIBLE_DEVICES"), "2");
    ck_assert_str_eq(find(after, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
    rank_environment_free(after);
}
END_TEST

START_TEST(what_the_user_has_set_stays)
{
    const char *before[] = {"OMP_NUM_THREADS=7", "HVD_PLACED=srun,OMP_PLACES", NULL};
    char **after = rank_environment_create((char *const *)before, &bare);
    ck_assert_str_eq(find(after, "OMP_NUM_THREADS"), "7");
    rank_environment_free(after);
}
END_TEST

/* Where the ranks of an outer launcher meet is not for those of hvdrun. */
START_TEST(a_meeting_place_goes_with_its_ranks)
{
    const char *before[] = {"RANK=3", "MASTER_ADDR=n1", "MASTER_PORT=4711", NULL};
    char **after = rank_environment_create((char *const *)before, &full);
    ck_assert_str_eq(find(after, "MASTER_ADDR"), "127.0.0.1");
    ck_assert_str_eq(find(after, "MASTER_PORT"), "20001");
    rank_environment_free(after);
}
END_TEST

START_TEST(a_terminal_keeps_its_kind)
{
    const char *before[] = {"TERM=xterm", NULL};
    char **after = rank_environment_create((char *const *)before, &bare);
    ck_assert_str_eq(find(after, "TERM"), "xterm");
    ck_assert_ptr_null(find(after, "NO_COLOR"));
    ck_assert_ptr_null(find(after, "MASTER_PORT"));
    rank_environment_free(after);
}
END_TEST

START_TEST(nothing_is_added_needlessly)
{
    char *before[] = {NULL};
    char **after = rank_environment_create(before, &bare);
    ck_assert_ptr_null(find(after, "HVD_CLI"));
    ck_assert_ptr_null(find(after, "OMPI_MCA_btl_vader_backing_directory"));
    rank_environment_free(after);
}
END_TEST

/* Variables that the user has changed since are kept. */
START_TEST(the_networks_of_a_step_go)
{
    const char *before[] = {"GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth7",
                            "HVD_NETWORK_SET=NCCL_SOCKET_IFNAME==eth0;GLOO_SOCKET_IFNAME=eth0", NULL};
    char **after = rank_environment_create((char *const *)before, &bare);
    ck_assert_ptr_null(find(after, "GLOO_SOCKET_IFNAME"));
    ck_assert_ptr_null(find(after, "HVD_NETWORK_SET"));
    ck_assert_str_eq(find(after, "NCCL_SOCKET_IFNAME"), "eth7");
    rank_environment_free(after);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("environment");
    unit_add_rounds(tcase, variable_is_changed, 0, sizeof(changes) / sizeof(changes[0]));
    tcase_add_test(tcase, what_an_outer_launcher_placed_is_taken_away);
    tcase_add_test(tcase, what_the_user_has_set_stays);
    tcase_add_test(tcase, a_meeting_place_goes_with_its_ranks);
    tcase_add_test(tcase, a_terminal_keeps_its_kind);
    tcase_add_test(tcase, nothing_is_added_needlessly);
    tcase_add_test(tcase, the_networks_of_a_step_go);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_environment", fill);
}
