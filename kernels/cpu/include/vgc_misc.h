/* Traps, clocks, loads with cache hints. */
#pragma once
#include "vgc_builtins.h"

__VGC_FN__ __attribute__((noreturn)) void __trap() { __vgc_trap(); }
__VGC_FN__ void __brkpt() {}
__VGC_FN__ void __prof_trigger(int) {}

__VGC_FN__ long long clock64() { return (long long)__builtin_readcyclecounter(); }
__VGC_FN__ unsigned long long __globaltimer() { return __vgc_globaltimer(); }
__VGC_FN__ unsigned long long __vgc_clock() { return __builtin_readcyclecounter(); }
__VGC_FN__ void __nanosleep(unsigned) { __builtin_ia32_pause(); }

#define __VGC_LOAD(name)                                                                                                               \
    template <class T> __VGC_FN__ T name(const T *address) { return *address; }
__VGC_LOAD(__ldg) __VGC_LOAD(__ldca) __VGC_LOAD(__ldcg) __VGC_LOAD(__ldcs) __VGC_LOAD(__ldlu) __VGC_LOAD(__ldcv)
#undef __VGC_LOAD
#define __VGC_STORE(name)                                                                                                              \
    template <class T> __VGC_FN__ void name(T *address, T value) { *address = value; }
__VGC_STORE(__stwb) __VGC_STORE(__stcg) __VGC_STORE(__stcs) __VGC_STORE(__stwt)
#undef __VGC_STORE
