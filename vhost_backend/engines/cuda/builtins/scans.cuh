// Running folds by the threads of a block.
#ifndef CUDA_BUILTINS_SCANS_CUH
#define CUDA_BUILTINS_SCANS_CUH

#include "folds.cuh"

namespace vgc
{
/* Fold of what all lanes before this one have, among `lanes` adjacent threads, a power of two. `all` becomes the fold
 * of all lanes. All threads of the block take part; `shared` has room for THREADS. */
template <class Fold>
__device__ typename Fold::Acc scan_lanes(typename Fold::Acc *shared, u32 lanes, typename Fold::Acc acc,
                                         typename Fold::Acc *all)
{
    u32 thread = threadIdx.x, lane = thread % lanes;
    shared[thread] = acc;
    __syncthreads();
    for (u32 distance = 1; distance < lanes; distance *= 2) {
        auto before = lane >= distance ? shared[thread - distance] : Fold::neutral();
        __syncthreads();
        shared[thread] = Fold::fold(before, shared[thread]);
        __syncthreads();
    }
    auto result = lane > 0 ? shared[thread - 1] : Fold::neutral();
    *all = shared[thread - lane + lanes - 1];
    __syncthreads();
    return result;
}

/* Place of an element of a tile in shared memory: gaps keep threads that run through adjacent elements apart. */
__device__ inline u32 spread(u32 element)
{
    return element + element / SCAN_ITEMS;
}
constexpr u32 SPREAD_TILE = SCAN_TILE + THREADS;

/* Runs through a tile of `count` elements in `tile`, which become the folds up to each, with or without itself; `lanes`
 * threads take part. The fold of the whole tile behind `acc`. */
template <class Fold>
__device__ typename Fold::Acc scan_tile(typename Fold::Acc *tile, typename Fold::Acc *shared, u32 lanes, u32 count,
                                        bool exclusive, typename Fold::Acc acc)
{
    using Acc = typename Fold::Acc;
    u32 begin = threadIdx.x % lanes * SCAN_ITEMS;
    Acc sum = Fold::neutral(), all;
    for (u32 i = begin; i < begin + SCAN_ITEMS && i < count; i++)
        sum = Fold::fold(sum, tile[spread(i)]);
    Acc running = Fold::fold(acc, scan_lanes<Fold>(shared, lanes, sum, &all));
    for (u32 i = begin; i < begin + SCAN_ITEMS && i < count; i++) {
        Acc next = Fold::fold(running, tile[spread(i)]);
        tile[spread(i)] = exclusive ? running : next;
        running = next;
    }
    __syncthreads();
    return Fold::fold(acc, all);
}

/* Sums of unsigned numbers. */
struct Count : Sum<u64> {
};
struct SmallCount {
    using Acc = u32;

    static __device__ u32 neutral()
    {
        return 0;
    }
    static __device__ u32 fold(u32 a, u32 b)
    {
        return a + b;
    }
};

/* Running sums, without the element itself, of `n` numbers, by the threads of one block; the sum of all. */
__device__ inline u64 scan_counts(u64 *counts, u64 n)
{
    __shared__ u64 tile[SPREAD_TILE], shared[THREADS];
    u64 sum = 0;
    for (u64 begin = 0; begin < n; begin += SCAN_TILE) {
        u32 count = static_cast<u32>(lesser<u64>(SCAN_TILE, n - begin));
        for (u32 i = threadIdx.x; i < count; i += THREADS)
            tile[spread(i)] = counts[begin + i];
        __syncthreads();
        sum = scan_tile<Count>(tile, shared, THREADS, count, true, sum);
        for (u32 i = threadIdx.x; i < count; i += THREADS)
            counts[begin + i] = tile[spread(i)];
        __syncthreads();
    }
    return sum;
}
} // namespace vgc

#endif
