// Rule: cudaLaunchKernel and cudaLaunchKernelEx start what <<<>>> starts, with arguments by address or by value.
#include "check.h"

__global__ void combine(int *out, int a, double b, char c)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + (int)b + c;
}

__global__ void coordinates(uint3 *out)
{
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        make_uint3(blockIdx.x * 10 + threadIdx.x, blockIdx.y * 10 + threadIdx.y, blockIdx.z * 10 + threadIdx.z);
}

int main()
{
    int *device, values[64], a = 5;
    double b = 7.9;
    char c = 3;
    CHECK(cudaMalloc(&device, sizeof values));
    void *arguments[] = {&device, &a, &b, &c};
    CHECK(cudaLaunchKernel((const void *)combine, dim3(2), dim3(32), arguments, 0, NULL));
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 15 && values[63] == 15);
    CHECK(cudaLaunchKernel(combine, dim3(1), dim3(32), arguments));
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributePriority;
    attribute.val.priority = 0;
    config.gridDim = dim3(2);
    config.blockDim = dim3(32);
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, combine, device, 100, 1.0, 'a'));
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 101 + 'a' && values[63] == 101 + 'a');

    uint3 *places, got[2 * 3 * 2 * 4 * 2 * 3];
    CHECK(cudaMalloc(&places, sizeof got));
    coordinates<<<dim3(2, 3, 2), dim3(4, 2, 3)>>>(places);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, places, sizeof got, cudaMemcpyDeviceToHost));
    uint3 last = got[2 * 3 * 2 * 4 * 2 * 3 - 1], second = got[24 + 5];
    EXPECT(last.x == 13 && last.y == 21 && last.z == 12);
    EXPECT(second.x == 11 && second.y == 1 && second.z == 0);
    return finish();
}
