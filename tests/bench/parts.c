/* parts.c: measure single parts of hvd by themselves: agreement, arithmetic, packing, timelines,
 * communicators. */
#include "tests/bench/parts.h"

#include "tools/hvdbench/run.h"

static const struct bench_case cases[] = {
    {"trace",
     "what a timeline costs",
     {{OPTION_MODEL, "resnet50"}, {OPTION_ROUNDS, "9"}, {OPTION_WARMUP, "1"}, {OPTION_STEPS, "5"}},
     IN_JOB,
     false,
     case_trace},
    {"negotiate",
     "the agreement alone, between simulated ranks; run it by itself",
     {{OPTION_RANKS, "1024"}, {OPTION_NODE_RANKS, "8"}, {OPTION_TENSORS, "161"}, {OPTION_ROUNDS, "200"}},
     ALONE,
     false,
     case_negotiate},
    {"epochs",
     "the driver of an elastic job alone, with simulated processes; run it by itself",
     {{OPTION_RANKS, "1024"}, {OPTION_NODE_RANKS, "8"}, {OPTION_ROUNDS, "5"}},
     ALONE,
     false,
     case_epochs},
    {"kernels",
     "the arithmetic alone, by all code that this processor can run; run it by itself",
     {{OPTION_BYTES, "64K"}, {OPTION_ROUNDS, "20"}},
     ALONE,
     false,
     case_kernels},
    {"pack",
     "tensors on a GPU into one buffer and back, beside a copy; all models by default; run it by itself",
     {{OPTION_GPU, NULL}, {OPTION_MODEL, NULL}, {OPTION_ROUNDS, "50"}},
     ALONE,
     false,
     case_pack},
    {"split",
     "a second communicator of NCCL, split from the first and connected anew",
     {{OPTION_ROUNDS, "10"}, {OPTION_WARMUP, "1"}},
     IN_JOB,
     false,
     case_split},
};

static const struct bench_program parts = {
    "parts",
    "Usage: parts CASE [options], or hvdrun -n N --no-prefix parts trace|split [options]\n"
    "Measure single parts of hvd by themselves.\n",
    sizeof(cases) / sizeof(cases[0]), cases};

int main(int argc, char **argv)
{
    (void)argc;
    return bench_run(&parts, argv);
}
