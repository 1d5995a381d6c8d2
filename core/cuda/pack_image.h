/* pack_image.h: the kernel of pack.cu as nvcc compiled it, for the kinds of GPUs that configure names. */
#ifndef CUDA_PACK_IMAGE_H
#define CUDA_PACK_IMAGE_H

/* A fatbin. The build makes core/cuda/pack_image.c of it. */
extern const unsigned char pack_image[] __attribute__((aligned(8)));

#endif
