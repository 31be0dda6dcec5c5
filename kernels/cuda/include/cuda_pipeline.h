/* Wraps NVIDIA's header, which under NVRTC makes uint64_t an unsigned long long, against the host's unsigned long; only
 * that header sees its definition. */
#pragma once
#include <stdint.h>
#define uint64_t __vgc_long_long_uint64_t
#define uintptr_t __vgc_long_long_uintptr_t
#include_next <cuda_pipeline.h>
#undef uint64_t
#undef uintptr_t
