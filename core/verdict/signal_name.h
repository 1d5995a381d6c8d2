/* signal_name.h: the name of a signal. */
#ifndef VERDICT_SIGNAL_NAME_H
#define VERDICT_SIGNAL_NAME_H

#define SIGNAL_NAME_BYTES 24

/* "SIGKILL"; "signal 40" where it has no name. Returns [name]. */
const char *signal_name(int number, char name[SIGNAL_NAME_BYTES]);

#endif
