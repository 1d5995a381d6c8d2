/* srun_port.c: a socket where srun listens for the nodes of its step. */
#include "config.h"
#include "spank/srun_port.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdint.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/listener.h"

/* Slurm's library is in srun. The plug-in is not linked with it. */
static const uint16_t *find_range(void)
{
    const slurm_conf_t *conf = dlsym(RTLD_DEFAULT, "slurm_conf");
    return conf == NULL ? NULL : conf->srun_port_range;
}

/* Sruns side by side begin at different ports, as their numbers differ. */
static int listen_in(const uint16_t range[2])
{
    int count = range[1] - range[0] + 1;
    int fd = -1;
    for (int i = 0; fd < 0 && i < count; i++)
        fd = listener_open((uint16_t)(range[0] + (int)((getpid() + i) % count)));
    return fd;
}

int srun_port_listen(int *portp)
{
    const uint16_t *range = find_range();
    int fd = range == NULL ? listener_open(0) : listen_in(range);
    *portp = fd < 0 ? 0 : listener_port(fd);
    if (*portp == 0)
        descriptors_close(&fd);
    return fd;
}
