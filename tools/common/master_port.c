/* master_port.c: find a port for MASTER_PORT. */
#include "tools/common/master_port.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/launch_variables.h"

#define PORT_TRIES 100

/* Nobody has listened or connected there when this returns, so rank 0 can listen at once. */
static bool is_free(int port)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;
    descriptors_close(&fd);
    return bound;
}

/* Random, so that two jobs that start at the same time find different ones. */
int master_port_find(void)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        unsigned int number = 0;
        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
            return 0;
        int port = MASTER_PORT_FIRST + (int)(number % MASTER_PORT_COUNT);
        if (is_free(port))
            return port;
    }
    return 0;
}
