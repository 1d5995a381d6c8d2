/* gpu_nccl.c: NCCL on this rank's GPU: whether tensors on it travel by NCCL or through the host. */
#include "config.h"

#include "flow/gpu.h"

#include <stdatomic.h>

#include "flow/gpu_state.h"

static bool nccl_is_allowed(const struct hvd_config *config)
{
    bool allowed = config->backends == 0;
    for (int i = 0; option_list_choice(config->backends, i) >= 0; i++)
        allowed |= option_list_choice(config->backends, i) == BACKEND_NCCL;
    return allowed;
}

static void tell_nccl(const struct gpu *gpu, enum log_level level_once)
{
    bool instead = nccl_is_instead(gpu->nccl);
    log_write(gpu->log, instead ? level_once : LOG_INFO, "gpu", "NCCL is %s, %s%s%s", nccl_file(gpu->nccl),
              nccl_origin(gpu->nccl), instead ? "; not used is --hvd-nccl-library=" : "",
              instead ? gpu->config->nccl_library : "");
}

/* Tensors travel through the host where NCCL is missing, which is slow: say so, but once in the job. */
void gpu_open_nccl(struct gpu *gpu)
{
    struct hvd_error why = {""};
    enum log_level level_once = gpu->job->rank == 0 ? LOG_WARN : LOG_INFO;
    if (!nccl_is_allowed(gpu->config))
        return;
    if (nccl_open(gpu->config->nccl_library, gpu->log, &gpu->nccl, &why) == HVD_OK) {
        gpu->nccl_use = nccl_use_on(gpu->nccl, &gpu->device);
        tell_nccl(gpu, level_once);
        return;
    }
    log_write(gpu->log, level_once, "gpu", "tensors on GPUs travel through host memory: %s", why.text);
}

void gpu_warn(const struct gpu *gpu, const char *why)
{
    log_write(gpu->log, LOG_WARN, "gpu", "tensors on GPUs travel through host memory: %s", why);
}

const struct nccl *gpu_nccl(const struct gpu *gpu)
{
    return atomic_load_explicit(&gpu->opened, memory_order_acquire) ? gpu->nccl : NULL;
}

struct nccl_use gpu_nccl_use(const struct gpu *gpu)
{
    return gpu_nccl(gpu) != NULL ? gpu->nccl_use : (struct nccl_use){.possible = false};
}
