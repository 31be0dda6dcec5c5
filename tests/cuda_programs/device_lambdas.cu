// Rule: a __device__ lambda, with what it captures by value, is an argument of a kernel's template.
// flags: --extended-lambda -std=c++17
#include "check.h"

template <typename F> __global__ void for_each(int n, F f)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        f(i);
}

int main()
{
    const int n = 1000;
    float *x, result[n];
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    float scale = 2.5f;
    int shift = 3;
    for_each<<<4, 64>>>(n, [=] __device__(int i) { x[i] = i * scale + shift; });
    auto square = [=] __host__ __device__(int i) { return x[i] * x[i]; };
    for_each<<<4, 64>>>(n, [=] __device__(int i) { x[i] = square(i); });
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(result, x, sizeof result, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        float value = i * scale + shift;
        EXPECT_EQUAL(result[i], value * value);
    }
    CHECK(cudaFree(x));
    return finish();
}
