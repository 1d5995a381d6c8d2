/* rank_places.h: where the ranks of a job run on this machine: reads the request and decides the placement.
 */
#ifndef TOOLS_HVDRUN_RANK_PLACES_H
#define TOOLS_HVDRUN_RANK_PLACES_H

#include "topo/plan/plan.h"
#include "tools/hvdrun/options.h"

struct rank_places;

/* Read the request: the options in force in the ranks' [environment], the number of ranks that is [asked] for
 * (0: none is), and the explicit resource file. [options] and [environment] must stay valid until
 * rank_places_destroy. Returns HVD_OK, or an error with the message for the user and *placesp unchanged. */
int rank_places_create(struct rank_places **placesp, const struct hvdrun_options *options, int asked,
                       char *const *environment, struct hvd_error *err);

/* [places] may be NULL. */
void rank_places_destroy(struct rank_places *places);

/* The number of ranks of the job. */
int rank_places_count(const struct rank_places *places);

/* Read the topology of this machine, named [host], and place the ranks on the CPUs that hvdrun may use. Call
 * it before any rank is started. If placement fails and the user did not ask for it, the ranks run wherever
 * hvdrun may, and HVD_OK is returned; where the system does not let it bind them, it warns. */
int rank_places_decide(struct rank_places *places, const char *host, struct hvd_error *err);

/* Print the lines of --hvd-bind=...,verbose, if it was given. */
void rank_places_print(const struct rank_places *places);

/* The CPUs and memory that [rank] is bound to; NULL: it is not bound. */
const struct plan_task *rank_places_task(const struct rank_places *places, int rank);

/* The rank to start when [started_count] were started. */
int rank_places_to_start(const struct rank_places *places, int started_count);

/* The variables of [rank]: "NAME=value" strings, NULL-terminated, which override the shared environment. */
char *const *rank_places_environment(const struct rank_places *places, int rank);

#endif
