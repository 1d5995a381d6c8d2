/* libraries.c: the libraries that hvd and programs with it open at run time: are they here, of which version,
 * and do they fit together? */
#include "config.h"

#include <ctype.h>
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nccl/nccl.h"
#include "base/env.h"
#include "base/module.h"
#include "tools/hvdinfo/doctor/checks.h"
#include "topo/sys_file.h"

#define MPI_VERSION_BYTES 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of any MPI */

static bool is_built(const char *built)
{
    return strncmp(built, "no: ", 4) != 0;
}

/* The function [name] of a library, as a pointer to one of any type, which the caller copies: ISO C has no
 * cast from an object to a function. */
static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

/* ---- GPUs --------------------------------------------------------------------------------------- */

/* Is the kernel's driver for NVIDIA's GPUs loaded? Then its version is written into [version]; "": unknown.
 */
static bool has_driver(const struct patient *patient, char version[32])
{
    char path[300], line[256] = "";
    version[0] = 0;
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", patient->root);
    if (access(path, F_OK) != 0)
        return false;
    sys_file_read_line(path, "NVRM version:", line, sizeof(line));
    for (const char *word = line; *word != 0 && version[0] == 0; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        if (isdigit((unsigned char)word[0]) && memchr(word, '.', (size_t)length) != NULL)
            snprintf(version, 32, "%.*s", length, word);
        word += length;
    }
    return true;
}

/* ---- PMIx and MPI ------------------------------------------------------------------------------- */

void check_pmix(const struct patient *patient, struct finding *finding)
{
    const char *(*get_version)(void) = NULL;
    const char *launcher = environment_value(patient->environment, "PMIX_VERSION");
    char version[100] = BUILT_WITH_PMIX;
    void *module = NULL;
    struct hvd_error err = {""};
    if (!is_built(BUILT_WITH_PMIX)) {
        find(finding, CHECK_WARN, "build with PMIx (libpmix-dev)",
             "not built in: without it only the environment tells a rank its place");
        return;
    }
    if (module_open("wireup_pmix.so", NULL, &module, &err) == NULL) {
        find(finding, CHECK_FAIL, "install PMIx's library (libpmix2), or hvd anew", "%.190s", err.text);
        return;
    }
    if (find_function(module, "PMIx_Get_version", &get_version))
        snprintf(version, sizeof(version), "%s", get_version());
    version[strcspn(version, ",(\n")] = 0;
    if (version[0] != 0 && version[strlen(version) - 1] == ' ')
        version[strlen(version) - 1] = 0;
    if (launcher != NULL && (launcher[0] == '1' || launcher[0] == '2'))
        find(finding, CHECK_WARN, "start ranks by a launcher with PMIx 3 or later",
             "%s here cannot be relied on to understand %.40s of the launcher", version, launcher);
    else
        find(finding, CHECK_OK, NULL, "%s%s%.40s", version, launcher == NULL ? "" : "; the launcher's is ",
             launcher == NULL ? "" : launcher);
}

/* The files of libpmix that this process has mapped. */
struct pmix_files {
    char first[200], other[200];
};

static int note_pmix(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct pmix_files *files = arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    if (slash == NULL || strncmp(slash + 1, "libpmix.so", strlen("libpmix.so")) != 0)
        return 0;
    if (files->first[0] == 0)
        snprintf(files->first, sizeof(files->first), "%s", info->dlpi_name);
    else if (strcmp(files->first, info->dlpi_name) != 0)
        snprintf(files->other, sizeof(files->other), "%s", info->dlpi_name);
    return 0;
}

/* MPI's version up to the first comma, "" if it does not say. */
static void read_mpi_version(void *module, char version[MPI_VERSION_BYTES])
{
    int (*get_version)(char *, int *) = NULL;
    int length = 0;
    if (find_function(module, "MPI_Get_library_version", &get_version))
        get_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
}

void check_mpi(const struct patient *patient, struct finding *finding)
{
    char version[MPI_VERSION_BYTES] = BUILT_WITH_MPI;
    void *module = NULL;
    struct pmix_files files = {"", ""};
    struct hvd_error err = {""};
    (void)patient;
    if (!is_built(BUILT_WITH_MPI)) {
        find(finding, CHECK_OK, NULL, "not built in: the backends mpi and hier-mpi are not there");
        return;
    }
    if (module_open("backend_mpi.so", NULL, &module, &err) == NULL) {
        find(finding, CHECK_WARN,
             "install the MPI that hvd was built with, unless no job uses the backend mpi", "%.190s",
             err.text);
        return;
    }
    read_mpi_version(module, version);
    dl_iterate_phdr(note_pmix, &files);
    if (files.other[0] != 0)
        find(finding, CHECK_WARN, "let both use one PMIx: build MPI --with-pmix=external",
             "%.40s; two PMIx libraries: %.60s and %.60s", version, files.first, files.other);
    else
        find(finding, CHECK_OK, NULL, "%.60s%s%.100s", version, files.first[0] != 0 ? ", with " : "",
             files.first);
}

/* Open MPI answers without having started, until version 5. A doctor starts no MPI. */
static bool tells_before_start(void *module)
{
    static const char name[] = "Open MPI v";
    char version[MPI_VERSION_BYTES] = "";
    read_mpi_version(module, version);
    return strncmp(version, name, sizeof(name) - 1) == 0 && strtol(version + sizeof(name) - 1, NULL, 10) < 5;
}

void check_mpi_gpu(const struct patient *patient, struct finding *finding)
{
    bool asked = patient->config->mpi_gpu;
    enum check_result lacking = asked ? CHECK_WARN : CHECK_OK;
    const char *mend = asked ? "install an MPI that is CUDA-aware, or leave out --hvd-mpi-gpu" : NULL;
    int (*query)(void) = NULL;
    char driver[32];
    void *module = NULL;
    if (!asked && !has_driver(patient, driver))
        find(finding, CHECK_OK, NULL, "not needed: no NVIDIA GPU is in use");
    else if (!is_built(BUILT_WITH_MPI) || module_open("backend_mpi.so", NULL, &module, NULL) == NULL)
        find(finding, lacking, mend, "there is no MPI to be given tensors on GPUs");
    else if (!find_function(RTLD_DEFAULT, "MPIX_Query_cuda_support", &query) && /* as for the module itself */
             !find_function(module, "MPIX_Query_cuda_support", &query))
        find(finding, lacking, mend, "MPI does not say whether it is CUDA-aware: it is given copies");
    else if (!tells_before_start(module))
        find(finding, CHECK_OK, NULL, "MPI says whether it is CUDA-aware only when a job has started it");
    else if (query() == 0)
        find(finding, lacking, mend, "MPI is not CUDA-aware: it is given copies");
    else
        find(finding, CHECK_OK, NULL, "MPI is CUDA-aware%s",
             asked ? "" : ", and is given copies: see --hvd-mpi-gpu in hvd(7)");
}

/* ---- Where Pythons look for packages ------------------------------------------------------------ */

/* Those of a system. */
static const char *const python_folders[] = {
    "/usr/lib/python3*/dist-packages", "/usr/local/lib/python3*/dist-packages",
    "/usr/lib*/python3*/site-packages", "/usr/local/lib*/python3*/site-packages"};

/* Is there [file] in a folder that matches [pattern]? Then its path is written into [path], unless NULL. */
static bool is_in_folder(const char *pattern, const char *file, char path[PATH_MAX])
{
    char whole[PATH_MAX + 200];
    glob_t found = {0};
    snprintf(whole, sizeof(whole), "%s/%s", pattern, file);
    bool there = glob(whole, 0, NULL, &found) == 0;
    if (there && path != NULL)
        snprintf(path, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree(&found);
    return there;
}

/* The folder above that of the first python3 in PATH. False: PATH has none. */
static bool find_python_prefix(const struct patient *patient, char prefix[PATH_MAX + 4])
{
    const char *folders = environment_value(patient->environment, "PATH");
    char folder[PATH_MAX], program[PATH_MAX + 16];
    while (search_path_next(&folders, folder)) {
        snprintf(prefix, PATH_MAX + 4, "%s/..", folder);
        snprintf(program, sizeof(program), "%s/python3", folder);
        if (access(program, X_OK) == 0)
            return true;
    }
    return false;
}

static bool is_in_prefix(const char *prefix, const char *file, char path[PATH_MAX])
{
    char folder[PATH_MAX + 32];
    snprintf(folder, sizeof(folder), "%s/lib/python3*/site-packages", prefix);
    return is_in_folder(folder, file, path);
}

/* The same, in the folders where Pythons look. */
static bool is_in_python(const struct patient *patient, const char *file, char path[PATH_MAX])
{
    static const char *const prefixes[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    const char *folders = environment_value(patient->environment, "PYTHONPATH");
    char folder[PATH_MAX], prefix[PATH_MAX + 4];
    while (search_path_next(&folders, folder))
        if (is_in_folder(folder, file, path))
            return true;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const char *named = environment_value(patient->environment, prefixes[i]);
        if (named != NULL && is_in_prefix(named, file, path))
            return true;
    }
    if (find_python_prefix(patient, prefix) && is_in_prefix(prefix, file, path))
        return true;
    for (size_t i = 0; i < sizeof(python_folders) / sizeof(python_folders[0]); i++) {
        snprintf(folder, sizeof(folder), "%s%s", patient->root, python_folders[i]);
        if (is_in_folder(folder, file, path))
            return true;
    }
    return false;
}

/* ---- The driver and NCCL ------------------------------------------------------------------------ */

void check_driver(const struct patient *patient, struct finding *finding)
{
    int (*get_version)(int *) = NULL;
    char driver[32];
    int version = 0;
    bool loaded = has_driver(patient, driver);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!loaded)
        find(finding, CHECK_OK, NULL, "no NVIDIA GPU is in use on this node");
    else if (library == NULL)
        find(finding, CHECK_WARN, "install the driver's libraries, or start the container with them",
             "the kernel has the driver %s, but libcuda.so.1 is not here", driver);
    else if (!find_function(library, "cuDriverGetVersion", &get_version) || get_version(&version) != 0)
        find(finding, CHECK_FAIL, "nvidia-smi says more; install the library of the driver that is loaded",
             "libcuda.so.1 does not answer; the kernel has the driver %s", driver);
    else
        find(finding, CHECK_OK, NULL, "%s, CUDA %d.%d", driver, version / 1000, version % 1000 / 10);
}

/* What decides how NCCL reaches other nodes. In a job of several, hvd has set it by now. */
static void list_nccl_settings(const struct patient *patient, char *text, size_t text_bytes)
{
    static const char *const variables[] = {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_NET"};
    size_t used = 0;
    snprintf(text, text_bytes, "; it chooses its interfaces by itself");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && used < text_bytes; i++) {
        const char *value = environment_value(patient->environment, variables[i]);
        if (value != NULL)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s %s=%s", used == 0 ? ";" : "",
                                     variables[i], value);
    }
}

/* Open NCCL as a rank does; one that pip has put beside torch, which programs with torch will load, too. */
static int open_nccl(const struct patient *patient, struct nccl **ncclp, const char **originp,
                     struct hvd_error *err)
{
    char path[PATH_MAX];
    const char *asked = patient->config->nccl_library;
    int rc = nccl_open(asked, NULL, ncclp, err);
    if (rc == HVD_OK)
        *originp = nccl_origin(*ncclp);
    if (rc == HVD_OK || asked[0] != 0 || !is_in_python(patient, "nvidia/nccl/lib/" NCCL_LIBRARY, path))
        return rc;
    *originp = "which programs with torch find, others by --hvd-nccl-library";
    return nccl_open(path, NULL, ncclp, err);
}

void check_nccl(const struct patient *patient, struct finding *finding)
{
    struct hvd_error err = {""};
    struct nccl *nccl = NULL;
    const char *origin = "";
    char driver[32], settings[160];
    int rc = open_nccl(patient, &nccl, &origin, &err);
    if (rc != HVD_OK && patient->config->nccl_library[0] == 0 && !has_driver(patient, driver))
        find(finding, CHECK_OK, NULL, "not usable here, and not needed: no NVIDIA GPU is in use");
    else if (rc != HVD_OK)
        find(finding, CHECK_WARN, "without it tensors on GPUs cannot be carried", "%.199s", err.text);
    else if (nccl_is_instead(nccl))
        find(finding, CHECK_WARN, "leave out --hvd-nccl-library",
             "%.180s is loaded, not the one that is named", nccl_file(nccl));
    else {
        int version = nccl_version(nccl);
        list_nccl_settings(patient, settings, sizeof(settings));
        find(finding, CHECK_OK, NULL, "%d.%d.%d; %.100s, %s%s", version / 10000, version % 10000 / 100,
             version % 100, nccl_file(nccl), origin, settings);
    }
    nccl_close(nccl);
}

/* ---- Python ------------------------------------------------------------------------------------- */

/* Is hvd's package installed, and is there a Python in the same prefix, which looks there unasked? */
static void find_installed(const struct patient *patient, bool *installed, bool *unasked)
{
    char folder[600], program[700];
    snprintf(folder, sizeof(folder), "%s%s", patient->root, patient->python_folder);
    snprintf(program, sizeof(program), "%s/../../../bin/python3", folder);
    *installed = is_in_folder(folder, "hvd/__init__.py", NULL);
    *unasked = *installed && access(program, X_OK) == 0;
}

void check_python(const struct patient *patient, struct finding *finding)
{
    bool hvd = is_in_python(patient, "hvd/__init__.py", NULL);
    bool torch = is_in_python(patient, "torch/__init__.py", NULL);
    bool horovod = is_in_python(patient, "horovod/__init__.py", NULL);
    bool installed, unasked;
    find_installed(patient, &installed, &unasked);
    if (!hvd && installed && !unasked)
        find(finding, CHECK_WARN, "export PYTHONPATH=that folder; C programs do without",
             "the package hvd is in %s, where Pythons do not look", patient->python_folder);
    else if (!hvd && !installed)
        find(finding, CHECK_WARN,
             "pip install the folder python/ of hvd, or set PYTHONPATH; C programs do without",
             "the package hvd is not in PYTHONPATH, nor where Pythons look");
    else
        find(finding, CHECK_OK, NULL, "hvd%s%s",
             torch ? ", hvd.torch and hvd.distributed" : "; torch is not here",
             horovod ? "; a package named horovod" : "");
}
