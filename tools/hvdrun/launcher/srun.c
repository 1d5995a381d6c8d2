/* srun.c: the command line of Slurm's srun. */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "options/config.h"
#include "options/slurm_step.h"
#include "tools/hvdrun/launcher/line.h"

/* As sbatch hands options of our plug-in on: srun reads them if it has the plug-in, and gives the ranks all
 * of them, those of an outer sbatch and these, in HVD_CLI. Without the plug-in the ranks get HVD_CLI as it
 * is. */
#define HANDED_DOWN SLURM_HANDED_DOWN "hvd"

/* "fusion=64M" as the variable by which sbatch would hand it on; [length] bytes of [entry]. */
static void hand_down(struct words *variables, const char *entry, size_t length)
{
    char name[64];
    size_t name_bytes = strcspn(entry, "=");
    snprintf(name, sizeof(name), "%.*s", (int)name_bytes, entry);
    for (char *at = name; *at != 0; at++)
        *at = isalnum((unsigned char)*at) ? *at : '_';
    words_add(variables, HANDED_DOWN "_%s=%.*s", name, (int)(length - name_bytes - 1),
              entry + name_bytes + 1);
}

static void add_plugin_options(struct launch_line *line, const struct line_request *request)
{
    const char *at = request->options->cli;
    if (environment_value(request->environment, HANDED_DOWN) == NULL)
        words_add(&line->variables, HANDED_DOWN "=on");
    while (at[0] != 0) {
        size_t length = strcspn(at, ";");
        hand_down(&line->variables, at, length);
        at += length + (at[length] != 0);
    }
}

/* Without --nodes srun takes all nodes of the job, and warns where ranks are fewer. */
static void add_places(struct words *words, const struct line_request *request)
{
    const struct launch_facts *facts = request->facts;
    if (request->ranks > 0)
        words_add(words, "--ntasks=%d", request->ranks);
    if (request->hosts_given) { /* in Slurm's words, an arbitrary distribution */
        words_add(words, "--distribution=arbitrary");
        words_add_hosts(words, "--nodelist=", &request->hosts, HOSTS_BY_RANK);
    } else if (request->ranks > 0 && facts->slurm_nodes > 0)
        words_add(words, "--nodes=%d",
                  request->ranks < facts->slurm_nodes ? request->ranks : facts->slurm_nodes);
    if (request->ranks_per_node > 0)
        words_add(words, "--ntasks-per-node=%d", request->ranks_per_node);
    if (facts->slurm_cpus > 0)
        words_add(words, "--cpus-per-task=%d", facts->slurm_cpus);
    if (facts->outer.launcher != NULL)
        words_add(words, "--overlap"); /* the step that hvdrun is a task of keeps its CPUs until it ends */
}

static int add_output(struct words *words, const struct line_request *request, struct hvd_error *err)
{
    const struct output_options *output = &request->options->output;
    int rank = bitmap_find_next(&output->ranks, 0);
    if (output->prefix && !line_is_to_files(request->options))
        words_add(words, "--label");
    if (output->pty != OUTPUT_PTY_OFF && output->prefix)
        words_add(words, "--unbuffered");
    if (line_is_to_files(request->options)) {
        words_add(words, "--output=%s/rank.%%t.out", output->directory);
        words_add(words, "--error=%s/rank.%%t.err", output->directory);
    } else if (output->only && rank < 0) {
        words_add(words, "--output=none");
        words_add(words, "--error=none");
    } else if (output->only && bitmap_weight(&output->ranks) == 1) {
        words_add(words, "--output=%d", rank);
        words_add(words, "--error=%d", rank);
    } else if (output->only) {
        return error_set(
            err, HVD_ERR_INVALID,
            "srun cannot honour --only-rank with several ranks: it shows those of one, or of all; "
            "give one rank or none, or %s",
            line_instead(LAUNCHER_SRUN, true));
    }
    return HVD_OK;
}

int srun_line(struct launch_line *line, const struct line_request *request, struct hvd_error *err)
{
    struct words *words = &line->words;
    add_plugin_options(line, request);
    add_places(words, request);
    words_add(words, "--export=ALL");         /* a batch script of --export=NONE would hand nothing on */
    words_add(words, "--kill-on-bad-exit=1"); /* a rank that fails ends the others */
    if (request->pmix)
        words_add(words, "--mpi=pmix");
    int status = request->ranks > 0 ? hvdrun_options_check_only_rank(request->options, request->ranks, err)
                                    : HVD_OK; /* where nothing says how many, srun decides */
    if (status == HVD_OK)
        status = add_output(words, request, err);
    line_add_program(line, request, "SLURM_PROCID");
    return status;
}
