/* Memory that device code asks for: malloc(), free(), new, delete. */
#pragma once
#include "vgc_libc.h"

#ifndef __VGC_HEAP_BYTES__ /* --malloc-heap-size */
#define __VGC_HEAP_BYTES__ (8ull << 20)
#endif

extern "C" {
/* Becomes part of an image that uses it; begins with zeroes. */
static __device__ __attribute__((aligned(4096))) unsigned char __vgc_heap[__VGC_HEAP_BYTES__];
__device__ void *__vgc_heap_allocate(void *heap, unsigned long long heap_bytes, size_t bytes, size_t align);
__device__ void __vgc_heap_release(void *heap, unsigned long long heap_bytes, void *memory);
}

__VGC_FN__ void *__nv_aligned_device_malloc(size_t bytes, size_t align) {
    return __vgc_heap_allocate(__vgc_heap, sizeof(__vgc_heap), bytes, align);
}
__VGC_FN__ void *malloc(size_t bytes) { return __nv_aligned_device_malloc(bytes, 16); }
__VGC_FN__ void free(void *memory) { __vgc_heap_release(__vgc_heap, sizeof(__vgc_heap), memory); }
__VGC_FN__ void *calloc(size_t count, size_t size) {
    size_t bytes;
    void *memory = __builtin_mul_overflow(count, size, &bytes) ? nullptr : malloc(bytes);
    return memory == nullptr ? nullptr : __builtin_memset(memory, 0, bytes);
}

namespace std {
enum class align_val_t : size_t;
}

#ifndef __VGC_HOST_HALF__ /* where clang's own header has them */
/* Null without memory, as on a GPU: nothing can be thrown. */
#define __VGC_NEW(operation)                                                                                                    \
    inline __device__ __attribute__((always_inline)) void *operator operation(size_t bytes) { return malloc(bytes + !bytes); }  \
    inline __device__ __attribute__((always_inline)) void *operator operation(size_t bytes, std::align_val_t align) {           \
        return __nv_aligned_device_malloc(bytes + !bytes, static_cast<size_t>(align));                                          \
    }
#define __VGC_DELETE(operation)                                                                                                 \
    inline __device__ __attribute__((always_inline)) void operator operation(void *memory) noexcept { free(memory); }           \
    inline __device__ __attribute__((always_inline)) void operator operation(void *memory, size_t) noexcept { free(memory); }   \
    inline __device__ __attribute__((always_inline)) void operator operation(void *memory, std::align_val_t) noexcept { free(memory); } \
    inline __device__ __attribute__((always_inline)) void operator operation(void *memory, size_t, std::align_val_t) noexcept { \
        free(memory);                                                                                                           \
    }
__VGC_NEW(new) __VGC_NEW(new[]) __VGC_DELETE(delete) __VGC_DELETE(delete[])
#undef __VGC_NEW
#undef __VGC_DELETE
#endif
