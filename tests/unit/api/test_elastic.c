/* test_elastic.c: the calls of elastic states in a job of one rank: what they refuse, and who calls what. */
#include "config.h"
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hvd.h"
#include "temp_folder.h"

static hvd_state state;
static int64_t value;
static int resets, trainings;

static void begin(void)
{
    static const char *const foreign[] = {"PMIX_NAMESPACE", "PMIX_RANK",     "WORLD_SIZE",
                                          "RANK",           "SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE",
                                          "PMI_RANK",       "PMI_SIZE"};
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        unsetenv(foreign[i]);
    value = 1;
    ck_assert_int_eq(hvd_state_create(&state), HVD_OK);
    ck_assert_uint_ne(state, 0);
    ck_assert_int_eq(hvd_state_add(state, "value", &value, sizeof(value)), HVD_OK);
}

static void end(void)
{
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

static void must(enum hvd_status status)
{
    ck_assert_msg(status == HVD_OK, "status %d: %s", status, hvd_error_text());
}

static void expect(enum hvd_status status, enum hvd_status expected, const char *words)
{
    ck_assert_msg(status == expected, "status %d: %s", status, hvd_error_text());
    ck_assert_msg(strstr(hvd_error_text(), words) != NULL, "%s", hvd_error_text());
}

START_TEST(freed_states_and_null_are_refused)
{
    char words[64];
    hvd_state old = state;
    expect(hvd_state_create(NULL), HVD_ERR_INVALID, "hvd_state_create: statep is NULL");
    expect(hvd_state_add(0, "x", &value, 8), HVD_ERR_INVALID, "hvd_state_add: there is no state 0");
    expect(hvd_elastic_run(NULL, state, NULL), HVD_ERR_INVALID, "hvd_elastic_run: train is NULL");
    must(hvd_state_free(state));
    must(hvd_state_create(&state));
    ck_assert_uint_ne(state, old);
    snprintf(words, sizeof(words), ": there is no state %" PRIu64 "; ", old);
    expect(hvd_state_free(old), HVD_ERR_INVALID, words);
    expect(hvd_state_on_reset(old, NULL, NULL), HVD_ERR_INVALID, words);
    expect(hvd_state_sync(old), HVD_ERR_INVALID, words);
    expect(hvd_state_commit(old), HVD_ERR_INVALID, words);
    expect(hvd_state_check(old), HVD_ERR_INVALID, words);
    must(hvd_state_free(state));
}
END_TEST

START_TEST(a_commit_comes_after_a_sync_of_its_epoch)
{
    expect(hvd_state_sync(state), HVD_ERR_STATE, "hvd is not initialised");
    for (int job = 0; job < 2; job++) {
        must(hvd_init());
        expect(hvd_state_commit(state), HVD_ERR_STATE, "hvd_state_commit: the ranks do not have the same");
        expect(hvd_state_check(state), HVD_ERR_STATE, "hvd_state_check: the ranks do not have the same");
        must(hvd_state_sync(state));
        must(hvd_state_check(state));
        must(hvd_state_commit(state));
        must(hvd_shutdown());
    }
    expect(hvd_state_add(state, "late", &value, 8), HVD_ERR_STATE, "\"late\" comes after");
    must(hvd_state_free(state));
}
END_TEST

/* A program that calls hvd_state_sync itself. */
START_TEST(a_new_start_goes_back_to_the_commit)
{
    must(hvd_init());
    must(hvd_state_sync(state));
    value = 2;
    must(hvd_state_sync(state)); /* again in the same epoch: it changes nothing */
    ck_assert_int_eq(value, 2);
    must(hvd_shutdown());
    must(hvd_init());
    must(hvd_state_sync(state));
    ck_assert_int_eq(value, 1); /* that of the first sync */
    value = 3;
    must(hvd_state_commit(state));
    value = 4;
    must(hvd_shutdown());
    must(hvd_init());
    must(hvd_state_sync(state));
    ck_assert_int_eq(value, 3);
    must(hvd_state_free(state));
}
END_TEST

struct seen {
    enum hvd_status sync, commit, check, run;
};

static enum hvd_status train_never(hvd_state its_state, void *arg)
{
    (void)its_state;
    (void)arg;
    ck_abort_msg("it was called");
    return HVD_OK;
}

static void call_everything(enum hvd_status status, void *arg)
{
    struct seen *seen = arg;
    (void)status;
    seen->commit = hvd_state_commit(state);
    seen->check = hvd_state_check(state);
    seen->sync = hvd_state_sync(state);
    seen->run = hvd_elastic_run(train_never, state, NULL);
}

START_TEST(callbacks_are_refused_and_leave_the_commit)
{
    struct seen seen = {.sync = HVD_OK};
    hvd_handle handle = 0;
    must(hvd_init());
    must(hvd_state_sync(state));
    value = 2;
    must(hvd_barrier_async(HVD_ALL_RANKS, call_everything, &seen, &handle));
    must(hvd_wait(handle));
    ck_assert_int_eq(seen.sync, HVD_ERR_STATE);
    ck_assert_int_eq(seen.commit, HVD_ERR_STATE);
    ck_assert_int_eq(seen.check, HVD_ERR_STATE);
    ck_assert_int_eq(seen.run, HVD_ERR_STATE);
    must(hvd_shutdown());
    must(hvd_init());
    must(hvd_state_sync(state));
    ck_assert_int_eq(value, 1); /* the callback made no commit of 2 */
    must(hvd_state_free(state));
}
END_TEST

static void count_reset(void *arg)
{
    ck_assert_ptr_eq(arg, &resets);
    ck_assert_int_eq(hvd_is_initialized(), 1);
    resets++;
}

/* Ranks part twice; the state stays as it is, also without a commit. */
static enum hvd_status train(hvd_state its_state, void *arg)
{
    ck_assert_uint_eq(its_state, state);
    ck_assert_ptr_eq(arg, &trainings);
    ck_assert_int_eq(value, 1 + trainings);
    ck_assert_int_eq(resets, ++trainings);
    expect(hvd_elastic_run(train_never, state, NULL), HVD_ERR_STATE, "it already runs with this state");
    expect(hvd_state_free(state), HVD_ERR_STATE, "hvd_elastic_run uses this state");
    value++;
    return trainings < 3 ? HVD_NEW_RANKS : HVD_ERR_DUPLICATE;
}

START_TEST(each_epoch_is_reset_and_trained)
{
    resets = trainings = 0;
    must(hvd_state_on_reset(state, count_reset, &resets));
    ck_assert_int_eq(hvd_elastic_run(train, state, &trainings), HVD_ERR_DUPLICATE);
    ck_assert_int_eq(trainings, 3);
    ck_assert_int_eq(value, 4);
    ck_assert_int_eq(hvd_is_initialized(), 1);
    must(hvd_state_free(state));
}
END_TEST

/* ---- On disk ------------------------------------------------------------------------------------ */

static void begin_on_disk(void)
{
    folder_empty();
    setenv("HVD_STATE_DIR", folder, 1);
    begin();
}

static void free_and_end(void)
{
    must(hvd_state_free(state));
    end();
}

/* Let another process train; it begins with the state [from] and ends with [to]. */
static void train_elsewhere(int64_t from, int64_t to)
{
    int status = -1;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool good = hvd_init() == HVD_OK && hvd_state_sync(state) == HVD_OK && value == from;
        value = to;
        good = good && hvd_state_commit(state) == HVD_OK;
        value = -1; /* after the commit */
        good = good && hvd_state_free(state) == HVD_OK && hvd_shutdown() == HVD_OK;
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(the_next_process_goes_on_from_the_disk)
{
    train_elsewhere(1, 5);
    train_elsewhere(5, 6);
    must(hvd_init());
    must(hvd_state_sync(state));
    ck_assert_int_eq(value, 6);
    ck_assert_str_eq(hvd_state_dir(), folder);
}
END_TEST

static enum hvd_status commit_and_fail(hvd_state its_state, void *arg)
{
    (void)arg;
    value = 7;
    must(hvd_state_commit(its_state));
    return HVD_ERR_DUPLICATE;
}

/* The value in a file, which lies before its last checksum. -1: there is no such file. */
static int64_t value_in(const char *name)
{
    char path[100];
    int64_t found = -1;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    ck_assert_int_eq(fseek(file, -32 - (long)sizeof(found), SEEK_END), 0);
    ck_assert_uint_eq(fread(&found, sizeof(found), 1, file), 1);
    fclose(file);
    return found;
}

START_TEST(hvd_elastic_run_returns_when_its_commit_is_on_disk)
{
    ck_assert_int_eq(hvd_elastic_run(commit_and_fail, state, NULL), HVD_ERR_DUPLICATE);
    ck_assert(value_in("hvd-state.1.a") == 7 || value_in("hvd-state.1.b") == 7);
    must(hvd_state_free(state));
    must(hvd_shutdown());
    begin();
    train_elsewhere(1, 2); /* the second state of this program has files of its own */
    ck_assert(value_in("hvd-state.2.a") == 2 || value_in("hvd-state.2.b") == 2);
}
END_TEST

static void write_bytes_elsewhere(const char *text)
{
    int status = -1;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool good = hvd_init() == HVD_OK &&
                    hvd_state_write(state, "text", text, (int64_t)strlen(text) + 1) == HVD_OK &&
                    hvd_state_free(state) == HVD_OK && hvd_shutdown() == HVD_OK;
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(bytes_of_any_number_come_back)
{
    void *data = &data;
    int64_t bytes = -1;
    must(hvd_state_free(state));
    must(hvd_state_create(&state));
    write_bytes_elsewhere("some text");
    write_bytes_elsewhere("and a longer one");
    must(hvd_init());
    must(hvd_state_read(state, "text", &data, &bytes));
    ck_assert_int_eq(bytes, (int64_t)sizeof("and a longer one"));
    ck_assert_str_eq(data, "and a longer one");
    free(data);
    expect(hvd_state_read(state, "other", &data, &bytes), HVD_ERR_MISMATCH,
           "holds \"text\", and this program has \"other\"; no commit in --hvd-state-dir can be used");
    ck_assert_ptr_null(data);
    ck_assert_int_eq(bytes, 0);
}
END_TEST

START_TEST(wrong_bytes_are_refused)
{
    void *data = NULL;
    int64_t bytes = 0;
    expect(hvd_state_write(state, "text", &value, 8), HVD_ERR_STATE, "hvd is not initialised");
    must(hvd_init());
    expect(hvd_state_write(state, "text", &value, 8), HVD_ERR_STATE, "hvd_state_write: the state has parts");
    expect(hvd_state_read(state, "text", &data, &bytes), HVD_ERR_STATE,
           "hvd_state_read: the state has parts");
    must(hvd_state_free(state));
    must(hvd_state_create(&state));
    expect(hvd_state_write(state, "text", NULL, 8), HVD_ERR_INVALID, "expected 1 to 2^47, and not NULL");
    expect(hvd_state_write(state, "text", &value, 0), HVD_ERR_INVALID, "hvd_state_write: 0 bytes");
    ck_assert_int_eq(hvd_state_write(state, "text", NULL, 0), HVD_OK);
    expect(hvd_state_write(state, "", &value, 8), HVD_ERR_INVALID, "hvd_state_write: a part needs a name");
    expect(hvd_state_read(state, "a\tb", &data, &bytes), HVD_ERR_INVALID, "control character 9");
    expect(hvd_state_read(state, "text", NULL, &bytes), HVD_ERR_INVALID, "datap or bytesp is NULL");
    must(hvd_state_read(state, "text", &data, &bytes));
    ck_assert_ptr_null(data);
    ck_assert_int_eq(bytes, 0);
}
END_TEST

START_TEST(a_relative_folder_stays_where_it_is_when_the_program_goes_elsewhere)
{
    void *data = NULL;
    int64_t bytes = 0;
    folder_put("there/file", "");
    must(hvd_state_free(state));
    must(hvd_state_create(&state));
    setenv("HVD_STATE_DIR", "disk", 1);
    ck_assert_int_eq(chdir(folder), 0);
    must(hvd_init());
    must(hvd_state_read(state, "text", &data, &bytes));
    ck_assert_int_eq(chdir("there"), 0);
    must(hvd_state_write(state, "text", "a text", 7));
    must(hvd_state_free(state));
    ck_assert_int_eq(access("disk", F_OK), -1);
    ck_assert_int_eq(access("../disk/hvd-state.1.a", F_OK), 0);
    ck_assert_int_eq(chdir("/"), 0);
    must(hvd_state_create(&state));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("elastic");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, freed_states_and_null_are_refused);
    tcase_add_test(tcase, a_commit_comes_after_a_sync_of_its_epoch);
    tcase_add_test(tcase, a_new_start_goes_back_to_the_commit);
    tcase_add_test(tcase, callbacks_are_refused_and_leave_the_commit);
    tcase_add_test(tcase, each_epoch_is_reset_and_trained);
    suite_add_tcase(suite, tcase);
    TCase *disk = tcase_create("disk");
    tcase_add_unchecked_fixture(disk, folder_make, folder_remove);
    tcase_add_checked_fixture(disk, begin_on_disk, free_and_end);
    tcase_add_test(disk, the_next_process_goes_on_from_the_disk);
    tcase_add_test(disk, hvd_elastic_run_returns_when_its_commit_is_on_disk);
    tcase_add_test(disk, bytes_of_any_number_come_back);
    tcase_add_test(disk, wrong_bytes_are_refused);
    tcase_add_test(disk, a_relative_folder_stays_where_it_is_when_the_program_goes_elsewhere);
    suite_add_tcase(suite, disk);
}

int main(void)
{
    return unit_run("elastic", fill);
}
