// Running reductions along the rows of (outer, n).
//
// Rows of one tile take one launch. Of longer ones, a first launch folds each tile, a second one has the fold of all
// tiles before each, and a third one runs through the tiles.
#include "scans.cuh"

namespace vgc
{
/* Some elements of a row that `lanes` threads work on. */
struct Stretch {
    u64 row, tile;
    u64 begin; /* of the array */
    u32 count;
};

__device__ inline Stretch stretch_of(const scan_call &call, u64 block)
{
    Stretch stretch;
    u32 lanes = call.lanes, size = lanes * SCAN_ITEMS;
    stretch.tile = block % call.tiles;
    stretch.row = block / call.tiles * (THREADS / lanes) + threadIdx.x / lanes;
    stretch.begin = stretch.row * call.n + stretch.tile * size;
    u64 left = call.n - stretch.tile * size;
    stretch.count = stretch.row < call.outer ? static_cast<u32>(lesser<u64>(size, left)) : 0;
    return stretch;
}

__device__ inline u64 blocks_of(const scan_call &call)
{
    return divide_up(call.outer, THREADS / call.lanes) * call.tiles;
}

template <class Fold, class T> __device__ void fold_tiles(const scan_call &call)
{
    using Acc = typename Fold::Acc;
    __shared__ Acc shared[THREADS];
    for (u64 block = blockIdx.x; block < blocks_of(call); block += gridDim.x) {
        Stretch stretch = stretch_of(call, block);
        Acc acc = Fold::neutral(), all;
        for (u32 i = threadIdx.x; i < stretch.count; i += THREADS)
            acc = Fold::fold(acc, Fold::load(at<const T>(call.in)[stretch.begin + i], i));
        scan_lanes<Fold>(shared, THREADS, acc, &all);
        if (threadIdx.x == 0)
            at<Acc>(call.before)[stretch.row * call.tiles + stretch.tile] = all;
    }
}

template <class Fold> __device__ void fold_before(const scan_call &call)
{
    using Acc = typename Fold::Acc;
    __shared__ Acc tile[SPREAD_TILE], shared[THREADS];
    for (u64 row = blockIdx.x; row < call.outer; row += gridDim.x) {
        Acc *before = at<Acc>(call.before) + row * call.tiles, acc = Fold::neutral();
        for (u64 begin = 0; begin < call.tiles; begin += SCAN_TILE) {
            u32 count = static_cast<u32>(lesser<u64>(SCAN_TILE, call.tiles - begin));
            for (u32 i = threadIdx.x; i < count; i += THREADS)
                tile[spread(i)] = before[begin + i];
            __syncthreads();
            acc = scan_tile<Fold>(tile, shared, THREADS, count, true, acc);
            for (u32 i = threadIdx.x; i < count; i += THREADS)
                before[begin + i] = tile[spread(i)];
            __syncthreads();
        }
    }
}

template <class Fold, class T> __device__ void scan_tiles(const scan_call &call)
{
    using Acc = typename Fold::Acc;
    __shared__ Acc tiles[SPREAD_TILE], shared[THREADS];
    u32 lanes = call.lanes, lane = threadIdx.x % lanes;
    Acc *tile = tiles + spread((threadIdx.x - lane) * SCAN_ITEMS);
    for (u64 block = blockIdx.x; block < blocks_of(call); block += gridDim.x) {
        Stretch stretch = stretch_of(call, block);
        for (u32 i = lane; i < stretch.count; i += lanes)
            tile[spread(i)] = Fold::load(at<const T>(call.in)[stretch.begin + i], i);
        __syncthreads();
        Acc acc = Fold::neutral();
        if (call.before != 0)
            acc = at<const Acc>(call.before)[stretch.row * call.tiles + stretch.tile];
        scan_tile<Fold>(tile, shared, lanes, stretch.count, call.exclusive, acc);
        for (u32 i = lane; i < stretch.count; i += lanes)
            at<typename Fold::Out>(call.out)[stretch.begin + i] = Fold::result(tile[spread(i)]);
        __syncthreads();
    }
}
} // namespace vgc

#define SCAN(name, Fold, T)                                                                                            \
    KERNEL name##_fold(const scan_call call)                                                                           \
    {                                                                                                                  \
        vgc::fold_tiles<vgc::Fold<T>, T>(call);                                                                        \
    }                                                                                                                  \
    KERNEL name##_before(const scan_call call)                                                                         \
    {                                                                                                                  \
        vgc::fold_before<vgc::Fold<T>>(call);                                                                          \
    }                                                                                                                  \
    KERNEL name(const scan_call call)                                                                                  \
    {                                                                                                                  \
        vgc::scan_tiles<vgc::Fold<T>, T>(call);                                                                        \
    }

#define SCANS(type, T)                                                                                                 \
    SCAN(scan_sum_##type, Sum, T)                                                                                      \
    SCAN(scan_prod_##type, Product, T)                                                                                 \
    SCAN(scan_min_##type, Least, T)                                                                                    \
    SCAN(scan_max_##type, Greatest, T)

SCANS(i32, i32)
SCANS(i64, i64)
SCANS(u32, u32)
SCANS(u64, u64)
SCANS(f32, float)
SCANS(f64, double)
