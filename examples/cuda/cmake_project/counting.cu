#include "counting.h"

#include <stdexcept>

#include <cuda_runtime.h>

__global__ void count(const unsigned char *text, size_t length, unsigned *counts)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x)
        atomicAdd(&own[text[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

static void check(cudaError_t error)
{
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}

std::array<unsigned, 256> count_bytes(const std::string &text)
{
    std::array<unsigned, 256> counts;
    unsigned char *on_device;
    unsigned *result;
    check(cudaMalloc(&on_device, text.size()));
    check(cudaMalloc(&result, sizeof(counts)));
    check(cudaMemcpy(on_device, text.data(), text.size(), cudaMemcpyHostToDevice));
    check(cudaMemset(result, 0, sizeof(counts)));
    count<<<8, 256>>>(on_device, text.size(), result);
    check(cudaMemcpy(counts.data(), result, sizeof(counts), cudaMemcpyDeviceToHost));
    check(cudaFree(on_device));
    check(cudaFree(result));
    return counts;
}
