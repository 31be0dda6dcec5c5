/* Warp functions without a mask, from before CUDA 9, which NVIDIA's headers lack for sm_70 and newer. They act on the
 * lanes that are there together, as on older GPUs those of a warp that had not diverged. */
#pragma once

#if defined(__cplusplus) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define __VGC_SHUFFLE(name, type, parameter)                                                                           \
    template <class T> static __device__ __forceinline__ T name(T value, type parameter, int width = warpSize)         \
    {                                                                                                                  \
        return name##_sync(__activemask(), value, parameter, width);                                                   \
    }
__VGC_SHUFFLE(__shfl, int, lane)
__VGC_SHUFFLE(__shfl_up, unsigned, delta)
__VGC_SHUFFLE(__shfl_down, unsigned, delta)
__VGC_SHUFFLE(__shfl_xor, int, mask)
#undef __VGC_SHUFFLE

#endif

/* The engine's compiler calls these for __any(), __all() and __ballot(): the headers declare those, without code. */
#if defined(__cplusplus) && defined(__CUDACC__)
__device__ __forceinline__ int __vgc_any(int condition)
{
    return __any_sync(__activemask(), condition);
}

__device__ __forceinline__ int __vgc_all(int condition)
{
    return __all_sync(__activemask(), condition);
}

__device__ __forceinline__ unsigned __vgc_ballot(int condition)
{
    return __ballot_sync(__activemask(), condition);
}
#endif
