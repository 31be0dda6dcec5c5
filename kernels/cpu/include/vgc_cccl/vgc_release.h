/* Names that CUB and Thrust had until release 2 of CCCL, which came with CUDA 12, for programs that were written for it. The
 * headers in this folder have the names of the libraries', come before them and include them. Where these are of release 2
 * or older, nothing is added. */
#pragma once
#if __has_include(<cuda/std/__cccl/version.h>)
#include <cuda/std/__cccl/version.h>
#endif
#if CCCL_MAJOR_VERSION >= 3 && !defined(CCCL_IGNORE_DEPRECATED_API)
#define CCCL_IGNORE_DEPRECATED_API /* thrust::plus, for example, was not deprecated in release 2 */
#endif

#ifdef __CUDACC__
#define __VGC_CCCL_BOTH__ __host__ __device__ __forceinline__
#else /* Thrust in a file of the guest's C++ compiler */
#define __VGC_CCCL_BOTH__ inline
#endif
