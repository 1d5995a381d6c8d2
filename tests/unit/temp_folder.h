/* temp_folder.h: a folder for the files of a test, removed when the test ends or fails. */
#ifndef TESTS_UNIT_TEMP_FOLDER_H
#define TESTS_UNIT_TEMP_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char folder[64];

static inline int folder_remove_entry(const char *path, const struct stat *status, int type,
                                      struct FTW *place)
{
    (void)status;
    (void)type;
    if (place->level > 0)
        remove(path);
    return 0;
}

/* A checked fixture: each case begins with an empty folder. */
static inline void folder_empty(void)
{
    nftw(folder, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* An unchecked fixture: it runs in the parent of all cases. */
static inline void folder_make(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_unit.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void folder_remove(void)
{
    folder_empty();
    rmdir(folder);
}

/* Write a file, and make the folders on its path. */
static inline void folder_put(const char *path, const char *text)
{
    char whole[300];
    snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    for (char *at = whole + strlen(folder) + 1; *at != 0; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(whole, 0755);
            *at = '/';
        }
    FILE *file = fopen(whole, "we");
    ck_assert_msg(file != NULL, "%s", whole);
    fputs(text, file);
    fclose(file);
}

/* Read a file of the folder. The caller frees the text. NULL if there is no such file. */
static inline char *folder_read(const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    struct stat status;
    ck_assert_int_eq(fstat(fileno(file), &status), 0);
    char *text = calloc(1, (size_t)status.st_size + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, (size_t)status.st_size, file), (size_t)status.st_size);
    fclose(file);
    return text;
}

#endif
