/* The profiler's switches, of which nvcc needs the declarations for host code, on hosts whose toolkit lacks the header:
 * it is not in the wheel of the compiler. */
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
#ifdef __cplusplus
}
#endif
