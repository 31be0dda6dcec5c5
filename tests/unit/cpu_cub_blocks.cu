// CUB's algorithms of a block, each with several types and sizes of blocks.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>

struct Pair {
    int key;
    float weight;
};
struct Heavier {
    __device__ Pair operator()(const Pair &a, const Pair &b) const
    {
        return b.weight > a.weight ? b : a;
    }
};
struct Larger {
    template <class T> __device__ T operator()(const T &a, const T &b) const
    {
        return a < b ? b : a;
    }
};
struct Before {
    __device__ bool operator()(const Pair &a, const Pair &b) const
    {
        return a.key < b.key;
    }
};

template <class T, int SIZE, cub::BlockReduceAlgorithm how> __device__ void reduce(const T *in, T *out, int valid)
{
    typedef cub::BlockReduce<T, SIZE, how> Reduce;
    __shared__ typename Reduce::TempStorage room;
    const T mine = in[threadIdx.x];
    const T sum = Reduce(room).Sum(mine);
    __syncthreads();
    const T largest = Reduce(room).Reduce(mine, Larger());
    __syncthreads();
    const T part = Reduce(room).Sum(mine, valid);
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = largest;
        out[2] = part;
    }
}
#define REDUCE(name, type, size, how)                                                                                  \
    extern "C" __global__ void reduce_##name##_##size(const type *in, type *out, int valid)                            \
    {                                                                                                                  \
        reduce<type, size, cub::how>(in, out, valid);                                                                  \
    }
REDUCE(int, int, 32, BLOCK_REDUCE_WARP_REDUCTIONS)
REDUCE(int, int, 100, BLOCK_REDUCE_WARP_REDUCTIONS)
REDUCE(int, int, 256, BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY)
REDUCE(float, float, 128, BLOCK_REDUCE_WARP_REDUCTIONS)
REDUCE(float, float, 96, BLOCK_REDUCE_RAKING)
REDUCE(double, double, 512, BLOCK_REDUCE_WARP_REDUCTIONS)

extern "C" __global__ void reduce_pairs(const Pair *in, Pair *out)
{
    typedef cub::BlockReduce<Pair, 128> Reduce;
    __shared__ Reduce::TempStorage room;
    const Pair best = Reduce(room).Reduce(in[threadIdx.x], Heavier());
    if (threadIdx.x == 0)
        *out = best;
}

template <class T, int SIZE, int ITEMS, cub::BlockScanAlgorithm how> __device__ void scan(const T *in, T *out)
{
    typedef cub::BlockScan<T, SIZE, how> Scan;
    __shared__ typename Scan::TempStorage room;
    T items[ITEMS], sums[ITEMS], total;
    for (int i = 0; i < ITEMS; i++)
        items[i] = in[threadIdx.x * ITEMS + i];
    Scan(room).InclusiveSum(items, sums);
    for (int i = 0; i < ITEMS; i++)
        out[threadIdx.x * ITEMS + i] = sums[i];
    __syncthreads();
    Scan(room).ExclusiveSum(items, sums, total);
    for (int i = 0; i < ITEMS; i++)
        out[SIZE * ITEMS + threadIdx.x * ITEMS + i] = sums[i];
    __syncthreads();
    Scan(room).InclusiveScan(items, sums, Larger());
    for (int i = 0; i < ITEMS; i++)
        out[2 * SIZE * ITEMS + threadIdx.x * ITEMS + i] = sums[i];
    out[3 * SIZE * ITEMS + threadIdx.x] = total;
}
#define SCAN(name, type, size, items, how)                                                                             \
    extern "C" __global__ void scan_##name##_##size(const type *in, type *out)                                         \
    {                                                                                                                  \
        scan<type, size, items, cub::how>(in, out);                                                                    \
    }
SCAN(int, int, 64, 1, BLOCK_SCAN_WARP_SCANS)
SCAN(long, long long, 128, 3, BLOCK_SCAN_RAKING)
SCAN(int, int, 256, 4, BLOCK_SCAN_RAKING_MEMOIZE)
SCAN(float, float, 96, 2, BLOCK_SCAN_WARP_SCANS)

template <class Key, class Value, int SIZE, int ITEMS> __device__ void sort(Key *keys, Value *values, bool down)
{
    typedef cub::BlockRadixSort<Key, SIZE, ITEMS, Value> Sort;
    typedef cub::BlockLoad<Key, SIZE, ITEMS, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockStore<Key, SIZE, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE> Store;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } room;
    Key mine[ITEMS];
    Value payload[ITEMS];
    Load(room.load).Load(keys, mine);
    cub::LoadDirectBlocked(threadIdx.x, values, payload);
    __syncthreads();
    if (down)
        Sort(room.sort).SortDescending(mine, payload);
    else
        Sort(room.sort).Sort(mine, payload);
    __syncthreads();
    Store(room.store).Store(keys, mine);
    cub::StoreDirectBlocked(threadIdx.x, values, payload);
}
extern "C" __global__ void sort_int(int *keys, int *values, int down)
{
    sort<int, int, 64, 4>(keys, values, down);
}
extern "C" __global__ void sort_float(float *keys, int *values, int down)
{
    sort<float, int, 128, 3>(keys, values, down);
}
extern "C" __global__ void sort_unsigned(unsigned long long *keys, int *values, int down)
{
    sort<unsigned long long, int, 32, 2>(keys, values, down);
}

extern "C" __global__ void sort_some_bits(unsigned *keys)
{
    typedef cub::BlockRadixSort<unsigned, 64, 2> Sort;
    __shared__ Sort::TempStorage room;
    unsigned mine[2] = {keys[2 * threadIdx.x], keys[2 * threadIdx.x + 1]};
    Sort(room).SortBlockedToStriped(mine, 4, 12);
    keys[threadIdx.x] = mine[0];
    keys[threadIdx.x + 64] = mine[1];
}

extern "C" __global__ void merge_sort(Pair *in)
{
    typedef cub::BlockMergeSort<Pair, 128, 2> Sort;
    __shared__ Sort::TempStorage room;
    Pair mine[2] = {in[2 * threadIdx.x], in[2 * threadIdx.x + 1]};
    Sort(room).StableSort(mine, Before());
    in[2 * threadIdx.x] = mine[0];
    in[2 * threadIdx.x + 1] = mine[1];
}

template <cub::BlockHistogramAlgorithm how> __device__ void histogram(const unsigned char *in, unsigned *out)
{
    typedef cub::BlockHistogram<unsigned char, 128, 4, 256, how> Histogram;
    __shared__ typename Histogram::TempStorage room;
    __shared__ unsigned bins[256];
    unsigned char mine[4];
    cub::LoadDirectStriped<128>(threadIdx.x, in, mine);
    Histogram(room).Histogram(mine, bins);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 128)
        out[i] = bins[i];
}
extern "C" __global__ void histogram_sort(const unsigned char *in, unsigned *out)
{
    histogram<cub::BLOCK_HISTO_SORT>(in, out);
}
extern "C" __global__ void histogram_atomic(const unsigned char *in, unsigned *out)
{
    histogram<cub::BLOCK_HISTO_ATOMIC>(in, out);
}

extern "C" __global__ void exchange(const int *in, int *out)
{
    typedef cub::BlockExchange<int, 64, 4> Exchange;
    __shared__ Exchange::TempStorage room;
    int mine[4];
    cub::LoadDirectBlockedVectorized(threadIdx.x, const_cast<int *>(in), mine);
    Exchange(room).BlockedToStriped(mine);
    cub::StoreDirectStriped<64>(threadIdx.x, out, mine);
    __syncthreads();
    Exchange(room).StripedToBlocked(mine);
    cub::StoreDirectBlockedVectorized(threadIdx.x, out + 256, mine);
    int ranks[4];
    for (int i = 0; i < 4; i++)
        ranks[i] = 255 - (4 * threadIdx.x + i);
    __syncthreads();
    Exchange(room).ScatterToBlocked(mine, ranks);
    cub::StoreDirectBlocked(threadIdx.x, out + 512, mine);
}

// A partial tile: `valid` items, the others are -1.
extern "C" __global__ void load_and_store(const short *in, short *out, int valid)
{
    typedef cub::BlockLoad<short, 96, 5, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockStore<short, 96, 5, cub::BLOCK_STORE_TRANSPOSE> Store;
    __shared__ union {
        Load::TempStorage load;
        Store::TempStorage store;
    } room;
    short mine[5];
    Load(room.load).Load(in, mine, valid, (short)-1);
    for (int i = 0; i < 5; i++)
        mine[i] += 1;
    __syncthreads();
    Store(room.store).Store(out, mine, valid);
}

struct Differ {
    __device__ bool operator()(int a, int b) const
    {
        return a != b;
    }
};
struct Minus {
    __device__ int operator()(int a, int b) const
    {
        return a - b;
    }
};
extern "C" __global__ void neighbours(const int *in, int *heads, int *differences, int *shifted)
{
    typedef cub::BlockDiscontinuity<int, 64> Discontinuity;
    typedef cub::BlockAdjacentDifference<int, 64> Difference;
    typedef cub::BlockShuffle<int, 64> Shuffle;
    __shared__ union {
        Discontinuity::TempStorage flags;
        Difference::TempStorage differences;
        Shuffle::TempStorage shuffle;
    } room;
    int mine[2] = {in[2 * threadIdx.x], in[2 * threadIdx.x + 1]}, found[2];
    Discontinuity(room.flags).FlagHeads(found, mine, Differ());
    cub::StoreDirectBlocked(threadIdx.x, heads, found);
    __syncthreads();
    Difference(room.differences).SubtractLeft(mine, found, Minus());
    cub::StoreDirectBlocked(threadIdx.x, differences, found);
    __syncthreads();
    int up[2];
    Shuffle(room.shuffle).Up(mine, up);
    cub::StoreDirectBlocked(threadIdx.x, shifted, up);
}

extern "C" __global__ void planes(const int *in, int *out)
{ // a block of three dimensions
    typedef cub::BlockReduce<int, 4, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 3, 5> Reduce;
    __shared__ Reduce::TempStorage room;
    const int place = threadIdx.x + 4 * (threadIdx.y + 3 * threadIdx.z);
    const int sum = Reduce(room).Sum(in[place]);
    if (place == 0)
        *out = sum;
}
