/* launcher.c: choose the launcher that starts the ranks. */
#include "tools/hvdrun/launcher/launcher.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[LAUNCHER_COUNT] = {
    [LAUNCHER_AUTO] = "auto",    [LAUNCHER_LOCAL] = "local",     [LAUNCHER_SRUN] = "srun",
    [LAUNCHER_JSRUN] = "jsrun",  [LAUNCHER_PRTERUN] = "prterun", [LAUNCHER_MPIRUN] = "mpirun",
    [LAUNCHER_AGENTS] = "agents"};

const char *launcher_name(enum launcher launcher)
{
    return names[launcher];
}

bool launcher_parse(const char *name, enum launcher *launcherp)
{
    for (int i = 0; i < LAUNCHER_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *launcherp = (enum launcher)i;
            return true;
        }
    }
    return false;
}

static int choose_because(struct launch_choice *choice, enum launcher launcher, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int choose_because(struct launch_choice *choice, enum launcher launcher, const char *format, ...)
{
    va_list arguments;
    choice->launcher = launcher;
    va_start(arguments, format);
    vsnprintf(choice->why, sizeof(choice->why), format, arguments);
    va_end(arguments);
    return HVD_OK;
}

static int take_agents(const struct launch_facts *facts, struct launch_choice *choice, struct hvd_error *err)
{
    if (facts->slurm_job == NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "--launcher=agents starts agents by srun on the nodes of a Slurm job, but hvdrun is "
                         "in none; start it from sbatch or salloc, or leave --launcher out");
    if (!facts->found[LAUNCHER_SRUN])
        return error_set(
            err, HVD_ERR_INVALID,
            "--launcher=agents: there is no srun in PATH, which starts the agents; add its folder");
    return choose_because(choice, LAUNCHER_AGENTS, "--launcher=agents asks for it");
}

/* What the user chose by --launcher. */
static int take_chosen(const struct launch_facts *facts, const struct launch_wish *wish,
                       struct launch_choice *choice, struct hvd_error *err)
{
    const char *name = names[wish->launcher];
    if (wish->launcher == LAUNCHER_LOCAL && wish->elsewhere != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "--launcher=local starts ranks on this machine, but %.100s is another one; leave "
                         "one of the two out",
                         wish->elsewhere);
    if (wish->launcher == LAUNCHER_AGENTS)
        return take_agents(facts, choice, err);
    if (wish->launcher != LAUNCHER_LOCAL && !facts->found[wish->launcher])
        return error_set(err, HVD_ERR_INVALID,
                         "--launcher=%s: there is no %s in PATH; install it, or leave --launcher out", name,
                         name);
    return choose_because(choice, wish->launcher, "--launcher=%s asks for it", name);
}

/* Hosts that are other machines, and neither srun nor jsrun to reach them. */
static int choose_for_hosts(const struct launch_facts *facts, struct launch_choice *choice, const char *host,
                            struct hvd_error *err)
{
    enum launcher launcher = facts->found[LAUNCHER_PRTERUN] ? LAUNCHER_PRTERUN : LAUNCHER_MPIRUN;
    if (!facts->found[launcher])
        return error_set(err, HVD_ERR_INVALID,
                         "%.100s is another machine, and hvdrun reaches those by srun in a Slurm job, jsrun "
                         "in a job of LSF, or by prterun or mpirun, of which none is in PATH; install Open "
                         "MPI, or start the job there",
                         host);
    return choose_because(choice, launcher, "%.100s is another machine", host);
}

static int choose_in_slurm(const struct launch_facts *facts, struct launch_choice *choice,
                           struct hvd_error *err)
{
    if (facts->found[LAUNCHER_SRUN])
        return choose_because(choice, LAUNCHER_SRUN, "this is Slurm job %.32s, which has %d node%s",
                              facts->slurm_job, facts->slurm_nodes, facts->slurm_nodes == 1 ? "" : "s");
    if (facts->slurm_nodes > 1)
        return error_set(err, HVD_ERR_INVALID,
                         "this is Slurm job %.32s, which has %d nodes, but there is no srun in PATH; add its "
                         "folder, or give --launcher=local to start all ranks on this node",
                         facts->slurm_job, facts->slurm_nodes);
    return choose_because(choice, LAUNCHER_LOCAL, "Slurm job %.32s has one node", facts->slurm_job);
}

static int choose_in_lsf(const struct launch_facts *facts, const struct launch_wish *wish,
                         struct launch_choice *choice, struct hvd_error *err)
{
    enum launcher launcher = facts->found[LAUNCHER_PRTERUN] ? LAUNCHER_PRTERUN : LAUNCHER_MPIRUN;
    if (facts->found[LAUNCHER_JSRUN])
        return choose_because(choice, LAUNCHER_JSRUN, "this is LSF job %.32s with jsrun", facts->lsf_job);
    if (wish->lsf_nodes <= 1)
        return choose_because(choice, LAUNCHER_LOCAL, "LSF job %.32s has one host", facts->lsf_job);
    if (facts->found[launcher])
        return choose_because(choice, launcher, "this is LSF job %.32s, which has %d hosts and no jsrun",
                              facts->lsf_job, wish->lsf_nodes);
    return error_set(err, HVD_ERR_INVALID,
                     "this is LSF job %.32s, which has %d hosts, but none of jsrun, prterun and mpirun is in "
                     "PATH; add the folder of one, or give --launcher=local to start all ranks here",
                     facts->lsf_job, wish->lsf_nodes);
}

int launcher_choose(const struct launch_facts *facts, const struct launch_wish *wish,
                    struct launch_choice *choice, struct hvd_error *err)
{
    if (wish->launcher != LAUNCHER_AUTO)
        return take_chosen(facts, wish, choice, err);
    if (facts->outer.launcher != NULL && wish->elsewhere != NULL)
        return error_set(err, HVD_ERR_INVALID,
                         "%.100s is another machine, but hvdrun runs inside a task that %s started, and "
                         "starts ranks beside it; start hvdrun from the script or shell of the job",
                         wish->elsewhere, facts->outer.launcher);
    if (facts->outer.launcher != NULL)
        return choose_because(choice, LAUNCHER_LOCAL, "hvdrun runs inside a task that %s started",
                              facts->outer.launcher);
    if (wish->host_count > 0 && wish->elsewhere == NULL)
        return choose_because(choice, LAUNCHER_LOCAL, "the hosts are this machine");
    if (facts->slurm_job != NULL)
        return choose_in_slurm(facts, choice, err);
    if (facts->lsf_job != NULL && (wish->host_count == 0 || facts->found[LAUNCHER_JSRUN]))
        return choose_in_lsf(facts, wish, choice, err);
    if (wish->elsewhere != NULL)
        return choose_for_hosts(facts, choice, wish->elsewhere, err);
    return choose_because(choice, LAUNCHER_LOCAL,
                          "there is no job of Slurm or LSF, and no other host is named");
}

bool launcher_warns(const struct launch_facts *facts, const struct launch_choice *choice,
                    struct hvd_error *text)
{
    const struct outer_tasks *outer = &facts->outer;
    bool is_first = outer->count > 1 && outer->number == 0;
    bool is_second = outer->count == 0 && outer->number == 1; /* it alone knows that there are several */
    char count[24] = "several";
    if (choice->launcher != LAUNCHER_LOCAL || (!is_first && !is_second))
        return false;
    if (is_first)
        snprintf(count, sizeof(count), "%lld", (long long)outer->count);
    error_set(
        text, HVD_ERR_INVALID,
        "%s has started %s tasks, and each hvdrun among them starts a job of its own; for one job leave "
        "one of the two out",
        outer->launcher, count);
    return true;
}
