/* test_hvdbench_options.c: hvdbench's command line: which options are accepted, with which values, and which
 * are refused. */
#include "unit.h"

#include <string.h>

#include "tools/hvdbench/cases/cases.h"

/* The cases are parsed here, and not run. */
#define CASE(name)                                                 \
    int name(struct bench *bench, struct hvd_error *error)         \
    {                                                              \
        (void)bench;                                               \
        return error_set(error, HVD_ERR_UNSUPPORTED, "%s", #name); \
    }
CASE(case_allreduce)
CASE(case_small)
CASE(case_latency)
CASE(case_sweep)
CASE(case_p2p)
CASE(case_idle)
CASE(case_launch)
CASE(case_overhead)
CASE(case_staging)

static struct bench_options options;
static struct hvd_error err;

/* [line] has one space between words. */
static int parse(const char *line)
{
    static char copy[256];
    static char name[] = "hvdbench";
    char *argv[16] = {name};
    char *rest = NULL;
    int count = 1;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    return bench_options_parse(&options, &hvdbench_program, argv, &err);
}

START_TEST(cases_have_their_defaults)
{
    ck_assert_int_eq(parse("allreduce"), HVD_OK);
    ck_assert_str_eq(options.chosen->name, "allreduce");
    ck_assert_str_eq(options.model, "resnet50");
    ck_assert_int_eq(options.rounds, 0); /* by the model */
    ck_assert_int_eq(options.warmup, 1);
    ck_assert(!options.json && !options.no_mpi);
    ck_assert_int_eq(parse("latency"), HVD_OK);
    ck_assert_int_eq(options.bytes, 4);
    ck_assert_ptr_null(options.model);
    ck_assert_int_eq(parse("small"), HVD_OK);
    ck_assert_int_eq(options.bytes, 1024);
    ck_assert_int_eq(options.tensors, 1000);
    ck_assert_int_eq(parse("sweep"), HVD_OK);
    ck_assert(!options.alloc);
    ck_assert_int_eq(options.from_bytes, 4);
    ck_assert_int_eq(options.to_bytes, 1 << 30);
    ck_assert_int_eq(parse("p2p"), HVD_OK);
    ck_assert_int_eq(options.to_bytes, 64 << 20);
    ck_assert_int_eq(parse("idle"), HVD_OK);
    ck_assert_int_eq(options.seconds, 5);
    ck_assert_int_eq(parse("launch"), HVD_OK);
    ck_assert_int_eq(options.ranks, 2);
    ck_assert_int_eq(parse("overhead --gpu"), HVD_OK);
    ck_assert(options.gpu);
    ck_assert_int_eq(options.tensors, 64);
    ck_assert_int_eq(options.bytes, 1 << 20);
    ck_assert_int_eq(options.rounds, 50);
    ck_assert_int_eq(options.warmup, 5);
    ck_assert_int_eq(options.types, 1);
    ck_assert(!options.alloc && !options.average);
    ck_assert_int_eq(parse("staging"), HVD_OK);
    ck_assert_int_eq(options.collective, BENCH_ALLREDUCE);
    ck_assert_int_eq(options.bytes, 256 << 20);
}
END_TEST

START_TEST(options_are_taken)
{
    ck_assert_int_eq(parse("overhead --gpu --alloc --average --types=2"), HVD_OK);
    ck_assert(options.alloc && options.average);
    ck_assert_int_eq(options.types, 2);
    ck_assert_int_eq(parse("staging --collective=broadcast"), HVD_OK);
    ck_assert_int_eq(options.collective, BENCH_BROADCAST);
    ck_assert_int_eq(parse("allreduce --model=gpt2 --rounds 7 --warmup=0 --no-mpi --json"), HVD_OK);
    ck_assert_str_eq(options.model, "gpt2");
    ck_assert_int_eq(options.rounds, 7);
    ck_assert_int_eq(options.warmup, 0);
    ck_assert(options.json && options.no_mpi);
    ck_assert_int_eq(parse("small --bytes=64K --tensors=3"), HVD_OK);
    ck_assert_int_eq(options.bytes, 65536);
    ck_assert_int_eq(options.tensors, 3);
    ck_assert_int_eq(parse("sweep --alloc --to=64"), HVD_OK);
    ck_assert(options.alloc);
    ck_assert_int_eq(parse("latency --alloc"), HVD_OK);
    ck_assert(options.alloc);
    ck_assert_int_eq(parse("launch --stamp=mpi"), HVD_OK);
    ck_assert_str_eq(options.stamp, "mpi");
}
END_TEST

START_TEST(help_and_version_need_no_case)
{
    static const char *const lines[] = {"--help", "-h", "--version", "-V", "small --help", "small --version"};
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(parse(lines[i]), HVD_OK);
        ck_assert_int_eq(options.action, i == 2 || i == 3 || i == 5 ? BENCH_VERSION : BENCH_HELP);
    }
}
END_TEST

START_TEST(what_is_wrong_is_refused_with_a_sentence)
{
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        {"", "no case was given; expected allreduce, small,"},
        {"reduce", "reduce is no case; expected allreduce, small,"},
        {"--json", "--json is no case"},
        {"latency --tensors=3", "hvdbench latency has no option --tensors=3; expected --bytes, --rounds,"},
        {"latency 4", "hvdbench latency has no option 4"},
        {"latency --bytes=0", "--bytes=0: the size is too small; expected 4 to 16G"},
        {"latency --bytes=17G", "--bytes=17G: the size is too large; expected 4 to 16G"},
        {"latency --bytes=x", "--bytes=x: the size "},
        {"latency --bytes=6", "--bytes=6: expected a multiple of 4"},
        {"latency --bytes", "--bytes needs a value: expected SIZE: size of each tensor"},
        {"latency --rounds=0", "--rounds=0: the number is too small; expected 1 to 1000000"},
        {"latency --rounds=1K", "--rounds=1K: the number "},
        {"latency --json=yes", "--json takes no value, but was given yes"},
        {"sweep --from=1M --to=1K", "--from=1M is more than --to=1K"},
        {"launch --stamp=tcp", "--stamp=tcp: expected hvd or mpi"},
        {"allreduce --alloc", "hvdbench allreduce has no option --alloc"},
        {"sweep --alloc=yes", "--alloc takes no value, but was given yes"},
        {"allreduce --model=", "--model is empty; expected NAME: resnet50, bert-large, gpt2, or a file"},
        {"staging --collective=reduce", "--collective=reduce: expected allreduce or broadcast"},
        {"overhead --types=3", "--types=3: the number is too large; expected 1 to 2"},
        {"allreduce --hvd-fusion=1M", "--hvd-fusion=1M: options of hvd go to what starts the ranks"},
    };
    ck_assert_int_eq(parse(cases[_i].line), HVD_ERR_INVALID);
    ck_assert_msg(strstr(err.text, cases[_i].sentence) == err.text, "%s: %s", cases[_i].line, err.text);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("options");
    tcase_add_test(tcase, cases_have_their_defaults);
    tcase_add_test(tcase, options_are_taken);
    tcase_add_test(tcase, help_and_version_need_no_case);
    unit_add_rounds(tcase, what_is_wrong_is_refused_with_a_sentence, 0, 21);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_options", fill);
}
