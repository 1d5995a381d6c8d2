/* sys_file.c: read the small files of /sys and /proc. */
#include "topo/sys_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"

void sys_file_read_line(const char *path, const char *key, char *text, size_t text_bytes)
{
    char line[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (file == NULL) {
        descriptors_close(&fd);
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *value = line + strlen(key);
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        value += strspn(value, " \t");
        line[strcspn(line, "\n")] = 0;
        snprintf(text, text_bytes, "%s", value);
        break;
    }
    fclose(file);
}
