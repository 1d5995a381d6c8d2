/* flight_memory.c: puts the flight record into a file that the launcher can read when the rank has ended,
 * however it ended. */
#include "config.h"
#include "trace/flight_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/kernel.h"
#include "base/process_signal.h"
#include "base/ulimit.h"

/* Changes with the layout: launcher and library may come from different versions of hvd. */
#define FORMAT (UINT64_C(0x6876640200000000) + sizeof(struct flight))

/* Memory that is shared with a launcher keeps its size. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A record with more was overwritten. */
#define MOST_OPERATIONS (UINT64_C(1) << 62)

#define DESCRIPTORS "/proc/self/fd/"

static struct flight *map(int fd)
{
    void *memory = mmap(NULL, sizeof(struct flight), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The blocks are taken now, where their lack is only an error: at a store it would be a SIGBUS. */
static bool take_blocks(int fd)
{
    int rc = 0;
    if (!ulimit_allows_file(sizeof(struct flight)))
        return false;
    do
        rc = posix_fallocate(fd, 0, (off_t)sizeof(struct flight));
    while (rc == EINTR);
    return rc == 0;
}

/* A new file each time: a program that the rank starts, and that joins with its environment, must not change
 * what the rank has mapped. */
static struct flight *map_new_file(const char *path)
{
    unlink(path);
    int fd = descriptors_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return NULL;
    struct flight *flight = take_blocks(fd) ? map(fd) : NULL;
    close(fd);
    return flight;
}

/* May this process write the record? Not while another one does. */
static bool claim(struct flight *flight)
{
    int own = (int)getpid();
    int owner = atomic_load(&flight->owner);
    bool free = owner <= 0 || owner == own || (process_signal(owner, 0) < 0 && errno == ESRCH);
    return free && atomic_compare_exchange_strong(&flight->owner, &owner, own);
}

/* Memory that the launcher made, and that the processes of the rank hand on. */
static struct flight *map_inherited(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    int seals = fcntl(fd, F_GET_SEALS);
    bool is_ours = seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &status) == 0 &&
                   status.st_size == (off_t)sizeof(struct flight);
    struct flight *flight = is_ours && take_blocks(fd) ? map(fd) : NULL;
    close(fd);
    if (flight != NULL && !claim(flight)) {
        munmap(flight, sizeof(*flight));
        return NULL;
    }
    if (flight != NULL)
        memset(flight, 0, sizeof(*flight));
    return flight;
}

/* Memory of this process. Others of this user reach it by its descriptor, which stays open for that. */
static struct flight *map_own(struct descriptors_guard *shown)
{
    struct stat status;
    int fd = flight_memory_make();
    struct flight *flight = fd >= 0 && fstat(fd, &status) == 0 && take_blocks(fd) ? map(fd) : NULL;
    if (flight == NULL) {
        descriptors_close(&fd);
        return NULL;
    }
    *shown = (struct descriptors_guard){fd, status.st_dev, status.st_ino};
    return flight;
}

/* Memory that nobody else can read, where a limit allows no other. */
static struct flight *map_hidden(void)
{
    void *memory =
        mmap(NULL, sizeof(struct flight), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static struct flight *map_file(const char *path)
{
    if (path == NULL || path[0] != '/')
        return NULL;
    return strncmp(path, DESCRIPTORS, strlen(DESCRIPTORS)) == 0 ? map_inherited(path) : map_new_file(path);
}

int flight_memory_create(struct flight_memory *memory, const char *path)
{
    *memory = (struct flight_memory){.flight = map_file(path), .shown = {.fd = -1}};
    memory->of_launcher = memory->flight != NULL;
    if (memory->flight == NULL)
        memory->flight = map_own(&memory->shown);
    if (memory->flight == NULL)
        memory->flight = map_hidden();
    if (memory->flight == NULL)
        return HVD_ERR_NO_MEMORY;
    atomic_store(&memory->flight->owner, (int)getpid());
    memory->flight->format = FORMAT;
    return HVD_OK;
}

void flight_memory_destroy(struct flight_memory *memory)
{
    if (memory->flight == NULL)
        return;
    munmap(memory->flight, sizeof(*memory->flight));
    memory->flight = NULL;
    descriptors_guard_close(&memory->shown);
}

int flight_memory_make(void)
{
    int fd = ulimit_allows_file(sizeof(struct flight)) ? kernel_memfd_create(FLIGHT_MEMORY_NAME) : -1;
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)sizeof(struct flight)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

static bool read_at(int fd, void *bytes, size_t length, size_t offset)
{
    return descriptors_read_at(fd, bytes, length, (off_t)offset) == (ssize_t)length;
}

bool flight_memory_joined(int fd)
{
    uint64_t format = 0;
    return read_at(fd, &format, sizeof(format), offsetof(struct flight, format)) && format == FORMAT;
}

bool flight_memory_stays(int fd)
{
    unsigned char left = 0;
    return flight_memory_joined(fd) && read_at(fd, &left, sizeof(left), offsetof(struct flight, left)) &&
           left == 0;
}

/* By a write, for another process may make the file shorter: then a store would raise SIGBUS. */
static bool write_verdict(int fd, int verdict)
{
    ssize_t written = -1;
    if (!flight_memory_joined(fd) || !ulimit_allows_file(sizeof(struct flight)))
        return false;
    do
        written = pwrite(fd, &verdict, sizeof(verdict), offsetof(struct flight, verdict));
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)sizeof(verdict);
}

bool flight_memory_tell_verdict(const char *path, int first)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool told = fd >= 0 && write_verdict(fd, first + 1);
    descriptors_close(&fd);
    return told;
}

struct flight *flight_memory_read_fd(int fd)
{
    struct flight *flight = aligned_alloc(_Alignof(struct flight), sizeof(*flight));
    bool valid = flight != NULL && read_at(fd, flight, sizeof(*flight), 0) && flight->format == FORMAT &&
                 atomic_load(&flight->last) <= MOST_OPERATIONS;
    if (valid)
        return flight;
    free(flight);
    return NULL;
}

/* A slot that had another operation in the first copy was written while it was copied. */
static void drop_torn(struct flight *flight, const struct flight *before)
{
    for (int i = 0; i < FLIGHT_SLOTS; i++) {
        if (!flight_slots_agree(&before->slots[i], &flight->slots[i]))
            atomic_store(&flight->slots[i].state, 0);
    }
}

struct flight *flight_memory_read_live(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size != (off_t)sizeof(struct flight))
        return NULL;
    struct flight *before = flight_memory_read_fd(fd);
    struct flight *flight = before == NULL ? NULL : flight_memory_read_fd(fd);
    if (flight != NULL)
        drop_torn(flight, before);
    free(before);
    return flight;
}

struct flight *flight_memory_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flight *flight = fd < 0 ? NULL : flight_memory_read_fd(fd);
    descriptors_close(&fd);
    return flight;
}
