/* traceback.h: the exception that ended a rank's Python program, from what the program wrote to standard
 * error. Programs that have imported hvd say it themselves, see verdict/error_file.h. Does no I/O. */
#ifndef TOOLS_HVDRUN_TRACEBACK_H
#define TOOLS_HVDRUN_TRACEBACK_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEBACK_STATUS 1 /* with which Python exits after an exception that nobody catches */

/* Of one rank. A zeroed struct has seen nothing. */
struct traceback {
    char line[320];  /* that has not ended; what does not fit is left out */
    size_t used;     /* of it */
    bool open;       /* the frames of a traceback come, and then its exception */
    char frame[320]; /* the last frame of that, as [line] */
    char error[300]; /* the last exception: "ValueError: no more data (train.py:31)"; "": there was none */
};

/* The program has written these bytes. */
void traceback_feed(struct traceback *traceback, const char *bytes, size_t count);

#endif
