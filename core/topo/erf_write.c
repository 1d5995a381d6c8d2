/* erf_write.c: explicit resource files: written. */
#include "topo/erf_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that is written in memory. */
struct writer {
    FILE *file;
    char *text;
    size_t bytes;
};

static int writer_open(struct writer *writer, struct hvd_error *err)
{
    *writer = (struct writer){NULL, NULL, 0};
    writer->file = open_memstream(&writer->text, &writer->bytes);
    return writer->file != NULL
               ? HVD_OK
               : error_set(err, HVD_ERR_NO_MEMORY, "no memory for an explicit resource file");
}

static int writer_close(struct writer *writer, char **textp, struct hvd_error *err)
{
    bool failed = ferror(writer->file) != 0;
    failed = fclose(writer->file) != 0 || failed;
    if (failed) {
        free(writer->text);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an explicit resource file");
    }
    *textp = writer->text;
    return HVD_OK;
}

static void write_set(FILE *file, const struct erf *erf, const char *key, int set)
{
    char list[BITMAP_TEXT_BYTES];
    if (set == ERF_ALL)
        fprintf(file, "; %s: *", key);
    else if (set >= 0)
        fprintf(file, "; %s: {%s}", key, bitmap_text(&erf->sets[set], list, sizeof(list)));
}

static void write_preamble(FILE *file, const struct erf *erf)
{
    if (erf->distribution == RS_DIST_PLANE)
        fprintf(file, "launch_distribution: plane:%d\n", erf->plane);
    else if (erf->distribution == RS_DIST_CYCLIC)
        fputs("launch_distribution: cyclic\n", file);
    for (size_t i = 0; i < sizeof(erf_action_keys) / sizeof(erf_action_keys[0]); i++) {
        enum erf_action answer;
        memcpy(&answer, (const char *)erf + erf_action_keys[i].offset, sizeof(answer));
        if (answer != ERF_ERROR)
            fprintf(file, "%s: %s\n", erf_action_keys[i].name, erf_action_names[answer]);
    }
    fprintf(file, "cpu_index_using: %s\n", erf->physical ? "physical" : "logical");
    for (int i = 0; i < erf->app_count; i++)
        fprintf(file, "app %d: %s\n", i, erf->apps[i]);
}

int erf_format(const struct erf *erf, char **textp, struct hvd_error *err)
{
    struct writer writer;
    int rc = writer_open(&writer, err);
    if (rc != HVD_OK)
        return rc;
    write_preamble(writer.file, erf);
    for (int i = 0; i < erf->rank_count; i++) {
        const struct erf_rank *rank = &erf->ranks[i];
        const struct erf_host *host = rank->host >= 0 ? &erf->hosts[rank->host] : NULL;
        fprintf(writer.file, "rank: %d: { ", i);
        if (host == NULL)
            fputs("host: *", writer.file);
        else if (host->name == NULL)
            fprintf(writer.file, "host: %d", host->index);
        else
            fprintf(writer.file, "hostname: %s", host->name);
        write_set(writer.file, erf, "cpu", rank->cpus);
        write_set(writer.file, erf, "gpu", rank->gpus);
        write_set(writer.file, erf, "mem", rank->mems);
        fputs(" }", writer.file);
        if (rank->app >= 0)
            fprintf(writer.file, " : app %d", rank->app);
        fputc('\n', writer.file);
    }
    return writer_close(&writer, textp, err);
}

/* ---- Of plans ---- */

/* CPUs by their positions in the order of cores. */
static struct bitmap positions_of(const struct machine *machine, const struct bitmap *cpus)
{
    struct bitmap positions = {{0}};
    int at = 0;
    for (int i = 0; i < machine->core_count; i++)
        for (int k = 0; k < machine->cores[i].cpu_count; k++, at++)
            if (bitmap_is_set(cpus, machine->cores[i].cpus[k]))
                bitmap_set(&positions, at);
    return positions;
}

int erf_from_plans(const struct erf_plan *plans, int count, char **textp, struct hvd_error *err)
{
    struct writer writer;
    int rank = 0;
    int rc = writer_open(&writer, err);
    if (rc != HVD_OK)
        return rc;
    fputs("overlapping_rs: allow\ncpu_index_using: logical\n", writer.file);
    for (int i = 0; i < count; i++) {
        fputc('\n', writer.file);
        for (int k = 0; k < plans[i].plan->task_count; k++) {
            char list[BITMAP_TEXT_BYTES];
            struct bitmap positions = positions_of(plans[i].machine, &plans[i].plan->tasks[k].cpus);
            fprintf(writer.file, "rank: %d: { hostname: %s; cpu: {%s} ; gpu: * ; mem: * }\n", rank++,
                    plans[i].host, bitmap_text(&positions, list, sizeof(list)));
        }
    }
    return writer_close(&writer, textp, err);
}
