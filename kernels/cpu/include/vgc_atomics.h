/* Atomics. All scopes (_block, device, _system) are the same on a CPU; memory order is relaxed, like CUDA's. */
#pragma once
#include "vgc_builtins.h"

template <class T, class Update> __VGC_FN__ T __vgc_update(T *address, Update update) {
    T old, desired;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do
        desired = update(old);
    while (!__atomic_compare_exchange(address, &old, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

/* Defines an atomic function for each scope. */
#define __VGC_SCOPES_AS(kind, result, name, params, ...)                                                                                        \
    kind __VGC_FN__ result name params { __VA_ARGS__ }                                                                                      \
    kind __VGC_FN__ result name##_block params { __VA_ARGS__ }                                                                              \
    kind __VGC_FN__ result name##_system params { __VA_ARGS__ }

#define __VGC_SCOPES(...) __VGC_SCOPES_AS(, __VA_ARGS__)

#define __VGC_INTEGER(type, kind)                                                                                                            \
    __VGC_SCOPES_AS(kind, type, atomicAdd, (type * address, type value), return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicSub, (type * address, type value), return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicAnd, (type * address, type value), return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicOr, (type * address, type value), return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);)             \
    __VGC_SCOPES_AS(kind, type, atomicXor, (type * address, type value), return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicMin, (type * address, type value), return __atomic_fetch_min(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicMax, (type * address, type value), return __atomic_fetch_max(address, value, __ATOMIC_RELAXED);)           \
    __VGC_SCOPES_AS(kind, type, atomicExch, (type * address, type value), return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);)         \
    __VGC_SCOPES_AS(kind, type, atomicCAS, (type * address, type compare, type value),                                                          \
                 __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return compare;)
__VGC_INTEGER(int, )
__VGC_INTEGER(unsigned, )
__VGC_INTEGER(unsigned long long, )
/* CUDA has few or none of these: as templates they give way to what programs define themselves, as CuPy does. */
__VGC_INTEGER(long long, template <int = 0>)
__VGC_INTEGER(long, template <int = 0>)
__VGC_INTEGER(unsigned long, template <int = 0>)
#undef __VGC_INTEGER

#define __VGC_FLOAT(type)                                                                                                              \
    __VGC_SCOPES(type, atomicAdd, (type * address, type value),                                                                        \
                 return __vgc_update(address, [=] __device__(type old) { return old + value; });)                                      \
    __VGC_SCOPES(type, atomicExch, (type * address, type value), type old;                                                             \
                 __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED); return old;)
__VGC_FLOAT(float)
__VGC_FLOAT(double)
#undef __VGC_FLOAT

__VGC_SCOPES(unsigned short, atomicCAS, (unsigned short *address, unsigned short compare, unsigned short value),
             __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return compare;)
__VGC_SCOPES(unsigned, atomicInc, (unsigned *address, unsigned limit),
             return __vgc_update(address, [=] __device__(unsigned old) { return old >= limit ? 0u : old + 1; });)
__VGC_SCOPES(unsigned, atomicDec, (unsigned *address, unsigned limit),
             return __vgc_update(address, [=] __device__(unsigned old) { return old == 0 || old > limit ? limit : old - 1; });)
