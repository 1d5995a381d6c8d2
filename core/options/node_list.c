/* node_list.c: names of nodes in a list as Slurm writes it. */
#include "options/node_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES (1L << 20)

/* "4-9" of a bracket: how many numbers it has, the first, and how many digits they have at least. 0: it is
 * none. */
static long read_range(const char *text, long *firstp, int *widthp)
{
    char *end = NULL;
    long last = 0;
    if (*text < '0' || *text > '9')
        return 0;
    *firstp = last = strtol(text, &end, 10);
    *widthp = (int)(end - text);
    if (*end == '-')
        last = strtol(end + 1, &end, 10);
    bool good =
        (*end == ',' || *end == ']') && *widthp < 16 && last >= *firstp && last - *firstp < MOST_NODES;
    return good ? last - *firstp + 1 : 0;
}

/* How many numbers the bracket at [text], behind its [, has. 0: it is none. */
static long count_bracket(const char *text)
{
    long all = 0, first = 0;
    int width = 0;
    bool more = true;
    while (more) {
        long count = read_range(text, &first, &width);
        if (count == 0)
            return 0;
        all += count;
        text += strcspn(text, ",]");
        more = *text++ == ',';
    }
    return all;
}

/* Write the number at [index] of the bracket. Returns its length, as snprintf does. */
static int write_number(const char *text, long index, char *to, size_t bytes)
{
    long first = 0;
    int width = 0;
    long count = read_range(text, &first, &width);
    while (index >= count) {
        index -= count;
        text += strcspn(text, ",]") + 1;
        count = read_range(text, &first, &width);
    }
    return snprintf(to, bytes, "%0*ld", width, first + index);
}

/* How many names the entry at [entry], up to a comma, stands for. Sets *endp behind it. 0: it is none. */
static long count_entry(const char *entry, const char **endp)
{
    long all = 1;
    for (; *entry != 0 && *entry != ','; entry++) {
        if (*entry != '[')
            continue;
        long count = strchr(entry, ']') == NULL ? 0 : count_bracket(entry + 1);
        if (count == 0 || count > MOST_NODES / all)
            return 0;
        all *= count;
        entry = strchr(entry, ']');
    }
    *endp = entry;
    return all;
}

/* Write the name at [index] of the [count] that the entry stands for: the last bracket changes fastest. */
static bool write_name(const char *entry, long index, long count, char *host, size_t host_bytes)
{
    size_t used = 0;
    for (; *entry != 0 && *entry != ',' && used < host_bytes; entry++) {
        if (*entry != '[') {
            host[used++] = *entry;
            continue;
        }
        count /= count_bracket(entry + 1);
        int length = write_number(entry + 1, index / count, host + used, host_bytes - used);
        index %= count;
        used += length < 0 ? host_bytes : (size_t)length;
        entry = strchr(entry, ']');
    }
    if (used == 0 || used >= host_bytes)
        return false;
    host[used] = 0;
    return true;
}

long node_list_count(const char *list)
{
    const char *end = NULL;
    long all = 0;
    for (; *list != 0; list = *end == ',' ? end + 1 : end) {
        long count = count_entry(list, &end);
        if (count == 0 || count > MOST_NODES - all)
            return 0;
        all += count;
    }
    return all;
}

bool node_list_at(const char *list, long index, char *host, size_t host_bytes)
{
    const char *end = NULL;
    for (; *list != 0; list = *end == ',' ? end + 1 : end) {
        long count = count_entry(list, &end);
        if (count == 0)
            return false;
        if (index < count)
            return write_name(list, index, count, host, host_bytes);
        index -= count;
    }
    return false;
}

bool node_list_has(const char *list, const char *host)
{
    char name[256];
    for (long i = 0; node_list_at(list, i, name, sizeof(name)); i++)
        if (strcmp(name, host) == 0)
            return true;
    return false;
}
