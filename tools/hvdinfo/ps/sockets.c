/* sockets.c: read the tables of TCP connections in /proc/PID/net. */
#include "config.h"
#include "tools/hvdinfo/ps/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define KEPT_US      INT64_C(1000000) /* for who looks again and again */
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

/* ---- All of a network namespace ------------------------------------------------------------------- */

static bool add(struct stuck_sockets *stuck, const struct tcp_connection *connection)
{
    struct tcp_connection *list = realloc(stuck->list, ((size_t)stuck->count + 1) * sizeof(*list));
    if (list == NULL)
        return false;
    list[stuck->count++] = *connection;
    stuck->list = list;
    return true;
}

static void read_table(struct stuck_sockets *stuck, pid_t pid, const char *table)
{
    char path[64], line[512];
    struct tcp_connection connection;
    snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
    FILE *file = fopen(path, "re");
    bool good = file != NULL;
    while (good && fgets(line, sizeof(line), file) != NULL) {
        if (parse_line(line, &connection) && connection.timer == RETRANSMITS &&
            connection.resent >= RESENT_LEAST)
            good = add(stuck, &connection);
    }
    if (file != NULL)
        fclose(file);
}

/* A table may have many thousand lines, and all ranks of a node mostly see the same one. */
static void refresh(struct stuck_sockets *stuck, pid_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    ino_t space = stat(path, &status) == 0 ? status.st_ino : 0;
    if (space != 0 && stuck->space == space && clock_us() - stuck->read_us < KEPT_US)
        return;
    stuck_sockets_free(stuck);
    read_table(stuck, pid, "tcp");
    read_table(stuck, pid, "tcp6");
    stuck->space = space;
    stuck->read_us = clock_us();
}

void stuck_sockets_free(struct stuck_sockets *stuck)
{
    free(stuck->list);
    *stuck = (struct stuck_sockets){0};
}

void stuck_sockets_find(struct stuck_sockets *stuck, pid_t pid, char *address, size_t address_bytes)
{
    unsigned most = 0;
    address[0] = 0;
    refresh(stuck, pid);
    for (int i = 0; i < stuck->count; i++) {
        const struct tcp_connection *connection = &stuck->list[i];
        if (connection->resent <= most || !is_of(pid, connection->inode))
            continue;
        most = connection->resent;
        write_address(connection->remote, address, address_bytes);
    }
}
