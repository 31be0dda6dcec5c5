// Counting: blocks count in shared memory, or in the result itself if there are many bins.
#include "common.cuh"

namespace vgc
{
/* Bin of an element among bins of equal width, as numpy.histogram() finds it; -1: it is in no bin. Edges are rounded
 * twice, as numpy's. */
struct Bins {
    static __device__ double edge(const count_call &call, i64 i)
    {
        bool is_last = i == static_cast<i64>(call.bins);
        return is_last ? call.high : __dadd_rn(__dmul_rn(static_cast<double>(i), call.step), call.low);
    }
    template <class T> static __device__ i64 find(const count_call &call, T element)
    {
        auto x = static_cast<double>(element);
        if (!(x >= call.low && x <= call.high))
            return -1;
        i64 last = static_cast<i64>(call.bins) - 1;
        double place = __dmul_rn((x - call.low) / (call.high - call.low), static_cast<double>(call.bins));
        i64 i = lesser(static_cast<i64>(place), last);
        if (x < edge(call, i))
            return i > 0 ? i - 1 : 0;
        return x >= edge(call, i + 1) && i != last ? i + 1 : i;
    }
};

/* Bin of an element that is its number. */
struct Numbers {
    template <class T> static __device__ i64 find(const count_call &call, T element)
    {
        return static_cast<u64>(element) < call.bins ? static_cast<i64>(element) : -1;
    }
};

__device__ inline void clear(const count_call &call)
{
    for (u64 i = first_item(); i < call.bins; i += all_threads())
        at<u64>(call.counts)[i] = 0;
    if (call.status != 0 && first_item() == 0)
        *at<u32>(call.status) = 0;
}

__device__ inline void add_table(const count_call &call, const u32 *table)
{
    for (u32 i = threadIdx.x; i < call.bins; i += THREADS)
        if (table[i] > 0)
            atomicAdd(at<u64>(call.counts) + i, static_cast<u64>(table[i]));
}

template <class Find, class T> __device__ void count(const count_call &call)
{
    extern __shared__ u32 table[];
    for (u32 i = threadIdx.x; call.has_tables && i < call.bins; i += THREADS)
        table[i] = 0;
    __syncthreads();
    for (u64 i = first_item(); i < call.n; i += all_threads()) {
        i64 bin = Find::find(call, read_once(at<const T>(call.in) + i));
        if (bin >= 0 && call.has_tables)
            atomicAdd(&table[bin], 1u);
        else if (bin >= 0)
            atomicAdd(at<u64>(call.counts) + bin, u64(1));
        else if (call.status != 0)
            fail(call.status, NO_BIN);
    }
    __syncthreads();
    if (call.has_tables)
        add_table(call, table);
}
} // namespace vgc

#define COUNT(name, Find, type, T)                                                                                     \
    KERNEL count_##name##_##type(const count_call call)                                                                \
    {                                                                                                                  \
        vgc::count<vgc::Find, T>(call);                                                                                \
    }
#define COUNTS(type, T)                                                                                                \
    COUNT(histogram, Bins, type, T)                                                                                    \
    COUNT(bincount, Numbers, type, T)

KERNEL count_clear(const count_call call)
{
    vgc::clear(call);
}
COUNTS(i32, i32)
COUNTS(i64, i64)
COUNTS(u32, u32)
COUNTS(u64, u64)
COUNT(histogram, Bins, f32, float)
COUNT(histogram, Bins, f64, double)
