/* Functions of the driver API that the runtime finds by name for programs which do not link libcuda. */
#include "runtime.h"

/* NVIDIA's runtime of CUDA 12 finds the functions of its own release. */
static cudaError_t find(const char *name, void **function, unsigned version, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *result)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult error = cuGetProcAddress_v2(name, function, (int)version, flags, &found);
    if (error != CUDA_SUCCESS)
        return rt_return(cudaErrorInvalidValue);
    if (result != NULL)
        *result = (enum cudaDriverEntryPointQueryResult)found;
    return rt_return(result == NULL && *function == NULL ? cudaErrorSymbolNotFound : cudaSuccess);
}

static unsigned long long per_thread(unsigned long long flags)
{
    return flags == cudaEnableDefault ? (unsigned long long)cudaEnablePerThreadDefaultStream : flags;
}

RT_API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result)
{
    return find(name, function, version, flags, result);
}

RT_API cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *result)
{
    return find(name, function, CUDART_VERSION, flags, result);
}

RT_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **function, unsigned version,
                                                         unsigned long long flags,
                                                         enum cudaDriverEntryPointQueryResult *result);
RT_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **function, unsigned version,
                                                         unsigned long long flags,
                                                         enum cudaDriverEntryPointQueryResult *result)
{
    return find(name, function, version, per_thread(flags), result);
}

RT_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **function, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *result);
RT_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **function, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *result)
{
    return find(name, function, CUDART_VERSION, per_thread(flags), result);
}
