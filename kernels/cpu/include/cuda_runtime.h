/* CUDA C++ of the CPU engine. The compiler includes it before every source, and then vgc_texture.h and vgc_surface.h if the
 * source has the name of a function in them. */
#pragma once
#define __CUDA_RUNTIME_H__
#ifndef __CUDACC__ /* a file of the guest's C or C++ compiler */
#include "vector_types.h"
#include "cuda_runtime_api.h"
#else
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 6
#define __CUDACC_VER_BUILD__ 20
#define CUDART_VERSION 12060
/* Neither the release nor the architecture is part of the names of CUB and Thrust: the guest's compiler and all engines give
 * a kernel the same name (the CUDA engine defines the same macros). */
#ifndef CUB_DISABLE_NAMESPACE_MAGIC
#define CUB_DISABLE_NAMESPACE_MAGIC 1
#define CUB_IGNORE_NAMESPACE_MAGIC_ERROR 1
#endif
/* Their algorithms launch kernels from host code only, also in relocatable code: no cudaGetParameterBuffer() here. */
#ifndef CUB_DISABLE_CDP
#define CUB_DISABLE_CDP 1
#endif
#ifndef CCCL_DISABLE_CDP
#define CCCL_DISABLE_CDP 1
#endif
#ifndef THRUST_DISABLE_ABI_NAMESPACE
#define THRUST_DISABLE_ABI_NAMESPACE 1
#define THRUST_IGNORE_ABI_NAMESPACE_ERROR 1
#endif
#ifdef __VGC_HOST_HALF__
#define __CUDA_ARCH_LIST__ 800
#else
#define __CUDA_ARCH_LIST__ __CUDA_ARCH__
#endif
#ifdef __VGC_FLATTEN__ /* mynvcc looks for the program's own headers, and puts CUDA's back: their macros are enough */
#include <limits.h>
#else
#include "vgc_builtins.h"
#include "vector_types.h"
#include "vgc_libc.h"
#include "vgc_heap.h"
#include "vgc_sync.h"
#include "vgc_atomics.h"
#include "vgc_math.h"
#include "vgc_misc.h"
#include "texture_types.h"
#ifndef __VGC_NO_API__ /* the compiler defines it for a source that cannot name the API */
#include "cuda_runtime_api.h"
#include "vgc_errors.h"
#endif
#if defined(__VGC_LAUNCHES__) || defined(__VGC_HOST_HALF__)
#include "vgc_launch.h"
#endif
#include "vgc_std.h"
#ifdef __VGC_HOST_HALF__
#include "vgc_hosted.h"
#include "vgc_host_math.h"
#include "vgc_texture.h"
#include "vgc_surface.h"
#endif
#endif
#endif
