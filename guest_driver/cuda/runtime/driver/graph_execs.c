/* Executable graphs by the driver API: a CUgraphExec is a cudaGraphExec_t. */
#include "runtime.h"

/* ---- making and launching ------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return RT_IN_CONTEXT(cudaGraphInstantiateWithFlags(exec, graph, flags));
}

/* Until CUDA 11, with a place for a text about a graph that cannot be one; `vgc last-error` has it. */
#undef cuGraphInstantiate
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t log_bytes);
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t log_bytes)
{
    if (wrong != NULL)
        *wrong = NULL;
    if (log != NULL && log_bytes > 0)
        *log = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

_Static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == sizeof(cudaGraphInstantiateParams) &&
                   offsetof(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out) ==
                       offsetof(cudaGraphInstantiateParams, result_out),
               "both interfaces have the same parameters");

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(cudaGraphInstantiateWithParams(exec, graph, (cudaGraphInstantiateParams *)parameters));
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    return RT_IN_CONTEXT(cudaGraphExecGetFlags(exec, (unsigned long long *)flags));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    return RT_IN_CONTEXT(cudaGraphUpload(exec, stream));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return RT_IN_CONTEXT(cudaGraphLaunch(exec, stream));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    return RT_IN_CONTEXT(cudaGraphExecDestroy(exec));
}

/* ---- changes -------------------------------------------------------------------------------- */

_Static_assert(sizeof(CUgraphExecUpdateResultInfo) == sizeof(cudaGraphExecUpdateResultInfo),
               "both interfaces have the same results");

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result)
{
    return RT_IN_CONTEXT(cudaGraphExecUpdate(exec, graph, (cudaGraphExecUpdateResultInfo *)result));
}

#undef cuGraphExecUpdate
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong, CUgraphExecUpdateResult *how);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong, CUgraphExecUpdateResult *how)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (how == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
    *how = info.result;
    if (wrong != NULL)
        *wrong = info.errorNode;
    return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *given)
{
    struct cudaGraphNodeParams parameters;
    const CUresult result = rt_node_of(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphExecNodeSetParams(exec, node, &parameters)) : result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *given)
{
    struct cudaKernelNodeParams parameters;
    const CUresult result = rt_kernel_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphExecKernelNodeSetParams(exec, node, &parameters)) : result;
}

#undef cuGraphExecKernelNodeSetParams
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *given);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *given)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS newer = rt_newer_kernel_node(given);
    return cuGraphExecKernelNodeSetParams_v2(exec, node, &newer);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                        CUcontext context)
{
    struct cudaMemcpy3DParms box;
    (void)context;
    const CUresult result = rt_box_of(copy, &box);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphExecMemcpyNodeSetParams(exec, node, &box)) : result;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *given,
                                        CUcontext context)
{
    struct cudaMemsetParams parameters;
    (void)context;
    const CUresult result = rt_fill_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphExecMemsetNodeSetParams(exec, node, &parameters)) : result;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(
        cudaGraphExecHostNodeSetParams(exec, node, (const struct cudaHostNodeParams *)parameters)); /* the same */
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    return RT_IN_CONTEXT(cudaGraphExecChildGraphNodeSetParams(exec, node, child));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return RT_IN_CONTEXT(cudaGraphExecEventRecordNodeSetEvent(exec, node, event));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return RT_IN_CONTEXT(cudaGraphExecEventWaitNodeSetEvent(exec, node, event));
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int is_enabled)
{
    return RT_IN_CONTEXT(cudaGraphNodeSetEnabled(exec, node, is_enabled));
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *is_enabled)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetEnabled(exec, node, is_enabled));
}
