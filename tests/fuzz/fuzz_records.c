/* fuzz_records.c: what hvdinfo ps reads of the nodes of a job, and what it says of that. The first byte of an
 * input says what follows: 0, the lines of all nodes; otherwise the bytes that one node has put into its
 * lines. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fuzz.h"
#include "tools/hvdinfo/ps/judge.h"
#include "tools/hvdinfo/ps/records.h"
#include "tools/hvdinfo/ps/show.h"

#define NOW_US INT64_C(9000000000)

/* The caller frees it. */
static char *lines_of(const unsigned char *bytes, size_t length)
{
    size_t room = 2 * length + 100, used = 0;
    char *text = malloc(room);
    assert(text != NULL);
    used = (size_t)snprintf(text, room, RECORDS_MARK "0 ");
    for (size_t i = 0; i < length; i++)
        used += (size_t)snprintf(text + used, room - used, "%02x", bytes[i]);
    snprintf(text + used, room - used, "\n" RECORDS_MARK "0 end\n");
    return text;
}

static void check_shown(const struct ranks *ranks, bool each)
{
    const struct show_view view = {.each = each, .selected = ranks->count - 1};
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    assert(to != NULL && show_text(to, ranks, &view) == HVD_OK && fclose(to) == 0);
    assert(strlen(text) == bytes);
    for (size_t i = 0; i < bytes; i++)
        assert(text[i] == '\n' || ((unsigned char)text[i] >= ' ' && text[i] != 0x7f)); /* no terminal obeys */
    free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct ranks ranks = {0};
    struct records records = {0};
    if (length == 0)
        return 0;
    bool is_text = bytes[0] == 0;
    char *text = is_text ? strndup((const char *)bytes + 1, length - 1) : lines_of(bytes + 1, length - 1);
    assert(text != NULL);
    if (records_read(text, "n[0-2]", NOW_US, &ranks, &records) == HVD_OK) {
        assert(records.answered <= RECORDS_NODES && strlen(records.silent) < sizeof(records.silent));
        assert(judge_ranks(&ranks, 0) == HVD_OK);
        check_shown(&ranks, false);
        check_shown(&ranks, true);
    }
    ranks_free(&ranks);
    free(text);
    return 0;
}
