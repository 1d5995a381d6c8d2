/* limits.c: what a process may use: shared memory, locked memory, descriptors, stack. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "options/parse.h"
#include "tools/hvdinfo/doctor/checks.h"

#define MIB           (INT64_C(1) << 20)
#define SHM_LITTLE    (256 * MIB) /* docker gives 64 MiB, of which NCCL takes most for two ranks of 8 GPUs */
#define NOFILE_LITTLE 4096
#define NOFILE_SPARE  64 /* descriptors of a rank besides its connections */
#define STACK_LITTLE  (1 * MIB)

/* A limit as a user types it. */
static const char *limit_text(rlim_t limit, char text[32])
{
    if (limit == RLIM_INFINITY)
        snprintf(text, 32, "unlimited");
    else
        format_size(limit > INT64_MAX ? INT64_MAX : (int64_t)limit, text, 32);
    return text;
}

void check_shm(const struct patient *patient, struct finding *finding)
{
    static const char mend[] =
        "mount a tmpfs there of half the memory: mount -o remount,size=SIZE /dev/shm, or docker "
        "run --shm-size=SIZE or --ipc=host";
    char path[300], size[32];
    struct statvfs status;
    snprintf(path, sizeof(path), "%s/dev/shm", patient->root);
    if (statvfs(path, &status) < 0 || access(path, W_OK) < 0) {
        find(finding, CHECK_FAIL, mend, "cannot be written: %s", strerror(errno));
        return;
    }
    int64_t bytes = (int64_t)((uint64_t)status.f_bavail * status.f_frsize);
    int64_t rounded = bytes >= MIB ? bytes / MIB * MIB : bytes;
    format_size(rounded, size, sizeof(size));
    if (bytes < SHM_LITTLE)
        find(finding, CHECK_WARN, mend, "only %s are free; hvd needs none of it, NCCL and Open MPI do", size);
    else
        find(finding, CHECK_OK, NULL, "%s free", size);
}

void check_memlock(const struct patient *patient, struct finding *finding)
{
    char path[300], text[32];
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    snprintf(path, sizeof(path), "%s/sys/class/infiniband", patient->root);
    bool rdma = access(path, F_OK) == 0;
    if (rdma && limit.rlim_cur != RLIM_INFINITY)
        find(finding, CHECK_WARN,
             "LimitMEMLOCK=infinity in slurmd's unit (PropagateResourceLimitsExcept=MEMLOCK), or ulimit -l "
             "unlimited",
             "%s, and this node has RDMA, whose libraries lock the memory they send",
             limit_text(limit.rlim_cur, text));
    else
        find(finding, CHECK_OK, NULL, "%s%s", limit_text(limit.rlim_cur, text), rdma ? "" : "; no RDMA here");
}

void check_nofile(const struct patient *patient, struct finding *finding)
{
    char text[32];
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY)
        snprintf(text, sizeof(text), "unlimited");
    else
        snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)limit.rlim_max);
    if (limit.rlim_max < (rlim_t)patient->ranks + NOFILE_SPARE)
        find(finding, CHECK_FAIL, "ulimit -Hn, or LimitNOFILE= in slurmd's unit",
             "%s descriptors, and each of %d ranks may connect to all others", text, patient->ranks);
    else if (limit.rlim_max < NOFILE_LITTLE)
        find(finding, CHECK_WARN, "ulimit -Hn, or LimitNOFILE= in slurmd's unit",
             "%s descriptors, which limits jobs to about %d ranks", text, (int)limit.rlim_max - NOFILE_SPARE);
    else
        find(finding, CHECK_OK, NULL, "%s descriptors", text);
}

void check_stack(const struct patient *patient, struct finding *finding)
{
    char text[32];
    struct rlimit limit = {0, 0};
    (void)patient;
    getrlimit(RLIMIT_STACK, &limit);
    if (limit.rlim_cur < (rlim_t)STACK_LITTLE)
        find(finding, CHECK_WARN, "ulimit -s 8192",
             "%s; hvd's own threads have what they need, the program's may not",
             limit_text(limit.rlim_cur, text));
    else
        find(finding, CHECK_OK, NULL, "%s", limit_text(limit.rlim_cur, text));
}
