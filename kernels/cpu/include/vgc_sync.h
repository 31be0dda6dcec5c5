/* Barriers, fences, warp operations. */
#pragma once
#include "vgc_builtins.h"

__VGC_FN__ void __syncthreads() { __vgc_barrier(); }
__VGC_FN__ int __syncthreads_count(int predicate) { return __vgc_barrier_reduce(__VGC_BARRIER_COUNT, predicate); }
__VGC_FN__ int __syncthreads_and(int predicate) { return __vgc_barrier_reduce(__VGC_BARRIER_AND, predicate); }
__VGC_FN__ int __syncthreads_or(int predicate) { return __vgc_barrier_reduce(__VGC_BARRIER_OR, predicate); }
/* Barriers with a number; one for other threads than the whole block traps. */
__VGC_FN__ void __barrier_sync(unsigned) { __vgc_barrier(); }
__VGC_FN__ void __barrier_sync_count(unsigned, unsigned count) {
    const unsigned threads = __vgc_ntid_x() * __vgc_ntid_y() * __vgc_ntid_z();
    if (count != threads && count != ((threads + 31) & ~31u))
        __vgc_trap();
    __vgc_barrier();
}
__VGC_FN__ void __syncwarp(unsigned mask = 0xffffffffu) { __vgc_warp32(__VGC_SYNCWARP, mask, 0, 0); }

__VGC_FN__ void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
__VGC_FN__ void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__VGC_FN__ void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* Votes. */
__VGC_FN__ unsigned __ballot_sync(unsigned mask, int predicate) { return __vgc_warp32(__VGC_BALLOT, mask, predicate != 0, 0); }
__VGC_FN__ int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
__VGC_FN__ int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
__VGC_FN__ int __uni_sync(unsigned mask, int predicate) {
    const unsigned votes = __ballot_sync(mask, predicate);
    return votes == 0 || votes == __ballot_sync(mask, 1);
}
/* The lanes of the warp that are at this call when no lane of the warp can go on without it. */
__VGC_FN__ unsigned __activemask() { return __vgc_warp32(__VGC_ACTIVEMASK, 0xffffffffu, 0, 0); }
__VGC_FN__ unsigned __ballot(int predicate) { return __vgc_warp32(__VGC_BALLOT_ACTIVE, 0xffffffffu, predicate != 0, 0); }
__VGC_FN__ int __any(int predicate) { return __ballot(predicate) != 0; }
__VGC_FN__ int __all(int predicate) { return __ballot(!predicate) == 0; }

/* Shuffles: bits travel as 32- or 64-bit integers. */
template <int size> struct __vgc_bits;
template <> struct __vgc_bits<1> { typedef unsigned char type; };
template <> struct __vgc_bits<2> { typedef unsigned short type; };
template <> struct __vgc_bits<4> { typedef unsigned type; };
template <> struct __vgc_bits<8> { typedef unsigned long long type; };

template <class T> __VGC_FN__ T __vgc_shfl(int kind, unsigned mask, T value, unsigned lane, int width) {
    typename __vgc_bits<sizeof(T)>::type bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    const unsigned arg = lane | (unsigned)(width - 1) << 8;
    if (sizeof(T) == 8)
        bits = __vgc_warp64(kind, mask, bits, arg);
    else
        bits = __vgc_warp32(kind, mask, (unsigned)bits, arg);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
__VGC_FN__ unsigned __vgc_delta(unsigned delta) { return delta < 32 ? delta : 32; }
template <class T> __VGC_FN__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return __vgc_shfl(__VGC_SHFL_IDX, mask, value, (unsigned)lane & 31, width);
}
template <class T> __VGC_FN__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    return __vgc_shfl(__VGC_SHFL_UP, mask, value, __vgc_delta(delta), width);
}
template <class T> __VGC_FN__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    return __vgc_shfl(__VGC_SHFL_DOWN, mask, value, __vgc_delta(delta), width);
}
template <class T> __VGC_FN__ T __shfl_xor_sync(unsigned mask, T value, int lane, int width = 32) {
    return __vgc_shfl(__VGC_SHFL_XOR, mask, value, (unsigned)lane & 31, width);
}

/* Shuffles of CUDA before 9, among the lanes that arrive together. */
template <class T> __VGC_FN__ T __shfl(T value, int lane, int width = 32) { return __shfl_sync(__activemask(), value, lane, width); }
template <class T> __VGC_FN__ T __shfl_up(T value, unsigned delta, int width = 32) {
    return __shfl_up_sync(__activemask(), value, delta, width);
}
template <class T> __VGC_FN__ T __shfl_down(T value, unsigned delta, int width = 32) {
    return __shfl_down_sync(__activemask(), value, delta, width);
}
template <class T> __VGC_FN__ T __shfl_xor(T value, int lane, int width = 32) {
    return __shfl_xor_sync(__activemask(), value, lane, width);
}

template <class T> __VGC_FN__ unsigned __match_any_sync(unsigned mask, T value) {
    typename __vgc_bits<sizeof(T)>::type bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return sizeof(T) == 8 ? (unsigned)__vgc_warp64(__VGC_MATCH_ANY, mask, bits, 0) : __vgc_warp32(__VGC_MATCH_ANY, mask, (unsigned)bits, 0);
}
template <class T> __VGC_FN__ unsigned __match_all_sync(unsigned mask, T value, int *predicate) {
    typename __vgc_bits<sizeof(T)>::type bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    const unsigned all = sizeof(T) == 8 ? (unsigned)__vgc_warp64(__VGC_MATCH_ALL, mask, bits, 0)
                                        : __vgc_warp32(__VGC_MATCH_ALL, mask, (unsigned)bits, 0);
    *predicate = all != 0;
    return all;
}

#define __VGC_REDUCE(name, type, expression)                                                                                           \
    __VGC_FN__ type name(unsigned mask, type value) {                                                                                  \
        type total = value;                                                                                                            \
        bool first = true;                                                                                                             \
        for (unsigned left = mask; left != 0; left &= left - 1) {                                                                      \
            const type other = __shfl_sync(mask, value, __builtin_ctz(left));                                                          \
            total = first ? other : (expression);                                                                                      \
            first = false;                                                                                                             \
        }                                                                                                                              \
        return total;                                                                                                                  \
    }
__VGC_REDUCE(__reduce_add_sync, int, total + other)
__VGC_REDUCE(__reduce_add_sync, unsigned, total + other)
__VGC_REDUCE(__reduce_min_sync, int, other < total ? other : total)
__VGC_REDUCE(__reduce_min_sync, unsigned, other < total ? other : total)
__VGC_REDUCE(__reduce_max_sync, int, other > total ? other : total)
__VGC_REDUCE(__reduce_max_sync, unsigned, other > total ? other : total)
__VGC_REDUCE(__reduce_and_sync, unsigned, total & other)
__VGC_REDUCE(__reduce_or_sync, unsigned, total | other)
__VGC_REDUCE(__reduce_xor_sync, unsigned, total ^ other)
#undef __VGC_REDUCE
