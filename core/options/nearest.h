/* nearest.h: which name a mistyped word was meant to be. Pure. */
#ifndef OPTIONS_NEAREST_H
#define OPTIONS_NEAREST_H

/* The search for the name that is nearest to [word]. Set [word], and call nearest_try for each name. */
struct nearest {
    const char *word;
    const char *name; /* the nearest so far; NULL: none is near */
    int distance;     /* of that */
};

/* For tests: how many letters must be changed, added or left out to make [other] of [word]. Words longer than
 * 63 bytes are far from all others. */
int nearest_distance(const char *word, const char *other);

/* Is [name] nearer than those before? A name is near if at most 2 letters differ, and not half of the word.
 */
void nearest_try(struct nearest *nearest, const char *name);

/* The end of a sentence about an unknown word, "did you mean fusion?", written into [text]; where no name is
 * near, [otherwise], which says how to find the right one. Returns [text]. */
#define NEAREST_HINT_BYTES 128
const char *nearest_hint(const struct nearest *nearest, const char *otherwise, char text[NEAREST_HINT_BYTES]);

#endif
