/* network.c: which networks a job has found: each rank prints the variables that hvd has set for other
 * libraries, and the local addresses of its connections. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "ranks.h"

static void say_settings(void)
{
    static const char *const names[] = {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES",
                                        "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        printf("rank %d %s=%s\n", rank, names[i], getenv(names[i]) == NULL ? "-" : getenv(names[i]));
}

#define FDS 256

static bool inherited[FDS]; /* the launcher's connections */

static bool is_connection(int fd)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static void say_connections(void)
{
    for (int fd = 3; fd < FDS; fd++) {
        struct sockaddr_storage own;
        struct sockaddr_in6 address;
        char text[INET6_ADDRSTRLEN];
        socklen_t length = sizeof(own);
        if (inherited[fd] || !is_connection(fd))
            continue;
        getsockname(fd, (struct sockaddr *)&own, &length);
        memcpy(&address, &own, sizeof(address));
        const void *bytes = own.ss_family == AF_INET ? (const void *)&((struct sockaddr_in *)&own)->sin_addr
                                                     : (const void *)&address.sin6_addr;
        printf("rank %d connected from %s\n", rank, inet_ntop(own.ss_family, bytes, text, sizeof(text)));
    }
}

int main(void)
{
    float value = 1;
    struct hvd_tensor tensor = {"value", &value, &value, HVD_FLOAT32, 1, {1}, HVD_MEMORY_ANY, 0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int fd = 3; fd < FDS; fd++)
        inherited[fd] = is_connection(fd);
    must(hvd_init(), "hvd_init");
    ranks_know();
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), "hvd_allreduce");
    say_settings();
    say_connections();
    must(hvd_shutdown(), "hvd_shutdown");
    printf("rank %d sum %g\n", rank, (double)value);
    return EXIT_SUCCESS;
}
