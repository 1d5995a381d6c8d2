/* nearest.c: which name a mistyped word was meant to be. */
#include "options/nearest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 63
#define FAR     1000

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein's distance, row by row. */
int nearest_distance(const char *word, const char *other)
{
    int row[LONGEST + 1];
    size_t length = strlen(word), other_length = strlen(other);
    if (length > LONGEST || other_length > LONGEST)
        return FAR;
    for (size_t j = 0; j <= other_length; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= other_length; j++) {
            int above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (word[i - 1] != other[j - 1]));
            diagonal = above;
        }
    }
    return row[other_length];
}

void nearest_try(struct nearest *nearest, const char *name)
{
    int distance = nearest_distance(nearest->word, name);
    if (distance > 2 || 2 * distance >= (int)strlen(nearest->word) ||
        (nearest->name != NULL && distance >= nearest->distance))
        return;
    nearest->name = name;
    nearest->distance = distance;
}

const char *nearest_hint(const struct nearest *nearest, const char *otherwise, char text[NEAREST_HINT_BYTES])
{
    if (nearest->name != NULL)
        snprintf(text, NEAREST_HINT_BYTES, "did you mean %s?", nearest->name);
    else
        snprintf(text, NEAREST_HINT_BYTES, "%s", otherwise);
    return text;
}
