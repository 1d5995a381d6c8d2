/* pseudo_terminal.h: a pseudo-terminal for the output of a rank, so that programs write each line when it is
 * complete: the C library and Python collect output in large blocks when it goes to a pipe. */
#ifndef TOOLS_HVDRUN_PSEUDO_TERMINAL_H
#define TOOLS_HVDRUN_PSEUDO_TERMINAL_H

/* Open a pair that passes bytes on unchanged: ends[0] is hvdrun's, ends[1] the rank's. It gets the size of
 * the terminal [like_fd], less [prefix_columns], if that is one. Returns 0, or -1 with errno. */
int pseudo_terminal_open(int ends[2], int like_fd, int prefix_columns);

#endif
