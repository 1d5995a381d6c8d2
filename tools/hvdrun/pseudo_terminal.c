/* pseudo_terminal.c: open a pseudo-terminal for the output of a rank. */
#include "config.h"

#include "tools/hvdrun/pseudo_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/descriptors.h"

/* Neither end may become the controlling terminal of a process: Ctrl-C is hvdrun's to pass on. */
static int open_rank_end(int hvdrun_end)
{
    char name[64];
    int rc = grantpt(hvdrun_end) < 0 || unlockpt(hvdrun_end) < 0 ? errno
                                                                 : ptsname_r(hvdrun_end, name, sizeof(name));
    if (rc != 0) {
        errno = rc;
        return -1;
    }
    return open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* A new terminal would turn each newline into two bytes. */
static int pass_bytes_unchanged(int rank_end)
{
    struct termios settings;
    if (tcgetattr(rank_end, &settings) < 0)
        return -1;
    cfmakeraw(&settings);
    return tcsetattr(rank_end, TCSANOW, &settings);
}

static void copy_size(int rank_end, int like_fd, int prefix_columns)
{
    struct winsize size;
    if (ioctl(like_fd, TIOCGWINSZ, &size) < 0 || size.ws_col <= prefix_columns)
        return;
    size.ws_col = (unsigned short)(size.ws_col - prefix_columns);
    ioctl(rank_end, TIOCSWINSZ, &size);
}

int pseudo_terminal_open(int ends[2], int like_fd, int prefix_columns)
{
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0)
        return -1;
    ends[1] = open_rank_end(ends[0]);
    if (ends[1] >= 0 && pass_bytes_unchanged(ends[1]) == 0) {
        copy_size(ends[1], like_fd, prefix_columns);
        return 0;
    }
    int reason = errno;
    descriptors_close(&ends[1]);
    close(ends[0]);
    errno = reason;
    return -1;
}
