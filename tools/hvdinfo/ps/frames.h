/* frames.h: in which calls a rank's main thread is, as a tool that is installed here says. */
#ifndef TOOLS_HVDINFO_PS_FRAMES_H
#define TOOLS_HVDINFO_PS_FRAMES_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"

/* For so long the tool may run. */
#define FRAMES_WAIT_S 30

/* In the line before the calls. */
#define FRAMES_TITLE "its main thread, innermost call first"

/* Write a line for each call that the main thread of [pid] is in, innermost first. Of a Python program these
 * are Python's by py-spy, which only reads the program's memory. Of others, without py-spy and with [native]
 * these are the calls of C, by eu-stack or gdb, which attach to the program: the kernel stops it while they
 * read the stack. HVD_OK, HVD_ERR_STATE where the process does not let them or none is installed, or as
 * ask_program. */
int frames_write(FILE *to, pid_t pid, bool native, struct hvd_error *err);

#endif
