/* rank_places.h: where the ranks of a job run on this machine: what is asked for, and what comes of it. */
#ifndef TOOLS_HVDRUN_RANK_PLACES_H
#define TOOLS_HVDRUN_RANK_PLACES_H

#include "topo/plan/plan.h"
#include "tools/hvdrun/options.h"

struct rank_places;

/* Read what is asked for: the options in force in [environment], that of the ranks, and the explicit resource
 * file. Both arguments are borrowed until rank_places_destroy. HVD_OK; HVD_ERR_INVALID and others with the
 * sentence to show, *placesp is unchanged then. */
int rank_places_create(struct rank_places **placesp, const struct hvdrun_options *options,
                       char *const *environment, struct hvd_error *err);

/* [places] may be NULL. */
void rank_places_destroy(struct rank_places *places);

/* How many ranks that makes. */
int rank_places_count(const struct rank_places *places);

/* Look at this machine, named [host], and place the ranks within the CPUs that hvdrun may use. Call it while
 * there is one thread. Where nothing was asked for and that cannot be done, ranks run where hvdrun may, and
 * HVD_OK is returned. */
int rank_places_decide(struct rank_places *places, const char *host, struct hvd_error *err);

/* The lines that --hvd-bind=...,verbose asks for. */
void rank_places_print(const struct rank_places *places);

/* Where to start [rank]: NULL: where hvdrun may run. */
const struct plan_task *rank_places_task(const struct rank_places *places, int rank);

/* What it is told, "NAME=value" strings, NULL-terminated; they replace what is in its environment. */
char *const *rank_places_environment(const struct rank_places *places, int rank);

#endif
