/* Memory operations of the control code for each machine, so that one source serves both engines: the CPU engine's own
 * C11, CUDA C++ that vgc-cpucc compiles for it (firmware images), and CUDA C++ for NVIDIA GPUs.
 *
 * VGC_CTL_FN stands in front of every function. Memory that two threads may access at once is accessed only by the
 * functions below, all of which have system scope: the other side is the host.
 */
#ifndef VGC_CONTROL_PLATFORM_H
#define VGC_CONTROL_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define VGC_CTL_FN __device__ static inline
#else
#define VGC_CTL_FN static inline
#endif

#if (defined(__CUDACC__) || defined(__CUDACC_RTC__)) && !defined(__VGC_CPU__)

VGC_CTL_FN void vgc_ctl_copy(void *to, const void *from, uint32_t size)
{
    memcpy(to, from, size); /* built into NVRTC */
}

VGC_CTL_FN uint32_t vgc_ctl_load32(const uint32_t *from)
{
    return *(const volatile uint32_t *)from;
}

VGC_CTL_FN uint64_t vgc_ctl_load64(const uint64_t *from)
{
    return *(const volatile uint64_t *)from;
}

VGC_CTL_FN void vgc_ctl_store32(uint32_t *to, uint32_t value)
{
    *(volatile uint32_t *)to = value;
}

VGC_CTL_FN void vgc_ctl_store64(uint64_t *to, uint64_t value)
{
    *(volatile uint64_t *)to = value;
}

VGC_CTL_FN uint64_t vgc_ctl_acquire64(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

VGC_CTL_FN void vgc_ctl_release64(uint64_t *to, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

VGC_CTL_FN uint64_t vgc_ctl_add64(uint64_t *to, uint64_t value)
{
    return atomicAdd_system((unsigned long long *)to, (unsigned long long)value);
}

VGC_CTL_FN uint64_t vgc_ctl_swap64(uint64_t *to, uint64_t value)
{
    return atomicExch_system((unsigned long long *)to, (unsigned long long)value);
}

/* True if *to was `expected` and is `value` now. */
VGC_CTL_FN bool vgc_ctl_cas64(uint64_t *to, uint64_t expected, uint64_t value)
{
    return atomicCAS_system((unsigned long long *)to, (unsigned long long)expected, (unsigned long long)value) ==
           expected;
}

/* Adds to a word that only this processing element writes. */
VGC_CTL_FN void vgc_ctl_own_add64(uint64_t *to, uint64_t value)
{
    atomicAdd((unsigned long long *)to, (unsigned long long)value);
}

/* Orders the stores before it before the stores after it. */
VGC_CTL_FN void vgc_ctl_fence(void)
{
    __threadfence_system();
}

/* Hooks of many warps share a processing element, so the count is atomic. */
VGC_CTL_FN void vgc_ctl_readers_enter(uint64_t *readers)
{
    atomicAdd_system((unsigned long long *)readers, 1ull);
    __threadfence_system();
}

VGC_CTL_FN void vgc_ctl_readers_leave(uint64_t *readers)
{
    __threadfence_system();
    atomicAdd_system((unsigned long long *)readers, ~0ull);
}

#else

VGC_CTL_FN void vgc_ctl_copy(void *to, const void *from, uint32_t size)
{
    __builtin_memcpy(to, from, size);
}

VGC_CTL_FN uint32_t vgc_ctl_load32(const uint32_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

VGC_CTL_FN uint64_t vgc_ctl_load64(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

VGC_CTL_FN void vgc_ctl_store32(uint32_t *to, uint32_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

VGC_CTL_FN void vgc_ctl_store64(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

VGC_CTL_FN uint64_t vgc_ctl_acquire64(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

VGC_CTL_FN void vgc_ctl_release64(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

VGC_CTL_FN uint64_t vgc_ctl_add64(uint64_t *to, uint64_t value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}

VGC_CTL_FN uint64_t vgc_ctl_swap64(uint64_t *to, uint64_t value)
{
    return __atomic_exchange_n(to, value, __ATOMIC_ACQ_REL);
}

/* True if *to was `expected` and is `value` now. */
VGC_CTL_FN bool vgc_ctl_cas64(uint64_t *to, uint64_t expected, uint64_t value)
{
    return __atomic_compare_exchange_n(to, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Adds to a word that only this processing element writes. */
VGC_CTL_FN void vgc_ctl_own_add64(uint64_t *to, uint64_t value)
{
    vgc_ctl_store64(to, vgc_ctl_load64(to) + value);
}

/* Orders the stores before it before the stores after it. */
VGC_CTL_FN void vgc_ctl_fence(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* At most one hook runs at a time on a thread, except while the worker dies, so a plain 1 and 0 suffice. */
VGC_CTL_FN void vgc_ctl_readers_enter(uint64_t *readers)
{
    __atomic_store_n(readers, 1, __ATOMIC_SEQ_CST);
}

VGC_CTL_FN void vgc_ctl_readers_leave(uint64_t *readers)
{
    __atomic_store_n(readers, 0, __ATOMIC_RELEASE);
}

#endif

#endif
