/* line_prefix.c: make the prefix of a line from its template. */
#include "config.h"

#include "tools/hvdrun/line_prefix.h"

#include <stdio.h>
#include <string.h>

enum line_macro { MACRO_RANK, MACRO_LOCAL_RANK, MACRO_ROLE, MACRO_COUNT };

static const char *const macros[MACRO_COUNT] = {
    [MACRO_RANK] = "${rank}", [MACRO_LOCAL_RANK] = "${local_rank}", [MACRO_ROLE] = "${role_name}"};

/* MACRO_COUNT: none begins at [at]. */
static enum line_macro macro_at(const char *at)
{
    enum line_macro macro = MACRO_RANK;
    while (macro < MACRO_COUNT && strncmp(at, macros[macro], strlen(macros[macro])) != 0)
        macro++;
    return macro;
}

int line_prefix_check(const char *template, const char *where, struct hvd_error *err)
{
    for (const char *at = strstr(template, "${"); at != NULL; at = strstr(at + 1, "${"))
        if (macro_at(at) == MACRO_COUNT)
            return error_set(err, HVD_ERR_INVALID,
                             "%s %.100s: %.*s is not known; expected ${rank}, ${local_rank} or ${role_name}",
                             where, template, (int)strcspn(at, "}") + (strchr(at, '}') != NULL), at);
    return HVD_OK;
}

bool line_prefix_names_local_rank(const char *template)
{
    return strstr(template, macros[MACRO_LOCAL_RANK]) != NULL;
}

bool line_prefix_next(const struct line_prefix *prefix, int rank, struct line_prefix_part *part)
{
    const char *at = part->next == NULL ? prefix->template : part->next;
    if (*at == 0)
        return false;
    enum line_macro macro = macro_at(at);
    if (macro == MACRO_COUNT) { /* text, as far as the next macro may begin */
        part->text = at;
        part->length = 1 + strcspn(at + 1, "$");
        part->next = at + part->length;
        return true;
    }
    snprintf(part->number, sizeof(part->number), "%d", rank);
    part->text = macro == MACRO_ROLE ? prefix->role : part->number;
    part->length = strlen(part->text);
    part->next = at + strlen(macros[macro]);
    return true;
}

size_t line_prefix_length(const struct line_prefix *prefix, int rank)
{
    size_t length = 0;
    struct line_prefix_part part = {.next = NULL};
    while (line_prefix_next(prefix, rank, &part))
        length += part.length;
    return length;
}
