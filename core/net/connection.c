/* connection.c: a connection between two ranks: who is at its ends, why it broke, and whether the other end
 * still answers. */
#include "config.h"
#include "net/connection.h"

#include <errno.h>
#include <linux/tcp.h> /* glibc has a struct tcp_info of its own, without tcpi_segs_in */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/address.h"
#include "net/peer_table.h"

/* ---- Its ends ---- */

void connection_ends_of(struct connection_ends *ends, int rank, int fd)
{
    *ends = (struct connection_ends){.rank = rank};
    address_of_socket_end(fd, true, &ends->own);
    address_of_socket_end(fd, false, &ends->peer);
}

/* "rank 3 (n2) at 10.0.0.2"; where the address is not known, without it. */
static void end_text(const struct peer_table *peer_table, int rank, const struct in6_addr *address,
                     char *text, size_t text_bytes)
{
    char number[ADDRESS_TEXT_BYTES];
    peer_table_rank_name(peer_table, rank, text, text_bytes);
    size_t used = strlen(text);
    if (IN6_IS_ADDR_UNSPECIFIED(address))
        return;
    address_text(address, number);
    snprintf(text + used, text_bytes - used, " at %s", number);
}

void connection_ends_text(const struct connection_ends *ends, const struct peer_table *peer_table,
                          char text[CONNECTION_ENDS_BYTES])
{
    char own[CONNECTION_ENDS_BYTES / 2 - 10], peer[CONNECTION_ENDS_BYTES / 2 - 10];
    end_text(peer_table, peer_table->rank, &ends->own, own, sizeof(own));
    end_text(peer_table, ends->rank, &ends->peer, peer, sizeof(peer));
    snprintf(text, CONNECTION_ENDS_BYTES, "%s with %s", own, peer);
}

void connection_cause_text(int error, int64_t lease_us, char text[CONNECTION_CAUSE_BYTES])
{
    char lease[60];
    snprintf(lease, sizeof(lease), "nothing was heard over it for %g s (--hvd-lease)",
             (double)lease_us / 1e6);
    if (error == 0)
        snprintf(text, CONNECTION_CAUSE_BYTES,
                 "was closed: the other end has ended, and its own messages say why");
    else if (error == ETIMEDOUT)
        snprintf(text, CONNECTION_CAUSE_BYTES, "is dead: %s", lease);
    else if (error == ECONNRESET || error == EPIPE)
        snprintf(text, CONNECTION_CAUSE_BYTES, "was reset: the other end has ended, or there %s", lease);
    else if (error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN || error == ENETDOWN)
        snprintf(text, CONNECTION_CAUSE_BYTES, "is dead (%s): %s", strerror(error), lease);
    else if (error == EBADMSG)
        snprintf(text, CONNECTION_CAUSE_BYTES,
                 "was tampered with: what came over it is not what was sent (--hvd-encrypt)");
    else
        snprintf(text, CONNECTION_CAUSE_BYTES, "broke: %s", strerror(error));
}

bool connection_is_loss(int error)
{
    static const int losses[] = {0,         EPIPE,       ECONNRESET, ECONNABORTED, ETIMEDOUT, EHOSTUNREACH,
                                 EHOSTDOWN, ENETUNREACH, ENETDOWN,   ENETRESET};
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        if (losses[i] == error)
            return true;
    }
    return false;
}

/* ---- Its life ---- */

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif
void connection_set_options(int fd, int64_t lease_us)
{
    int lease_s = (int)((lease_us + INT64_C(1000000) - 1) / INT64_C(1000000));
    int idle_s = lease_s * 2 / 5 > 0 ? lease_s * 2 / 5 : 1;
    int interval_s = lease_s / 5 > 0 ? lease_s / 5 : 1;
    int probes = (lease_s - idle_s) / interval_s > 0 ? (lease_s - idle_s) / interval_s : 1;
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, idle_s},
        {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, probes},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(lease_us / 1000)},
        {IPPROTO_TCP, TCP_RTO_MAX_MS, interval_s * 1000},
        {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* TCP_USER_TIMEOUT also fires when the other end acknowledges but reads nothing for that long. The receiving
 * end of a connection still notices a cut link, since it has nothing in flight and sends keepalives; the
 * control tree notices a dead node. */
bool connection_wait_for_reader(int fd)
{
    unsigned int never = 0;
    return setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never)) == 0;
}

/* One question without an answer tells nothing: a kernel answers two of them a second, and an answer may be
 * lost. */
#define UNANSWERED 2

/* The kernel asks ever more slowly, in the end less often than once in a lease: a silence counts from the
 * last answer, and only where something was asked since. */
bool connection_is_dead(struct connection_silence *silence, int fd, int64_t lease_us, int64_t now_us)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
        length < offsetof(struct tcp_info, tcpi_segs_in) + sizeof(info.tcpi_segs_in) || /* before Linux 4.2 */
        (info.tcpi_unacked == 0 && info.tcpi_probes == 0)) {
        silence->since_us = 0;
        return false;
    }
    if (silence->since_us == 0 || now_us - silence->looked_us > lease_us / 2 ||
        silence->heard != info.tcpi_segs_in) {
        silence->since_us = now_us;
        silence->heard = info.tcpi_segs_in;
        silence->resent = info.tcpi_total_retrans;
    }
    silence->looked_us = now_us;
    uint32_t resent = info.tcpi_total_retrans - silence->resent;
    return (resent >= UNANSWERED || info.tcpi_probes >= UNANSWERED) && now_us - silence->since_us >= lease_us;
}
