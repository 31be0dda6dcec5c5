// Rule: the third launch parameter sizes extern __shared__ arrays; more than 48 KiB takes cudaFuncSetAttribute first.
#include "check.h"

__global__ void reverse(int *values)
{
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}

template <typename T> __global__ void last(T *out, int count)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    T *scratch = reinterpret_cast<T *>(bytes);
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        scratch[i] = T(i) / 2;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = scratch[count - 1];
}

int main()
{
    int values[256], *device;
    for (int i = 0; i < 256; i++)
        values[i] = i;
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    reverse<<<1, 256, 256 * sizeof(int)>>>(device);
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++)
        EXPECT_EQUAL(values[i], 255 - i);

    float one_float;
    double one_double;
    last<float><<<1, 64, 1000 * sizeof(float)>>>((float *)device, 1000);
    CHECK(cudaMemcpy(&one_float, device, sizeof one_float, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(one_float, 499.5);
    last<double><<<1, 64, 1000 * sizeof(double)>>>((double *)device, 1000);
    CHECK(cudaMemcpy(&one_double, device, sizeof one_double, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(one_double, 499.5);

    const int much = 60 << 10;
    last<float><<<1, 64, much>>>((float *)device, much / 4);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(last<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, much));
    last<float><<<1, 64, much>>>((float *)device, much / 4);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&one_float, device, sizeof one_float, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(one_float, (much / 4 - 1) / 2.0f);
    CHECK(cudaFree(device));
    return finish();
}
