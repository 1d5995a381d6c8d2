/* sockets.c: read the tables of TCP connections in /proc/PID/net. */
#include "config.h"
#include "tools/hvdinfo/ps/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESENT_LEAST 2
#define RETRANSMITS  1 /* the timer of a connection that sends again, in the column "tr" */

/* A line of a table. */
struct tcp_connection {
    char remote[33]; /* 8 or 32 digits: words in the machine's order of bytes */
    unsigned timer, resent;
    unsigned long inode;
};

static bool parse_line(const char *line, struct tcp_connection *connection)
{
    return sscanf(line, " %*u: %*[0-9A-F]:%*x %32[0-9A-F]:%*x %*x %*x:%*x %x:%*x %x %*u %*d %lu",
                  connection->remote, &connection->timer, &connection->resent, &connection->inode) == 4;
}

static bool is_of(pid_t pid, unsigned long inode)
{
    char folder[64], link[sizeof(folder) + 32], wanted[48], target[48];
    bool found = false;
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *dir = opendir(folder);
    const struct dirent *entry = dir == NULL ? NULL : readdir(dir);
    for (; entry != NULL && !found; entry = readdir(dir)) {
        snprintf(link, sizeof(link), "%s/%.20s", folder, entry->d_name);
        ssize_t length = readlink(link, target, sizeof(target));
        found = length == (ssize_t)strlen(wanted) && memcmp(target, wanted, (size_t)length) == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static void write_address(const char *remote, char *address, size_t address_bytes)
{
    static const char mapped[] = "::ffff:";
    uint32_t words[4] = {0};
    char text[INET6_ADDRSTRLEN] = "";
    size_t count = strlen(remote) / 8;
    for (size_t i = 0; i < count; i++) {
        char word[9] = "";
        memcpy(word, remote + 8 * i, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    inet_ntop(count == 1 ? AF_INET : AF_INET6, words, text, sizeof(text));
    bool is_mapped = strncmp(text, mapped, strlen(mapped)) == 0 && strchr(text, '.') != NULL;
    snprintf(address, address_bytes, "%s", text + (is_mapped ? strlen(mapped) : 0));
}

void sockets_find_unreached(pid_t pid, char *address, size_t address_bytes)
{
    static const char *const tables[] = {"tcp", "tcp6"};
    unsigned most = RESENT_LEAST - 1;
    address[0] = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        char path[64], line[512];
        struct tcp_connection connection;
        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, tables[i]);
        FILE *file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            if (!parse_line(line, &connection) || connection.timer != RETRANSMITS ||
                connection.resent <= most || !is_of(pid, connection.inode))
                continue;
            most = connection.resent;
            write_address(connection.remote, address, address_bytes);
        }
        if (file != NULL)
            fclose(file);
    }
}
