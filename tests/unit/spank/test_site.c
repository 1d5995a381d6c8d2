/* test_site.c: the arguments of our line in plugstack.conf. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/site.h"

static int sentences;
static char last[512];

static void keep_sentence(const char *sentence)
{
    sentences++;
    snprintf(last, sizeof(last), "%s", sentence);
}

START_TEST(no_arguments_decide_nothing)
{
    struct site site;
    site_read(&site, 0, NULL, keep_sentence);
    ck_assert(!site.keep_mpi);
    ck_assert_str_eq(site.list, "");
    ck_assert_int_eq(sentences, 0);
}
END_TEST

START_TEST(options_and_mpi_are_taken)
{
    struct site site;
    const char *arguments[] = {"fusion=8M", "mpi=keep", "lease=9s"};
    site_read(&site, 3, (char *const *)arguments, keep_sentence);
    ck_assert(site.keep_mpi);
    ck_assert_str_eq(site.list, "fusion=8M;lease=9s");
    ck_assert_int_eq(sentences, 0);
}
END_TEST

static const struct {
    const char *argument;
    int first, count; /* 0: it is refused */
} ports[] = {
    {"ports=60001-61000", 60001, 1000},
    {"ports=7000", 7000, 1},
    {"ports=1-65535", 1, 65535},
    {"ports=7000-6999", 0, 0},
    {"ports=0-10", 0, 0},
    {"ports=65536", 0, 0},
    {"ports=", 0, 0},
    {"ports=1-2-3", 0, 0},
    {"ports=-5", 0, 0},
};

START_TEST(a_range_of_ports_is_taken)
{
    struct site site;
    char *arguments[] = {(char *)ports[_i].argument};
    site_read(&site, 1, arguments, keep_sentence);
    ck_assert_int_eq(site.first_port, ports[_i].first);
    ck_assert_int_eq(site.port_count, ports[_i].count);
    ck_assert_int_eq(sentences, ports[_i].count == 0);
}
END_TEST

START_TEST(the_ports_of_srun_go_before_those_of_a_node)
{
    char text[SITE_PORTS_BYTES] = "";
    struct site node = {.first_port = 25000, .port_count = 3};
    const struct site of_srun = {.first_port = ports[_i].first, .port_count = ports[_i].count};
    ck_assert_int_eq(site_describe_ports(&of_srun, text), ports[_i].count > 0);
    site_take_ports(&node, text);
    ck_assert_int_eq(node.first_port, ports[_i].count > 0 ? ports[_i].first : 25000);
    ck_assert_int_eq(node.port_count, ports[_i].count > 0 ? ports[_i].count : 3);
    site_take_ports(&node, "25000-99999");
    ck_assert_int_ne(node.port_count, 75000);
}
END_TEST

START_TEST(the_site_may_keep_steps_whose_tasks_fail)
{
    struct site site;
    const char *arguments[] = {"kill=keep", "kill=early", "kill=all"};
    site_read(&site, 1, (char *const *)arguments, keep_sentence);
    ck_assert(site.keep_kill);
    site_read(&site, 3, (char *const *)arguments, keep_sentence);
    ck_assert(!site.keep_kill);
    ck_assert_int_eq(sentences, 1);
    ck_assert_str_eq(last, "plugstack.conf: kill=all: expected keep or early");
}
END_TEST

START_TEST(a_topology_is_taken)
{
    struct site site;
    static char path[OPTION_VALUE_BYTES + 20] = "topology=/";
    char *arguments[] = {path};
    memset(path + 10, 'a', OPTION_VALUE_BYTES - 1);
    site_read(&site, 1, arguments, keep_sentence);
    ck_assert_int_eq(sentences, 0);
    ck_assert_str_eq(site.topology, path + 9);
    path[10 + OPTION_VALUE_BYTES - 1] = 'a';
    site_read(&site, 1, arguments, keep_sentence);
    ck_assert_int_eq(sentences, 1);
    ck_assert_str_eq(site.topology, "");
}
END_TEST

START_TEST(all_steps_may_use_hvd)
{
    struct site site;
    const char *arguments[] = {"steps=all", "steps=hvd"};
    site_read(&site, 1, (char *const *)arguments, keep_sentence);
    ck_assert(site.all_steps);
    site_read(&site, 2, (char *const *)arguments, keep_sentence);
    ck_assert(!site.all_steps);
    ck_assert_int_eq(sentences, 0);
}
END_TEST

START_TEST(options_may_be_forced)
{
    struct site site;
    const char *arguments[] = {"fusion=8M", "force=encrypt=on", "force=state-dir=/a=b"};
    site_read(&site, 3, (char *const *)arguments, keep_sentence);
    ck_assert_str_eq(site.list, "fusion=8M;force=encrypt=on;force=state-dir=/a=b");
    ck_assert_int_eq(sentences, 0);
}
END_TEST

START_TEST(a_file_switches_hvd_off)
{
    struct site site;
    char path[] = "/tmp/hvd-off.XXXXXX", argument[sizeof(path) + 4];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(argument, sizeof(argument), "off=%s", path);
    const char *arguments[] = {argument};
    site_read(&site, 0, NULL, keep_sentence);
    ck_assert(!site_is_off(&site));
    site_read(&site, 1, (char *const *)arguments, keep_sentence);
    ck_assert(site_is_off(&site));
    unlink(path);
    ck_assert(!site_is_off(&site));
    ck_assert_int_eq(sentences, 0);
}
END_TEST

START_TEST(the_later_mpi_counts)
{
    struct site site;
    const char *arguments[] = {"mpi=keep", "mpi=pmix"};
    site_read(&site, 2, (char *const *)arguments, keep_sentence);
    ck_assert(!site.keep_mpi);
}
END_TEST

static const struct {
    const char *argument;
    const char *expect[2]; /* parts of the sentence */
} slips[] = {
    {"bogus=1",
     {"bogus=1: no such key",
      "expected mpi, steps, kill, record, ports, topology, epochs, force, off or the name of an option"}},
    {"hvd-fusion=8M", {"hvd-fusion=8M: no such key", "fusion=64M"}},
    {"record=yes", {"record=yes", "expected comment or off"}},
    {"mpi=zap", {"mpi=zap", "expected keep or pmix"}},
    {"mpi=", {"mpi=", "expected keep or pmix"}},
    {"steps=some", {"steps=some", "expected all or hvd"}},
    {"topology=", {"topology=", "expected the full name of a file"}},
    {"topology=node.xml", {"topology=node.xml", "expected the full name of a file"}},
    {"topology=/a\nb", {"topology=/a", "printable"}},
    {"off=hvd.off", {"off=hvd.off", "expected the full name of a file"}},
    {"force=encrypt",
     {"plugstack.conf: force=encrypt: expected an option and its value", "force=encrypt=on"}},
    {"force=encryt=on", {"plugstack.conf: force=encryt=on: expected an option", "force=encrypt=on"}},
    {"force=steps=all", {"plugstack.conf: force=steps=all: expected an option", "force=encrypt=on"}},
    {"force=fusion=64Q", {"plugstack.conf: fusion=64Q: the value has an unknown unit", "such as 64M"}},
    {"epochs=hvdepochs", {"epochs=hvdepochs", "expected the full name of a file"}},
    {"fusion=64Q", {"plugstack.conf: fusion=64Q: the value has an unknown unit", "such as 64M"}},
    {"backends=udp", {"backends=udp", "local, shm, hier-mpi, mpi, hier-tcp, tcp"}},
    {"config=a;b", {"plugstack.conf: config=a;b", "';'"}},
    {"cycle-time=1ms", {"plugstack.conf: cycle-time", "remove it"}},
    {"fusion", {"fusion", "expected name=value"}},
    {"=8M", {"=8M", "expected name=value"}},
    {"", {"plugstack.conf: ", "expected name=value"}},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1",
     {"plugstack.conf: aaaa", "expected name=value"}},
};

START_TEST(a_slip_is_told_and_the_rest_counts)
{
    struct site site;
    const char *arguments[] = {"lease=9s", slips[_i].argument, "log=info"};
    site_read(&site, 3, (char *const *)arguments, keep_sentence);
    ck_assert_str_eq(site.list, "lease=9s;log=info");
    ck_assert(!site.keep_mpi);
    ck_assert_int_eq(sentences, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(last, slips[_i].expect[i]) != NULL, "%s", last);
}
END_TEST

START_TEST(more_than_the_list_holds_is_told)
{
    struct site site;
    static char path[1000] = "config=";
    char *arguments[20];
    memset(path + 7, 'a', sizeof(path) - 8);
    for (int i = 0; i < 20; i++)
        arguments[i] = path;
    site_read(&site, 20, arguments, keep_sentence);
    ck_assert_uint_le(strlen(site.list), CONFIG_LIST_BYTES);
    ck_assert_int_eq(sentences, 20 - (int)(CONFIG_LIST_BYTES + 1) / 1000);
}
END_TEST

START_TEST(nobody_need_listen)
{
    struct site site;
    const char *arguments[] = {"bogus"};
    site_read(&site, 1, (char *const *)arguments, NULL);
    ck_assert_str_eq(site.list, "");
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("site");
    tcase_add_test(tcase, no_arguments_decide_nothing);
    tcase_add_test(tcase, options_and_mpi_are_taken);
    tcase_add_loop_test(tcase, a_range_of_ports_is_taken, 0, sizeof(ports) / sizeof(ports[0]));
    tcase_add_loop_test(tcase, the_ports_of_srun_go_before_those_of_a_node, 0,
                        sizeof(ports) / sizeof(ports[0]));
    tcase_add_test(tcase, the_site_may_keep_steps_whose_tasks_fail);
    tcase_add_test(tcase, a_topology_is_taken);
    tcase_add_test(tcase, options_may_be_forced);
    tcase_add_test(tcase, a_file_switches_hvd_off);
    tcase_add_test(tcase, the_later_mpi_counts);
    tcase_add_test(tcase, all_steps_may_use_hvd);
    tcase_add_loop_test(tcase, a_slip_is_told_and_the_rest_counts, 0, sizeof(slips) / sizeof(slips[0]));
    tcase_add_test(tcase, more_than_the_list_holds_is_told);
    tcase_add_test(tcase, nobody_need_listen);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("site", fill);
}
