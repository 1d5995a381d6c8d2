/* top.c: repaint the screen with the ranks of the moment, and take keys. */
#include "config.h"
#include "tools/hvdinfo/ps/top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/descriptors.h"

/* Home, and clear what is below: understood by every terminal of today. */
#define REPAINT "\033[H\033[J"

struct top {
    struct show_view *view;
    bool paused, ended;
    int shown;             /* ranks on the screen */
    bool has_keys;         /* the terminal is set for keys: */
    struct termios before; /* and was so */
    int signal_fd;         /* signals that end it; -1 without keys */
};

/* ---- The terminal -------------------------------------------------------------------------------- */

static void take_terminal(struct top *top)
{
    sigset_t ends;
    top->signal_fd = -1;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &top->before) < 0)
        return;
    struct termios keys = top->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* stopped, it would leave the terminal like this */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    top->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC);
    top->has_keys = tcsetattr(STDIN_FILENO, TCSADRAIN, &keys) == 0;
}

static void give_terminal_back(struct top *top)
{
    if (top->has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &top->before);
    descriptors_close(&top->signal_fd);
}

/* As much of [text] as the screen has room for, with long lines broken. */
static void print_screen(const char *text)
{
    struct winsize size = {.ws_row = 0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    int left = size.ws_row - 1;
    while (*text != 0) {
        size_t length = strcspn(text, "\n");
        left -= known ? 1 + ((int)length - 1) / size.ws_col : 0;
        if (known && left < 0)
            return;
        length += text[length] == '\n';
        fwrite(text, 1, length, stdout);
        text += length;
    }
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

static void select_rank(struct top *top, int by)
{
    int next = top->view->selected + by;
    top->view->selected = next < 0 ? -1 : next >= top->shown ? top->shown - 1 : next;
}

static void take_key(struct top *top, char key)
{
    static const enum show_order next[SHOW_ORDERS] = {
        [SHOW_BY_RANK] = SHOW_BY_TIME, [SHOW_BY_TIME] = SHOW_BY_WAITING, [SHOW_BY_WAITING] = SHOW_BY_RANK};
    switch (key) {
    case 'q':
        top->ended = true;
        break;
    case 'p':
    case ' ':
        top->paused = !top->paused;
        break;
    case 'a':
        top->view->each = !top->view->each;
        break;
    case 's':
        top->view->order = next[top->view->order];
        top->view->each = true;
        break;
    case 'j':
    case 'B': /* the end of what the arrow keys send */
        select_rank(top, 1);
        break;
    case 'k':
    case 'A':
        select_rank(top, -1);
        break;
    default:
        break;
    }
}

/* Until a key comes, or it is time to look again. */
static void await_key(struct top *top, int wait_ms)
{
    char keys[16];
    struct pollfd polled[] = {{.fd = top->has_keys ? STDIN_FILENO : -1, .events = POLLIN},
                              {.fd = top->signal_fd, .events = POLLIN}};
    poll(polled, 2, top->paused ? -1 : wait_ms);
    ssize_t count = polled[0].revents != 0 ? read(STDIN_FILENO, keys, sizeof(keys)) : 0;
    top->ended = polled[1].revents != 0 || (polled[0].revents != 0 && count <= 0);
    for (ssize_t i = 0; i < count; i++)
        take_key(top, keys[i]);
}

/* ---- The picture --------------------------------------------------------------------------------- */

static void put_keys(FILE *to, const struct top *top)
{
    static const char *const orders[SHOW_ORDERS] = {
        [SHOW_BY_RANK] = "rank", [SHOW_BY_TIME] = "time", [SHOW_BY_WAITING] = "waiting"};
    if (top->has_keys)
        fprintf(to, "q: quit  space: %s  a: %s  s: sort by %s  j, k: select a rank\n",
                top->paused ? "go on" : "pause", top->view->each ? "together" : "each rank",
                orders[top->view->order]);
}

static int paint(struct top *top, const struct ranks *ranks, const char *note, struct hvd_error *err)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    int rc = HVD_ERR_NO_MEMORY;
    top->shown = ranks->count;
    if (to != NULL) {
        put_keys(to, top);
        if (note[0] != 0)
            fprintf(to, "%s\n", note);
        rc = show_text(to, ranks, top->view);
        rc = fclose(to) == 0 ? rc : HVD_ERR_NO_MEMORY;
    }
    if (rc == HVD_OK) {
        fputs(REPAINT, stdout);
        print_screen(text);
    }
    free(text);
    return rc == HVD_OK ? rc : error_set(err, rc, "no memory for the ranks of the job");
}

int top_run(top_find_f *find, const void *arg, struct show_view *view, struct hvd_error *err)
{
    struct top top = {.view = view};
    struct ranks ranks = {0};
    int wait_ms = 0;
    int rc = find(arg, &ranks, &wait_ms, err);
    take_terminal(&top);
    while (rc == HVD_OK && !top.ended) {
        rc = paint(&top, &ranks, err->text, err);
        if (rc != HVD_OK || fflush(stdout) != 0 || ranks.count == 0)
            break;
        await_key(&top, wait_ms);
        if (top.paused || top.ended)
            continue;
        ranks_free(&ranks);
        err->text[0] = 0;
        rc = find(arg, &ranks, &wait_ms, err);
    }
    give_terminal_back(&top);
    ranks_free(&ranks);
    return rc;
}
