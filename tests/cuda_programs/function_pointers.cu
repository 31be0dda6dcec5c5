// Rule: pointers to __device__ functions work in kernels, also those that the host fetched and hands over.
#include "check.h"

typedef float (*Function)(float);

__device__ float twice(float x)
{
    return 2 * x;
}

__device__ float square(float x)
{
    return x * x;
}

__device__ Function table[] = {twice, square};
__device__ Function chosen = square;

__global__ void by_table(float *out)
{
    out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x);
}

__global__ void by_argument(Function function, float *out)
{
    out[threadIdx.x] = function(threadIdx.x) + 1;
}

template <float (*FUNCTION)(float)> __global__ void by_template(float *out)
{
    out[threadIdx.x] = FUNCTION(threadIdx.x);
}

int main()
{
    float *device, out[32];
    Function function;
    CHECK(cudaMalloc(&device, sizeof out));
    by_table<<<1, 32>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(out[i], i % 2 ? i * i : 2 * i);
    CHECK(cudaMemcpyFromSymbol(&function, chosen, sizeof function));
    by_argument<<<1, 32>>>(function, device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(out[9], 82);
    by_template<twice><<<1, 32>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(out[9], 18);
    void (*kernel)(float *) = by_template<square>;
    kernel<<<1, 32>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(out[9], 81);
    return finish();
}
