/* secret.h: the secret that the ranks of a job share, and that reaches them by their environment alone: which
 * variable holds it, how a launcher draws it, and for which job it counts.
 *
 * A launcher writes "LAUNCHER:" before the random digits. Such a secret counts only where PMIx describes a
 * job of that launcher, or Slurm's PMI does, or nothing but Slurm's variables describes the step, or hvdrun's
 * variables a newcomer of an elastic job, which has no PMIx; since processes hand their environment on: the
 * ranks of a mpirun inside a step would else hold the step's secret on some nodes, and none on others. Any
 * other text is the user's, and counts always. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>

#define SECRET_VARIABLE   "HVD_JOB_KEY"
#define SECRET_OF_HVDRUN  "hvdrun"
#define SECRET_OF_SLURM   "slurm"
#define SECRET_TEXT_BYTES 80 /* a drawn secret, with the final 0 */
#define RANDOM_HEX_BYTES  33 /* 128 bits in hexadecimal digits, with the final 0 */

/* Draw 128 random bits. Returns 0, or -1 with errno. */
int random_hex_draw(char text[RANDOM_HEX_BYTES]);

/* Draw a secret for the jobs of [launcher]. Returns 0, or -1 with errno. */
int secret_draw(const char *launcher, char text[SECRET_TEXT_BYTES]);

/* Did a launcher draw the secret, and not the user choose it? */
bool secret_is_drawn(const char *text);

/* Does Slurm itself serve the wire-up of the job that [environment] describes, by PMIx or PMI? (NULL: that of
 * this process.) */
bool slurm_wires_up_job(char *const *environment);

/* Does it, or do the ranks of a step find each other by the environment? */
bool slurm_launches_job(char *const *environment);

/* The secret of the job that [environment] describes (NULL: that of this process); NULL if it has none. */
const char *secret_of_job(char *const *environment);

#endif
