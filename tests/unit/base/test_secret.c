/* test_secret.c: for which job a secret counts, and that a drawn one is not drawn twice. */
#include "unit.h"

#include <string.h>

#include "auth/secret_key.h"
#include "base/secret.h"

static const struct {
    const char *variables[5]; /* the first is the secret */
    bool counts;
} jobs[] = {
    {{"HVD_JOB_KEY=the user's own secret"}, true},
    {{"HVD_JOB_KEY=the user's own secret", "PMIX_NAMESPACE=slurm.pmix.7.0"}, true},
    {{"HVD_JOB_KEY=hvdrun is a nice word", "PMIX_NAMESPACE=slurm.pmix.7.0"}, true},
    {{"HVD_JOB_KEY=slurm:00", "PMIX_NAMESPACE=slurm.pmix.7.0"}, true},
    {{"HVD_JOB_KEY=hvdrun:00", "PMIX_NAMESPACE=hvdrun.n1.00"}, true},
    /* inherited from a job outside this one */
    {{"HVD_JOB_KEY=slurm:00", "PMIX_NAMESPACE=hvdrun.n1.00"}, false},
    {{"HVD_JOB_KEY=slurm:00", "PMIX_NAMESPACE=1234567.1"}, false},
    {{"HVD_JOB_KEY=hvdrun:00", "PMIX_NAMESPACE=slurm.pmix.7.0"}, false},
    {{"HVD_JOB_KEY=hvdrun:00", "PMIX_NAMESPACE=hvdrunner"}, false},
    {{"HVD_JOB_KEY=slurm:00"}, false},
    {{"HVD_JOB_KEY=slurm:00", "SLURM_STEP_ID=0"}, true},
    {{"HVD_JOB_KEY=hvdrun:00", "SLURM_STEP_ID=0"}, false},
    /* PMI, of Slurm and of an mpiexec inside a step */
    {{"HVD_JOB_KEY=slurm:00", "SLURM_STEP_ID=0", "PMI_FD=6", "PMI_JOBID=7.0"}, true},
    {{"HVD_JOB_KEY=slurm:00", "SLURM_STEP_ID=0", "PMI_FD=6"}, false},
    {{"HVD_JOB_KEY=hvdrun:00", "PMI_FD=6"}, false},
    {{"HVD_JOB_KEY=hvdrun:00", "HVD_EPOCHS=127.0.0.1 9 0 2"}, false},
    {{"HVD_JOB_KEY=hvdrun:00", "HVD_EPOCHS=127.0.0.1 9 0 2 newcomer"}, true},
    {{"HVD_JOB_KEY=slurm:00", "HVD_EPOCHS=127.0.0.1 9 0 2 newcomer"}, false},
    {{"HVD_JOB_KEYS=slurm:00", "PMIX_NAMESPACE=slurm.pmix.7.0"}, false},
};

START_TEST(a_drawn_secret_counts_in_its_launchers_jobs)
{
    char *const *environment = (char *const *)jobs[_i].variables;
    const char *secret = secret_of_job(environment);
    ck_assert_int_eq(secret != NULL, jobs[_i].counts);
    if (secret != NULL)
        ck_assert_str_eq(secret, jobs[_i].variables[0] + strlen("HVD_JOB_KEY="));
}
END_TEST

START_TEST(secrets_are_long_and_drawn_anew)
{
    char first[SECRET_TEXT_BYTES], second[SECRET_TEXT_BYTES];
    ck_assert_int_eq(secret_draw(SECRET_OF_HVDRUN, first), 0);
    ck_assert_int_eq(secret_draw(SECRET_OF_HVDRUN, second), 0);
    ck_assert_uint_eq(strlen(first), strlen("hvdrun:") + 64); /* 256 bits */
    ck_assert_uint_eq(strspn(first + 7, "0123456789abcdef"), 64);
    ck_assert_str_ne(first, second);
    ck_assert_int_ne(strncmp(first + 7, first + 7 + 32, 32), 0);
    ck_assert(secret_is_drawn(first));
    ck_assert(!secret_is_drawn("hvdrun"));
    ck_assert_int_eq(secret_key_check(first, NULL), HVD_OK);
}
END_TEST

START_TEST(a_secret_that_can_be_guessed_is_refused)
{
    static const struct {
        size_t length;
        const char *why;
    } texts[] = {{0, "too short"}, {15, "too short"}, {16, NULL}, {4096, NULL}, {4097, "too long"}};
    static char text[5000];
    struct hvd_error err = {""};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        memset(text, 'x', texts[i].length);
        text[texts[i].length] = 0;
        int rc = secret_key_check(text, &err);
        ck_assert_int_eq(rc, texts[i].why == NULL ? HVD_OK : HVD_ERR_INVALID);
        if (texts[i].why != NULL)
            ck_assert_msg(strstr(err.text, texts[i].why) != NULL, "%s", err.text);
        ck_assert_ptr_null(strstr(err.text, "xxx")); /* no message shows it */
    }
    ck_assert_int_eq(secret_key_check(NULL, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "HVD_JOB_KEY is not set") != NULL, "%s", err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("secret");
    tcase_add_loop_test(tcase, a_drawn_secret_counts_in_its_launchers_jobs, 0,
                        sizeof(jobs) / sizeof(jobs[0]));
    tcase_add_test(tcase, secrets_are_long_and_drawn_anew);
    tcase_add_test(tcase, a_secret_that_can_be_guessed_is_refused);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("secret", fill);
}
