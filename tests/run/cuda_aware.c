/* cuda_aware.c: a library to preload that makes MPI say that it is CUDA-aware. The double of libcuda has its
 * devices in memory of the host, which any MPI can read. */
int MPIX_Query_cuda_support(void);

__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void)
{
    return 1;
}
