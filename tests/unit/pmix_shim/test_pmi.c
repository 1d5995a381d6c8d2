/* test_pmi.c: PMI-1 with a launcher of the test's, which answers rightly, wrongly or not at all. */
#include "config.h"
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "pmix_shim/pmi_client.h"
#include "pmix_shim/provider.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static struct token token_of(const char *text)
{
    return (struct token){text, strlen(text)};
}

/* ---- Text ----------------------------------------------------------------------------------------- */

static const struct {
    const char *answer, *name, *value; /* NULL: there is none */
} fields[] = {
    {"cmd=get_result rc=0 msg=success value=a=b", "cmd", "get_result"},
    {"cmd=get_result rc=0 msg=success value=a=b", "value", "a=b"},
    {"cmd=get_result rc=0 msg=success value=a=b", "val", NULL},
    {"cmd=get_result rc=0 msg=success value=a=b", "success", NULL},
    {"xcmd=a cmd=b cmd=c", "cmd", "b"},
    {"cmd=", "cmd", ""},
    {"cmd", "cmd", NULL},
    {"", "cmd", NULL},
};

START_TEST(a_field_is_found_by_its_whole_name)
{
    struct token value = {NULL, 0};
    bool found = pmi_text_field(fields[_i].answer, fields[_i].name, &value);
    ck_assert_int_eq(found, fields[_i].value != NULL);
    ck_assert(!found || token_equals(value, fields[_i].value));
}
END_TEST

static const struct {
    const char *mapping;
    int size, rank;
    const char *ranks; /* "": not known */
} mappings[] = {
    {"(vector,(0,2,2))", 4, 3, "2 3 "},
    {"(vector,(0,1,1))", 3, 1, "0 1 2 "}, /* mpiexec on one node */
    {"(vector,(0,2,1))", 4, 2, "0 2 "},   /* begins again */
    {"(vector,(0,3,2),(0,1,1))", 7, 6, "0 1 6 "},
    {"(vector,(5,1,3),(0,1,1))", 4, 3, "3 "},
    {"(vector,(0,1,4))", 2, 0, "0 1 "},
    {"(vector)", 2, 0, ""},
    {"(vector,(0,1,0))", 2, 0, ""},
    {"(vector,(0,0,1))", 2, 0, ""},
    {"(vector,(0,1,1)", 2, 0, ""},
    {"(vector,(0,1,-1))", 2, 0, ""},
    {"(vector,(0,1,99999999999))", 2, 0, ""},
    {"(vector,(0,1,1),x)", 2, 1, ""},
    {"(flat,(0,1,1))", 2, 0, ""},
    {"", 2, 0, ""},
};

START_TEST(a_mapping_tells_who_is_on_the_node)
{
    char text[64] = "";
    int ranks[8] = {0};
    int count =
        pmi_text_local_ranks(token_of(mappings[_i].mapping), mappings[_i].size, mappings[_i].rank, ranks);
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ", ranks[i]);
    ck_assert_str_eq(text, mappings[_i].ranks);
}
END_TEST

static const struct {
    const char *first, *second; /* pieces */
    const char *why;            /* NULL: they are "abc" */
} pieces[] = {
    {"3.YW", "Jj", NULL},
    {"3.YWJj", NULL, NULL},
    {"YWJj", NULL, "does not begin with a length"},
    {"-3.YWJj", NULL, "does not begin with a length"},
    {"65537.YWJj", NULL, "does not begin with a length of at most 65536"},
    {"3.", "YWJjZGVm", "a piece of it has 8 characters; expected between 1 and 4"},
    {"3.YW", "", "a piece of it has 0 characters"},
    {"3.YWJjZ", NULL, "a piece of it has 7 characters"},
    {"3.YW", "*j", "it is no base64"},
    {"2.YWJ", NULL, "it is no base64"}, /* bits that belong to no byte */
};

START_TEST(pieces_make_a_blob_or_a_sentence)
{
    struct pmi_blob_text text = {NULL, 0, 0};
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    int rc = pmi_blob_text_add(&text, token_of(pieces[_i].first), &err);
    if (rc == HVD_IN_PROGRESS)
        rc = pmi_blob_text_add(&text, token_of(pieces[_i].second), &err);
    if (rc == HVD_OK)
        rc = pmi_blob_text_decode(&text, &blob, &err);
    pmi_blob_text_free(&text);
    if (pieces[_i].why == NULL) {
        ck_assert_msg(rc == HVD_OK, "%s", err.text);
        ck_assert_uint_eq(blob.length, 3);
        ck_assert_mem_eq(blob.bytes, "abc", 3);
        free(blob.bytes);
    } else {
        ck_assert_int_eq(rc, HVD_ERR_MISMATCH);
        ck_assert_msg(strstr(err.text, pieces[_i].why) != NULL, "%s", err.text);
    }
}
END_TEST

/* ---- A launcher of one rank ----------------------------------------------------------------------- */

#define ENTRIES 256

static struct {
    int fd;
    int inits, barriers;
    size_t longest;                 /* line */
    const char *command, *answer;   /* answer this command so; NULL: nothing */
    char entries[ENTRIES][2][1024]; /* keys and values */
    int count;
} launcher;

static void answer_get(const char *key, char *answer, size_t answer_bytes)
{
    snprintf(answer, answer_bytes, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    for (int i = 0; i < launcher.count; i++)
        if (strcmp(launcher.entries[i][0], key) == 0)
            snprintf(answer, answer_bytes, "cmd=get_result rc=0 msg=success value=%s\n",
                     launcher.entries[i][1]);
}

static void answer_rightly(const char *line, char *answer, size_t answer_bytes)
{
    char key[1024], value[1024];
    if (strncmp(line, "cmd=init ", 9) == 0 && ++launcher.inits > 0)
        snprintf(answer, answer_bytes, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
    else if (strcmp(line, "cmd=get_maxes\n") == 0)
        snprintf(answer, answer_bytes, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    else if (strcmp(line, "cmd=get_my_kvsname\n") == 0)
        snprintf(answer, answer_bytes, "cmd=my_kvsname kvsname=kvs_1_0\n");
    else if (sscanf(line, "cmd=put kvsname=kvs_1_0 key=%1023s value=%1023s", key, value) == 2) {
        ck_assert_int_lt(launcher.count, ENTRIES);
        memcpy(launcher.entries[launcher.count][0], key, sizeof(key));
        memcpy(launcher.entries[launcher.count++][1], value, sizeof(value));
        snprintf(answer, answer_bytes, "cmd=put_result rc=0 msg=success\n");
    } else if (sscanf(line, "cmd=get kvsname=kvs_1_0 key=%1023s", key) == 1)
        answer_get(key, answer, answer_bytes);
    else if (strcmp(line, "cmd=barrier_in\n") == 0 && ++launcher.barriers > 0)
        snprintf(answer, answer_bytes, "cmd=barrier_out\n");
    else
        snprintf(answer, answer_bytes, "cmd=finalize_ack\n");
}

/* Answers until the other end is closed. What it reads at once is one request, as Slurm takes it. */
static void *launch(void *arg)
{
    static char line[8192], answer[2048];
    (void)arg;
    for (;;) {
        ssize_t got = recv(launcher.fd, line, sizeof(line) - 1, 0);
        if (got <= 0)
            return NULL;
        line[got] = 0;
        launcher.longest = (size_t)got > launcher.longest ? (size_t)got : launcher.longest;
        answer_rightly(line, answer, sizeof(answer));
        if (launcher.command != NULL && strncmp(line + 4, launcher.command, strlen(launcher.command)) == 0) {
            if (launcher.answer == NULL)
                continue;
            snprintf(answer, sizeof(answer), "%s", launcher.answer);
        }
        ck_assert_int_eq(send(launcher.fd, answer, strlen(answer), MSG_NOSIGNAL), (ssize_t)strlen(answer));
    }
}

static void start_launcher(void)
{
    int fds[2];
    char text[16];
    pthread_t thread;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    launcher.fd = fds[0];
    snprintf(text, sizeof(text), "%d", fds[1]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, launch, NULL), 0);
    pthread_detach(thread);
}

static int open_pmi(int64_t limit_us, struct hvd_job *job, void **statep, struct hvd_error *err)
{
    *job = (struct hvd_job){.local_rank = -1, .local_size = -1};
    return wireup_pmi_ops.open(NULL, NULL, clock_us() + limit_us, job, statep, err);
}

#define PATIENCE_US INT64_C(20000000)

static void exchange(void *state, size_t length)
{
    static unsigned char bytes[WIREUP_BLOB_BYTES];
    struct wireup_blob blob = {NULL, 0};
    struct hvd_error err = {""};
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    ck_assert_int_eq(wireup_pmi_ops.put(state, "hvd.0.blob", bytes, length, &err), HVD_OK);
    ck_assert_int_eq(wireup_pmi_ops.fence(state, clock_us() + PATIENCE_US, &err), HVD_OK);
    int rc = wireup_pmi_ops.get(state, 0, "hvd.0.blob", clock_us() + PATIENCE_US, &blob, &err);
    ck_assert_msg(rc == HVD_OK, "%s", err.text);
    ck_assert_uint_eq(blob.length, length);
    ck_assert_mem_eq(blob.bytes, bytes, length);
    free(blob.bytes);
}

START_TEST(a_job_joins_once_and_starts_twice)
{
    struct hvd_job job;
    struct hvd_error err = {""};
    struct wireup_blob blob = {NULL, 0};
    void *state = NULL;
    start_launcher();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_OK);
        ck_assert_int_eq(job.rank, 0);
        ck_assert_int_eq(job.size, 1);
        /* the blob of the start before is not this one's */
        ck_assert_int_eq(wireup_pmi_ops.get(state, 0, "hvd.0.blob", clock_us() + PATIENCE_US, &blob, &err),
                         HVD_ERR_MISMATCH);
        exchange(state, i == 0 ? WIREUP_BLOB_BYTES : 0);
        wireup_pmi_ops.close(state);
    }
    ck_assert_int_eq(launcher.inits, 1);
    ck_assert_int_eq(launcher.barriers, 2);
    ck_assert_uint_le(launcher.longest, 1000);
}
END_TEST

static const struct {
    const char *command, *answer;
    int status;
    const char *why;
} lies[] = {
    {"init", "cmd=response_to_init rc=1 pmi_version=2\n", HVD_ERR_INVALID, "does not speak PMI-1"},
    {"init", "cmd=maxes\n", HVD_ERR_SYSTEM, "answered 'cmd=maxes'; expected response_to_init"},
    {"init", "\n", HVD_ERR_SYSTEM, "answered ''; expected response_to_init"},
    {"init", "cmd=response_to_init\ncmd=maxes\n", HVD_ERR_SYSTEM, "not one line of text"},
    {"get_maxes", "cmd=maxes rc=0\n", HVD_ERR_SYSTEM, "has no keylen_max"},
    {"get_maxes", "cmd=maxes keylen_max=8 vallen_max=1024\n", HVD_ERR_SYSTEM, "expected at least 64"},
    {"get_maxes", "cmd=maxes keylen_max=64 vallen_max=-1\n", HVD_ERR_SYSTEM, "vallen_max"},
    {"get_maxes", "cmd=maxes keylen_max=64 vallen_max=99999999999\n", HVD_ERR_SYSTEM, "is too large"},
    {"get_my_kvsname", "cmd=my_kvsname\n", HVD_ERR_SYSTEM, "has no kvsname"},
    {"get_my_kvsname", "cmd=my_kvsname kvsname=\n", HVD_ERR_SYSTEM, "a name of 0 bytes"},
};

START_TEST(a_wrong_answer_is_told)
{
    struct hvd_job job;
    struct hvd_error err = {""};
    void *state = NULL;
    launcher.command = lies[_i].command;
    launcher.answer = lies[_i].answer;
    start_launcher();
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), lies[_i].status);
    ck_assert_msg(strstr(err.text, lies[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_null(state);
}
END_TEST

START_TEST(an_endless_answer_is_cut)
{
    static char endless[2048];
    struct hvd_job job;
    struct hvd_error err = {""};
    void *state = NULL;
    memset(endless, 'x', sizeof(endless) - 1);
    launcher.command = "init";
    launcher.answer = endless;
    start_launcher();
    int fd = launcher.fd; /* more follows than one line may hold */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(send(fd, endless, sizeof(endless) - 1, 0), (ssize_t)sizeof(endless) - 1);
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(err.text, "sent more than 4096 bytes at once") != NULL, "%s", err.text);
}
END_TEST

START_TEST(silence_ends_in_time_and_is_final)
{
    struct hvd_job job;
    struct hvd_error err = {""};
    void *state = NULL;
    launcher.command = "barrier_in";
    start_launcher();
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_OK);
    int64_t begin_us = clock_us();
    ck_assert_int_eq(wireup_pmi_ops.fence(state, begin_us + 50000, &err), HVD_ERR_TIMEOUT);
    ck_assert_int_lt(clock_us() - begin_us, PATIENCE_US);
    ck_assert_msg(strstr(err.text, "not all ranks joined in time") != NULL, "%s", err.text);
    wireup_pmi_ops.close(state);
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_ERR_STATE);
    ck_assert_msg(strstr(err.text, "gave up waiting") != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_connection_that_is_gone_is_told)
{
    struct hvd_job job;
    struct hvd_error err = {""};
    void *state = NULL;
    int fds[2];
    char text[16];
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    setenv("PMI_FD", "77", 1);
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, "PMI_FD=77 is no connection to a launcher") != NULL, "%s", err.text);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    close(fds[0]);
    snprintf(text, sizeof(text), "%d", fds[1]);
    setenv("PMI_FD", text, 1);
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_ERR_RANK_LOST);
    ck_assert_msg(strstr(err.text, "has closed the connection") != NULL, "%s", err.text);
}
END_TEST

static const struct {
    const char *name, *value, *why;
} variables[] = {
    {"PMI_RANK", NULL, "PMI_FD says that PMI started this job, but PMI_RANK is not set"},
    {"PMI_RANK", "1", "PMI_RANK=1: expected a whole number between 0 and 0"},
    {"PMI_SIZE", "0", "PMI_SIZE=0: expected a whole number between 1 and"},
    {"PMI_SIZE", "many", "PMI_SIZE=many"},
    {"PMI_FD", "-1", "PMI_FD=-1"},
};

START_TEST(a_wrong_variable_is_told)
{
    struct hvd_job job;
    struct hvd_error err = {""};
    void *state = NULL;
    start_launcher();
    if (variables[_i].value == NULL)
        unsetenv(variables[_i].name);
    else
        setenv(variables[_i].name, variables[_i].value, 1);
    ck_assert_int_eq(open_pmi(PATIENCE_US, &job, &state, &err), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, variables[_i].why) != NULL, "%s", err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("pmi");
    tcase_add_loop_test(tcase, a_field_is_found_by_its_whole_name, 0, COUNT(fields));
    tcase_add_loop_test(tcase, a_mapping_tells_who_is_on_the_node, 0, COUNT(mappings));
    tcase_add_loop_test(tcase, pieces_make_a_blob_or_a_sentence, 0, COUNT(pieces));
    tcase_add_test(tcase, a_job_joins_once_and_starts_twice);
    tcase_add_loop_test(tcase, a_wrong_answer_is_told, 0, COUNT(lies));
    tcase_add_test(tcase, an_endless_answer_is_cut);
    tcase_add_test(tcase, silence_ends_in_time_and_is_final);
    tcase_add_test(tcase, a_connection_that_is_gone_is_told);
    tcase_add_loop_test(tcase, a_wrong_variable_is_told, 0, COUNT(variables));
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("pmi", fill);
}
