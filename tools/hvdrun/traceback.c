/* traceback.c: finds the last traceback in what a Python program wrote:
 *
 *     Traceback (most recent call last):
 *       File "/home/me/train.py", line 31, in <module>
 *         main()
 *     ValueError: no more data
 */
#include "tools/hvdrun/traceback.h"

#include <string.h>

#include "verdict/error_file.h"

#define HEADING "Traceback (most recent call last):"
#define FRAME   "  File \""

static bool begins_with(const char *line, const char *words)
{
    return strncmp(line, words, strlen(words)) == 0;
}

static void take_line(struct traceback *traceback)
{
    const char *line = traceback->line;
    if (strcmp(line, HEADING) == 0) {
        traceback->open = true;
        traceback->frame[0] = 0;
    } else if (traceback->open && begins_with(line, FRAME)) {
        memcpy(traceback->frame, line, sizeof(traceback->frame));
    } else if (traceback->open && line[0] != ' ' && line[0] != 0) {
        error_file_compose(line, traceback->frame, traceback->error, sizeof(traceback->error));
        traceback->open = false;
    }
}

void traceback_feed(struct traceback *traceback, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            traceback->line[traceback->used] = 0;
            traceback->used = 0;
            take_line(traceback);
        } else if (traceback->used + 1 < sizeof(traceback->line) && bytes[i] != 0) {
            traceback->line[traceback->used++] = bytes[i];
        }
    }
}
