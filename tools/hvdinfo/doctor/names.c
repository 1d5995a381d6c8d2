/* names.c: does this node find the names that its programs ask for? hvd itself needs none, but torch and
 * others meet at MASTER_ADDR, and gloo looks for the name of its own node. */
#include <netdb.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/launch_variables.h"
#include "tools/hvdinfo/doctor/checks.h"

/* 0, or what getaddrinfo says. */
static int resolve(const char *name)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(name, NULL, &hints, &found);
    if (problem == 0)
        freeaddrinfo(found);
    return problem;
}

void check_names(const struct patient *patient, struct finding *finding)
{
    static const char mend[] = "add it to the DNS, or to /etc/hosts of each node";
    char own[64] = "";
    const char *meeting = environment_value(patient->environment, MASTER_ADDR_VARIABLE);
    gethostname(own, sizeof(own) - 1);
    int of_meeting = meeting == NULL ? 0 : resolve(meeting), of_own = resolve(own);
    if (of_meeting != 0)
        find(finding, CHECK_FAIL, mend, MASTER_ADDR_VARIABLE "=%.100s does not resolve here (%s)", meeting,
             gai_strerror(of_meeting));
    else if (of_own != 0)
        find(finding, CHECK_WARN, mend, "%s, the name of this node, does not resolve here (%s)", own,
             gai_strerror(of_own));
    else if (meeting != NULL)
        find(finding, CHECK_OK, NULL, "those of this node and of " MASTER_ADDR_VARIABLE " resolve");
    else
        find(finding, CHECK_OK, NULL, "that of this node resolves");
}
