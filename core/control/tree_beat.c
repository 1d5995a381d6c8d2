/* tree_beat.c: beats between the leaders of nodes in an elastic job, which goes on without a node that is
 * stopped as a whole. Its kernel keeps the connections with its ranks alive. */
#include "config.h"
#include "control/tree_state.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

static bool has_sockets(const struct tree *tree)
{
    int i = 0;
    while (i < tree->link_count && tree->links[i].fd < 0)
        i++;
    return i < tree->link_count;
}

int tree_open_beats(struct tree *tree, struct hvd_error *err)
{
    const struct timespec interval = clock_timespec(beat_interval_us(tree->peer_table->lease_us));
    const struct itimerspec times = {.it_interval = interval, .it_value = interval};
    if (!tree->peer_table->beats || !has_sockets(tree))
        return HVD_OK;
    tree->beat_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return tree->beat_fd >= 0 && timerfd_settime(tree->beat_fd, 0, &times, NULL) == 0
               ? HVD_OK
               : error_set_errno(err, "cannot send beats to the ranks of other nodes (timerfd)");
}

static void lose(struct tree *tree, int rank)
{
    if (tree->farewelled || tree->aborted)
        return;
    tree->control.silent_rank = rank;
    tree_rank_lost(
        tree, rank,
        "it was silent for three times --hvd-lease, although its node answers: it is stopped, or its "
        "node hangs");
}

void tree_check_beats(struct tree *tree)
{
    uint64_t times = 0;
    if (tree->beat_fd < 0 || read(tree->beat_fd, &times, sizeof(times)) < 0)
        return;
    for (int i = 0; i < tree->link_count; i++) {
        struct link *link = &tree->links[i];
        if (link->fd < 0 || tree->peer_left[i])
            continue;
        if (tree->unanswered[i]++ < BEATS_UNANSWERED_MAX)
            link_send(link, FRAME_BEAT, tree->peer_table->epoch, NULL, 0, NULL);
        else
            lose(tree, link->rank);
    }
}
