/* flight_memory.c: puts the flight record into a file that the launcher can read when the rank has ended,
 * however it ended. */
#include "trace/flight_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_limit.h"

/* Changes with the layout: launcher and library may come from different versions of hvd. */
#define FORMAT (UINT64_C(0x6876640100000000) + sizeof(struct flight))

/* More are only read from a record that was overwritten. */
#define MOST_OPERATIONS (UINT64_C(1) << 62)

/* A new file each time: a program that the rank starts, and that joins with its environment, must not change
 * what the rank has mapped. The blocks are taken now, where their lack is only an error: at a store it would
 * be a SIGBUS. */
static struct flight *map_file(const char *path)
{
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    void *memory = MAP_FAILED;
    if (fd < 0)
        return NULL;
    if (file_limit_allows(sizeof(struct flight)) && posix_fallocate(fd, 0, (off_t)sizeof(struct flight)) == 0)
        memory = mmap(NULL, sizeof(struct flight), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

struct flight *flight_memory_create(const char *path, bool *launcherp)
{
    struct flight *flight = path != NULL && path[0] == '/' ? map_file(path) : NULL;
    *launcherp = flight != NULL;
    if (flight == NULL) {
        void *memory =
            mmap(NULL, sizeof(*flight), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        flight = memory == MAP_FAILED ? NULL : memory;
    }
    if (flight != NULL)
        flight->format = FORMAT;
    return flight;
}

void flight_memory_destroy(struct flight *flight)
{
    if (flight != NULL)
        munmap(flight, sizeof(*flight));
}

static bool read_all(int fd, struct flight *flight)
{
    char *to = (char *)flight;
    size_t used = 0;
    while (used < sizeof(*flight)) {
        ssize_t count = read(fd, to + used, sizeof(*flight) - used);
        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        used += count > 0 ? (size_t)count : 0;
    }
    return true;
}

struct flight *flight_memory_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct flight *flight = aligned_alloc(_Alignof(struct flight), sizeof(*flight));
    bool valid = flight != NULL && read_all(fd, flight) && flight->format == FORMAT &&
                 atomic_load(&flight->last) <= MOST_OPERATIONS;
    close(fd);
    if (valid)
        return flight;
    free(flight);
    return NULL;
}
