/* config.h: the options in force in one process, and who set each. */
#ifndef OPTIONS_CONFIG_H
#define OPTIONS_CONFIG_H

#include "options/bind.h"
#include "options/option.h"
#include "options/resource_set.h"

/* Lowest authority first. */
enum config_source {
    CONFIG_DEFAULT,
    CONFIG_SITE,
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_COMMAND_LINE,
    CONFIG_FORCED /* by the site */
};

struct config_origin {
    enum config_source source;
    char where[80];                    /* the variable or file; "" for the default */
    char text[OPTION_VALUE_BYTES + 1]; /* the value as the user gave it */
};

/* Each field before [origin] belongs to one row of option_table, which says what the field means and what
 * type it has. */
struct hvd_config {
    int64_t fusion_bytes;
    uint64_t backends;   /* option_list_choice; 0: auto */
    int64_t tcp_streams; /* connections */
    int64_t start_timeout_us;
    int64_t lease_us;
    int64_t kill_wait_us;
    int64_t inflight;                                     /* batches */
    int64_t chunk_bytes;                                  /* 0: each backend chooses */
    int64_t cache_limit;                                  /* operations; 0: no limit */
    int64_t stall_warn_us, stall_abort_us, hang_abort_us; /* 0: never */
    option_text autotune_file;                            /* or "" */
    option_text timeline;                                 /* a folder, or "" */
    option_text dump_dir;                                 /* a folder, or "" */
    option_text state_dir;                                /* a folder, or "" */
    option_text config_file;                              /* or "" */
    option_text nccl_library;                             /* a file, or "" */
    option_text nics;                                     /* for nic_filter_parse */
    struct rs_options rs;                                 /* only if rs.given */
    struct bind_options bind;
    int gpu_visible; /* enum gpu_visible */
    int stop_signal; /* SIGTERM; 0: none */
    int progress;    /* enum progress_mode */
    int log_level;   /* enum log_level */
    bool autotune;
    bool encrypt;
    bool mpi_gpu;
    struct config_origin origin[OPTION_MAX]; /* indexed by option_index */
    uint64_t warnings; /* what was warned of, as a number: ranks with the same one need not all say it */
};

/* After which time the job ends if what waits cannot go on, as a rank does not answer; 0: never. */
static inline int64_t config_hang_limit(const struct hvd_config *config)
{
    bool hang_first = config->stall_abort_us == 0 ||
                      (config->hang_abort_us > 0 && config->hang_abort_us < config->stall_abort_us);
    return hang_first ? config->hang_abort_us : config->stall_abort_us;
}

/* The option whose value a field holds: OPTION_OF(fusion_bytes). */
#define OPTION_OF(field) option_at(offsetof(struct hvd_config, field))

/* The variables that launchers write: lists of name=value separated by ';'. Only users write HVD_<NAME>.
 * In HVD_SITE, force=name=value goes before what users set. */
#define CONFIG_CLI_VARIABLE  "HVD_CLI"
#define CONFIG_SITE_VARIABLE "HVD_SITE"
#define CONFIG_LIST_BYTES    8191 /* the longest such list */

#define CONFIG_FILE_BYTES 65536 /* the longest file of --hvd-config */

/* Read the defaults, HVD_SITE, the file that --hvd-config names, the environment, HVD_CLI, and what HVD_SITE
 * forces, with authority in this order, lowest first. Variables come from [environment] ("NAME=value"
 * strings, NULL-terminated). Calls [warn] (may be NULL) with one sentence for each unknown HVD_* variable and
 * each retired one, for each value of the user's in whose place another is forced, and, in a set-uid program,
 * for each option that names a file or a folder, which it ignores. Returns HVD_OK, or HVD_ERR_INVALID or
 * HVD_ERR_NO_MEMORY with *config unchanged. */
int config_load(struct hvd_config *config, char *const *environment, void (*warn)(const char *sentence),
                struct hvd_error *err);

/* As config_load, but reads the file by [read_file]. With NULL no file is opened: slurmstepd must not open
 * files that users name, and has no YAML reader. */
typedef int config_read_file_f(const char *path,
                               int (*on_entry)(void *arg, const char *name, const char *value,
                                               struct hvd_error *err),
                               void *arg, struct hvd_error *err);
int config_load_with(config_read_file_f *read_file, struct hvd_config *config, char *const *environment,
                     void (*warn)(const char *sentence), struct hvd_error *err);

/* Append name=value to a list for HVD_CLI or HVD_SITE. When the list is read, the last value of a name wins.
 * The value must have passed option_parse. Returns HVD_ERR_INVALID with [list] unchanged if the value holds a
 * ';' or the list would grow over CONFIG_LIST_BYTES. [list] has CONFIG_LIST_BYTES + 1 bytes. */
int config_list_add(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err);

/* As config_list_add, for HVD_SITE: append force=name=value. */
int config_list_force(char *list, const struct hvd_option *option, const char *value, struct hvd_error *err);

/* Write the value in force as a user types it, or who set it: "command line", "environment (HVD_FUSION)". */
void config_value(const struct hvd_config *config, const struct hvd_option *option, char *text,
                  size_t text_bytes);
void config_source_text(const struct hvd_config *config, const struct hvd_option *option, char *text,
                        size_t text_bytes);

/* Has anybody set an option that says how tasks are placed? */
bool config_has_placement(const struct hvd_config *config);

/* Is it an error if the tasks cannot be placed? Not if the options bind nothing, hide nothing and print
 * nothing, which needs no plan. An explicit resource file is not an option: hvdrun, which reads it, checks
 * for itself. */
bool config_requires_placement(const struct hvd_config *config);

#endif
