// Rule: calls that only advise (profiler, device flags, cache and limits) are taken and change no result.
#include "check.h"
#include <cuda_profiler_api.h>

__global__ void nothing()
{
}

int main()
{
    unsigned flags;
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    CHECK(cudaFree(0)); /* as programs start the device */
    CHECK(cudaGetDeviceFlags(&flags));
    EXPECT_EQUAL(flags & cudaDeviceScheduleMask, cudaDeviceScheduleBlockingSync);
    CHECK(cudaProfilerStart());
    nothing<<<1, 1>>>();
    CHECK(cudaProfilerStop());
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
    CHECK(cudaFuncSetCacheConfig(nothing, cudaFuncCachePreferShared));
    cudaFuncCache config;
    CHECK(cudaDeviceGetCacheConfig(&config));
    CHECK(cudaDeviceSynchronize());
    return finish();
}
