/* cooldown.c: leave a host out for a time that grows with its failures. */
#include "config.h"

#include "tools/hvdrun/cooldown.h"

#include <stdio.h>
#include <string.h>

#include "options/parse.h"

#define COOLDOWN_MAX_US (INT64_C(24) * 3600 * 1000000)

/* One of the two times. */
static bool parse_end(const char *text, size_t length, int64_t *us)
{
    char copy[32];
    const char *why = NULL;
    if (length >= sizeof(copy))
        return false;
    snprintf(copy, sizeof(copy), "%.*s", (int)length, text);
    return parse_time(copy, us, &why) == 0 && *us > 0 && *us <= COOLDOWN_MAX_US;
}

int cooldown_parse(const char *text, const char *where, struct cooldown_range *range, struct hvd_error *err)
{
    struct cooldown_range found;
    size_t first = strcspn(text, ":");
    const char *second = text[first] == ':' ? text + first + 1 : "";
    if (!parse_end(text, first, &found.low_us) || !parse_end(second, strlen(second), &found.high_us) ||
        found.low_us > found.high_us)
        return error_set(err, HVD_ERR_INVALID,
                         "%s %.100s: expected the shortest and the longest time, up to 24h, such as 10s:5min",
                         where, text);
    *range = found;
    return HVD_OK;
}

void cooldown_begin(struct cooldown *cooldown, const struct cooldown_range *range, int64_t now_us)
{
    int64_t time_us = range->low_us;
    if (range->low_us == 0 || cooldown->until_us != 0)
        return;
    for (int i = 0; i < cooldown->failures && time_us < range->high_us; i++)
        time_us *= 2;
    cooldown->failures++;
    cooldown->time_us = time_us < range->high_us ? time_us : range->high_us;
    cooldown->until_us = now_us + cooldown->time_us;
}

bool cooldown_ends(struct cooldown *cooldown, int64_t now_us)
{
    if (cooldown->until_us == 0 || now_us < cooldown->until_us)
        return false;
    cooldown->until_us = 0;
    return true;
}
