/* Cooperative groups: a block, tiles of a warp, the threads that are active together. Without grids and clusters. */
#pragma once
#include "cuda_runtime.h"

namespace cooperative_groups {

/* All threads of the block. */
class thread_block {
  public:
    __device__ __forceinline__ void sync() const { __syncthreads(); }
    __device__ __forceinline__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ __forceinline__ unsigned num_threads() const { return size(); }
    __device__ __forceinline__ unsigned thread_rank() const { return __vgc_linear_tid(); }
    __device__ __forceinline__ dim3 group_index() const { return blockIdx; }
    __device__ __forceinline__ dim3 thread_index() const { return threadIdx; }
    __device__ __forceinline__ dim3 group_dim() const { return blockDim; }
    __device__ __forceinline__ dim3 dim_threads() const { return blockDim; }
};
__VGC_FN__ thread_block this_thread_block() { return thread_block(); }

/* Base of groups within a warp: a mask of lanes, and the first lane. */
template <unsigned Size> class __tile {
  public:
    __device__ __forceinline__ void sync() const { __syncwarp(__mask()); }
    __device__ __forceinline__ unsigned size() const { return Size; }
    __device__ __forceinline__ unsigned num_threads() const { return Size; }
    __device__ __forceinline__ unsigned thread_rank() const { return __vgc_laneid() % Size; }
    __device__ __forceinline__ unsigned meta_group_rank() const { return __vgc_linear_tid() / Size; }
    __device__ __forceinline__ unsigned meta_group_size() const { return (thread_block().size() + Size - 1) / Size; }
    template <class T> __device__ __forceinline__ T shfl(T value, int lane) const { return __shfl_sync(__mask(), value, lane, Size); }
    template <class T> __device__ __forceinline__ T shfl_up(T value, unsigned delta) const {
        return __shfl_up_sync(__mask(), value, delta, Size);
    }
    template <class T> __device__ __forceinline__ T shfl_down(T value, unsigned delta) const {
        return __shfl_down_sync(__mask(), value, delta, Size);
    }
    template <class T> __device__ __forceinline__ T shfl_xor(T value, int lane) const {
        return __shfl_xor_sync(__mask(), value, lane, Size);
    }
    __device__ __forceinline__ int any(int predicate) const { return __any_sync(__mask(), predicate); }
    __device__ __forceinline__ int all(int predicate) const { return __all_sync(__mask(), predicate); }
    __device__ __forceinline__ unsigned ballot(int predicate) const { return __ballot_sync(__mask(), predicate) >> __first(); }
    template <class T> __device__ __forceinline__ unsigned match_any(T value) const {
        return __match_any_sync(__mask(), value) >> __first();
    }

  private:
    __device__ __forceinline__ unsigned __first() const { return __vgc_laneid() & ~(Size - 1); }
    __device__ __forceinline__ unsigned __mask() const { return Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << __first(); }
};
template <unsigned Size, class Parent = thread_block> class thread_block_tile : public __tile<Size> {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles are of 1, 2, 4, 8, 16 or 32 threads");
};
template <unsigned Size> __VGC_FN__ thread_block_tile<Size> tiled_partition(const thread_block &) { return thread_block_tile<Size>(); }
template <unsigned Size, unsigned Larger, class Parent>
__VGC_FN__ thread_block_tile<Size> tiled_partition(const thread_block_tile<Larger, Parent> &) {
    static_assert(Size <= Larger, "a tile is not larger than the tile it is a part of");
    return thread_block_tile<Size>();
}

/* The threads of a warp that arrived here together. */
class coalesced_group {
  public:
    __device__ __forceinline__ explicit coalesced_group(unsigned mask) : mask_(mask) {}
    __device__ __forceinline__ void sync() const { __syncwarp(mask_); }
    __device__ __forceinline__ unsigned size() const { return (unsigned)__popc(mask_); }
    __device__ __forceinline__ unsigned num_threads() const { return size(); }
    __device__ __forceinline__ unsigned thread_rank() const { return (unsigned)__popc(mask_ & __vgc_lanemask_lt()); }
    __device__ __forceinline__ int any(int predicate) const { return __any_sync(mask_, predicate); }
    __device__ __forceinline__ int all(int predicate) const { return __all_sync(mask_, predicate); }
    template <class T> __device__ __forceinline__ T shfl(T value, unsigned rank) const {
        unsigned left = mask_;
        for (unsigned i = 0; i < rank; i++)
            left &= left - 1;
        return __shfl_sync(mask_, value, __ffs((int)left) - 1);
    }

  private:
    unsigned mask_;
};
__VGC_FN__ coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <class Group> __VGC_FN__ void sync(const Group &group) { group.sync(); }

template <class T> struct plus { __device__ __forceinline__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __device__ __forceinline__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <unsigned Size, class Parent, class T, class Operation>
__VGC_FN__ T reduce(const thread_block_tile<Size, Parent> &group, T value, Operation operation) {
    for (unsigned offset = Size / 2; offset > 0; offset /= 2)
        value = operation(value, group.shfl_xor(value, (int)offset));
    return value;
}

} // namespace cooperative_groups
