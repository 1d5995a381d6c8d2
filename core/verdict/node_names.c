/* node_names.c: the names of some nodes as one text. */
#include "verdict/node_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 9                          /* of a number that is counted up */
#define MORE_BYTES  sizeof("] and 99999 more") /* that a list may need at its end */

/* A name is a stem and the digits at its end, if these make a number. */
struct node_name {
    int stem, digits; /* how many bytes */
    long number;
};

static struct node_name split(const char *name)
{
    size_t length = strlen(name), stem = length;
    while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    if (length - stem > MOST_DIGITS)
        stem = length;
    return (struct node_name){(int)stem, (int)(length - stem), strtol(name + stem, NULL, 10)};
}

/* By their stems, and n9 before n10. */
static int compare_names(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    struct node_name name_a = split(a), name_b = split(b);
    if (name_a.stem != name_b.stem || strncmp(a, b, (size_t)name_a.stem) != 0 ||
        name_a.number == name_b.number)
        return strcmp(a, b);
    return name_a.number < name_b.number ? -1 : 1;
}

static int remove_duplicates(const char **names, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    return kept;
}

/* May [name] stand in the brackets that [first] has opened? Numbers have the width of the first one: n8 and
 * n10, n08 and n10, but not n8 and n010. */
static bool is_of_stem(const char *first, const char *name)
{
    struct node_name split_first = split(first), split_name = split(name);
    char number[MOST_DIGITS + 2];
    snprintf(number, sizeof(number), "%0*ld", split_first.digits, split_name.number);
    return split_first.digits > 0 && split_name.digits > 0 && split_first.stem == split_name.stem &&
           strncmp(first, name, (size_t)split_first.stem) == 0 && strcmp(number, name + split_name.stem) == 0;
}

/* How many names from the first on count up by one. */
static int count_run(const char **names, int count)
{
    int length = 1;
    while (length < count && split(names[length]).number == split(names[length - 1]).number + 1)
        length++;
    return length;
}

static int count_of_stem(const char **names, int count)
{
    int length = 1;
    while (length < count && is_of_stem(names[0], names[length]))
        length++;
    return length;
}

/* Append "n[", and the runs of the names' numbers, as far as there is room. Returns how many names. */
static int add_numbers(const char **names, int count, char *text, size_t text_bytes)
{
    int stem = split(names[0]).stem, done = 0;
    size_t used = strlen(text);
    while (done < count) {
        char part[80];
        int length = count_run(names + done, count - done);
        int bytes = snprintf(part, sizeof(part), "%s", done > 0 ? "," : "[");
        bytes += snprintf(part + bytes, sizeof(part) - (size_t)bytes, "%s", names[done] + stem);
        if (length > 1)
            bytes +=
                snprintf(part + bytes, sizeof(part) - (size_t)bytes, "-%s", names[done + length - 1] + stem);
        if (used + (size_t)bytes + MORE_BYTES > text_bytes)
            break;
        memcpy(text + used, part, (size_t)bytes + 1);
        used += (size_t)bytes;
        done += length;
    }
    return done;
}

/* Append the names, which have one stem, unless there is no room. Returns how many. */
static int add_stem(const char **names, int count, bool first, char *text, size_t text_bytes)
{
    size_t used = strlen(text), stem = count > 1 ? (size_t)split(names[0]).stem : strlen(names[0]);
    if (used + stem + sizeof(", [") + MORE_BYTES > text_bytes)
        return 0;
    snprintf(text + used, text_bytes - used, "%s%.*s", first ? "" : ", ", (int)stem, names[0]);
    if (count == 1)
        return 1;
    int done = add_numbers(names, count, text, text_bytes);
    size_t end = done > 0 ? strlen(text) : used;
    snprintf(text + end, text_bytes - end, "%s", done > 0 ? "]" : "");
    return done;
}

void node_names_text(const char **names, int count, char *text, size_t text_bytes)
{
    int done = 0, length = 0, added = 0;
    text[0] = 0;
    if (count > 0)
        qsort(names, (size_t)count, sizeof(*names), compare_names);
    count = remove_duplicates(names, count);
    while (done < count && added == length) {
        length = count_of_stem(names + done, count - done);
        added = add_stem(names + done, length, done == 0, text, text_bytes);
        done += added;
    }
    size_t used = strlen(text);
    if (done < count)
        snprintf(text + used, text_bytes - used, "%s%d more", done > 0 ? " and " : "", count - done);
}
