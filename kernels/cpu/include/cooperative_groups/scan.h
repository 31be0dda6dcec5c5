/* Cooperative groups: prefix sums, and prefixes under other operations. */
#pragma once
#include "reduce.h"

namespace cooperative_groups {
namespace __v1 {

/* A value of each warp combined with those of all warps of the tile before it. */
template <unsigned Size, class Parent, class T, class Operation>
__VGC_FN__ T __vgc_after_warps(const thread_block_tile<Size, Parent> &tile, T value, T total, Operation &&operation) {
    T totals[Size / 32];
    tile.__collect(total, totals);
    if (tile.__rank_of_warp() == 0)
        return value;
    T before = totals[0];
    for (unsigned warp = 1; warp < tile.__rank_of_warp(); warp++)
        before = operation(before, totals[warp]);
    return operation(before, value);
}
/* True for tiles of several warps. */
template <class Group> constexpr bool __vgc_is_large = false;
template <unsigned Size, class Parent> constexpr bool __vgc_is_large<thread_block_tile<Size, Parent>> = (Size > 32);
/* The value of the thread before, in rank. */
template <class Group, class T> __VGC_FN__ T __vgc_of_rank_before(const Group &group, T value) {
    if constexpr (__vgc_is_large<Group>) {
        const thread_block_tile<32> warp;
        T lasts[Group::num_threads() / 32];
        group.__collect(warp.shfl(value, 31), lasts);
        const T before = warp.shfl_up(value, 1);
        return warp.thread_rank() == 0 && group.thread_rank() > 0 ? lasts[group.__rank_of_warp() - 1] : before;
    } else {
        return group.shfl_up(value, 1);
    }
}

template <class Group, class T, class Operation> __VGC_FN__ T inclusive_scan(const Group &group, T value, Operation &&operation) {
    if constexpr (__vgc_is_large<Group>) {
        const thread_block_tile<32> warp;
        value = inclusive_scan(warp, value, operation);
        return __vgc_after_warps(group, value, warp.shfl(value, 31), operation);
    } else {
        const unsigned rank = (unsigned)group.thread_rank(), size = (unsigned)group.num_threads();
        for (unsigned offset = 1; offset < size; offset *= 2) {
            const T other = group.shfl_up(value, offset);
            if (rank >= offset)
                value = operation(other, value);
        }
        return value;
    }
}
template <class Group, class T> __VGC_FN__ T inclusive_scan(const Group &group, T value) { return inclusive_scan(group, value, plus<T>()); }

/* The first thread's result is T(). */
template <class Group, class T, class Operation> __VGC_FN__ T exclusive_scan(const Group &group, T value, Operation &&operation) {
    const T before = __vgc_of_rank_before(group, inclusive_scan(group, value, operation));
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> __VGC_FN__ T exclusive_scan(const Group &group, T value) { return exclusive_scan(group, value, plus<T>()); }

/* Adds the group's total to an atomic, whose value before that all results begin with. */
template <class Group, class Atomic, class T, class Operation>
__VGC_FN__ T inclusive_scan_update(const Group &group, Atomic &atomic, T value, Operation &&operation) {
    const T own = inclusive_scan(group, value, operation);
    const unsigned last = (unsigned)group.num_threads() - 1;
    T before{};
    if (group.thread_rank() == last) {
        before = atomic.load();
        while (!atomic.compare_exchange_weak(before, operation(before, own)))
            ;
    }
    return operation(group.shfl(before, (int)last), own);
}
template <class Group, class Atomic, class T> __VGC_FN__ T inclusive_scan_update(const Group &group, Atomic &atomic, T value) {
    return inclusive_scan_update(group, atomic, value, plus<T>());
}
template <class Group, class Atomic, class T, class Operation>
__VGC_FN__ T exclusive_scan_update(const Group &group, Atomic &atomic, T value, Operation &&operation) {
    const T own = inclusive_scan(group, value, operation);
    const unsigned last = (unsigned)group.num_threads() - 1;
    T before{};
    if (group.thread_rank() == last) {
        before = atomic.load();
        while (!atomic.compare_exchange_weak(before, operation(before, own)))
            ;
    }
    before = group.shfl(before, (int)last);
    const T earlier = __vgc_of_rank_before(group, own);
    return group.thread_rank() == 0 ? before : operation(before, earlier);
}
template <class Group, class Atomic, class T> __VGC_FN__ T exclusive_scan_update(const Group &group, Atomic &atomic, T value) {
    return exclusive_scan_update(group, atomic, value, plus<T>());
}

} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
