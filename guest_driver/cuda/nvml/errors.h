/* Results of libvgc as NVML's errors. */
#pragma once
#include "api.h"

/* NVML's error for a result of libvgc. Keeps libvgc's text for `vgc last-error`. */
nvmlReturn_t nv_result(int vgc_result);
