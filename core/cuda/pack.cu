/* pack.cu: the kernel that packs and unpacks, around the code of pack_kernel.h. */
#include "cuda/pack_kernel.h"

extern "C" __global__ void __launch_bounds__(PACK_THREADS, PACK_BLOCKS) hvd_pack(const __grid_constant__ struct pack_arguments arguments)
{
    pack_thread(&arguments, blockIdx.x, gridDim.x, (int)threadIdx.x);
}
