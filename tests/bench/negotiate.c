/* negotiate.c: the negotiation alone: real messages along the real tree, between ranks that are simulated in
 * one process. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/parts.h"
#include "tools/hvdbench/report.h"
#include "tests/bench/simulation.h"

struct negotiate_costs {
    int depth, radix;
    int64_t state_bytes;
    struct round_cost first, steady, one; /* [one]: a steady round of a single tensor */
};

static void raise_to(int64_t *mostp, int64_t count)
{
    *mostp = count > *mostp ? count : *mostp;
}

/* Measure many rounds of [count] tensors. Times are medians; counts are those of the worst round. */
static int run_steady(struct simulation *simulation, int count, int64_t rounds, struct round_cost *steady,
                      struct hvd_error *err)
{
    int status = HVD_OK;
    double *rank_us = calloc(2 * (size_t)rounds, sizeof(double));
    if (rank_us == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for %lld rounds", (long long)rounds);
    double *root_us = rank_us + rounds;
    *steady = (struct round_cost){.steps = 0};
    for (int64_t round = 0; round < rounds && status == HVD_OK; round++) {
        struct round_cost cost;
        status = simulation_round(simulation, count, &cost, err);
        rank_us[round] = cost.rank_us;
        root_us[round] = cost.root_us;
        raise_to(&steady->received, cost.received);
        raise_to(&steady->sent, cost.sent);
        raise_to(&steady->bytes, cost.bytes);
        raise_to(&steady->root_bytes, cost.root_bytes);
        raise_to(&steady->steps, cost.steps);
    }
    if (status == HVD_OK) {
        steady->rank_us = stats_of(rank_us, (int)rounds).median;
        steady->root_us = stats_of(root_us, (int)rounds).median;
    }
    free(rank_us);
    return status;
}

/* The JSON key of a number of one kind of rounds. */
static const char *key_of(char key[REPORT_TEXT_BYTES], const char *when, const char *what)
{
    snprintf(key, REPORT_TEXT_BYTES, "%s%s", when, what);
    return key;
}

static void json_cost(struct json *json, const char *when, const struct round_cost *cost)
{
    char key[REPORT_TEXT_BYTES];
    int64_t messages = cost->received > cost->sent ? cost->received : cost->sent;
    json_count(json, key_of(key, when, "messages"), messages);
    json_count(json, key_of(key, when, "received"), cost->received);
    json_count(json, key_of(key, when, "sent"), cost->sent);
    json_count(json, key_of(key, when, "steps"), cost->steps);
    json_count(json, key_of(key, when, "bytes"), cost->bytes);
    json_count(json, key_of(key, when, "root_bytes"), cost->root_bytes);
    json_number(json, key_of(key, when, "rank_us"), cost->rank_us);
    json_number(json, key_of(key, when, "root_us"), cost->root_us);
}

static void print_costs_json(const struct bench_options *options, const struct negotiate_costs *found)
{
    struct json json = json_open(stdout);
    json_text(&json, "case", options->chosen->name);
    json_count(&json, "ranks", options->ranks);
    json_count(&json, "node_ranks", options->node_ranks);
    json_count(&json, "tensors", options->tensors);
    json_count(&json, "rounds", options->rounds);
    json_text(&json, "version", hvd_version());
    json_count(&json, "depth", found->depth);
    json_count(&json, "radix", found->radix);
    json_count(&json, "state_bytes", found->state_bytes);
    json_cost(&json, "first_", &found->first);
    json_cost(&json, "", &found->steady);
    json_cost(&json, "one_", &found->one);
    json_close_line(&json);
}

static void show_row(const char *what, const struct round_cost *cost)
{
    char bytes[2][REPORT_TEXT_BYTES];
    char times[2][REPORT_TEXT_BYTES];
    printf("  %-12s  %8lld  %6lld  %6lld  %12s  %12s  %12s  %12s\n", what, (long long)cost->received,
           (long long)cost->sent, (long long)cost->steps, report_bytes(cost->bytes, bytes[0]),
           report_bytes(cost->root_bytes, bytes[1]), report_time(cost->rank_us, times[0]),
           report_time(cost->root_us, times[1]));
}

static void print_costs(const struct bench_options *options, const struct negotiate_costs *found)
{
    char bytes[REPORT_TEXT_BYTES];
    printf("negotiate: %lld simulated rank%s, %lld a node; %lld tensor%s, %lld round%s\n",
           (long long)options->ranks, report_s(options->ranks), (long long)options->node_ranks,
           (long long)options->tensors, report_s(options->tensors), (long long)options->rounds,
           report_s(options->rounds));
    printf("  the tree's radix is %d, its depth %d; each rank keeps %s\n", found->radix, found->depth,
           report_bytes(found->state_bytes, bytes));
    printf("  %-12s  %8s  %6s  %6s  %12s  %12s  %12s  %12s\n", "", "received", "sent", "steps", "bytes",
           "at the root", "CPU a rank", "at the root");
    show_row("first round", &found->first);
    show_row("steady round", &found->steady);
    show_row("one tensor", &found->one);
    printf("  messages received and sent, and bytes received, are those of the rank with the most\n");
}

static int measure_rounds(struct simulation *simulation, const struct bench_options *options,
                          struct negotiate_costs *found, struct hvd_error *err)
{
    int tensors = (int)options->tensors;
    int status = simulation_round(simulation, tensors, &found->first, err);
    if (status == HVD_OK)
        status = run_steady(simulation, tensors, options->rounds, &found->steady, err);
    if (status == HVD_OK)
        status = run_steady(simulation, 1, options->rounds, &found->one, err);
    found->depth = simulation_depth(simulation);
    found->radix = simulation_radix(simulation);
    found->state_bytes = simulation_state_bytes(simulation);
    return status;
}

int case_negotiate(struct bench *bench, struct hvd_error *err)
{
    const struct bench_options *options = bench->options;
    struct simulation *simulation = NULL;
    struct negotiate_costs found;
    int status = simulation_open(&simulation, (int)options->ranks, (int)options->node_ranks,
                                 (int)options->tensors, err);
    if (status == HVD_OK)
        status = measure_rounds(simulation, options, &found, err);
    simulation_close(simulation);
    if (status == HVD_OK && options->json)
        print_costs_json(options, &found);
    else if (status == HVD_OK)
        print_costs(options, &found);
    return status;
}
