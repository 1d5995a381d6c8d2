/* test_horovod.c: every variable that Horovod 0.28 reads at run time sets an option of hvd, or is answered.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "options/config.h"
#include "options/horovod.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static char warning[600];
static int warning_count;

static void keep_warning(const char *sentence)
{
    snprintf(warning, sizeof(warning), "%s", sentence);
    warning_count++;
}

static void load(struct hvd_config *config, const char *first, const char *second)
{
    char *environment[] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second, NULL};
    struct hvd_error err = {""};
    warning_count = 0;
    ck_assert_msg(config_load(config, environment, keep_warning, &err) == HVD_OK, "%s", err.text);
}

static const struct {
    const char *variable;
    const char *option, *value; /* what it sets; or NULL */
    const char *word; /* or which word the only warning has; or neither: it is understood silently */
} read_by_horovod[] = {
    {"HOROVOD_CONTROLLER=gloo", NULL, NULL, "HVD_BACKENDS"},
    {"HOROVOD_CPU_OPERATIONS=gloo", NULL, NULL, "HVD_BACKENDS"},
    {"HOROVOD_FUSION_THRESHOLD=1048576", "fusion", "1M", NULL},
    {"HOROVOD_CYCLE_TIME=5", NULL, NULL, "no cycle"},
    {"HOROVOD_CACHE_CAPACITY=77", "cache", "77", NULL},
    {"HOROVOD_CACHE_CAPACITY=0", NULL, NULL, "always has its cache"},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE=1", NULL, NULL, "HVD_BACKENDS"},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE=0", NULL, NULL, NULL},
    {"HOROVOD_HIERARCHICAL_ALLGATHER=1", NULL, NULL, "HVD_BACKENDS"},
    {"HOROVOD_TORUS_ALLREDUCE=1", NULL, NULL, "HVD_BACKENDS"},
    {"HOROVOD_BATCH_D2D_MEMCOPIES=1", NULL, NULL, "tensors on GPUs"},
    {"HOROVOD_NUM_NCCL_STREAMS=2", NULL, NULL, "tensors on GPUs"},
    {"HOROVOD_DISABLE_GROUP_FUSION=1", NULL, NULL, "HVD_FUSION"},
    {"HOROVOD_ENABLE_ASYNC_COMPLETION=1", NULL, NULL, "tensors on GPUs"},
    {"HOROVOD_ENABLE_XLA_OPS=1", NULL, NULL, "tensors on GPUs"},
    {"HOROVOD_DYNAMIC_PROCESS_SETS=1", NULL, NULL, NULL},
    {"HOROVOD_DYNAMIC_PROCESS_SETS=0", NULL, NULL, "can always be added"},
    {"HOROVOD_ELASTIC=1", NULL, NULL, NULL},
    {"HOROVOD_ELASTIC_TIMEOUT=600", NULL, NULL, "HVD_START_TIMEOUT"},
    {"HOROVOD_TIMELINE=/t.json", NULL, NULL, "HVD_TIMELINE"},
    {"HOROVOD_TIMELINE_MARK_CYCLES=1", NULL, NULL, "HVD_TIMELINE"},
    {"HOROVOD_AUTOTUNE=1", NULL, NULL, "HVD_AUTOTUNE"},
    {"HOROVOD_AUTOTUNE_LOG=/t.csv", NULL, NULL, "HVD_AUTOTUNE_FILE"},
    {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES=3", NULL, NULL, "HVD_AUTOTUNE"},
    {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=10", NULL, NULL, "HVD_AUTOTUNE"},
    {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=20", NULL, NULL, "HVD_AUTOTUNE"},
    {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.8", NULL, NULL, "HVD_AUTOTUNE"},
    {"HOROVOD_STALL_CHECK_DISABLE=1", "stall-warn", "0", NULL},
    {"HOROVOD_STALL_CHECK_DISABLE=1", "stall-abort", "0", NULL},
    {"HOROVOD_STALL_CHECK_DISABLE=1", "hang-abort", "0", NULL},
    {"HOROVOD_STALL_CHECK_DISABLE=0", "stall-warn", "1min", NULL},
    {"HOROVOD_STALL_CHECK_DISABLE=0", "hang-abort", "10min", NULL},
    {"HOROVOD_STALL_CHECK_DISABLE=", "stall-warn", "1min", NULL},
    {"HOROVOD_STALL_CHECK_TIME_SECONDS=5", "stall-warn", "5s", NULL},
    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=7", "stall-abort", "7s", NULL},
    {"HOROVOD_MPI_THREADS_DISABLE=1", NULL, NULL, "MPI_THREAD_SERIALIZED"},
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE=1024", NULL, NULL, "HVD_CHUNK"},
    {"HOROVOD_THREAD_AFFINITY=0,1", NULL, NULL, "HVD_BIND"},
    {"HOROVOD_CCL_CACHE=1", NULL, NULL, "HVD_CACHE"},
    {"HOROVOD_DISABLE_NVTX_RANGES=0", NULL, NULL, "HVD_TIMELINE"},
    {"HOROVOD_LOG_LEVEL=info", "log", "info", NULL},
    {"HOROVOD_LOG_HIDE_TIME=1", NULL, NULL, "HVD_LOG"},
    {"HOROVOD_GLOO_IFACE=lo", "nics", "lo", NULL},
    {"HOROVOD_GLOO_IFACE=", "nics", "auto", NULL},
    {"HOROVOD_GLOO_TIMEOUT_SECONDS=30", NULL, NULL, "HVD_START_TIMEOUT"},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR=h", NULL, NULL, "MASTER_ADDR"},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT=1", NULL, NULL, "MASTER_PORT"},
    {"HOROVOD_START_TIMEOUT=9", "start-timeout", "9s", NULL},
    {"HOROVOD_RANK=0", NULL, NULL, NULL},
    {"HOROVOD_SIZE=1", NULL, NULL, NULL},
    {"HOROVOD_LOCAL_RANK=0", NULL, NULL, NULL},
    {"HOROVOD_LOCAL_SIZE=1", NULL, NULL, NULL},
    {"HOROVOD_CROSS_RANK=0", NULL, NULL, NULL},
    {"HOROVOD_CROSS_SIZE=1", NULL, NULL, NULL},
    {"HOROVOD_HOSTNAME=h", NULL, NULL, NULL},
    /* of Horovod's installation, which a module file may still set */
    {"HOROVOD_WITH_PYTORCH=1", NULL, NULL, NULL},
    {"HOROVOD_WITHOUT_MPI=1", NULL, NULL, NULL},
    {"HOROVOD_GPU_OPERATIONS=NCCL", NULL, NULL, NULL},
    {"HOROVOD_CUDA_HOME=/c", NULL, NULL, NULL},
    {"HOROVOD_NCCL_HOME=/n", NULL, NULL, NULL},
    {"HOROVOD_BUILD_ARCH_FLAGS=-mavx", NULL, NULL, NULL},
};

START_TEST(each_variable_is_taken_or_answered)
{
    struct hvd_config config;
    char text[OPTION_VALUE_BYTES + 1];
    load(&config, read_by_horovod[_i].variable, NULL);
    ck_assert_int_eq(warning_count, read_by_horovod[_i].word == NULL ? 0 : 1);
    if (read_by_horovod[_i].word != NULL) {
        size_t length = strcspn(read_by_horovod[_i].variable, "=");
        ck_assert_int_eq(strncmp(warning, read_by_horovod[_i].variable, length), 0);
        ck_assert_msg(strstr(warning, read_by_horovod[_i].word) != NULL, "%s", warning);
    }
    if (read_by_horovod[_i].option == NULL)
        return;
    config_value(&config, option_find(read_by_horovod[_i].option), text, sizeof(text));
    ck_assert_str_eq(text, read_by_horovod[_i].value);
}
END_TEST

START_TEST(no_answered_variable_is_left_out_above)
{
    bool listed = false;
    for (int i = 0; i < COUNT(read_by_horovod); i++) {
        size_t length = strcspn(read_by_horovod[i].variable, "=");
        listed = listed || (strlen(horovod_variables[_i].name) == length &&
                            memcmp(horovod_variables[_i].name, read_by_horovod[i].variable, length) == 0);
    }
    ck_assert_msg(listed, "%s", horovod_variables[_i].name);
}
END_TEST

static const struct {
    const char *first, *second, *value;
} disabled[] = {
    {"HOROVOD_STALL_CHECK_DISABLE=1", "HOROVOD_STALL_CHECK_TIME_SECONDS=5", "0"},
    {"HOROVOD_STALL_CHECK_TIME_SECONDS=5", "HOROVOD_STALL_CHECK_DISABLE=0", "5s"},
    {"HOROVOD_STALL_CHECK_DISABLE=1", "HVD_STALL_WARN=3s", "3s"},
    {"HVD_SITE=stall-warn=2s", "HOROVOD_STALL_CHECK_DISABLE=1", "0"},
};

START_TEST(a_disabled_check_is_off_unless_hvd_itself_is_told_otherwise)
{
    struct hvd_config config;
    char text[OPTION_VALUE_BYTES + 1];
    load(&config, disabled[_i].first, disabled[_i].second);
    config_value(&config, OPTION_OF(stall_warn_us), text, sizeof(text));
    ck_assert_str_eq(text, disabled[_i].value);
    ck_assert_int_eq(warning_count, 0);
}
END_TEST

START_TEST(a_switch_that_is_neither_0_nor_1_is_said_to_be_ignored)
{
    struct hvd_config config;
    load(&config, "HOROVOD_STALL_CHECK_DISABLE=yes", NULL);
    ck_assert_int_eq(warning_count, 1); /* though it belongs to several options */
    ck_assert_msg(strstr(warning, "expected 0 or 1; it is ignored") != NULL, "%s", warning);
    ck_assert_int_eq(config.stall_warn_us, 60000000);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("horovod");
    unit_add_rounds(tcase, each_variable_is_taken_or_answered, 0, COUNT(read_by_horovod));
    unit_add_rounds(tcase, no_answered_variable_is_left_out_above, 0, horovod_variable_count);
    unit_add_rounds(tcase, a_disabled_check_is_off_unless_hvd_itself_is_told_otherwise, 0, COUNT(disabled));
    tcase_add_test(tcase, a_switch_that_is_neither_0_nor_1_is_said_to_be_ignored);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("horovod", fill);
}
