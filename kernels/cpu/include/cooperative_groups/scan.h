/* Cooperative groups: prefix sums, and prefixes under other operations. */
#pragma once
#include "reduce.h"

namespace cooperative_groups {
namespace __v1 {

template <class Group, class T, class Operation> __VGC_FN__ T inclusive_scan(const Group &group, T value, Operation &&operation) {
    const unsigned rank = (unsigned)group.thread_rank(), size = (unsigned)group.num_threads();
    for (unsigned offset = 1; offset < size; offset *= 2) {
        const T other = group.shfl_up(value, offset);
        if (rank >= offset)
            value = operation(other, value);
    }
    return value;
}
template <class Group, class T> __VGC_FN__ T inclusive_scan(const Group &group, T value) { return inclusive_scan(group, value, plus<T>()); }

/* The first thread's result is T(). */
template <class Group, class T, class Operation> __VGC_FN__ T exclusive_scan(const Group &group, T value, Operation &&operation) {
    const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
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
    const T earlier = group.shfl_up(own, 1);
    return group.thread_rank() == 0 ? before : operation(before, earlier);
}
template <class Group, class Atomic, class T> __VGC_FN__ T exclusive_scan_update(const Group &group, Atomic &atomic, T value) {
    return exclusive_scan_update(group, atomic, value, plus<T>());
}

} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
