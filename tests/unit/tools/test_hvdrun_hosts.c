/* test_hvdrun_hosts.c: lists of hosts, and how ranks are shared out among them. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "tools/hvdrun/launcher/hosts.h"

static struct host_list list;
static struct hvd_error err;

/* The list as "h1:4 h2:1", with the ranks if they were shared out. */
static const char *describe(void)
{
    static char text[256];
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < list.count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%d", i == 0 ? "" : " ",
                                 list.hosts[i].name, list.hosts[i].slots);
    return text;
}

struct text_case {
    const char *text;
    const char *hosts; /* NULL: it is refused */
    const char *says;  /* what the sentence contains then */
};

static const struct text_case lists[] = {
    {"n1", "n1:1", NULL},
    {"n1:4,n2:2", "n1:4 n2:2", NULL},
    {"n1,n1,n2:3,n1:2", "n1:4 n2:3", NULL},
    {"a.b-c_9:1", "a.b-c_9:1", NULL},
    {"10.0.0.1:4", "10.0.0.1:4", NULL},
    {"n1,", NULL, "'' is no host"},
    {",n1", NULL, "'' is no host"},
    {"n1:", NULL, "slots"},
    {"n1:0", NULL, "too small"},
    {"n1:-2", NULL, "slots"},
    {"n1:4:5", NULL, "slots"},
    {"n1:99999999", NULL, "too large"},
    {"n1:99999999999999999999999999999", NULL, "too long"},
    {"n1:1048576,n1", NULL, "more than"},
    {"-oProxyCommand=x:1", NULL, "is no host"},
    {"n1 n2", NULL, "is no host"},
    {"n1;rm", NULL, "is no host"},
    {"$(x)", NULL, "is no host"},
};

START_TEST(a_list_is_read)
{
    const struct text_case *one = &lists[_i];
    int status = host_list_parse(&list, "-H", one->text, &err);
    ck_assert_msg((status == HVD_OK) == (one->hosts != NULL), "%s: %s", one->text, err.text);
    if (one->hosts != NULL)
        ck_assert_str_eq(describe(), one->hosts);
    else
        ck_assert_msg(strncmp(err.text, "-H: ", 4) == 0 && strstr(err.text, one->says) != NULL, "%s",
                      err.text);
    host_list_free(&list);
}
END_TEST

static const struct text_case files[] = {
    {"n1 slots=4\nn2 slots=2\n", "n1:4 n2:2", NULL},
    {"# all\n\n n1\tslots=4 max_slots=8 # half\nn2:3", "n1:4 n2:3", NULL},
    {"n1\nn1\nn2\r\n", "n1:2 n2:1", NULL},
    {"n1 max-slots=2 slots=2\n", "n1:2", NULL},
    {"", NULL, "names no host"},
    {"# nothing\n", NULL, "names no host"},
    {"n1 slots=4\nn2 slot=4\n", NULL, "file, line 2: 'slot=4'"},
    {"n1:2 slots=4\n", NULL, "line 1: 'slots=4'"},
    {"n1 slots=4 max_slots=2\n", NULL, "max_slots=2"},
    {"n1 slots=\n", NULL, "line 1"},
    {"n1 slots=2 user=me\n", NULL, "'user=me'"},
};

START_TEST(a_file_is_read)
{
    const struct text_case *one = &files[_i];
    int status = host_list_parse_file(&list, "file", one->text, 1, &err);
    ck_assert_msg((status == HVD_OK) == (one->hosts != NULL), "%s: %s", one->text, err.text);
    if (one->hosts != NULL)
        ck_assert_str_eq(describe(), one->hosts);
    else
        ck_assert_msg(strstr(err.text, one->says) != NULL, "%s", err.text);
    host_list_free(&list);
}
END_TEST

START_TEST(hosts_without_a_number_have_those_that_are_asked_for)
{
    ck_assert_int_eq(host_list_parse_file(&list, "file", "n1\nn2:2\nn3 slots=1\nn1\n", 3, &err), HVD_OK);
    ck_assert_str_eq(describe(), "n1:6 n2:2 n3:1");
    host_list_free(&list);
}
END_TEST

START_TEST(long_lines_are_refused)
{
    static char text[4096];
    memset(text, 'x', sizeof(text) - 1);
    ck_assert_int_eq(host_list_parse_file(&list, "file", text, 1, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(host_list_parse(&list, "-H", text, &err), HVD_ERR_INVALID);
    ck_assert_int_eq(list.count, 0);
    ck_assert_int_eq(host_list_read(&list, "/nonexistent", 1, &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent"));
}
END_TEST

START_TEST(a_bad_list_leaves_the_old_one)
{
    ck_assert_int_eq(host_list_parse(&list, "-H", "n1:2", &err), HVD_OK);
    ck_assert_int_eq(host_list_parse(&list, "-H", "n2,n3:x", &err), HVD_ERR_INVALID);
    ck_assert_str_eq(describe(), "n1:2");
    host_list_free(&list);
}
END_TEST

struct lsf_case {
    const char *environment[3];
    const char *hosts;
};

static const struct lsf_case lsf_cases[] = {
    {{"LSB_MCPU_HOSTS=batch2 1 c1 42 c2 42 "}, "batch2:1 c1:42 c2:42"},
    {{"LSB_HOSTS=c1 c1 c2"}, "c1:2 c2:1"},
    {{"LSB_HOSTS=x", "LSB_MCPU_HOSTS=c1 2"}, "c1:2"},
    {{"LSB_JOBID=4"}, ""},
    {{"LSB_MCPU_HOSTS=c1"}, NULL},
    {{"LSB_MCPU_HOSTS=c1 x"}, NULL},
    {{"LSB_HOSTS=-a"}, NULL},
};

START_TEST(lsf_names_the_hosts_of_a_job)
{
    const struct lsf_case *one = &lsf_cases[_i];
    int status = host_list_of_lsf(&list, (char *const *)one->environment, &err);
    ck_assert_int_eq(status, one->hosts != NULL ? HVD_OK : HVD_ERR_INVALID);
    if (one->hosts != NULL)
        ck_assert_str_eq(describe(), one->hosts);
    host_list_free(&list);
}
END_TEST

static const struct {
    const char *environment[5];
    const char *hosts;
    int slots; /* that the user gives each node; 0: as Slurm says */
} slurm_cases[] = {
    {{"SLURM_JOB_NODELIST=n[1-3]", "SLURM_JOB_CPUS_PER_NODE=2(x3)"}, "n1:2 n2:2 n3:2", 0},
    {{"SLURM_JOB_NODELIST=a,r[1-2]n[08,10]x,b", "SLURM_JOB_CPUS_PER_NODE=4,8(x4),6"},
     "a:4 r1n08x:8 r1n10x:8 r2n08x:8 r2n10x:8 b:6",
     0},
    {{"SLURM_JOB_NODELIST=n[1-2]", "SLURM_JOB_CPUS_PER_NODE=8(x2)", "SLURM_CPUS_PER_TASK=3"}, "n1:2 n2:2", 0},
    {{"SLURM_JOB_NODELIST=n1", "SLURM_JOB_CPUS_PER_NODE=8", "SLURM_NTASKS_PER_NODE=5"}, "n1:5", 0},
    {{"SLURM_JOB_NODELIST=n[1-2]", "SLURM_JOB_CPUS_PER_NODE=8(x2)", "SLURM_NTASKS_PER_NODE=5"},
     "n1:3 n2:3",
     3},
    {{"SLURM_JOB_ID=1"}, NULL, 0},
    {{"SLURM_JOB_NODELIST=n[1-"}, NULL, 0},
    {{"SLURM_JOB_NODELIST=n[3-1]"}, NULL, 0},
    {{"SLURM_JOB_NODELIST=n[x]"}, NULL, 0},
    {{"SLURM_JOB_NODELIST=-n"}, NULL, 0},
};

START_TEST(slurm_names_the_hosts_of_a_job)
{
    int status =
        host_list_of_slurm(&list, (char *const *)slurm_cases[_i].environment, slurm_cases[_i].slots, &err);
    ck_assert_int_eq(status, slurm_cases[_i].hosts != NULL ? HVD_OK : HVD_ERR_INVALID);
    if (slurm_cases[_i].hosts != NULL)
        ck_assert_str_eq(describe(), slurm_cases[_i].hosts);
    host_list_free(&list);
}
END_TEST

static const struct {
    const char *text, *here, *elsewhere;
} places[] = {
    {"n1:2,n2", "n1", "n2"},
    {"n1", "n1", NULL},
    {"n1", "n1.site.org", NULL},
    {"n1.site.org", "n1", NULL},
    {"n1.site.org", "n1.other.org", "n1.site.org"},
    {"n12", "n1", "n12"},
    {"n1", "n12", "n1"},
    {"localhost:4,127.0.0.1", "n1", NULL},
};

START_TEST(this_machine_has_several_names)
{
    ck_assert_int_eq(host_list_parse(&list, "-H", places[_i].text, &err), HVD_OK);
    ck_assert_pstr_eq(host_list_elsewhere(&list, places[_i].here), places[_i].elsewhere);
    host_list_free(&list);
}
END_TEST

START_TEST(ranks_are_shared_out)
{
    static const int filled[] = {4, 3, 0}, spread[] = {3, 2, 2};
    ck_assert_int_eq(host_list_parse(&list, "-H", "a:4,b:4,c:1", &err), HVD_OK);
    ck_assert_int_eq(host_list_slots(&list), 9);
    host_list_fill(&list, 7);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(list.hosts[i].ranks, filled[i]);
    host_list_spread(&list, 7);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(list.hosts[i].ranks, spread[i]);
    host_list_free(&list);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("hosts");
    unit_add_rounds(tcase, a_list_is_read, 0, sizeof(lists) / sizeof(lists[0]));
    unit_add_rounds(tcase, a_file_is_read, 0, sizeof(files) / sizeof(files[0]));
    tcase_add_test(tcase, hosts_without_a_number_have_those_that_are_asked_for);
    tcase_add_test(tcase, long_lines_are_refused);
    tcase_add_test(tcase, a_bad_list_leaves_the_old_one);
    unit_add_rounds(tcase, lsf_names_the_hosts_of_a_job, 0, sizeof(lsf_cases) / sizeof(lsf_cases[0]));
    unit_add_rounds(tcase, slurm_names_the_hosts_of_a_job, 0, sizeof(slurm_cases) / sizeof(slurm_cases[0]));
    unit_add_rounds(tcase, this_machine_has_several_names, 0, sizeof(places) / sizeof(places[0]));
    tcase_add_test(tcase, ranks_are_shared_out);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_hosts", fill);
}
