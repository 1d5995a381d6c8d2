/* erf_format.h: write what was read of an explicit resource file, a line for each rank, in a form that reads
 * as the same. */
#ifndef TESTS_UNIT_ERF_FORMAT_H
#define TESTS_UNIT_ERF_FORMAT_H

#include <stdio.h>
#include <string.h>

#include "topo/erf_state.h"

static inline void write_set(FILE *file, const struct erf *erf, const char *key, int set)
{
    char list[BITMAP_TEXT_BYTES];
    if (set == ERF_ALL)
        fprintf(file, "; %s: *", key);
    else if (set >= 0)
        fprintf(file, "; %s: {%s}", key, bitmap_text(&erf->sets[set], list, sizeof(list)));
}

static inline void write_preamble(FILE *file, const struct erf *erf)
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

/* To be freed; NULL where there is no memory. */
static inline char *erf_format(const struct erf *erf)
{
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *file = open_memstream(&text, &text_bytes);
    if (file == NULL)
        return NULL;
    write_preamble(file, erf);
    for (int i = 0; i < erf->rank_count; i++) {
        const struct erf_rank *rank = &erf->ranks[i];
        const struct erf_host *host = rank->host >= 0 ? &erf->hosts[rank->host] : NULL;
        fprintf(file, "rank: %d: { ", i);
        if (host == NULL)
            fputs("host: *", file);
        else if (host->name == NULL)
            fprintf(file, "host: %d", host->index);
        else
            fprintf(file, "hostname: %s", host->name);
        write_set(file, erf, "cpu", rank->cpus);
        write_set(file, erf, "gpu", rank->gpus);
        write_set(file, erf, "mem", rank->mems);
        fputs(" }", file);
        if (rank->app >= 0)
            fprintf(file, " : app %d", rank->app);
        fputc('\n', file);
    }
    fclose(file);
    return text;
}

#endif
