/* Device-side CUDA C++ of the CPU engine. The compiler includes it before every source, and then vgc_texture.h and
 * vgc_surface.h if the source has the name of a function in them. */
#pragma once
#include "vgc_builtins.h"
#include "vector_types.h"
#include "vgc_sync.h"
#include "vgc_atomics.h"
#include "vgc_math.h"
#include "vgc_misc.h"
#include "texture_types.h"

/* Lets `<<< >>>` in host code parse (it is not compiled), so that it instantiates kernel templates. */
typedef struct CUstream_st *cudaStream_t;
enum cudaError { cudaSuccess };
typedef enum cudaError cudaError_t;
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void *stream = 0);
extern "C" cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
