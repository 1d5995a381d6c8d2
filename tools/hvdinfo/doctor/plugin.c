/* plugin.c: does Slurm load the plug-in on this node, and from which file? */
#include "config.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"
#include "tools/hvdinfo/doctor/checks.h"

#define PLUGIN_NAME      "spank_hvd.so"
#define PLUGIN_MAX_BYTES (64 << 20)
#define MAX_INCLUDES     64 /* files that one plugstack.conf includes */

/* Where slurm.conf is, apart from what SLURM_CONF says; the last is that of nodes that get it from slurmctld.
 */
static const char *const folders[] = {"/etc/slurm", "/etc/slurm-llnl", "/usr/local/etc", "/run/slurm/conf"};

/* Find the plug-in's file in lines such as "optional /usr/lib/slurm/spank_hvd.so fusion=64M", in the file and
 * in those that it includes. */
static void search_file(const char *folder, const char *file, char *path, size_t path_bytes, int depth)
{
    char line[1024], first[64], second[512], pattern[1024];
    FILE *stream = fopen(file, "re");
    while (stream != NULL && path[0] == 0 && fgets(line, sizeof(line), stream) != NULL) {
        if (sscanf(line, "%63s %511s", first, second) != 2 || first[0] == '#')
            continue;
        const char *name = strrchr(second, '/');
        if (strcmp(name == NULL ? second : name + 1, PLUGIN_NAME) == 0)
            snprintf(path, path_bytes, "%s%s%s", name == NULL ? PLUGIN_FOLDER : "", name == NULL ? "/" : "",
                     second);
        if (strcmp(first, "include") != 0 || depth > 0)
            continue;
        glob_t found = {0};
        snprintf(pattern, sizeof(pattern), "%s%s%s", second[0] == '/' ? "" : folder,
                 second[0] == '/' ? "" : "/", second);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc && i < MAX_INCLUDES && path[0] == 0; i++)
                search_file(folder, found.gl_pathv[i], path, path_bytes, depth + 1);
        globfree(&found);
    }
    if (stream != NULL)
        fclose(stream);
}

/* The folder of slurm.conf, "" where this node has none. */
static void slurm_folder(const struct patient *patient, char *folder, size_t folder_bytes)
{
    const char *conf = environment_value(patient->environment, "SLURM_CONF");
    const char *slash = conf == NULL ? NULL : strrchr(conf, '/');
    char file[600];
    folder[0] = 0;
    if (slash != NULL) {
        snprintf(folder, folder_bytes, "%.*s", (int)(slash - conf), conf);
        return;
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(file, sizeof(file), "%s%s/slurm.conf", patient->root, folders[i]);
        if (access(file, F_OK) == 0) {
            snprintf(folder, folder_bytes, "%s%s", patient->root, folders[i]);
            return;
        }
    }
}

void plugin_path(const struct patient *patient, char *path, size_t path_bytes)
{
    char folder[512], file[600];
    path[0] = 0;
    slurm_folder(patient, folder, sizeof(folder));
    snprintf(file, sizeof(file), "%s/plugstack.conf", folder);
    if (folder[0] != 0)
        search_file(folder, file, path, path_bytes, 0);
}

uint64_t plugin_print(const char *path)
{
    struct stat status;
    uint64_t print = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= PLUGIN_MAX_BYTES) {
        char *bytes = malloc((size_t)status.st_size + 1);
        ssize_t got = bytes == NULL ? -1 : read(fd, bytes, (size_t)status.st_size);
        if (got > 0)
            print = hash_bytes(bytes, (size_t)got);
        free(bytes);
    }
    close(fd);
    return print;
}

void check_plugin(const struct patient *patient, struct finding *finding)
{
    char folder[512], path[600];
    bool in_step = environment_value(patient->environment, "SLURM_JOB_ID") != NULL;
    slurm_folder(patient, folder, sizeof(folder));
    if (folder[0] == 0 && !in_step) {
        find(finding, CHECK_OK, NULL, "this node has no slurm.conf, so no Slurm needs it");
        return;
    }
    plugin_path(patient, path, sizeof(path));
    if (path[0] == 0)
        find(finding, CHECK_WARN, "add the line that hvd-spank(8) shows, and restart slurmd",
             "%.120s/plugstack.conf does not name " PLUGIN_NAME ", so srun has no --hvd-* here", folder);
    else if (plugin_print(path) == 0)
        find(finding, CHECK_FAIL,
             "install hvd on this node, or remove the line: the file must be on every node",
             "plugstack.conf names %.150s, which cannot be read", path);
    else
        find(finding, CHECK_OK, NULL, "%.190s", path);
}
