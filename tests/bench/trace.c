/* trace.c: the cost of a timeline: the same steps with and without one, in turn. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/parts.h"
#include "tools/hvdbench/report.h"

/* The steps of one rank in a turn, with or without a timeline. */
struct traced {
    struct way *hvd; /* one step */
    int64_t steps;
    const char *folder; /* NULL: without a timeline */
    int64_t bytes;      /* out: size of the last timeline */
};

static int run_steps(void *arg, struct hvd_error *err)
{
    const struct traced *traced = arg;
    int status = HVD_OK;
    for (int64_t i = 0; i < traced->steps && status == HVD_OK; i++)
        status = traced->hvd->run(traced->hvd->arg, err);
    return status;
}

static int prepare_step(void *arg, struct hvd_error *err)
{
    const struct traced *traced = arg;
    int status = traced->hvd->prepare(traced->hvd->arg, err);
    if (status != HVD_OK || traced->folder == NULL)
        return status;
    status = hvd_timeline_start(traced->folder);
    return status == HVD_OK ? HVD_OK : bench_hvd_error(status, "hvd_timeline_start", err);
}

/* Remove the files of a folder. Returns their total size. */
static int64_t empty_folder(const char *path)
{
    int64_t bytes = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat found;
        if (fstatat(dirfd(folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(found.st_mode))
            continue;
        bytes += found.st_size;
        unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
    return bytes;
}

static int finish_step(void *arg, struct hvd_error *err)
{
    struct traced *traced = arg;
    if (traced->folder == NULL)
        return HVD_OK;
    int status = hvd_timeline_stop();
    traced->bytes = empty_folder(traced->folder);
    if (status != HVD_OK)
        return bench_hvd_error(status, "hvd_timeline_stop", err);
    if (traced->bytes == 0)
        return error_set(err, HVD_ERR_SYSTEM, "hvd_timeline_stop left no timeline in %s", traced->folder);
    return HVD_OK;
}

/* Many steps in place multiply the sums, so that they cannot be checked. Start again and check one more step.
 */
static int check_step(void *arg, struct hvd_error *err)
{
    const struct traced *traced = arg;
    const struct way *hvd = traced->hvd;
    int status = hvd->prepare(hvd->arg, err);
    if (status == HVD_OK)
        status = hvd->run(hvd->arg, err);
    return status == HVD_OK ? hvd->check(hvd->arg, err) : status;
}

/* The steps of one load without and with a timeline. */
struct comparison {
    const char *what;
    const struct load *load;
    int64_t steps;
    double without_us, with_us; /* medians, per step */
    int64_t timeline_bytes;     /* per step, on this rank */
};

static void print_comparison(const struct bench *bench, const struct comparison *found)
{
    char times[2][REPORT_TEXT_BYTES];
    char bytes[REPORT_TEXT_BYTES];
    char ranks[2 * REPORT_TEXT_BYTES];
    if (bench->rank != 0)
        return;
    if (bench->options->json) {
        struct json json = report_open(bench);
        json_text(&json, "model", found->what);
        json_count(&json, "tensors", found->load->count);
        json_count(&json, "bytes", found->load->model->bytes);
        json_count(&json, "rounds", bench->options->rounds);
        json_count(&json, "steps", found->steps);
        json_number(&json, "off_us", found->without_us);
        json_number(&json, "on_us", found->with_us);
        json_number(&json, "on_per_off", found->with_us / found->without_us);
        json_count(&json, "timeline_bytes", found->timeline_bytes);
        json_close_line(&json);
        return;
    }
    printf("trace %s: %d tensor%s, %s, %lld turn%s of %lld step%s, medians\n"
           "  without a timeline  %12s a step\n"
           "  with a timeline     %12s a step, %.1f %% more; it grows by %s a step\n",
           found->what, found->load->count, report_s(found->load->count), report_ranks(bench, ranks),
           (long long)bench->options->rounds, report_s(bench->options->rounds), (long long)found->steps,
           report_s(found->steps), report_time(found->without_us, times[0]),
           report_time(found->with_us, times[1]), (found->with_us / found->without_us - 1) * 100,
           report_bytes(found->timeline_bytes, bytes));
    fflush(stdout);
}

static int compare_steps(struct bench *bench, const struct model *model, const char *what, const char *folder,
                         struct hvd_error *err)
{
    int64_t steps = bench->options->steps;
    const struct turns turns = {bench->options->warmup, bench->options->rounds, 1};
    struct ways ways = {.count = 0};
    int status = ways_init(&ways, bench, model, 1U << WAY_HVD, err);
    struct traced without = {&ways.list[0], steps, NULL, 0};
    struct traced with = {&ways.list[0], steps, folder, 0};
    struct way list[] = {
        {.name = "without",
         .arg = &without,
         .prepare = prepare_step,
         .run = run_steps,
         .check = check_step,
         .finish = finish_step},
        {.name = "with",
         .arg = &with,
         .prepare = prepare_step,
         .run = run_steps,
         .check = check_step,
         .finish = finish_step},
    };
    if (status == HVD_OK)
        status = turns_measure(bench, &turns, list, 2, err);
    if (status == HVD_OK)
        print_comparison(bench,
                         &(struct comparison){what, &ways.load, steps, list[0].us.median / (double)steps,
                                              list[1].us.median / (double)steps, with.bytes / steps});
    ways_fini(&ways);
    return status;
}

/* Create a folder for this rank in TMPDIR. */
static int make_folder(char path[PATH_MAX], struct hvd_error *err)
{
    const char *parent = getenv("TMPDIR");
    int length =
        snprintf(path, PATH_MAX, "%s/hvdbench.XXXXXX", parent != NULL && parent[0] == '/' ? parent : "/tmp");
    if (length >= PATH_MAX || mkdtemp(path) == NULL) {
        path[0] = 0;
        return error_set_errno(err, "cannot make a folder for timelines in TMPDIR");
    }
    return HVD_OK;
}

/* Measures the gradients of a model, and many small tensors, which produce the most events per second. */
int case_trace(struct bench *bench, struct hvd_error *err)
{
    char folder[PATH_MAX] = "";
    struct model model = {.count = 0};
    struct model small = {.count = 0};
    int status = make_folder(folder, err);
    if (status == HVD_OK)
        status = model_load(&model, bench->options->model, err);
    if (status == HVD_OK)
        status = model_uniform(&small, 1000, 1024, err);
    status = bench_agree(bench, status, err);
    if (status == HVD_OK)
        status = compare_steps(bench, &model, bench->options->model, folder, err);
    if (status == HVD_OK)
        status = compare_steps(bench, &small, "1000 x 1 KiB", folder, err);
    model_fini(&model);
    model_fini(&small);
    if (folder[0] != 0) {
        empty_folder(folder);
        rmdir(folder);
    }
    return status;
}
