/* place_variables.c: tell a rank its place in the job by the variables of torchrun and horovodrun. */
#include "tools/hvdrun/place_variables.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_TRIES 100

void place_variables_fill(struct place_variables *variables, int rank, int size)
{
    const struct launch_place place = {
        .rank = rank, .size = size, .local_rank = rank, .local_size = size, .node = 0, .node_count = 1};
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        snprintf(variables->text[i], sizeof(variables->text[i]), "%s=%d", launch_variable_name(i),
                 launch_variable_value(i, &place));
        variables->strings[i] = variables->text[i];
    }
    variables->strings[LAUNCH_VARIABLES] = NULL;
}

/* Nobody has listened or connected there when this returns, so rank 0 can listen at once. */
static bool is_free(int port)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;
    if (fd >= 0)
        close(fd);
    return bound;
}

/* Random, so that two jobs that start at the same time find different ones. */
int place_variables_find_port(void)
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
