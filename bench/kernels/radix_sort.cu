/* Radix sort of 32-bit keys with CUB's algorithms for blocks, eight bits at a time: each block counts the digits of its
 * tile, one block sums the counts of all, and each block sorts its tile and moves runs of equal digits to their places.
 */
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

enum { THREADS = 256, ITEMS = 16, TILE = THREADS * ITEMS, DIGITS = 256 };

/* counts[digit * blocks + block]: keys with this digit in the block's tile. */
extern "C" __global__ void radix_count(const unsigned *keys, unsigned *counts, int shift)
{
    __shared__ unsigned bins[DIGITS];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        atomicAdd(&bins[keys[blockIdx.x * TILE + i] >> shift & (DIGITS - 1)], 1u);
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

/* Replaces counts by the sums of those before them; one block. */
extern "C" __global__ void radix_sum(unsigned *counts, int n)
{
    using Scan = cub::BlockScan<unsigned, THREADS>;
    __shared__ typename Scan::TempStorage storage;
    unsigned before = 0;
    for (int first = 0; first < n; first += TILE) {
        unsigned values[ITEMS], total;
        cub::LoadDirectBlocked(threadIdx.x, counts + first, values);
        Scan(storage).ExclusiveSum(values, values, total);
        for (int i = 0; i < ITEMS; i++)
            counts[first + threadIdx.x * ITEMS + i] = before + values[i];
        before += total;
        __syncthreads();
    }
}

extern "C" __global__ void radix_move(const unsigned *keys, const unsigned *places, unsigned *out, int shift)
{
    using Sort = cub::BlockRadixSort<unsigned, THREADS, ITEMS>;
    __shared__ typename Sort::TempStorage storage;
    __shared__ unsigned sorted[TILE];
    __shared__ unsigned begins[DIGITS];
    unsigned values[ITEMS];
    cub::LoadDirectBlocked(threadIdx.x, keys + blockIdx.x * TILE, values);
    Sort(storage).SortBlockedToStriped(values, shift, shift + 8);
    for (int i = 0; i < ITEMS; i++)
        sorted[i * THREADS + threadIdx.x] = values[i];
    __syncthreads();
    for (int place = threadIdx.x; place < TILE; place += THREADS) {
        unsigned digit = sorted[place] >> shift & (DIGITS - 1);
        if (place == 0 || digit != (sorted[place - 1] >> shift & (DIGITS - 1)))
            begins[digit] = place;
    }
    __syncthreads();
    for (int place = threadIdx.x; place < TILE; place += THREADS) {
        unsigned digit = sorted[place] >> shift & (DIGITS - 1);
        out[places[digit * gridDim.x + blockIdx.x] + place - begins[digit]] = sorted[place];
    }
}
