/* server_crash.c: what the process of the PMIx server says when it crashes. */
#include "config.h"

#include "pmix_shim/server_crash.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmix_shim/upcall.h"

#define MOST_FDS 8192 /* more than the most ranks need */

static const struct event_channel *crash_channel;

/* Connections whose other end has not closed them. */
static int count_connections(void)
{
    int count = 0;
    for (int fd = STDERR_FILENO + 1; fd < MOST_FDS; fd++) {
        struct tcp_info info;
        socklen_t length = sizeof(info);
        count +=
            getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_ESTABLISHED;
    }
    return count;
}

/* Ranks may connect and leave while their connections are counted. */
static int count_lost_ranks(void)
{
    int before = upcall_connection_count();
    int connections = count_connections();
    int after = upcall_connection_count();
    int joined = before < after ? before : after;
    return joined > connections ? joined - connections : 0;
}

/* Calls nothing that a signal handler may not call. Its action was reset, so the signal ends the process now.
 */
static void on_crash(int number)
{
    const struct server_event crash = {.kind = SERVER_CRASHES, .rank = 0, .status = count_lost_ranks()};
    event_channel_post(crash_channel, &crash);
    raise(number);
}

void server_crash_report(const struct event_channel *channel)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    crash_channel = channel;
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        sigaction(crashes[i], &action, NULL);
}
