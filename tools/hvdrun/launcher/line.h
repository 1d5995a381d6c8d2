/* line.h: the command line of the launcher that hvdrun becomes. */
#ifndef TOOLS_HVDRUN_LAUNCHER_LINE_H
#define TOOLS_HVDRUN_LAUNCHER_LINE_H

#include <stddef.h>
#include <stdio.h>

#include "tools/hvdrun/launcher/hosts.h"
#include "tools/hvdrun/launcher/launcher.h"
#include "tools/hvdrun/options.h"

/* A list of words that grows; [list] is NULL-terminated once it has one. After a failure [failed] stays set.
 */
struct words {
    char **list;
    size_t count, room;
    bool failed;
};

void words_add(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
void words_free(struct words *words);

enum hosts_form {
    HOSTS_ONCE,       /* h1,h2 */
    HOSTS_WITH_SLOTS, /* h1:4,h2:4 */
    HOSTS_BY_RANK     /* h1,h1,h2: each as often as it has ranks */
};

/* Add a word: [start], and the hosts behind it. */
void words_add_hosts(struct words *words, const char *start, const struct host_list *hosts,
                     enum hosts_form form);

/* What is known when a command line is written. */
struct line_request {
    const struct hvdrun_options *options;
    const struct launch_facts *facts;
    char *const *environment;
    struct host_list hosts; /* by -H, --hostfile, or in an LSF job those of the job */
    bool hosts_given;       /* by -H or --hostfile */
    int ranks;              /* 0: as many as the launcher starts by itself */
    int ranks_per_node;     /* srun: at most; 0: as Slurm likes */
    bool pmix;              /* srun: Slurm has PMIx */
    bool prrte;             /* mpirun: it is PRRTE's, as in Open MPI 5 */
    int threads;            /* jsrun: hardware threads of a core */
};

/* How a launcher is started. Free it with launch_line_free. */
struct launch_line {
    struct words words;     /* its command line */
    struct words variables; /* "NAME=value", to set before; not the secret of the job */
    char *resource_file;    /* text of an explicit resource file; NULL: none is needed */
    size_t resource_word;   /* the word that is to name the file */
};

/* Write the command line for [launcher], which is not LAUNCHER_LOCAL. Pure. Returns HVD_OK, HVD_ERR_INVALID
 * if an option of hvdrun is not among those that this launcher can honour, or HVD_ERR_NO_MEMORY. */
int launch_line_write(struct launch_line *line, enum launcher launcher, const struct line_request *request,
                      struct hvd_error *err);
void launch_line_free(struct launch_line *line);

/* Print it as commands of a shell that would do the same, with [why] as a comment. */
void launch_line_show(const struct launch_line *line, const char *why, FILE *to);

/* Write a word so that a shell reads it as it is. */
void show_word(const char *word, FILE *to);

/* The stages of launch_line_write, one for each launcher. */
int srun_line(struct launch_line *line, const struct line_request *request, struct hvd_error *err);
int jsrun_line(struct launch_line *line, const struct line_request *request, struct hvd_error *err);
int mpirun_line(struct launch_line *line, const struct line_request *request, bool prrte,
                struct hvd_error *err);

/* Add the program that the ranks run. Several programs become one, a shell that looks for its rank in
 * [rank_variable]. */
void line_add_program(struct launch_line *line, const struct line_request *request,
                      const char *rank_variable);

/* Which launcher can honour what [launcher] cannot, as the end of a sentence. */
const char *line_instead(enum launcher launcher, bool agents_can);

/* Is the output of each rank to go to files alone? */
bool line_is_to_files(const struct hvdrun_options *options);

#endif
