/* Functions of the driver API by name. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

enum {
    MAX_NAME = 128,
    PER_THREAD_SINCE = 7000, /* CUDA's version that brought default streams of threads */
};

void *vgc_driver_function(const char *name)
{
    return rt_find_function(RT_DRIVER_NAMES, RT_NUM_DRIVER_NAMES, name);
}

/* Forms of functions that differ from those before them, and CUDA's version that brought them; the newest first. All
 * others that have a second form have it since CUDA 4. */
static const struct {
    const char *name;
    const char *form;
    int since;
} FORMS[] = {
    {"cuCtxCreate", "cuCtxCreate_v4", 12050},
    {"cuCtxCreate", "cuCtxCreate_v3", 11040},
    {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
    {"cuGetProcAddress", "cuGetProcAddress", 0},
    {"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
    {"cuStreamBeginCapture", "cuStreamBeginCapture", 0},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", 0},
    {"cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2", 12030},
    {"cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies", 0},
    {"cuGraphAddDependencies", "cuGraphAddDependencies_v2", 12030},
    {"cuGraphAddDependencies", "cuGraphAddDependencies", 0},
    {"cuGraphRemoveDependencies", "cuGraphRemoveDependencies_v2", 12030},
    {"cuGraphRemoveDependencies", "cuGraphRemoveDependencies", 0},
    {"cuGraphGetEdges", "cuGraphGetEdges_v2", 12030},
    {"cuGraphGetEdges", "cuGraphGetEdges", 0},
    {"cuGraphNodeGetDependencies", "cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependencies", "cuGraphNodeGetDependencies", 0},
    {"cuGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes", 0},
    {"cuGraphAddNode", "cuGraphAddNode_v2", 12030},
    {"cuGraphAddNode", "cuGraphAddNode", 0},
    {"cuMemAdvise", "cuMemAdvise_v2", 12020},
    {"cuMemAdvise", "cuMemAdvise", 0},
    {"cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", 12020},
    {"cuMemPrefetchAsync", "cuMemPrefetchAsync", 0},
    {"cuStreamGetCtx", "cuStreamGetCtx_v2", 12050},
    {"cuStreamGetCtx", "cuStreamGetCtx", 0},
    {"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000},
    {"cuCtxSynchronize", "cuCtxSynchronize", 0},
    {"cuCtxGetDevice", "cuCtxGetDevice_v2", 13000},
    {"cuCtxGetDevice", "cuCtxGetDevice", 0},
    {"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000},
    {"cuGraphInstantiate", "cuGraphInstantiate", 0},
    {"cuGraphExecUpdate", "cuGraphExecUpdate_v2", 12000},
    {"cuGraphExecUpdate", "cuGraphExecUpdate", 0},
    {"cuGraphAddKernelNode", "cuGraphAddKernelNode_v2", 12000},
    {"cuGraphAddKernelNode", "cuGraphAddKernelNode", 0},
    {"cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2", 12000},
    {"cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams", 0},
    {"cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2", 12000},
    {"cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams", 0},
    {"cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2", 12000},
    {"cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams", 0},
};

/* Name of the function that a program compiled for CUDA's `version` means, in `second` or static; NULL: no function has
 * the name. */
static const char *find_form(const char *name, int version, char second[MAX_NAME])
{
    for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++)
        if (strcmp(FORMS[i].name, name) == 0 && version >= FORMS[i].since)
            return FORMS[i].form;
    const int len = snprintf(second, MAX_NAME, "%s_v2", name);
    if (len > 0 && len < MAX_NAME && vgc_driver_function(second) != NULL)
        return second;
    return vgc_driver_function(name) != NULL ? name : NULL;
}

/* The function's form for the calling thread's own default stream, if it has one. */
static void *per_thread_form(const char *name)
{
    static const char *const SUFFIXES[] = {"_ptsz", "_ptds"};
    char form[MAX_NAME + sizeof("_ptsz")];
    for (size_t i = 0; i < sizeof(SUFFIXES) / sizeof(SUFFIXES[0]); i++) {
        (void)snprintf(form, sizeof(form), "%.*s%s", MAX_NAME, name, SUFFIXES[i]);
        void *found = vgc_driver_function(form);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* CUDA's version that brought the function; 0 for a numbered form, which has none of its own. */
static int introduced(const char *name)
{
    for (size_t i = 0; i < RT_NUM_DRIVER_VERSIONS; i++)
        if (strcmp(RT_DRIVER_VERSIONS[i].name, name) == 0)
            return RT_DRIVER_VERSIONS[i].since;
    return 0;
}

static CUdriverProcAddressQueryResult find(const char *symbol, int version, bool is_per_thread, void **function)
{
    char second[MAX_NAME];
    const char *name = find_form(symbol, version, second);
    if (name == NULL)
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *own = is_per_thread ? per_thread_form(name) : NULL;
    const int since = introduced(symbol);
    if (version < (own != NULL ? RT_MAX(since, PER_THREAD_SINCE) : since))
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    *function = own != NULL ? own : vgc_driver_function(name);
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

/* Without `result`, the error says that there is no such function; with it, the result says why, and the call succeeds.
 */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result)
{
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == NULL || function == NULL || version <= 0 || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    const CUdriverProcAddressQueryResult found =
        find(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, function);
    if (result != NULL)
        *result = found;
    return result != NULL || found == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *result);
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *result)
{
    if (flags == CU_GET_PROC_ADDRESS_DEFAULT)
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return cuGetProcAddress_v2(symbol, function, version, flags, result);
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) /* before CUDA 12 */
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

/* Tables of NVIDIA's own libraries, which check with them that the driver is NVIDIA's. It is not. */
CUresult cuGetExportTable(const void **table, const CUuuid *id);
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table != NULL)
        *table = NULL;
    (void)id;
    rt_tell_of_runtime_in(__builtin_return_address(0));
    return RT_ASK(rt_explain(cudaErrorInvalidValue, "NVIDIA's own runtime asks for its driver: build the program with "
                                                    "mynvcc, or with nvcc -cudart shared"));
}
