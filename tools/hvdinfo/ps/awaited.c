/* awaited.c: for whom each rank of a job waits.
 *
 * Ranks that ask the same, such as who has not submitted allreduce "x", share one answer: a list of runs. To
 * find it, the members of each process set and all undecided operations are sorted. Time and memory grow with
 * the number of ranks and operations, not with pairs of ranks: where 65,536 ranks are each in another tensor,
 * there are 65,536 answers of two runs.
 *
 * The members of a set are walked once for each last decision that those that wait in it know. These differ
 * by the few operations that are in flight. A set of scattered ranks, such as every eighth, has a run for
 * each member in each answer. */
#include "tools/hvdinfo/ps/awaited.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/hvdinfo/ps/judge.h"

/* What a rank that waits wants to know, in the order in which questions are sorted. */
struct wait_question {
    enum { WHO_STARTS, WHO_LEAVES, OTHER_END, WHO_MISSES, WHO_LAGS } kind;
    uint32_t epoch;
    int set;
    int64_t number; /* OTHER_END: of that rank; otherwise the last decision it knows */
    bool begun;     /* WHO_LAGS: the operation is past TRACE_DECIDED */
    const struct flight_operation *operation; /* WHO_MISSES */
    struct rank *rank;                        /* that asks */
};

/* A rank that works, in one of its process sets. */
struct member {
    uint32_t epoch;
    int set;
    const struct rank *rank;
    uint32_t last_agreed;
    bool gone; /* it has left or joined: nobody waits for its next operation */
};

/* An operation that is not decided, and the rank that has submitted it. */
struct undecided {
    const struct rank *rank;
    const struct flight_operation *operation;
};

/* Runs that are being collected, ascending. */
struct wait_answer {
    struct rank_run *runs;
    int run_count, count;
};

/* The ranks that wait for an operation, and the one of them that has waited longest. */
struct blame {
    const struct awaited_list *awaited;
    const struct rank *rank;
};

struct job {
    struct rank *list;
    int count;
    struct member *members;
    size_t member_count;
    struct undecided *undecided;
    size_t undecided_count;
    struct wait_question *questions;
    size_t question_count;
    struct wait_answer answer, eligible; /* eligible: the members of a set that may miss an operation */
    struct blame *blames;
    size_t blame_count;
    int *next; /* of the ranks from each on, the first one that is not blamed yet, or one before it */
};

/* ---- Orders -------------------------------------------------------------------------------------- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_operations(const struct flight_operation *a, const struct flight_operation *b)
{
    int order = strcmp(a->kind, b->kind);
    return order == 0 ? strcmp(a->name, b->name) : order;
}

static int compare_questions(const struct wait_question *a, const struct wait_question *b)
{
    int order = compare(a->kind, b->kind);
    if (order == 0)
        order = compare(a->epoch, b->epoch);
    if (order == 0)
        order = compare(a->set, b->set);
    if (order == 0)
        order = compare(a->number, b->number);
    if (order == 0)
        order = compare(a->begun, b->begun);
    return order == 0 && a->kind == WHO_MISSES ? compare_operations(a->operation, b->operation) : order;
}

static int by_question(const void *left, const void *right)
{
    const struct wait_question *a = left;
    const struct wait_question *b = right;
    int order = compare_questions(a, b);
    return order == 0 ? compare(a->rank->rank, b->rank->rank) : order;
}

static int by_set(const void *left, const void *right)
{
    const struct member *a = left;
    const struct member *b = right;
    int order = compare(a->epoch, b->epoch);
    return order == 0 ? compare(a->set, b->set) : order;
}

static int by_member(const void *left, const void *right)
{
    const struct member *a = left;
    const struct member *b = right;
    int order = by_set(a, b);
    return order == 0 ? compare(a->rank->rank, b->rank->rank) : order;
}

static int by_operation(const void *left, const void *right)
{
    const struct undecided *a = left;
    const struct undecided *b = right;
    int order = compare(a->rank->epoch, b->rank->epoch);
    if (order == 0)
        order = compare(a->operation->set, b->operation->set);
    return order == 0 ? compare_operations(a->operation, b->operation) : order;
}

static int by_undecided(const void *left, const void *right)
{
    const struct undecided *a = left;
    const struct undecided *b = right;
    int order = by_operation(a, b);
    return order == 0 ? compare(a->rank->rank, b->rank->rank) : order;
}

/* Longest first. */
static int by_waiting(const void *left, const void *right)
{
    const struct blame *a = left;
    const struct blame *b = right;
    int order = compare(a->rank->pending->submitted_us, b->rank->pending->submitted_us);
    return order == 0 ? compare(a->rank->rank, b->rank->rank) : order;
}

/* Where the first of [count] sorted entries that is not before [key] stands. */
static size_t find_first(const void *key, const void *list, size_t count, size_t bytes,
                         int order(const void *, const void *))
{
    size_t first = 0;
    while (count > 0) {
        size_t half = count / 2;
        if (order((const char *)list + (first + half) * bytes, key) < 0) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

/* ---- What answers are found in ------------------------------------------------------------------- */

bool awaited_is_message(const struct flight_operation *operation)
{
    return strcmp(operation->kind, "send") == 0 || strcmp(operation->kind, "recv") == 0 ||
           strcmp(operation->kind, "exchange") == 0;
}

static bool is_undecided(const struct flight_operation *operation)
{
    return operation->step != TRACE_DONE && operation->agreed == 0 && !awaited_is_message(operation);
}

/* Enter them into [to], if not NULL. Returns how many there are. */
static size_t list_undecided(const struct rank *rank, struct undecided *to)
{
    size_t count = 0;
    for (int i = 0; i < rank->operation_count; i++) {
        if (!is_undecided(&rank->operations[i]))
            continue;
        if (to != NULL)
            to[count] = (struct undecided){rank, &rank->operations[i]};
        count++;
    }
    return count;
}

static struct member member_of(const struct rank *rank, int set)
{
    struct member member = {rank->epoch, set, rank, judge_last_agreed(rank, set), rank->left};
    for (int i = 0; i < rank->operation_count; i++) {
        const struct flight_operation *operation = &rank->operations[i];
        if (operation->set == set && is_undecided(operation) && strcmp(operation->kind, "join") == 0)
            member.gone = true;
    }
    return member;
}

static size_t add_member(const struct rank *rank, int set, struct member *to, size_t count)
{
    if (to != NULL)
        to[count] = member_of(rank, set);
    return count + 1;
}

/* Likewise the sets that it is a member of, some of them twice. */
static size_t list_members(const struct rank *rank, struct member *to)
{
    size_t count = 0;
    if (rank->phase != FLIGHT_WORKS)
        return 0;
    for (int set = 0; set < 64 * FLIGHT_SET_WORDS; set++) {
        if (judge_is_member(rank, set))
            count = add_member(rank, set, to, count);
    }
    for (int i = 0; i < rank->operation_count; i++) {
        int set = rank->operations[i].set;
        if (set < 0 || set >= 64 * FLIGHT_SET_WORDS)
            count = add_member(rank, set, to, count);
    }
    return count;
}

static int list_all(struct job *job)
{
    for (int i = 0; i < job->count; i++) {
        job->member_count += list_members(&job->list[i], NULL);
        job->undecided_count += list_undecided(&job->list[i], NULL);
    }
    job->members = calloc(job->member_count + 1, sizeof(*job->members));
    job->undecided = calloc(job->undecided_count + 1, sizeof(*job->undecided));
    if (job->members == NULL || job->undecided == NULL)
        return HVD_ERR_NO_MEMORY;
    struct member *member = job->members;
    struct undecided *undecided = job->undecided;
    for (int i = 0; i < job->count; i++) {
        member += list_members(&job->list[i], member);
        undecided += list_undecided(&job->list[i], undecided);
    }
    qsort(job->members, job->member_count, sizeof(*member), by_member);
    qsort(job->undecided, job->undecided_count, sizeof(*undecided), by_undecided);
    return HVD_OK;
}

/* ---- Questions ----------------------------------------------------------------------------------- */

/* A stopped rank is what others wait for in an operation that was decided, and waits for nobody there. */
static bool waits_for_others(const struct rank *rank)
{
    return rank->state == RANK_WAITS || rank->state == RANK_MOVES || rank->state == RANK_STARTS ||
           rank->state == RANK_LEAVES ||
           (rank->state == RANK_STOPPED && rank->phase == FLIGHT_WORKS && rank->pending != NULL &&
            rank->waits && rank->pending->agreed == 0);
}

/* The other end of a message, by its name, "to rank 3 with tag 5"; -1: it may be any, or is not the number of
 * another rank in the job. */
static int other_end(const struct rank *rank)
{
    const struct flight_operation *operation = rank->pending;
    int end = -1;
    if (operation->set != HVD_ALL_RANKS || (sscanf(operation->name, "to rank %9d ", &end) != 1 &&
                                            sscanf(operation->name, "from rank %9d ", &end) != 1))
        return -1;
    return end == rank->rank ? -1 : end;
}

static struct wait_question question_of(struct rank *rank)
{
    const struct flight_operation *pending = rank->pending;
    if (rank->phase == FLIGHT_STARTS)
        return (struct wait_question){.kind = WHO_STARTS, .rank = rank};
    if (rank->phase == FLIGHT_LEAVES)
        return (struct wait_question){.kind = WHO_LEAVES, .rank = rank};
    if (awaited_is_message(pending))
        return (struct wait_question){
            .kind = OTHER_END, .epoch = rank->epoch, .number = other_end(rank), .rank = rank};
    struct wait_question question = {.kind = WHO_LAGS,
                                     .epoch = rank->epoch,
                                     .set = pending->set,
                                     .number = pending->agreed,
                                     .begun = pending->step > TRACE_DECIDED,
                                     .rank = rank};
    if (pending->agreed == 0) {
        question.kind = WHO_MISSES;
        question.number = judge_last_agreed(rank, pending->set);
        question.begun = false;
        question.operation = pending;
    }
    return question;
}

static void list_questions(struct job *job)
{
    for (int i = 0; i < job->count; i++) {
        if (waits_for_others(&job->list[i]))
            job->questions[job->question_count++] = question_of(&job->list[i]);
    }
    qsort(job->questions, job->question_count, sizeof(*job->questions), by_question);
}

/* ---- Answers ------------------------------------------------------------------------------------- */

static void add_run(struct wait_answer *answer, int first, int last)
{
    if (answer->run_count > 0 && answer->runs[answer->run_count - 1].last >= first - 1)
        answer->runs[answer->run_count - 1].last = last;
    else
        answer->runs[answer->run_count++] = (struct rank_run){first, last};
    answer->count += last - first + 1;
}

static bool does_not_run(const struct rank *rank)
{
    return rank->state == RANK_STOPPED || rank->state == RANK_ENDED;
}

/* Those that keep the others in hvd_init. */
static bool has_not_come(const struct rank *rank)
{
    return rank->phase == FLIGHT_NO_PHASE || (rank->phase == FLIGHT_STARTS && does_not_run(rank));
}

/* Those that keep the others in hvd_shutdown. */
static bool goes_on(const struct rank *rank)
{
    return rank->phase == FLIGHT_WORKS && !rank->left;
}

static void find_ranks(struct job *job, bool wanted(const struct rank *))
{
    for (int i = 0; i < job->count; i++) {
        if (wanted(&job->list[i]))
            add_run(&job->answer, job->list[i].rank, job->list[i].rank);
    }
}

static int by_rank(const void *left, const void *right)
{
    const struct rank *a = left;
    const struct rank *b = right;
    return compare(a->rank, b->rank);
}

static struct rank *find_rank(const struct job *job, int number)
{
    struct rank wanted = {.rank = number};
    return bsearch(&wanted, job->list, (size_t)job->count, sizeof(wanted), by_rank);
}

static void find_other_end(struct job *job, const struct wait_question *question)
{
    const struct rank *other = find_rank(job, (int)question->number);
    if (other != NULL && other->epoch == question->epoch)
        add_run(&job->answer, other->rank, other->rank);
}

static const struct flight_operation *find_agreed(const struct rank *rank, int set, uint32_t agreed)
{
    for (int i = 0; i < rank->operation_count; i++) {
        if (rank->operations[i].set == set && rank->operations[i].agreed == agreed)
            return &rank->operations[i];
    }
    return NULL;
}

/* The operation was decided: has the member not begun it, or can it not go on with it? One that has more
 * operations decided is past it. */
static bool lags(const struct member *member, const struct wait_question *question)
{
    if (member->last_agreed < question->number)
        return true;
    const struct flight_operation *own = find_agreed(member->rank, question->set, (uint32_t)question->number);
    if (own == NULL || own->step == TRACE_DONE)
        return false;
    return does_not_run(member->rank) || (own->step == TRACE_DECIDED && question->begun);
}

/* The operation is undecided: may the member not have submitted it? One that has more operations decided than
 * the rank that asks is past it. */
static bool may_miss(const struct member *member, const struct wait_question *question)
{
    return !member->gone && member->last_agreed <= question->number;
}

static void find_members(const struct job *job, const struct wait_question *question,
                         bool wanted(const struct member *, const struct wait_question *),
                         struct wait_answer *answer)
{
    struct member key = {.epoch = question->epoch, .set = question->set};
    size_t at = find_first(&key, job->members, job->member_count, sizeof(key), by_set);
    const struct rank *before = NULL;
    for (; at < job->member_count && by_set(&job->members[at], &key) == 0; at++) {
        const struct member *member = &job->members[at];
        if (member->rank != before && wanted(member, question))
            add_run(answer, member->rank->rank, member->rank->rank);
        before = member->rank;
    }
}

/* Those of the set that may miss it and have not submitted it. A rank has undecided operations only after all
 * decided ones of [question], so one of the same name is the same operation. */
static void find_missing(struct job *job, const struct wait_question *question)
{
    struct undecided key = {question->rank, question->operation};
    size_t at = find_first(&key, job->undecided, job->undecided_count, sizeof(key), by_operation);
    for (int i = 0; i < job->eligible.run_count; i++) {
        struct rank_run run = job->eligible.runs[i];
        int64_t first = run.first;
        for (; at < job->undecided_count && by_operation(&job->undecided[at], &key) == 0; at++) {
            int number = job->undecided[at].rank->rank;
            if (number > run.last)
                break;
            if (number > first)
                add_run(&job->answer, (int)first, number - 1);
            first = number >= first ? (int64_t)number + 1 : first;
        }
        if (first <= run.last)
            add_run(&job->answer, (int)first, run.last);
    }
}

/* [before]: the question before this one, which had the same ranks that may miss an operation, or other ones.
 */
static void find_answer(struct job *job, const struct wait_question *question,
                        const struct wait_question *before)
{
    job->answer.run_count = job->answer.count = 0;
    switch (question->kind) {
    case WHO_STARTS:
        find_ranks(job, has_not_come);
        break;
    case WHO_LEAVES:
        find_ranks(job, goes_on);
        break;
    case OTHER_END:
        find_other_end(job, question);
        break;
    case WHO_LAGS:
        find_members(job, question, lags, &job->answer);
        break;
    case WHO_MISSES:
        if (before == NULL || before->kind != WHO_MISSES || before->epoch != question->epoch ||
            before->set != question->set || before->number != question->number) {
            job->eligible.run_count = job->eligible.count = 0;
            find_members(job, question, may_miss, &job->eligible);
        }
        find_missing(job, question);
        break;
    }
}

/* ---- For each rank ------------------------------------------------------------------------------- */

/* The answer, as a list of [ranks]; NULL: an empty one, or no memory. */
static struct awaited_list *keep_answer(struct ranks *ranks, const struct wait_answer *answer)
{
    size_t bytes = (size_t)answer->run_count * sizeof(answer->runs[0]);
    struct awaited_list *list = answer->count == 0 ? NULL : malloc(sizeof(*list) + bytes);
    if (list == NULL)
        return NULL;
    *list = (struct awaited_list){.next = ranks->awaited,
                                  .number = ranks->awaited == NULL ? 0 : ranks->awaited->number + 1,
                                  .count = answer->count,
                                  .run_count = answer->run_count};
    memcpy(list->runs, answer->runs, bytes);
    ranks->awaited = list;
    return list;
}

static void enter_awaited(const struct job *job, struct rank *rank, const struct awaited_list *list)
{
    rank->waits_for = list;
    if (list != NULL && list->count == 1)
        rank->awaited = find_rank(job, list->runs[0].first);
    rank->waits_for_unseen = list == NULL && rank->state != RANK_MOVES && job->count < rank->size;
}

/* Others wait for those on [list], who have not submitted this: the rank that has waited longest counts. */
static void add_blame(struct job *job, const struct rank *rank, const struct awaited_list *list)
{
    struct blame blame = {list, rank};
    struct blame *last = job->blame_count == 0 ? NULL : &job->blames[job->blame_count - 1];
    if (rank->phase != FLIGHT_WORKS || list == NULL)
        return;
    if (last == NULL || last->awaited != list)
        job->blames[job->blame_count++] = blame;
    else if (by_waiting(&blame, last) < 0)
        *last = blame;
}

static int answer_all(struct ranks *ranks, struct job *job)
{
    const struct wait_question *before = NULL;
    const struct awaited_list *list = NULL;
    for (size_t i = 0; i < job->question_count; i++) {
        const struct wait_question *question = &job->questions[i];
        if (before == NULL || compare_questions(question, before) != 0) {
            find_answer(job, question, before);
            list = keep_answer(ranks, &job->answer);
            if (list == NULL && job->answer.count > 0)
                return HVD_ERR_NO_MEMORY;
        }
        enter_awaited(job, question->rank, list);
        if (question->kind == WHO_MISSES)
            add_blame(job, question->rank, list);
        before = question;
    }
    return HVD_OK;
}

/* ---- Who has not submitted what ------------------------------------------------------------------ */

static int next_without_blame(int *next, int at)
{
    while (next[at] != at) {
        next[at] = next[next[at]];
        at = next[at];
    }
    return at;
}

/* Each rank takes the first of the blames that concerns it, and is passed over from then on. */
static void enter_blames(struct job *job)
{
    for (int i = 0; i <= job->count; i++)
        job->next[i] = i;
    qsort(job->blames, job->blame_count, sizeof(*job->blames), by_waiting);
    for (size_t i = 0; i < job->blame_count; i++) {
        const struct awaited_list *list = job->blames[i].awaited;
        for (int k = 0; k < list->run_count; k++) {
            int at = (int)(find_rank(job, list->runs[k].first) - job->list);
            int end = at + list->runs[k].last - list->runs[k].first + 1;
            while ((at = next_without_blame(job->next, at)) < end) {
                job->list[at].missed = job->blames[i].rank->pending;
                if (job->list[at].state == RANK_COMPUTES)
                    job->list[at].state = RANK_LATE;
                job->next[at] = at + 1;
            }
        }
    }
}

int awaited_find(struct ranks *ranks, struct rank *list, int count)
{
    struct job job = {.list = list, .count = count};
    size_t room = (size_t)count + 1;
    job.questions = calloc(room, sizeof(*job.questions));
    job.answer.runs = calloc(room, sizeof(*job.answer.runs));
    job.eligible.runs = calloc(room, sizeof(*job.eligible.runs));
    job.blames = calloc(room, sizeof(*job.blames));
    job.next = calloc(room, sizeof(*job.next));
    int rc = HVD_ERR_NO_MEMORY;
    if (job.questions != NULL && job.answer.runs != NULL && job.eligible.runs != NULL && job.blames != NULL &&
        job.next != NULL)
        rc = list_all(&job);
    if (rc == HVD_OK) {
        list_questions(&job);
        rc = answer_all(ranks, &job);
    }
    if (rc == HVD_OK)
        enter_blames(&job);
    free(job.members);
    free(job.undecided);
    free(job.questions);
    free(job.answer.runs);
    free(job.eligible.runs);
    free(job.blames);
    free(job.next);
    return rc;
}
