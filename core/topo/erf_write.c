/* erf_write.c: write a plan as an explicit resource file. */
#include "topo/erf.h"

#include <stdio.h>
#include <stdlib.h>

/* The positions of [cpus] in the order of cores. */
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

static void write_task(FILE *file, int rank, const struct erf_plan *plan, int task, char *list)
{
    struct bitmap positions = positions_of(plan->machine, &plan->plan->tasks[task].cpus);
    fprintf(file, "rank: %d: { hostname: %s; cpu: {%s} ; gpu: * ; mem: * }\n", rank, plan->host,
            bitmap_text(&positions, list, BITMAP_TEXT_BYTES));
}

int erf_from_plans(const struct erf_plan *plans, int count, char **textp, struct hvd_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    int rank = 0;
    char *list = malloc(BITMAP_TEXT_BYTES);
    FILE *file = list != NULL ? open_memstream(&text, &text_bytes) : NULL;
    if (file == NULL) {
        free(list);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an explicit resource file");
    }
    fputs("overlapping_rs: allow\ncpu_index_using: logical\n", file);
    for (int i = 0; i < count; i++) {
        fputc('\n', file);
        for (int k = 0; k < plans[i].plan->task_count; k++)
            write_task(file, rank++, &plans[i], k, list);
    }
    free(list);
    bool failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    if (failed) {
        free(text);
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory for an explicit resource file");
    }
    *textp = text;
    return HVD_OK;
}
