#pragma once
#include_next <cub/util_ptx.cuh>
#include <cub/version.cuh>
#if CUB_MAJOR_VERSION >= 3
CUB_NAMESPACE_BEGIN
__device__ __forceinline__ unsigned int LaneId() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }
__device__ __forceinline__ unsigned int WarpId() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32; }
__device__ __forceinline__ unsigned int LaneMaskLt() { return (1u << LaneId()) - 1; }
__device__ __forceinline__ unsigned int LaneMaskLe() { return 2u * LaneMaskLt() + 1; }
__device__ __forceinline__ unsigned int LaneMaskGt() { return ~LaneMaskLe(); }
__device__ __forceinline__ unsigned int LaneMaskGe() { return ~LaneMaskLt(); }

__device__ __forceinline__ void CTA_SYNC() { __syncthreads(); }
__device__ __forceinline__ int CTA_SYNC_AND(int predicate) { return __syncthreads_and(predicate); }
__device__ __forceinline__ int CTA_SYNC_OR(int predicate) { return __syncthreads_or(predicate); }
__device__ __forceinline__ void WARP_SYNC(unsigned int mask) { __syncwarp(mask); }
__device__ __forceinline__ int WARP_ANY(int predicate, unsigned int mask) { return __any_sync(mask, predicate); }
__device__ __forceinline__ int WARP_ALL(int predicate, unsigned int mask) { return __all_sync(mask, predicate); }
__device__ __forceinline__ int WARP_BALLOT(int predicate, unsigned int mask) { return __ballot_sync(mask, predicate); }
__device__ __forceinline__ unsigned int SHFL_IDX_SYNC(unsigned int word, int lane, unsigned int mask) {
    return __shfl_sync(mask, word, lane);
}

__device__ __forceinline__ unsigned int SHR_ADD(unsigned int x, unsigned int shift, unsigned int addend) {
    return (shift < 32 ? x >> shift : 0) + addend;
}
__device__ __forceinline__ unsigned int SHL_ADD(unsigned int x, unsigned int shift, unsigned int addend) {
    return (shift < 32 ? x << shift : 0) + addend;
}
__device__ __forceinline__ unsigned int IADD3(unsigned int x, unsigned int y, unsigned int z) { return x + y + z; }
__device__ __forceinline__ int PRMT(unsigned int a, unsigned int b, unsigned int selector) { return __byte_perm(a, b, selector); }
/* Puts `count` bits of y into x, from bit `first` on. */
__device__ __forceinline__ void BFI(unsigned int &result, unsigned int x, unsigned int y, unsigned int first, unsigned int count) {
    const unsigned int ones = count < 32 ? (1u << count) - 1 : ~0u, mask = first < 32 ? ones << first : 0;
    result = (x & ~mask) | (first < 32 ? y << first & mask : 0);
}
__device__ __forceinline__ float FMUL_RZ(float a, float b) { return __fmul_rz(a, b); }
__device__ __forceinline__ float FFMA_RZ(float a, float b, float c) { return __fmaf_rz(a, b, c); }
__device__ __forceinline__ void ThreadTrap() { __trap(); }
CUB_NAMESPACE_END
#endif
