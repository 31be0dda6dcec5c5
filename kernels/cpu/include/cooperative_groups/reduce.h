/* Cooperative groups: reductions. */
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
namespace __v1 {

template <class T> struct plus { __VGC_METHOD__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __VGC_METHOD__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { __VGC_METHOD__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { __VGC_METHOD__ T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { __VGC_METHOD__ T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { __VGC_METHOD__ T operator()(T a, T b) const { return a ^ b; } };

/* In a tile: exchanges across the lanes, then among the warps. */
template <unsigned Size, class Parent, class T, class Operation>
__VGC_FN__ T reduce(const thread_block_tile<Size, Parent> &group, T value, Operation &&operation) {
    if constexpr (Size > 32) {
        T totals[Size / 32];
        group.__collect(reduce(thread_block_tile<32>(), value, operation), totals);
        value = totals[0];
        for (unsigned warp = 1; warp < group.__warps(); warp++)
            value = operation(value, totals[warp]);
    } else {
        for (unsigned offset = Size / 2; offset > 0; offset /= 2)
            value = operation(value, group.shfl_xor(value, offset));
    }
    return value;
}
/* In other groups of lanes: each lane combines the values of all, by rank. */
template <class T, class Operation> __VGC_FN__ T reduce(const coalesced_group &group, T value, Operation &&operation) {
    T total = group.shfl(value, 0);
    for (unsigned rank = 1; rank < (unsigned)group.num_threads(); rank++)
        total = operation(total, group.shfl(value, (int)rank));
    return total;
}

template <class Group, class Atomic, class T, class Operation>
__VGC_FN__ void reduce_update_async(const Group &group, Atomic &atomic, T value, Operation &&operation) {
    const T total = reduce(group, value, operation);
    if (group.thread_rank() == 0) {
        auto before = atomic.load();
        while (!atomic.compare_exchange_weak(before, operation(before, total)))
            ;
    }
}
template <class Group, class Atomic, class T, class Operation>
__VGC_FN__ void reduce_store_async(const Group &group, Atomic &atomic, T value, Operation &&operation) {
    const T total = reduce(group, value, operation);
    if (group.thread_rank() == 0)
        atomic.store(total);
}

} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
