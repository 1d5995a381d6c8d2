/* commands.h: the commands of hvdinfo. [arguments]: what follows the command on the command line, up to a
 * NULL. Each returns the exit status. */
#ifndef TOOLS_HVDINFO_COMMANDS_H
#define TOOLS_HVDINFO_COMMANDS_H

int hvdinfo_env(char *const *arguments);
int hvdinfo_map(char *const *arguments);
int hvdinfo_metrics(char *const *arguments);
int hvdinfo_nics(char *const *arguments);
int hvdinfo_ps(char *const *arguments);
int hvdinfo_stack(char *const *arguments);
int hvdinfo_top(char *const *arguments);
int hvdinfo_trace(char *const *arguments);

/* hvdinfo --options: the options that hvd has, and Horovod's variables. */
int hvdinfo_options(void);

/* As mdoc for a manual page: hvd's options, and Horovod's variables that are none of these. */
int hvdinfo_man(void);
int hvdinfo_man_horovod(void);

/* Likewise, the events and metrics of hvdrun. */
int hvdinfo_man_events(void);

/* What a configuration file or a variable has that is no option: a warning, after what was printed before. */
void hvdinfo_warn(const char *sentence);

#endif
