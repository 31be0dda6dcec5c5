/* Copies from global to shared memory behind the thread's back. They are complete when the call returns, so there is
 * nothing to commit and nothing to wait for. */
#pragma once
#include "cuda_runtime.h"

#include <stddef.h>

/* Copies 4, 8 or 16 bytes, of which the last `zfill` become zeroes instead. */
__VGC_FN__ void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zfill = 0) {
    if (zfill == 0 && bytes == 16) {
        *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
    } else if (zfill == 0 && bytes == 8) {
        *static_cast<uint2 *>(to) = *static_cast<const uint2 *>(from);
    } else if (zfill == 0 && bytes == 4) {
        *static_cast<unsigned *>(to) = *static_cast<const unsigned *>(from);
    } else {
        for (size_t i = 0; i < bytes; i++)
            static_cast<unsigned char *>(to)[i] = i < bytes - zfill ? static_cast<const unsigned char *>(from)[i] : 0;
    }
}
__VGC_FN__ void __pipeline_commit() {}
__VGC_FN__ void __pipeline_wait_prior(size_t) {}
