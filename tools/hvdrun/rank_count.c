/* rank_count.c: how many ranks a job on this machine has. */
#include "tools/hvdrun/rank_count.h"

/* The number of ranks given by -n, or by np: of the resource sets. */
static int asked_count(int asked, const struct rs_options *rs, int *countp, struct hvd_error *err)
{
    if (asked > 0 && rs->np != RS_UNSET && asked != rs->np)
        return error_set(err, HVD_ERR_INVALID,
                         "%d ranks are asked for, but the resource sets are to have np:%d; leave one of them "
                         "out",
                         asked, rs->np);
    *countp = asked > 0 ? asked : rs->np;
    return HVD_OK;
}

static int check_total(int asked, const struct rs_options *rs, int sets, int tasks, struct hvd_error *err)
{
    long long total = (long long)sets * tasks;
    if (asked == 0 && total > HVDRUN_MAX_RANKS)
        return error_set(err, HVD_ERR_INVALID,
                         "%d resource sets of %d tasks are %lld ranks; hvdrun starts up to %d", sets, tasks,
                         total, HVDRUN_MAX_RANKS);
    if (asked > HVDRUN_MAX_RANKS)
        return error_set(err, HVD_ERR_INVALID, "np:%d: hvdrun starts up to %d ranks", asked,
                         HVDRUN_MAX_RANKS);
    if (asked > 0 && rs->nrs != RS_UNSET && asked != total)
        return error_set(err, HVD_ERR_INVALID,
                         "%d ranks are asked for, but %d resource set%s of %d task%s %s %lld; leave -n out, "
                         "or change the sets",
                         asked, sets, sets == 1 ? "" : "s", tasks, tasks == 1 ? "" : "s",
                         total == 1 ? "is" : "are", total);
    return HVD_OK;
}

int rank_count(int asked, struct rs_options *rs, int *countp, struct hvd_error *err)
{
    if (rs == NULL && asked > HVDRUN_MAX_RANKS)
        return error_set(err, HVD_ERR_INVALID,
                         "%d ranks are asked for; hvdrun starts up to %d on one machine", asked,
                         HVDRUN_MAX_RANKS);
    if (rs == NULL) {
        *countp = asked > 0 ? asked : 1;
        return HVD_OK;
    }
    int status = asked_count(asked, rs, &asked, err);
    if (status != HVD_OK)
        return status;
    int sets = rs->nrs != RS_UNSET ? rs->nrs : rs->rs_per_host != RS_UNSET ? rs->rs_per_host : 1;
    int tasks = rs->tasks != RS_UNSET ? rs->tasks : 1;
    if (rs->nrs != RS_UNSET && rs->tasks == RS_UNSET && asked > 0 && asked % sets == 0)
        tasks = asked / sets;
    status = check_total(asked, rs, sets, tasks, err);
    if (status != HVD_OK)
        return status;
    if (rs->nrs != RS_UNSET)
        rs->tasks = tasks;
    *countp = asked > 0 ? asked : sets * tasks;
    return HVD_OK;
}
