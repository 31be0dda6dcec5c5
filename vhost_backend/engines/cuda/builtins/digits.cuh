// Ranks of elements by one digit, in a tile: those of equal digits stay in order.
#ifndef CUDA_BUILTINS_DIGITS_CUH
#define CUDA_BUILTINS_DIGITS_CUH

#include "common.cuh"

namespace vgc
{
constexpr u32 WARPS = THREADS / WARP;

/* Shared memory for ranks. */
struct Ranking {
    u32 counts[WARPS][DIGITS]; /* elements of each digit in a warp, then those of the warps before */
    u32 totals[DIGITS];        /* elements of each digit */
    u32 begins[DIGITS];        /* elements of all digits before */
    u32 warps[WARPS];
};

/* Number in a tile of a thread's `i`-th element: warps have adjacent ones. */
__device__ inline u32 element_of(u32 i)
{
    return threadIdx.x / WARP * (WARP * SORT_ITEMS) + i * WARP + threadIdx.x % WARP;
}

/* Running sum, without the thread's own number, for each thread of the block. */
__device__ inline u32 sum_before(Ranking *ranking, u32 number)
{
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, sum = number;
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u32 other = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == WARP - 1)
        ranking->warps[warp] = sum;
    __syncthreads();
    u32 before = sum - number;
    for (u32 i = 0; i < warp; i++)
        before += ranking->warps[i];
    __syncthreads();
    return before;
}

/* Counts the digits of a warp's elements; each gets the number of those before it, in the warp, with its digit. */
__device__ inline void rank_in_warp(u32 *counts, const u32 (&digits)[SORT_ITEMS], u32 (&ranks)[SORT_ITEMS])
{
    u32 lane = threadIdx.x % WARP;
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        u32 equals = __match_any_sync(ALL_LANES, digits[i]), first = __ffs(equals) - 1, before = 0;
        if (lane == first) {
            before = counts[digits[i]];
            counts[digits[i]] = before + __popc(equals);
        }
        __syncwarp();
        ranks[i] = __shfl_sync(ALL_LANES, before, first) + __popc(equals & ((1u << lane) - 1));
    }
}

/* Ranks of this thread's elements in the tile. All threads of the block take part. */
__device__ inline void rank_in_tile(Ranking *ranking, const u32 (&digits)[SORT_ITEMS], u32 (&ranks)[SORT_ITEMS])
{
    static_assert(DIGITS == THREADS, "each thread has a digit");
    u32 warp = threadIdx.x / WARP, digit = threadIdx.x, total = 0;
    for (u32 i = 0; i < WARPS; i++)
        ranking->counts[i][digit] = 0;
    __syncthreads();
    rank_in_warp(ranking->counts[warp], digits, ranks);
    __syncthreads();
    for (u32 i = 0; i < WARPS; i++) {
        u32 count = ranking->counts[i][digit];
        ranking->counts[i][digit] = total;
        total += count;
    }
    ranking->totals[digit] = total;
    ranking->begins[digit] = sum_before(ranking, total);
    __syncthreads();
    for (u32 i = 0; i < SORT_ITEMS; i++)
        ranks[i] += ranking->begins[digits[i]] + ranking->counts[warp][digits[i]];
}

__device__ inline u32 digit_of(u64 bits, u32 shift)
{
    return static_cast<u32>(bits >> shift) & (DIGITS - 1);
}
} // namespace vgc

#endif
