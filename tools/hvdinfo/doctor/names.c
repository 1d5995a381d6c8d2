/* names.c: does this node find the names that its programs ask for? hvd itself needs none, but torch and
 * others meet at MASTER_ADDR, and gloo looks for the name of its own node. */
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/launch_variables.h"
#include "tools/hvdinfo/doctor/checks.h"

/* 0, or what getaddrinfo says. */
static int resolve(const char *name, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(name, NULL, &hints, &found);
    if (problem == 0)
        freeaddrinfo(found);
    return problem;
}

/* Slurm's plug-in puts the address where the name is of no use. The user's own address is as good as a name.
 */
static bool is_plugins_address(char *const *environment, const char *meeting)
{
    const char *set = environment_value(environment, MASTER_SET_VARIABLE);
    size_t length = strlen(meeting);
    return set != NULL && strncmp(set, meeting, length) == 0 && set[length] == ' ' &&
           resolve(meeting, AI_NUMERICHOST) == 0;
}

void check_names(const struct patient *patient, struct finding *finding)
{
    static const char mend[] = "add it to the DNS, or to /etc/hosts of each node";
    char own[64] = "";
    const char *meeting = environment_value(patient->environment, MASTER_ADDR_VARIABLE);
    gethostname(own, sizeof(own) - 1);
    int of_meeting = meeting == NULL ? 0 : resolve(meeting, 0), of_own = resolve(own, 0);
    if (of_meeting != 0)
        find(finding, CHECK_FAIL, mend, MASTER_ADDR_VARIABLE "=%.100s does not resolve here (%s)", meeting,
             gai_strerror(of_meeting));
    else if (meeting != NULL && is_plugins_address(patient->environment, meeting))
        find(finding, CHECK_WARN, mend,
             "the name of rank 0's node does not resolve here: " MASTER_ADDR_VARIABLE "=%.100s stands for it",
             meeting);
    else if (of_own != 0)
        find(finding, CHECK_WARN, mend, "%s, the name of this node, does not resolve here (%s)", own,
             gai_strerror(of_own));
    else if (meeting != NULL)
        find(finding, CHECK_OK, NULL, "those of this node and of " MASTER_ADDR_VARIABLE " resolve");
    else
        find(finding, CHECK_OK, NULL, "that of this node resolves");
}
