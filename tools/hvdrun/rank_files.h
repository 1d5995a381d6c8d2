/* rank_files.h: the files of --output-dir, two for each rank. */
#ifndef TOOLS_HVDRUN_RANK_FILES_H
#define TOOLS_HVDRUN_RANK_FILES_H

#include <stdbool.h>

/* Make a directory and its parents, where they are not there. Returns 0, or -1 with errno. */
int rank_files_make_directory(const char *path);

/* Open [directory]/rank.[rank].[ending], "out" or "err", empty. Returns a descriptor, or -1 with errno. */
int rank_file_open(const char *directory, int rank, const char *ending, bool again);

#endif
