/* Primitives of the CPU engine's compiler and runtime. Device code uses cuda_runtime.h. For files that no CUDA compiler
 * translates, as those of the guest's C compiler, only the qualifiers, without meaning. */
#pragma once

#ifdef __CUDACC__
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#ifdef __VGC_LAUNCHES__ /* device code launches kernels, which clang refuses: launches are calls here, see vgc_launch.h */
#define __global__ __attribute__((host)) __attribute__((device)) __attribute__((used)) __attribute__((annotate("vgc.kernel")))
#else
#define __global__ __attribute__((global)) __attribute__((annotate("vgc.kernel")))
#endif
#if defined(__VGC_SHARED_CLASSES__) /* the attribute refuses libcu++'s classes, as cuda::barrier; this, constructors of devices */
#define __shared__ thread_local
#elif defined(__VGC_HOST_HALF__)
#define __shared__ __attribute__((shared))
#else
#define __shared__ __attribute__((shared)) __attribute__((vgc_shared))
#endif
#define __constant__ __attribute__((constant)) __attribute__((annotate("vgc.constant")))
#ifdef __VGC_MANAGED__ /* the guest's host code, if it has such variables */
#define __managed__ __attribute__((managed))
#else
#define __managed__ __attribute__((device))
#endif
#define __launch_bounds__(...) __attribute__((annotate("vgc.bounds", __vgc_bounds(__VA_ARGS__))))
#define __grid_constant__ __attribute__((annotate("vgc.grid_constant")))
#define __maxnreg__(...)
#define __cluster_dims__(...) __attribute__((annotate("vgc.cluster", __VA_ARGS__)))
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#define __grid_constant__
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define CUDARTAPI
#define __cudart_builtin__
#define __device_builtin__
#define CUDART_CB

#ifdef __CUDACC__
/* Qualifiers of the functions in these headers. */
#define __VGC_FN__ static __device__ __forceinline__

typedef __SIZE_TYPE__ size_t;

/* Most threads of a block, of the arguments of __launch_bounds__. */
__host__ __device__ constexpr unsigned __vgc_bounds(unsigned threads, unsigned = 0, unsigned = 0) { return threads; }

extern "C" {
/* Position of the running thread. `const`, as it never changes within a thread: loops over threads compute it. */
#define __VGC_POSITION(name) __device__ __attribute__((const)) unsigned __vgc_##name();
__VGC_POSITION(tid_x) __VGC_POSITION(tid_y) __VGC_POSITION(tid_z)
__VGC_POSITION(ntid_x) __VGC_POSITION(ntid_y) __VGC_POSITION(ntid_z)
__VGC_POSITION(ctaid_x) __VGC_POSITION(ctaid_y) __VGC_POSITION(ctaid_z)
__VGC_POSITION(nctaid_x) __VGC_POSITION(nctaid_y) __VGC_POSITION(nctaid_z)
__VGC_POSITION(cluster_ctaid_x) __VGC_POSITION(cluster_ctaid_y) __VGC_POSITION(cluster_ctaid_z)
__VGC_POSITION(cluster_nctaid_x) __VGC_POSITION(cluster_nctaid_y) __VGC_POSITION(cluster_nctaid_z)
__VGC_POSITION(clusterid_x) __VGC_POSITION(clusterid_y) __VGC_POSITION(clusterid_z)
__VGC_POSITION(nclusterid_x) __VGC_POSITION(nclusterid_y) __VGC_POSITION(nclusterid_z)
__VGC_POSITION(cluster_ctarank) __VGC_POSITION(cluster_nctarank)
__VGC_POSITION(linear_tid) __VGC_POSITION(laneid) __VGC_POSITION(warpid) __VGC_POSITION(smid)
__VGC_POSITION(lanemask_eq) __VGC_POSITION(lanemask_lt) __VGC_POSITION(lanemask_le)
__VGC_POSITION(lanemask_gt) __VGC_POSITION(lanemask_ge)
#undef __VGC_POSITION

/* Begin of the block's shared memory. */
__device__ __attribute__((const)) void *__vgc_shared();
/* Bytes from there to the shared memory of the next block in the cluster. */
__device__ __attribute__((const)) unsigned long long __vgc_slot_bytes();

/* Waits for other threads: the compiler cuts kernels at these calls (enum vgc_cpu_site_kind). */
__device__ void __vgc_barrier();
__device__ void __vgc_grid_barrier();
__device__ void __vgc_cluster_barrier();
__device__ void __vgc_yield();
__device__ int __vgc_barrier_reduce(int kind, int predicate);
__device__ unsigned __vgc_warp32(int kind, unsigned mask, unsigned value, unsigned arg);
__device__ unsigned long long __vgc_warp64(int kind, unsigned mask, unsigned long long value, unsigned arg);

/* Functions of the runtime (vhost_backend/engines/cpu/device.c); vgc_libc.h declares those of the C library. */
__device__ __attribute__((noreturn)) void __vgc_trap();
__device__ unsigned long long __vgc_globaltimer();
__device__ unsigned long long __vgc_mbarrier_arrive(unsigned long long *barrier, unsigned count, unsigned dropped, int bytes);
}

enum {
    __VGC_BARRIER_COUNT = 2,
    __VGC_BARRIER_AND = 3,
    __VGC_BARRIER_OR = 4,
    __VGC_SYNCWARP = 5,
    __VGC_SHFL_IDX = 6,
    __VGC_SHFL_UP = 7,
    __VGC_SHFL_DOWN = 8,
    __VGC_SHFL_XOR = 9,
    __VGC_BALLOT = 10,
    __VGC_MATCH_ANY = 11,
    __VGC_MATCH_ALL = 12,
    __VGC_ACTIVEMASK = 13,
    __VGC_BALLOT_ACTIVE = 14,
};
#endif
