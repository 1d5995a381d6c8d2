/* options.h: hvdinfo --options and --man: the options that hvd has, and Horovod's variables. */
#ifndef TOOLS_HVDINFO_OPTIONS_H
#define TOOLS_HVDINFO_OPTIONS_H

int hvdinfo_options(void);

/* As mdoc for a manual page: hvd's options, and Horovod's variables that are none of these. */
int hvdinfo_man(void);
int hvdinfo_man_horovod(void);

#endif
