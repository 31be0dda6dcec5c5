/* Functions with data of edges, which CUDA 12 has beside its others, and CUDA 13 in their place. */
#ifndef VGC_CUDART_EDGE_DATA_H
#define VGC_CUDART_EDGE_DATA_H

#include "runtime.h"

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *after,
                                                   const cudaGraphEdgeData *data, size_t count, unsigned int flags);
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *data, size_t count);
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                           const cudaGraphEdgeData *data, size_t count);
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                                 size_t *count);
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *before, cudaGraphEdgeData *data,
                                            size_t *count);
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *behind, cudaGraphEdgeData *data,
                                              size_t *count);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params);

#endif
