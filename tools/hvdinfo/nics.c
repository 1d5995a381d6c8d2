/* nics.c: hvdinfo nics: list the network interfaces of this node, and why a job would use each or not. */
#include "config.h"
#include "tools/hvdinfo/commands.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/config.h"
#include "tools/common/json.h"
#include "topo/nic.h"

#define ADDRESS_BYTES (INET6_ADDRSTRLEN + 4) /* with its prefix length */

static const char *address_text(const struct nic_address *address, char text[ADDRESS_BYTES])
{
    if (inet_ntop(address->family, address->bytes, text, INET6_ADDRSTRLEN) == NULL)
        text[0] = 0;
    size_t used = strlen(text);
    snprintf(text + used, ADDRESS_BYTES - used, "/%d", address->prefix);
    return text;
}

static const char *speed_text(const struct nic *nic, char text[32])
{
    if (nic->mbps == 0)
        return "unknown";
    if (nic->mbps < 1000)
        snprintf(text, 32, "%" PRId64 " Mb/s", nic->mbps);
    else
        snprintf(text, 32, "%g Gb/s", (double)nic->mbps / 1000);
    return text;
}

/* Would a job on several nodes use it? */
static const char *use_text(const struct nic *nic)
{
    if (nic->exclusion == NIC_SLOW)
        return "if needed";
    return nic->exclusion == NIC_NOT_EXCLUDED ? "yes" : "no";
}

/* ---- Table -------------------------------------------------------------------------------------- */

/* The node, since srun may start one on each; then a line per interface, and one for each further address. */
static void print_nics(const struct nic *nics, int count)
{
    static const char form[] = "%-15s  %-12s  %-10s  %-9s  %-24s  %s\n";
    char address[ADDRESS_BYTES], port[NIC_VERBS_BYTES + 16], speed[32], host[65] = "";
    if (gethostname(host, sizeof(host) - 1) == 0)
        printf("interfaces of %s\n", host);
    printf(form, "interface", "RDMA", "speed", "use", "address", "why");
    for (int i = 0; i < count; i++) {
        const struct nic *nic = &nics[i];
        snprintf(port, sizeof(port), "-");
        if (nic->verbs[0] != 0)
            snprintf(port, sizeof(port), "%s:%d", nic->verbs, nic->port);
        printf(form, nic->netdev[0] != 0 ? nic->netdev : "-", port, speed_text(nic, speed), use_text(nic),
               nic->address_count > 0 ? address_text(&nic->addresses[0], address) : "-", nic->why);
        for (int k = 1; k < nic->address_count; k++)
            printf("%-52s  %s\n", "", address_text(&nic->addresses[k], address));
    }
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static void print_nics_json(const struct nic *nics, int count)
{
    static const char *const links[] = {
        [NIC_LINK_UNKNOWN] = "unknown", [NIC_LINK_UP] = "up", [NIC_LINK_DOWN] = "down"};
    char address[ADDRESS_BYTES];
    putchar('[');
    for (int i = 0; i < count; i++) {
        const struct nic *nic = &nics[i];
        fputs(i > 0 ? ",\n " : "\n ", stdout);
        struct json json = json_open(stdout);
        json_text(&json, "interface", nic->netdev);
        json_text(&json, "rdma", nic->verbs);
        json_count(&json, "port", nic->verbs[0] != 0 ? nic->port : 0);
        json_count(&json, "mbps", nic->mbps);
        json_text(&json, "link", links[nic->link]);
        json_open_array(&json, "addresses");
        for (int k = 0; k < nic->address_count; k++)
            json_add_text(&json, k, address_text(&nic->addresses[k], address));
        json_close_array(&json);
        json_text(&json, "use", use_text(nic));
        json_text(&json, "why", nic->why);
        json_close(&json);
    }
    puts("\n]");
}

/* ---- The subcommand ----------------------------------------------------------------------------- */

int hvdinfo_nics(char *const *arguments)
{
    struct hvd_config config;
    struct hvd_error err = {""};
    bool json = arguments[0] != NULL && strcmp(arguments[0], "--json") == 0;
    if (arguments[0] != NULL && (!json || arguments[1] != NULL)) {
        fprintf(stderr, "hvdinfo nics: %s: expected --json, or nothing\n",
                json ? arguments[1] : arguments[0]);
        return EXIT_FAILURE;
    }
    struct nic *nics = calloc(NIC_MAX, sizeof(*nics));
    int count = 0, rc = HVD_ERR_NO_MEMORY;
    if (nics == NULL) {
        error_set(&err, rc, "no memory for a list of network interfaces");
    } else {
        rc = config_load(&config, environ, hvdinfo_warn, &err);
        if (rc == HVD_OK)
            rc = nics_read_node(nics, NIC_MAX, "/sys", &count, &err);
        if (rc == HVD_OK) /* if the options cannot be read, list the interfaces with the default options */
            rc = nics_select(nics, count, config.nics, &err);
    }
    if (json)
        print_nics_json(nics, count);
    else if (count > 0)
        print_nics(nics, count);
    free(nics);
    if (rc == HVD_OK)
        return EXIT_SUCCESS;
    fflush(stdout);
    fprintf(stderr, "hvdinfo nics: %s\n", err.text);
    return EXIT_FAILURE;
}
