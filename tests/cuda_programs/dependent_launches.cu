// Rule: launches that may begin before the one in front of them has ended wait for it where they say so.
#include "check.h"

__global__ void first(int *numbers)
{
    numbers[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void second(int *numbers)
{
    cudaGridDependencySynchronize();
    numbers[threadIdx.x] *= 2;
}

int main()
{
    int *numbers, host[64];
    CHECK(cudaMalloc(&numbers, sizeof host));
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int round = 0; round < 20; round++) {
        first<<<1, 64>>>(numbers);
        CHECK(cudaLaunchKernelEx(&config, second, numbers));
        CHECK(cudaMemcpy(host, numbers, sizeof host, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 64; i++)
            EXPECT_EQUAL(host[i], 2 * i);
    }
    return finish();
}
