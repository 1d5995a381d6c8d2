/* env.c: hvdinfo env: join the job, and print as commands of a shell the variables that tell a script its
 * place. */
#include "tools/hvdinfo/commands.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/launch_variables.h"
#include "options/node_address.h"
#include "hvd.h"
#include "net/address.h"
#include "tools/common/master_port.h"

/* Where rank 0 will listen. It travels as it is: all ranks run the same hvdinfo. */
struct master {
    char host[64];
    char address[ADDRESS_TEXT_BYTES];
    int32_t port; /* 0: none was found */
};

static int find_master(struct master *master)
{
    struct hvd_tensor tensor = {.name = "master",
                                .input = master,
                                .output = master,
                                .dtype = HVD_UINT8,
                                .ndim = 1,
                                .shape = {(int64_t)sizeof(*master)}};
    if (hvd_rank() == 0) {
        struct in6_addr address;
        address_advertised(&address, 1);
        address_text(&address, master->address);
        master->port = master_port_find();
        if (gethostname(master->host, sizeof(master->host) - 1) < 0)
            snprintf(master->host, sizeof(master->host), "localhost");
    }
    return hvd_broadcast(&tensor, 0, NULL);
}

/* All ranks take the address where one node does not find rank 0's by its name: programs may compare. */
static int agree_on_host(struct master *master)
{
    int32_t leads = node_name_leads(master->host, hvd_node_rank() == 0);
    struct hvd_tensor tensor = hvd_vector("master leads", &leads, 1, HVD_INT32);
    int rc = hvd_allreduce(&tensor, HVD_MIN, NULL);
    if (rc == HVD_OK && leads == 0)
        snprintf(master->host, sizeof(master->host), "%s", master->address);
    return rc;
}

/* What the user or the launcher has set stays. Host names and numbers need no quotes. */
static void print_export(const char *name, const char *value)
{
    if (getenv(name) == NULL)
        printf("export %s=%s\n", name, value);
}

static void show_place(void)
{
    const struct launch_place place = {.rank = hvd_rank(),
                                       .size = hvd_size(),
                                       .local_rank = hvd_local_rank(),
                                       .local_size = hvd_local_size(),
                                       .node = hvd_node_rank(),
                                       .node_count = hvd_node_count()};
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", launch_variable_value(i, &place));
        print_export(launch_variable_name(i), value);
    }
}

/* The script's program is another start of the job, and must not take what this one put into PMIx for its
 * own. hvd_init has checked the number. */
static void show_epoch(void)
{
    const char *epoch = getenv("HVD_EPOCH");
    unsigned long number = epoch != NULL ? strtoul(epoch, NULL, 10) : 0;
    printf("export HVD_EPOCH=%lu\n", number < UINT32_MAX ? number + 1 : 0);
}

static void show_master(const struct master *master)
{
    char port[16];
    snprintf(port, sizeof(port), "%d", (int)master->port);
    print_export(MASTER_ADDR_VARIABLE, master->host);
    if (master->port != 0)
        print_export(MASTER_PORT_VARIABLE, port);
}

int hvdinfo_env(char *const *arguments)
{
    struct master master = {.port = 0};
    if (arguments[0] != NULL) {
        fprintf(stderr, "hvdinfo env: %s: expected nothing\n", arguments[0]);
        return EXIT_FAILURE;
    }
    if (hvd_init() == HVD_OK && find_master(&master) == HVD_OK && agree_on_host(&master) == HVD_OK) {
        show_place();
        show_epoch();
        show_master(&master);
        if (hvd_shutdown() == HVD_OK)
            return EXIT_SUCCESS;
    }
    fprintf(stderr, "hvdinfo env: %s\n", hvd_error_text());
    return EXIT_FAILURE;
}
