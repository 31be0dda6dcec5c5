/* Traps, clocks, loads with cache hints. */
#pragma once
#include "vgc_builtins.h"

__VGC_FN__ __attribute__((noreturn)) void __trap() { __vgc_trap(); }
__VGC_FN__ void __brkpt() {}
__VGC_FN__ void __prof_trigger(int) {}

__VGC_FN__ long long clock64() { return (long long)__builtin_readcyclecounter(); }
/* A template, as programs may define the name, which nvcc does not have. */
template <class = void> __VGC_FN__ unsigned long long __globaltimer() { return __vgc_globaltimer(); }
__VGC_FN__ unsigned long long __vgc_clock() { return __builtin_readcyclecounter(); }
/* Sleeps as long as other threads of the block can go on. */
__VGC_FN__ void __nanosleep(unsigned) { __vgc_yield(); }
/* Programmatic dependent launches: a launch begins when the one before it in the stream has ended. */
__VGC_FN__ void cudaTriggerProgrammaticLaunchCompletion() {}
__VGC_FN__ void cudaGridDependencySynchronize() {}

#define __VGC_LOAD(name)                                                                                                               \
    template <class T> __VGC_FN__ T name(const T *address) { return *address; }
__VGC_LOAD(__ldg) __VGC_LOAD(__ldca) __VGC_LOAD(__ldcg) __VGC_LOAD(__ldcs) __VGC_LOAD(__ldlu)
#undef __VGC_LOAD
/* Reads memory each time. */
template <class T> __VGC_FN__ T __ldcv(const T *address) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return *address;
}
#define __VGC_STORE(name)                                                                                                              \
    template <class T> __VGC_FN__ void name(T *address, T value) { *address = value; }
__VGC_STORE(__stwb) __VGC_STORE(__stcg) __VGC_STORE(__stcs) __VGC_STORE(__stwt)
#undef __VGC_STORE

/* Addresses of state spaces: offsets in shared memory, and addresses as they are elsewhere. */
__VGC_FN__ size_t __cvta_generic_to_shared(const void *address) { return (size_t)((const char *)address - (const char *)__vgc_shared()); }
__VGC_FN__ void *__cvta_shared_to_generic(size_t address) { return (char *)__vgc_shared() + address; }
#define __VGC_SPACE(space)                                                                                                             \
    __VGC_FN__ size_t __cvta_generic_to_##space(const void *address) { return (size_t)address; }                                     \
    __VGC_FN__ void *__cvta_##space##_to_generic(size_t address) { return (void *)address; }
__VGC_SPACE(global) __VGC_SPACE(constant) __VGC_SPACE(local) __VGC_SPACE(grid_constant)
#undef __VGC_SPACE
/* Memory that is not shared counts as global. */
__VGC_FN__ unsigned __isShared(const void *address) { return __cvta_generic_to_shared(address) < 96 * 1024; }
__VGC_FN__ unsigned __isGlobal(const void *address) { return !__isShared(address); }
__VGC_FN__ unsigned __isConstant(const void *) { return 0; }
__VGC_FN__ unsigned __isLocal(const void *) { return 0; }
__VGC_FN__ unsigned __isGridConstant(const void *) { return 0; }
