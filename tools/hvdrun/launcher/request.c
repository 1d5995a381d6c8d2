/* request.c: determine how many ranks run on which hosts, by which launcher. */
#include "config.h"

#include "tools/hvdrun/launcher/request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "topo/machine.h"
#include "topo/node_placement.h"
#include "tools/hvdrun/launcher/facts.h"

static int read_hosts(struct line_request *request, struct hvd_error *err)
{
    const struct hvdrun_options *options = request->options;
    request->hosts_given = true;
    if (options->values[LAUNCH_HOSTS] != NULL)
        return host_list_parse(&request->hosts, "-H", options->values[LAUNCH_HOSTS], err);
    if (options->values[LAUNCH_HOSTFILE] != NULL)
        return host_list_read(&request->hosts, options->values[LAUNCH_HOSTFILE], options->slots_per_host,
                              err);
    request->hosts_given = false;
    return request->facts->lsf_job != NULL ? host_list_of_lsf(&request->hosts, request->environment, err)
                                           : HVD_OK;
}

static int choose_launcher_of(struct line_request *request, struct launch_choice *choice,
                              struct hvd_error *err)
{
    char here[256] = "";
    gethostname(here, sizeof(here) - 1);
    const struct launch_wish wish = {
        .launcher = request->options->launcher,
        .host_count = request->hosts_given ? request->hosts.count : 0,
        .elsewhere = request->hosts_given ? host_list_elsewhere(&request->hosts, here) : NULL,
        .lsf_nodes = request->hosts_given ? 0 : request->hosts.count};
    return launcher_choose(request->facts, &wish, choice, err);
}

/* In a job with jsrun LSF's first host is the launch node, which runs no ranks. */
static void leave_launch_node_out(struct host_list *hosts)
{
    if (hosts->count == 0)
        return;
    hosts->count--;
    memmove(hosts->hosts, hosts->hosts + 1, (size_t)hosts->count * sizeof(*hosts->hosts));
}

/* As many ranks as the resource sets have tasks. */
static int count_by_sets(struct line_request *request, struct hvd_error *err)
{
    struct rs_options sets = request->options->sets;
    int nodes = request->facts->slurm_nodes;
    int tasks = sets.tasks == RS_UNSET ? 1 : sets.tasks;
    if (sets.nrs == RS_UNSET && sets.rs_per_host != RS_UNSET && nodes > 1 &&
        sets.rs_per_host <= RS_MAX / nodes)
        sets.nrs = sets.rs_per_host * nodes;
    if (sets.rs_per_host != RS_UNSET && tasks <= RS_MAX / sets.rs_per_host)
        request->ranks_per_node = sets.rs_per_host * tasks;
    return rank_count(request->options->ranks, &sets, &request->ranks, err);
}

static int count_ranks(struct line_request *request, enum launcher launcher, struct hvd_error *err)
{
    const struct hvdrun_options *options = request->options;
    int slots = host_list_slots(&request->hosts);
    request->ranks = options->ranks;
    if (launcher == LAUNCHER_AGENTS || (launcher == LAUNCHER_LOCAL && hvdrun_options_watch_hostfile(options)))
        return HVD_OK; /* the job waits for slots, and takes what it may */
    if (launcher == LAUNCHER_SRUN && options->sets.given)
        return count_by_sets(request, err);
    if (request->hosts_given && options->ranks > slots)
        return error_set(
            err, HVD_ERR_INVALID,
            "%d ranks are asked for, but the hosts have %d slot%s; start fewer, or give a host more, "
            "as in -H %s:%d",
            options->ranks, slots, slots == 1 ? "" : "s", request->hosts.hosts[0].name,
            request->hosts.hosts[0].slots + options->ranks - slots);
    if (options->ranks == 0 && request->hosts_given)
        request->ranks = slots;
    else if (options->ranks == 0 && launcher == LAUNCHER_SRUN)
        request->ranks = request->facts->slurm_tasks;
    else if (options->ranks == 0 && launcher != LAUNCHER_JSRUN)
        request->ranks = 1;
    return HVD_OK;
}

/* LSF has the same kind of nodes everywhere, so that this one tells of all. */
static int threads_of_core(void)
{
    struct machine *machine = NULL;
    struct node_placement here = {.cores_only = true};
    if (node_placement_load_machine(&here, &machine, NULL) != HVD_OK || machine->core_count == 0) {
        machine_destroy(machine);
        return 1;
    }
    int threads = machine->cores[0].cpu_count;
    machine_destroy(machine);
    return threads;
}

/* What the launcher itself must be asked. */
static int ask_launcher(struct line_request *request, enum launcher launcher, struct hvd_error *err)
{
    char answer[4096] = "";
    if (launcher == LAUNCHER_SRUN && environment_value(request->environment, "SLURM_MPI_TYPE") == NULL) {
        launch_facts_ask("srun", "--mpi=list", answer, sizeof(answer));
        request->pmix = strstr(answer, "pmix") != NULL;
    } else if (launcher == LAUNCHER_MPIRUN) {
        launch_facts_ask("mpirun", "--version", answer, sizeof(answer));
        const char *version = strstr(answer, "Open MPI) ");
        if (version == NULL)
            return error_set(
                err, HVD_ERR_INVALID,
                "mpirun in PATH is not Open MPI's: --version says %.60s; put Open MPI's first, or "
                "start the program by that mpirun itself",
                answer[0] == 0 ? "nothing" : answer);
        request->prrte = strtol(version + strlen("Open MPI) "), NULL, 10) >= 5;
    } else if (launcher == LAUNCHER_JSRUN) {
        request->threads = threads_of_core();
    }
    return HVD_OK;
}

int launch_request_read(struct line_request *request, struct launch_facts *facts,
                        struct hvdrun_options *options, char *const *environment,
                        struct launch_choice *choice, struct hvd_error *err)
{
    launch_facts_read(facts, environment);
    *request =
        (struct line_request){.options = options, .facts = facts, .environment = environment, .threads = 1};
    int status = read_hosts(request, err);
    if (status == HVD_OK)
        status = choose_launcher_of(request, choice, err);
    if (status == HVD_OK && choice->launcher == LAUNCHER_JSRUN && !request->hosts_given)
        leave_launch_node_out(&request->hosts);
    if (status == HVD_OK)
        status = count_ranks(request, choice->launcher, err);
    if (status != HVD_OK)
        return status;
    if (request->hosts_given)
        host_list_fill(&request->hosts, request->ranks);
    else if (request->hosts.count > 0)
        host_list_spread(&request->hosts, request->ranks);
    if (choice->launcher == LAUNCHER_LOCAL && request->hosts_given && options->app_count == 1)
        options->ranks = request->ranks;
    bool is_own = choice->launcher == LAUNCHER_LOCAL || choice->launcher == LAUNCHER_AGENTS;
    return is_own ? HVD_OK : ask_launcher(request, choice->launcher, err);
}
