// CUB's algorithms of a warp, and of a thread.
#include <cub/thread/thread_load.cuh>
#include <cub/thread/thread_operators.cuh>
#include <cub/thread/thread_reduce.cuh>
#include <cub/thread/thread_scan.cuh>
#include <cub/thread/thread_search.cuh>
#include <cub/thread/thread_store.cuh>
#include <cub/util_ptx.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>

struct Larger {
    template <class T> __device__ T operator()(const T &a, const T &b) const
    {
        return a < b ? b : a;
    }
};
struct Less {
    template <class T> __device__ bool operator()(const T &a, const T &b) const
    {
        return a < b;
    }
};

// Warps of WIDTH lanes, up to four of them in the block.
template <class T, int WIDTH> __device__ void reduce(const T *in, T *out)
{
    typedef cub::WarpReduce<T, WIDTH> Reduce;
    __shared__ typename Reduce::TempStorage rooms[4];
    typename Reduce::TempStorage &room = rooms[threadIdx.x / WIDTH];
    const T sum = Reduce(room).Sum(in[threadIdx.x]);
    __syncthreads();
    const T largest = Reduce(room).Reduce(in[threadIdx.x], Larger());
    __syncthreads();
    const T segment =
        Reduce(room).HeadSegmentedSum(in[threadIdx.x], threadIdx.x % WIDTH == 0 || threadIdx.x % WIDTH == 5);
    if (threadIdx.x % WIDTH == 0) {
        out[3 * (threadIdx.x / WIDTH)] = sum;
        out[3 * (threadIdx.x / WIDTH) + 1] = largest;
        out[3 * (threadIdx.x / WIDTH) + 2] = segment;
    }
}
#define REDUCE(name, type, width)                                                                                      \
    extern "C" __global__ void reduce_##name##_##width(const type *in, type *out)                                      \
    {                                                                                                                  \
        reduce<type, width>(in, out);                                                                                  \
    }
REDUCE(int, int, 32)
REDUCE(float, float, 16)
REDUCE(long, long long, 8)
REDUCE(unsigned, unsigned, 6)
REDUCE(double, double, 32)

template <class T, int WIDTH> __device__ void scan(const T *in, T *out)
{
    typedef cub::WarpScan<T, WIDTH> Scan;
    __shared__ typename Scan::TempStorage rooms[4];
    typename Scan::TempStorage &room = rooms[threadIdx.x / WIDTH];
    const int size = blockDim.x, t = threadIdx.x;
    T inclusive, exclusive, largest;
    Scan(room).Scan(in[t], inclusive, exclusive, [] __device__(T a, T b) -> T { return a + b; });
    __syncthreads();
    Scan(room).InclusiveScan(in[t], largest, Larger());
    out[t] = inclusive;
    out[size + t] = t % WIDTH ? exclusive : 0;
    out[2 * size + t] = largest;
    __syncthreads();
    out[3 * size + t] = Scan(room).Broadcast(in[t], 3);
}
#define SCAN(name, type, width)                                                                                        \
    extern "C" __global__ void scan_##name##_##width(const type *in, type *out)                                        \
    {                                                                                                                  \
        scan<type, width>(in, out);                                                                                    \
    }
SCAN(int, int, 32)
SCAN(float, float, 16)
SCAN(long, long long, 8)
SCAN(int, int, 7)

extern "C" __global__ void sort(int *keys, int *values)
{
    typedef cub::WarpMergeSort<int, 4, 16, int> Sort;
    __shared__ Sort::TempStorage rooms[4];
    int mine[4], payload[4];
    cub::LoadDirectBlocked(threadIdx.x, keys, mine);
    cub::LoadDirectBlocked(threadIdx.x, values, payload);
    Sort(rooms[threadIdx.x / 16]).StableSort(mine, payload, Less());
    cub::StoreDirectBlocked(threadIdx.x, keys, mine);
    cub::StoreDirectBlocked(threadIdx.x, values, payload);
}

extern "C" __global__ void exchange(const int *in, int *out)
{
    typedef cub::WarpLoad<int, 4, cub::WARP_LOAD_TRANSPOSE, 16> Load;
    typedef cub::WarpStore<int, 4, cub::WARP_STORE_STRIPED, 16> Store;
    typedef cub::WarpExchange<int, 4, 16> Exchange;
    __shared__ union {
        Load::TempStorage load;
        Store::TempStorage store;
        Exchange::TempStorage exchange;
    } rooms[4];
    const int warp = threadIdx.x / 16;
    int mine[4];
    Load(rooms[warp].load).Load(in + 64 * warp, mine);
    __syncwarp(0xffffu << (threadIdx.x & 16));
    Exchange(rooms[warp].exchange).BlockedToStriped(mine, mine);
    __syncwarp(0xffffu << (threadIdx.x & 16));
    Store(rooms[warp].store).Store(out + 64 * warp, mine);
}

// Each modifier, as the PTX instruction that CUB writes for it.
template <class T> __device__ void copy(T *in, T *out)
{
    const int t = threadIdx.x, size = blockDim.x;
    cub::ThreadStore<cub::STORE_DEFAULT>(out + t, cub::ThreadLoad<cub::LOAD_DEFAULT>(in + t));
    cub::ThreadStore<cub::STORE_WB>(out + size + t, cub::ThreadLoad<cub::LOAD_CA>(in + t));
    cub::ThreadStore<cub::STORE_CG>(out + 2 * size + t, cub::ThreadLoad<cub::LOAD_CG>(in + t));
    cub::ThreadStore<cub::STORE_CS>(out + 3 * size + t, cub::ThreadLoad<cub::LOAD_CS>(in + t));
    cub::ThreadStore<cub::STORE_WT>(out + 4 * size + t, cub::ThreadLoad<cub::LOAD_CV>(in + t));
    cub::ThreadStore<cub::STORE_VOLATILE>(out + 5 * size + t, cub::ThreadLoad<cub::LOAD_VOLATILE>(in + t));
    cub::ThreadStore<cub::STORE_DEFAULT>(out + 6 * size + t, cub::ThreadLoad<cub::LOAD_LDG>(in + t));
}
#define COPY(name, type)                                                                                               \
    extern "C" __global__ void copy_##name(type *in, type *out)                                                        \
    {                                                                                                                  \
        copy<type>(in, out);                                                                                           \
    }
COPY(char, char)
COPY(short, short)
COPY(int, int)
COPY(long, long long)
COPY(float, float)
COPY(double, double)
COPY(float4, float4)

extern "C" __global__ void words(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, x = in[t];
    unsigned *mine = out + 8 * t;
    mine[0] = cub::BFE(x, 5, 7);
    mine[1] = cub::WarpMask<8>(t / 8);
    mine[2] = cub::ShuffleUp<8>(x, 1, 0, 0xffffffff);
    mine[3] = cub::ShuffleDown<32>(x, 5, 31, 0xffffffff);
    mine[4] = cub::ShuffleUp<32>(x, 3, 0, 0xffffffff);
    mine[5] = cub::ShuffleDown<16>(x, 2, 15, 0xffffffff);
    mine[6] = cub::ShuffleIndex<32>(x, 9, 0xffffffff);
    mine[7] = cub::MatchAny<4>(x & 15);
}

extern "C" __global__ void threads(const int *in, int *out)
{
    int mine[6], sums[6];
    for (int i = 0; i < 6; i++)
        mine[i] = in[6 * threadIdx.x + i];
    out[8 * threadIdx.x] = cub::ThreadReduce(mine, Larger());
    for (int i = 0; i < 6; i++)
        sums[i] = mine[i];
    sums[0] += 0;
    for (int i = 1; i < 6; i++)
        sums[i] = sums[i - 1] + mine[i] * mine[i];
    out[8 * threadIdx.x + 1] = cub::LowerBound(sums, 6, 50);
    out[8 * threadIdx.x + 2] = cub::UpperBound(sums, 6, 50);
}
