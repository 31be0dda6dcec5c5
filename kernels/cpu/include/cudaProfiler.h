/* Functions of the driver API for profilers. */
#pragma once
#include "cuda.h"

typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;

#ifdef __cplusplus
extern "C" {
#endif
CUresult cuProfilerInitialize(const char *config, const char *output, CUoutput_mode mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#ifdef __cplusplus
}
#endif
