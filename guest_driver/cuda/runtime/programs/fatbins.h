/* Programs that NVIDIA's compiler built (fatbins.c). */
#pragma once
#include <driver_types.h>
#include <stdbool.h>

#define RT_FATBIN_MAGIC 0xba55ed50u

struct vgc_device;
struct vgc_program;

bool rt_is_fatbin(const void *data);
/* A result of libvgc. */
int rt_fatbin_load(struct vgc_device *device, const void *data, struct vgc_program **program);
/* After the host did not take it: says why on standard error, and what helps. */
cudaError_t rt_fatbin_refused(const void *data);
