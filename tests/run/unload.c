/* unload.c: a host that loads libhvd at run time, joins the job, unloads it, and goes on: `unload FILE`. */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*init_f)(void);
typedef int (*barrier_f)(int set);

static int fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* Find a function, which C cannot convert from void *. */
static int find(void *library, const char *name, void *functionp)
{
    void *found = dlsym(library, name);
    memcpy(functionp, &found, sizeof(found));
    return found != NULL;
}

/* A forked child passes hvd's handlers of pthread_atfork. */
static int fork_once(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    init_f init;
    barrier_f barrier;
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL)
        return fail(argc == 2 ? dlerror() : "usage: unload FILE");
    if (!find(library, "hvd_init", &init) || !find(library, "hvd_barrier", &barrier))
        return fail("a function is missing");
    if (init() != 0 || barrier(0) != 0)
        return fail("hvd_init or hvd_barrier failed");
    if (dlclose(library) != 0)
        return fail(dlerror());
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL)
        return fail("the code in which hvd's thread runs is gone");
    if (!fork_once())
        return fail("a forked child failed");
    puts("went on");
    return 0;
}
