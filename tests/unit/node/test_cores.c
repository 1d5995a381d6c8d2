/* test_cores.c: whether each rank of a node can have a core to itself. */
#include "config.h"
#include "unit.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/cores.h"

#define RANKS 6

/* "0-3,8" for each rank; NULL: no more. */
static const struct {
    const char *ranks[RANKS + 1];
    bool suffice;
} cases[] = {
    {{"0", NULL}, true},
    {{"0-1", "0-1", NULL}, true},
    {{"0-1", "0-1", "0-1", NULL}, false},
    {{"0-1", "0-1", "0-1", "0-1", NULL}, false},
    {{"0-7", "0-7", "0-7", NULL}, true},
    /* two are bound to one core, whatever the others have */
    {{"3", "3", NULL}, false},
    {{"0-7", "3", "3", NULL}, false},
    {{"0-7", "3", NULL}, true},
    /* those that could go elsewhere make room */
    {{"0-2", "0-1", "0", NULL}, true},
    {{"0-1", "0-1", "0-2", NULL}, true},
    {{"0,2", "0", "2,5", "5,7", NULL}, true},
    {{"0,2", "0", "2,5", "5", NULL}, false},
    {{"63-64", "64", "63", NULL}, false},
    {{"63-64", "64", NULL}, true},
    {{"8190-8191", "8191", "8190", NULL}, false},
    /* of some nothing is known */
    {{"", "0", "", NULL}, true},
    {{"", "0", "", "0", NULL}, false},
    {{NULL}, true},
};

static void set_cores(struct cores *cores, const char *list)
{
    memset(cores, 0, sizeof(*cores));
    while (*list != 0) {
        char *end = NULL;
        long first = strtol(list, &end, 10);
        long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long core = first; core <= last; core++)
            cores->words[core / 64] |= UINT64_C(1) << core % 64;
        list = *end == ',' ? end + 1 : end;
    }
}

START_TEST(each_rank_needs_its_own)
{
    static struct cores ranks[RANKS];
    int count = 0;
    for (; cases[_i].ranks[count] != NULL; count++)
        set_cores(&ranks[count], cases[_i].ranks[count]);
    ck_assert(cores_suffice(ranks, count, 1) == cases[_i].suffice);
}
END_TEST

/* Where all may run everywhere, the more they are. */
START_TEST(as_many_as_there_are)
{
    static struct cores ranks[129];
    for (int i = 0; i < 129; i++)
        set_cores(&ranks[i], "128-255");
    ck_assert(cores_suffice(ranks, 128, 1));
    ck_assert(!cores_suffice(ranks, 129, 1));
    ck_assert(cores_suffice(ranks, 64, 2));
    ck_assert(!cores_suffice(ranks, 65, 2));
}
END_TEST

/* Two for each rank, in whichever order the ranks come. */
START_TEST(several_each)
{
    static const struct {
        const char *ranks[RANKS];
        bool suffice;
    } pairs[] = {
        {{"0-1", "2-3"}, true},    {{"0-3", "0-3"}, true},   {{"0-3", "0-1"}, true},  {{"0-1", "0-3"}, true},
        {{"0-2", "0-2"}, false},   {{"0-1", "0-2"}, false},  {{"0-4", "0,4"}, true},  {{"0", "1-8"}, false},
        {{"0-1,7", "1,7"}, false}, {{"0-1,7", "1-3"}, true}, {{"", "0-1", ""}, true},
    };
    static struct cores ranks[RANKS];
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int count = 0;
        for (; pairs[i].ranks[count] != NULL; count++)
            set_cores(&ranks[count], pairs[i].ranks[count]);
        ck_assert_msg(cores_suffice(ranks, count, 2) == pairs[i].suffice, "case %zu", i);
    }
}
END_TEST

START_TEST(knows_its_own)
{
    static struct cores own;
    cpu_set_t mask;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(mask), &mask), 0);
    cores_of_thread(&own);
    for (int core = 0; core < CPU_SETSIZE; core++)
        ck_assert((own.words[core / 64] >> core % 64 & 1) == (CPU_ISSET(core, &mask) != 0));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("cores");
    tcase_add_test(tcase, several_each);
    unit_add_rounds(tcase, each_rank_needs_its_own, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tcase, as_many_as_there_are);
    tcase_add_test(tcase, knows_its_own);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("cores", fill);
}
