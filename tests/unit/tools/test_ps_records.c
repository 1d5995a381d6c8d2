/* test_ps_records.c: what hvdinfo ps knows of a node's ranks reaches the hvdinfo of another node. */
#include "unit.h"

#include <malloc.h>
#include <string.h>

#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/records.h"
#include "tools/hvdinfo/ps/show.h"
#include "tools/hvdinfo/ps/words.h"

#define SECOND   INT64_C(1000000)
#define THERE_US (INT64_C(50) * SECOND)   /* the clock of the nodes that answer */
#define HERE_US  (INT64_C(9000) * SECOND) /* of the one that asks */

static struct ranks there, here;
static char *text;
static struct records records;

static void teardown(void)
{
    ranks_free(&there);
    ranks_free(&here);
    free(text);
    text = NULL;
}

static struct rank *add_rank(int number, const char *node)
{
    struct rank *rank = ranks_add(&there);
    ck_assert_ptr_nonnull(rank);
    *rank = (struct rank){
        .rank = number,
        .size = 3,
        .pid = 100 + number,
        .phase = FLIGHT_WORKS,
        .phase_us = THERE_US - 40 * SECOND,
        .read_us = THERE_US,
        .process = 'S',
        .waits = true,
        .pace = {2.5, 1e6, 0.25, 0.5, .cached = 0.75, .backend_bytes = {[BACKEND_TCP] = 1024}},
        .restarts = 2,
        .totals = {.sums = {[SUM_BATCHES] = 7}, .commits = 3, .committed_us = THERE_US - 4 * SECOND}};
    snprintf(rank->key, sizeof(rank->key), "slurm 7.0");
    snprintf(rank->job, sizeof(rank->job), "7.0");
    snprintf(rank->node, sizeof(rank->node), "%s", node);
    rank->operations = calloc(FLIGHT_SLOTS, sizeof(*rank->operations));
    there.now_us = THERE_US;
    return rank;
}

static void add_op(struct rank *rank, const char *name, enum trace_step step, uint32_t agreed, int64_t ago_us)
{
    struct flight_operation *operation = &rank->operations[rank->operation_count++];
    *operation = (struct flight_operation){.serial = (uint64_t)rank->operation_count,
                                           .step = step,
                                           .kind = "allreduce",
                                           .agreed = agreed,
                                           .bytes = 4096,
                                           .submitted_us = THERE_US - ago_us};
    snprintf(operation->name, sizeof(operation->name), "%s", name);
}

static const struct records of_one = {.asked = 1, .answered = 1};

/* What a node with these ranks writes, of each or of those in the same state. */
static char *written_as(bool each, int64_t node)
{
    char *lines = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&lines, &length);
    ck_assert_ptr_nonnull(to);
    if (!each)
        ck_assert_int_eq(judge_ranks(&there, 5 * SECOND), HVD_OK);
    ck_assert_int_eq(records_write(to, &there, each, node, &of_one), HVD_OK);
    ck_assert_int_eq(fclose(to), 0);
    return lines;
}

static char *written(int64_t node)
{
    char *lines = written_as(true, node);
    ranks_free(&there);
    return lines;
}

static char *first_line(char **at)
{
    char *line = *at;
    size_t length = strcspn(line, "\n");
    *at += length + (line[length] == '\n');
    line[length] = 0;
    return line;
}

/* The lines of both in turn, with a line of somebody else before them. */
static void mix(char *a, char *b)
{
    size_t room = strlen(a) + strlen(b) + 100;
    text = malloc(room);
    size_t used = (size_t)snprintf(text, room, "slurm prolog: hello\n");
    for (char *first = a, *second = b; *first != 0 || *second != 0;) {
        char **at = *first == 0 || (*second != 0 && strlen(second) > strlen(first)) ? &second : &first;
        used += (size_t)snprintf(text + used, room - used, "%s\n", first_line(at));
    }
    free(a);
    free(b);
}

static void expect(int number, const char *sentence)
{
    char words[WORDS_BYTES];
    const struct rank *rank = &here.list[number];
    ck_assert_int_eq(rank->rank, number);
    ck_assert_str_eq(words_of_rank(rank, HERE_US, words), sentence);
}

START_TEST(ranks_of_two_nodes_are_judged_together)
{
    for (int i = 0; i < 2; i++) {
        struct rank *rank = add_rank(i, "n1");
        for (int k = 1; k < FLIGHT_SLOTS; k++)
            add_op(rank, "step", TRACE_DONE, (uint32_t)k, 10 * SECOND);
        add_op(rank, "layer", TRACE_SUBMITTED, 0, 3 * SECOND);
    }
    char *a = written(0);
    ck_assert_int_lt(strlen(a), 4000); /* not all that is done travels */
    struct rank *late = add_rank(2, "n2");
    late->process = 'T';
    snprintf(late->unreached, sizeof(late->unreached), "10.0.0.3");
    add_op(late, "step", TRACE_DONE, FLIGHT_SLOTS - 1, 4 * SECOND);
    mix(a, written(1));
    ck_assert_int_eq(records_read(text, "n[1-2]", HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(records.answered, 2);
    ck_assert_str_eq(records.silent, "");
    ck_assert_int_eq(here.count, 3);
    ck_assert_int_eq(judge_ranks(&here, 5 * SECOND), HVD_OK);
    expect(0, "in allreduce \"layer\" (4 KiB) for 3.0 s, waits for rank 2 (n2), which is stopped");
    expect(1, "in allreduce \"layer\" (4 KiB) for 3.0 s, waits for rank 2 (n2), which is stopped");
    expect(2,
           "stopped by a signal (SIGSTOP); has not submitted allreduce \"layer\"; last submitted allreduce "
           "\"step\", 4.0 s ago; nothing gets through to 10.0.0.3");
    ck_assert_int_eq(here.list[2].pid, 102);
    ck_assert(here.list[2].pace.operations > 2.4 && here.list[2].pace.operations < 2.6);
    ck_assert(here.list[2].pace.cached > 0.7 && here.list[2].pace.backend_bytes[BACKEND_TCP] > 1000);
    ck_assert_int_eq(here.list[2].restarts, 2);
    ck_assert_int_eq(here.list[2].totals.sums[SUM_BATCHES], 7);
    ck_assert_int_eq(here.list[2].totals.committed_us, HERE_US - 4 * SECOND);
    ck_assert(here.list[2].pace.waiting > 0.2 && here.list[2].pace.waiting < 0.3);
}
END_TEST

START_TEST(who_is_past_an_operation_is_not_blamed)
{
    add_op(add_rank(0, "n1"), "x", TRACE_SUBMITTED, 0, SECOND);
    struct rank *past = add_rank(1, "n1");
    add_op(past, "x", TRACE_DONE, 9, 2 * SECOND);
    add_op(past, "message", TRACE_DONE, 0, SECOND);
    text = written(0);
    ck_assert_int_eq(records_read(text, "n1", HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(judge_ranks(&here, 5 * SECOND), HVD_OK);
    ck_assert_ptr_null(here.list[0].waits_for);
}
END_TEST

START_TEST(a_rank_takes_memory_for_its_operations_only)
{
    struct rank *rank = add_rank(0, "n1");
    add_op(rank, "a", TRACE_DONE, 1, SECOND);
    add_op(rank, "b", TRACE_SUBMITTED, 0, SECOND);
    add_rank(1, "n1");
    text = written(0);
    ck_assert_int_eq(records_read(text, "n1", HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(here.list[0].operation_count, 2);
    ck_assert_uint_lt(malloc_usable_size(here.list[0].operations), 4 * sizeof(struct flight_operation));
    ck_assert_uint_lt(malloc_usable_size(here.list[1].operations), 2 * sizeof(struct flight_operation));
}
END_TEST

START_TEST(a_node_whose_lines_do_not_end_is_named)
{
    add_rank(0, "n1");
    char *a = written(0);
    add_rank(2, "n3");
    char *cut = written(2);
    *strstr(cut, " end") = 0; /* in the midst of the line */
    mix(a, cut);
    ck_assert_int_eq(records_read(text, "n[1-3]", HERE_US, &here, &records), HVD_ERR_INVALID);
    teardown();
    add_rank(0, "n1");
    text = written(0);
    ck_assert_int_eq(records_read(text, "n[1-3]", HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(records.asked, 3);
    ck_assert_int_eq(records.answered, 1);
    ck_assert_str_eq(records.silent, "n2,n3");
    ck_assert_int_eq(here.count, 1);
}
END_TEST

static void read_and_judge(char *lines, const char *nodes)
{
    ck_assert_int_eq(records_read(lines, nodes, HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(judge_ranks(&here, 5 * SECOND), HVD_OK);
}

/* What the first one of [nodes] writes that has got their lines. */
static char *passed_on(char *lines, const char *nodes, int64_t node)
{
    char *more = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&more, &length);
    ck_assert_ptr_nonnull(to);
    read_and_judge(lines, nodes);
    ck_assert_int_eq(records_write(to, &here, false, node, &records), HVD_OK);
    ck_assert_int_eq(fclose(to), 0);
    ranks_free(&here);
    free(lines);
    return more;
}

START_TEST(silent_nodes_behind_another_are_named)
{
    add_rank(2, "n2");
    text = passed_on(written(1), "n[1-3]", 0);
    ck_assert_int_eq(records_read(text, "n1,n4", HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(records.asked, 4);
    ck_assert_int_eq(records.answered, 1);
    ck_assert_str_eq(records.silent, "n1,n3,n4");
    ck_assert_str_eq(here.list[0].node, "n2");
}
END_TEST

/* ---- Merged ranks -------------------------------------------------------------------------------- */

/* What hvdinfo ps prints of the lines. Its exit status becomes *still. The caller frees the text. */
static char *shown(char *lines, const char *nodes, bool *still)
{
    const struct show_view view = {.selected = -1};
    char *shown = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&shown, &bytes);
    ck_assert_ptr_nonnull(to);
    read_and_judge(lines, nodes);
    ck_assert_int_eq(show_text(to, &here, &view), HVD_OK);
    ck_assert_int_eq(fclose(to), 0);
    *still = false;
    for (int i = 0; i < here.count; i++)
        *still = *still || here.list[i].stands_still;
    ranks_free(&here);
    return shown;
}

static unsigned state_seed; /* of the states of ranks; of what else they have, rand has its own */

static int roll(int below)
{
    return rand_r(&state_seed) % below;
}

static double share(void)
{
    return (double)rand() / RAND_MAX;
}

/* One of three states of the job, or one that is like it. */
static void add_random_rank(unsigned job, int number, int size, const char *node)
{
    static const char *const names[] = {"a", "b", "to rank 1 with tag 0", "to rank 2 with tag 0"};
    static const char *const kinds[] = {"allreduce", "broadcast", "join", "send"};
    static const enum flight_phase phases[] = {FLIGHT_WORKS, FLIGHT_WORKS, FLIGHT_STARTS, FLIGHT_LEAVES,
                                               FLIGHT_NO_PHASE};
    static const char processes[] = {'S', 'R', 'T', 'D', 'Z', 't'};
    struct rank *rank = add_rank(number, node);
    state_seed = 3 * job + (unsigned)rand() % 3;
    int submitted = roll(5);
    rank->size = size;
    rank->process = processes[roll(2) * roll(6)];
    rank->phase = phases[roll(2) * roll(5)];
    rank->phase_us -= rand() % SECOND;
    rank->waits = roll(3) > 0;
    rank->left = roll(8) == 7;
    rank->is_newcomer = roll(4) == 3;
    rank->sets[0] = (uint64_t)roll(4);
    rank->submitted = (uint64_t)rand();
    rank->restarts = roll(3);
    rank->totals.commits = roll(3);
    rank->totals.committed_us -= rand() % SECOND;
    rank->pace = (struct pace){share(), share(), roll(4) == 3 ? -1 : share() / 2, share() / 2,       share(),
                               share(), share(), roll(4) == 3 ? -1 : share(),     {share(), share()}};
    snprintf(rank->sleeps_in, sizeof(rank->sleeps_in), "%s", roll(3) == 2 ? "futex" : "");
    snprintf(rank->unreached, sizeof(rank->unreached), "%s", roll(6) == 5 ? "10.0.0.3" : "");
    snprintf(rank->cores, sizeof(rank->cores), "%d", number);
    for (int i = 0; i < submitted; i++) {
        bool done = i + roll(3) < submitted;
        enum trace_step step = done ? TRACE_DONE : (enum trace_step)roll(TRACE_DONE);
        uint32_t agreed = step == TRACE_SUBMITTED ? 0 : (uint32_t)i + 1;
        add_op(rank, names[roll(4)], step, agreed, (9 - i) * SECOND - rand() % SECOND);
        struct flight_operation *operation = &rank->operations[i];
        snprintf(operation->kind, sizeof(operation->kind), "%s", kinds[roll(4)]);
        operation->set = roll(9) == 8 ? 300 : roll(2);
        operation->after_us[step == TRACE_SUBMITTED ? 0 : step - 1] =
            step == TRACE_SUBMITTED ? 0 : (uint32_t)(rand() % SECOND);
    }
    int change = rand() % 12;
    if (change == 0)
        rank->process = processes[rand() % 6];
    if (change == 1)
        rank->sets[0] ^= 1;
    if (change == 3 && submitted > 0)
        snprintf(rank->operations[submitted - 1].name, sizeof(rank->operations[0].name), "c");
    for (int i = rand() % 5; change == 2 && i < submitted; i++)
        rank->operations[i].agreed += rank->operations[i].agreed > 0;
}

/* Both are what the nodes of a random job write: merged, and of each rank by itself. */
static void write_random_job(unsigned job, char *lines[2])
{
    int nodes = 1 + rand() % 3, of_node = 1 + rand() % 16;
    bool scattered = rand() % 2 == 0;
    size_t bytes[2];
    FILE *to[2] = {open_memstream(&lines[0], &bytes[0]), open_memstream(&lines[1], &bytes[1])};
    for (int node = 0; node < nodes; node++) {
        char name[16];
        snprintf(name, sizeof(name), "n%d", node);
        for (int i = 0; i < of_node; i++)
            add_random_rank(job, scattered ? i * nodes + node : node * of_node + i,
                            nodes * of_node + rand() % 2, name);
        for (int each = 0; each < 2; each++) {
            char *more = written_as(each == 1, node);
            fputs(more, to[each]);
            free(more);
        }
        ranks_free(&there);
    }
    ck_assert_int_eq(fclose(to[0]), 0);
    ck_assert_int_eq(fclose(to[1]), 0);
}

/* It must not matter for the text and the exit status whether nodes merge their ranks. */
START_TEST(merged_ranks_have_the_lines_of_each)
{
    size_t bytes[2] = {0, 0};
    srand((unsigned)_i);
    for (unsigned job = 0; job < 100; job++) {
        bool still[2];
        char *texts[2], *lines[2];
        write_random_job(100 * (unsigned)_i + job, lines);
        for (int each = 0; each < 2; each++) {
            bytes[each] += strlen(lines[each]);
            if (each == 0 && job % 2 == 0)
                lines[0] = passed_on(lines[0], "n[0-2]", 0);
            texts[each] = shown(lines[each], "n[0-2]", &still[each]);
        }
        ck_assert_msg(strcmp(texts[0], texts[1]) == 0, "job %u: merged:\n%s\neach:\n%s", job, texts[0],
                      texts[1]);
        ck_assert_int_eq(still[0], still[1]);
        for (int each = 0; each < 2; each++) {
            free(lines[each]);
            free(texts[each]);
        }
    }
    ck_assert_uint_lt(bytes[0], bytes[1] * 9 / 10); /* some were merged */
}
END_TEST

/* As many bytes as for one, but for the list of ranks. */
START_TEST(ranks_that_are_stopped_in_what_runs_are_written_once)
{
    char *lines[2];
    for (int many = 0; many < 2; many++) {
        for (int i = 0; i < 1 + 63 * many; i++) {
            struct rank *rank = add_rank(i, "n1");
            rank->process = 'T';
            add_op(rank, "x", TRACE_TRANSFERRING, 3, 6 * SECOND);
        }
        lines[many] = written_as(false, 0);
        ranks_free(&there);
    }
    ck_assert_uint_lt(strlen(lines[1]), strlen(lines[0]) + 200);
    free(lines[0]);
    free(lines[1]);
}
END_TEST

#define NODES   8192
#define OF_NODE 8
#define LATE    40000

/* Of the rank [LATE] the others have submitted one more operation. */
static void write_node(FILE *to, bool each, int64_t node, int64_t number)
{
    char name[16];
    snprintf(name, sizeof(name), "n%d", (int)node);
    for (int i = (int)node * OF_NODE; i < ((int)node + 1) * OF_NODE; i++) {
        struct rank *rank = add_rank(i, name);
        rank->size = NODES * OF_NODE;
        add_op(rank, "step", TRACE_DONE, 1, 4 * SECOND);
        if (i != LATE)
            add_op(rank, "layer", TRACE_SUBMITTED, 0, 3 * SECOND);
    }
    char *lines = written_as(each, number);
    ranks_free(&there);
    fputs(lines, to);
    free(lines);
}

static void expect_late(const char *nodes)
{
    ck_assert_int_eq(records_read(text, nodes, HERE_US, &here, &records), HVD_OK);
    ck_assert_int_eq(records.answered, NODES);
    ck_assert_int_eq(here.count, NODES * OF_NODE);
    ck_assert_int_eq(judge_ranks(&here, 5 * SECOND), HVD_OK);
    expect(0, "in allreduce \"layer\" (4 KiB) for 3.0 s, waits for rank 40000 (n5000)");
    expect(65535, "in allreduce \"layer\" (4 KiB) for 3.0 s, waits for rank 40000 (n5000)");
    ck_assert_int_eq(here.list[LATE].state, RANK_LATE);
    ck_assert_int_eq(here.list[LATE].pid, 100 + LATE);
    ck_assert_ptr_null(here.awaited->next); /* all share one list */
}

/* The rank that hangs among 65,536 is named. For each rank by itself the text has about a kilobyte; for those
 * of a node together little more than for one of them. */
START_TEST(the_ranks_of_many_nodes_are_judged_together)
{
    bool each = _i == 1;
    size_t bytes = 0;
    FILE *all = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(all);
    for (int node = 0; node < NODES; node++)
        write_node(all, each, node, node);
    ck_assert_int_eq(fclose(all), 0);
    ck_assert_uint_lt(bytes, (each ? NODES * OF_NODE : NODES + 1) * 1200);
    expect_late("n[0-8191]");
}
END_TEST

/* Where each 64th node passes on what the next ones say, the text has the names of nodes and their ranks, and
 * little more. */
START_TEST(many_nodes_are_asked_by_some_of_them)
{
    enum { GROUP = 64 };
    size_t bytes = 0, most = 0;
    char leaders[NODES], nodes[32];
    size_t used = 0;
    FILE *all = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(all);
    for (int first = 0; first < NODES; first += GROUP) {
        char *lines = NULL;
        size_t length = 0;
        FILE *group = open_memstream(&lines, &length);
        ck_assert_ptr_nonnull(group);
        for (int i = 0; i < GROUP; i++)
            write_node(group, false, first + i, i);
        ck_assert_int_eq(fclose(group), 0);
        most = length > most ? length : most;
        snprintf(nodes, sizeof(nodes), "n[%d-%d]", first, first + GROUP - 1);
        lines = passed_on(lines, nodes, first / GROUP);
        fputs(lines, all);
        free(lines);
        used += (size_t)snprintf(leaders + used, sizeof(leaders) - used, "%sn%d", used > 0 ? "," : "", first);
    }
    ck_assert_int_eq(fclose(all), 0);
    ck_assert_uint_lt(most, (GROUP + 1) * 1200);
    ck_assert_uint_lt(bytes, NODES / GROUP * 1200 + NODES * 50);
    expect_late(leaders);
}
END_TEST

START_TEST(bytes_that_are_no_ranks_are_refused)
{
    static const char *const bad[] = {
        "hvdinfo-ps-2 0 end\n", "hvdinfo-ps-3 0 zz\nhvdinfo-ps-3 0 end\n",
        "hvdinfo-ps-3 0 0\n",   "hvdinfo-ps-3 1 00\n",
        "hvdinfo-ps-3 0\n",     "hvdinfo-ps-3 0 ffffffff\nhvdinfo-ps-3 0 end\n"};
    text = strdup(bad[_i]);
    ck_assert_int_eq(records_read(text, "n1", HERE_US, &here, &records), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("records");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, ranks_of_two_nodes_are_judged_together);
    tcase_add_test(tcase, who_is_past_an_operation_is_not_blamed);
    tcase_add_test(tcase, a_rank_takes_memory_for_its_operations_only);
    tcase_add_test(tcase, a_node_whose_lines_do_not_end_is_named);
    tcase_add_loop_test(tcase, bytes_that_are_no_ranks_are_refused, 0, 6);
    tcase_add_test(tcase, silent_nodes_behind_another_are_named);
    tcase_add_test(tcase, ranks_that_are_stopped_in_what_runs_are_written_once);
    tcase_add_loop_test(tcase, merged_ranks_have_the_lines_of_each, 0, 20);
    suite_add_tcase(suite, tcase);
    TCase *many = tcase_create("many nodes");
    tcase_add_checked_fixture(many, NULL, teardown);
    tcase_set_timeout(many, 120);
    tcase_add_loop_test(many, the_ranks_of_many_nodes_are_judged_together, 0, 2);
    tcase_add_test(many, many_nodes_are_asked_by_some_of_them);
    suite_add_tcase(suite, many);
}

int main(void)
{
    return unit_run("ps_records", fill);
}
