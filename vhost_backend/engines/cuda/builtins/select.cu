// Choosing elements: positions of those that are true, and items by their indices.
#include "scans.cuh"

namespace vgc
{
/* ---- positions of what is true ---------------------------------------------------------------------------------- */

__device__ inline u64 end_of(const nonzero_call &call, u64 part)
{
    return lesser(call.n, (part + 1) * call.part);
}

__device__ inline void count_true(const nonzero_call &call)
{
    __shared__ u32 counted;
    for (u64 part = blockIdx.x; part < call.parts; part += gridDim.x) {
        u32 count = 0;
        if (threadIdx.x == 0)
            counted = 0;
        __syncthreads();
        for (u64 i = part * call.part + threadIdx.x; i < end_of(call, part); i += THREADS)
            count += load(at<const Bool>(call.in) + i);
        atomicAdd(&counted, count);
        __syncthreads();
        if (threadIdx.x == 0)
            at<u64>(call.counts)[part] = counted;
        __syncthreads();
    }
}

__device__ inline void count_before(const nonzero_call &call)
{
    u64 count = scan_counts(at<u64>(call.counts), call.parts);
    if (threadIdx.x == 0)
        *at<u64>(call.count) = count;
}

/* Stays in its memory even if elements have become true since they were counted: no more are counted before a part than
 * there are elements before it. */
__device__ inline void put_positions(const nonzero_call &call)
{
    __shared__ u32 shared[THREADS];
    for (u64 part = blockIdx.x; part < call.parts; part += gridDim.x) {
        u64 to = at<const u64>(call.counts)[part];
        for (u64 begin = part * call.part; begin < end_of(call, part); begin += THREADS) {
            u64 i = begin + threadIdx.x;
            bool is_put = i < call.n && read_once(at<const unsigned char>(call.in) + i) != 0;
            u32 all, before = scan_lanes<SmallCount>(shared, THREADS, is_put, &all);
            if (is_put)
                at<u64>(call.out)[to + before] = i;
            to += all;
        }
    }
}

/* ---- items by index --------------------------------------------------------------------------------------------- */

__device__ inline void take(const take_call &call)
{
    for (u64 i = first_item(); i < call.num_indices * call.units; i += all_threads()) {
        u64 item = divide(i, call.units), unit = i - item * call.units;
        u64 index = read_once(at<const u64>(call.indices) + item);
        u64 place = index < call.n ? index : index + call.n; /* negative ones wrap around */
        if (place < call.n)
            copy_unit(call.unit_bytes, call.in, place * call.units + unit, call.out, i);
        else
            fail(call.status, NO_ITEM);
    }
}
} // namespace vgc

KERNEL select_nonzero_b8_count(const nonzero_call call)
{
    vgc::count_true(call);
}
KERNEL select_nonzero_b8_before(const nonzero_call call)
{
    vgc::count_before(call);
}
KERNEL select_nonzero_b8(const nonzero_call call)
{
    vgc::put_positions(call);
}
KERNEL select_clear(const take_call call)
{
    if (vgc::first_item() == 0)
        *vgc::at<u32>(call.status) = 0;
}
KERNEL select_take_i64(const take_call call)
{
    vgc::take(call);
}
