/* Calls for profilers, which the control system of the host has no need of. */
#include "cudaProfiler.h"

#include "runtime.h"

/* Files of counters, which CUDA 11 has done away with. */
CUresult cuProfilerInitialize(const char *config, const char *output, CUoutput_mode mode)
{
    (void)config, (void)output, (void)mode;
    return RT_IN_CONTEXT(rt_unsupported("cuProfilerInitialize()"));
}

CUresult cuProfilerStart(void)
{
    return RT_IN_CONTEXT(cudaProfilerStart());
}

CUresult cuProfilerStop(void)
{
    return RT_IN_CONTEXT(cudaProfilerStop());
}
