/* pack_image.h: the kernel of pack.cu, compiled by nvcc for the GPU architectures that configure names. */
#ifndef CUDA_PACK_IMAGE_H
#define CUDA_PACK_IMAGE_H

/* A fatbin. The build generates core/cuda/pack_image.c from it. A build without nvcc has the PTX text of a
 * module without a kernel instead, which begins with a dot. */
extern const unsigned char pack_image[] __attribute__((aligned(8)));

#endif
