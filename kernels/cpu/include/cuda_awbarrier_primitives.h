/* Barriers in shared memory at which threads arrive before they wait. A thread that finds others missing lets them go on. */
#pragma once
#include "cuda_runtime.h"

#include <stdint.h>

typedef uint64_t __mbarrier_t;
typedef uint64_t __mbarrier_token_t;

__host__ __device__ constexpr uint32_t __mbarrier_maximum_count() { return (1 << 20) - 1; }
__VGC_FN__ void __mbarrier_init(__mbarrier_t *barrier, uint32_t expected) {
    asm volatile("mbarrier.init.b64 [%0], %1;" : : "l"(barrier), "r"(expected) : "memory");
}
__VGC_FN__ void __mbarrier_inval(__mbarrier_t *barrier) {
    asm volatile("mbarrier.inval.b64 [%0];" : : "l"(barrier) : "memory");
}
__VGC_FN__ __mbarrier_token_t __mbarrier_arrive(__mbarrier_t *barrier) {
    __mbarrier_token_t token;
    asm volatile("mbarrier.arrive.b64 %0, [%1];" : "=l"(token) : "l"(barrier) : "memory");
    return token;
}
__VGC_FN__ __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t *barrier) {
    __mbarrier_token_t token;
    asm volatile("mbarrier.arrive_drop.b64 %0, [%1];" : "=l"(token) : "l"(barrier) : "memory");
    return token;
}
/* Arrivals that the token's phase still waited for. */
__VGC_FN__ uint32_t __mbarrier_token_pending_count(__mbarrier_token_t token) {
    uint32_t count;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(token));
    return count;
}
/* True once the token's phase is complete. */
__VGC_FN__ bool __mbarrier_test_wait(__mbarrier_t *barrier, __mbarrier_token_t token) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "l"(barrier), "l"(token)
                 : "memory");
    return done;
}
/* True once the phase of this parity is complete. */
__VGC_FN__ bool __mbarrier_test_wait_parity(__mbarrier_t *barrier, bool parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "l"(barrier), "r"((uint32_t)parity)
                 : "memory");
    return done;
}
__VGC_FN__ bool __mbarrier_try_wait(__mbarrier_t *barrier, __mbarrier_token_t token, uint32_t nanoseconds) {
    const unsigned long long begin = __vgc_globaltimer();
    while (!__mbarrier_test_wait(barrier, token))
        if (__vgc_globaltimer() - begin >= nanoseconds)
            return false;
    return true;
}
__VGC_FN__ bool __mbarrier_try_wait_parity(__mbarrier_t *barrier, bool parity, uint32_t nanoseconds) {
    const unsigned long long begin = __vgc_globaltimer();
    while (!__mbarrier_test_wait_parity(barrier, parity))
        if (__vgc_globaltimer() - begin >= nanoseconds)
            return false;
    return true;
}
