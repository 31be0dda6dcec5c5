/* Sizes that the headers of a cubin give. */
#ifndef VGC_CUBIN_H
#define VGC_CUBIN_H

#include <stdint.h>

/* Bytes of device memory for code and variables; 0 if it is not a cubin, which the host then says. */
uint64_t vgc_cubin_bytes(const void *image, uint64_t size);

#endif
