/* Cooperative groups: copies that a group makes together. They are done when the group has waited for them. */
#pragma once
#include "../cooperative_groups.h"

/* libcu++'s own, where this has been and is */
#if __has_include(<cuda/__barrier/aligned_size.h>)
#include <cuda/__barrier/aligned_size.h>
#elif __has_include(<cuda/__memory/aligned_size.h>)
#include <cuda/__memory/aligned_size.h>
#else
namespace cuda {
/* A number of bytes that is a multiple of Alignment, as the addresses are. */
template <size_t Alignment> struct aligned_size_t {
    static constexpr size_t align = Alignment;
    size_t value;
    __VGC_METHOD__ explicit constexpr aligned_size_t(size_t size) : value(size) {}
    __VGC_METHOD__ constexpr operator size_t() const { return value; }
};
} // namespace cuda
#endif

namespace cooperative_groups {
namespace __v1 {

/* Copies `bytes` bytes, each thread every num_threads()-th piece of 16. */
template <class Group> __VGC_FN__ void __vgc_copy(const Group &group, void *to, const void *from, size_t bytes) {
    enum { PIECE = 16 };
    const size_t step = PIECE * (size_t)group.num_threads();
    for (size_t at = PIECE * (size_t)group.thread_rank(); at < bytes; at += step)
        __builtin_memcpy((char *)to + at, (const char *)from + at, bytes - at < PIECE ? bytes - at : PIECE);
}
template <class Group, class T, class Size> __VGC_FN__ void memcpy_async(const Group &group, T *to, const T *from, const Size &bytes) {
    __vgc_copy(group, to, from, (size_t)bytes);
}
/* Numbers of elements, of the destination and of the source; the smaller one counts. */
template <class Group, class To, class From, class ToLayout, class FromLayout>
__VGC_FN__ void memcpy_async(const Group &group, To *to, const ToLayout &to_count, const From *from, const FromLayout &from_count) {
    const size_t to_bytes = (size_t)to_count * sizeof(To), from_bytes = (size_t)from_count * sizeof(From);
    __vgc_copy(group, to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
}
template <class Group> __VGC_FN__ void wait(const Group &group) { group.sync(); }
template <unsigned Stage, class Group> __VGC_FN__ void wait_prior(const Group &group) { group.sync(); }

} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
